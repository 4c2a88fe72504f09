"""The access file and the tokens in it."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from symd.errors import FailedPrecondition, InvalidInput, NotFound, Unauthenticated
from symd.server.access_file import added, edit, ending, new_token, read_access, token_line, without, without_older
from symd.server.config import ALL_RIGHTS, Right, parse_rights, rights_text

DIGEST = hashlib.sha256(b"secret").hexdigest()


@pytest.fixture
def file(tmp_path):
    def write(text, mode=0o600):
        path = tmp_path / "access"
        path.write_text(text)
        path.chmod(mode)
        return path

    return write


def test_a_token_is_known_by_its_digest(file):
    access = read_access(file(f"# who  what\n\nci read,write sha256:{DIGEST}  # the build\nhost admin certificate\n"))
    assert access.of_token(b"secret") == ("ci", {Right.READ, Right.WRITE})
    assert access.of_token(b"secret ") is None
    assert access.of_token(b"") is None
    assert access.of_certificate("host") == {Right.ADMIN}
    assert access.of_certificate("ci") == frozenset()


def test_a_file_that_is_not_there_is_told_with_what_makes_one(tmp_path):
    path = tmp_path / "an access"
    for read in (read_access, lambda path: edit(path, str)):
        with pytest.raises(FailedPrecondition, match="it cannot be read: no such file") as caught:
            read(path)
        assert caught.value.hint == f"`symd token NAME --access '{path}'` makes one"


def test_a_line_that_was_written_is_read(file):
    token = new_token()
    access = read_access(file(token_line("a.b-c@d", ALL_RIGHTS, token)))
    assert access.of_token(token.encode()) == ("a.b-c@d", ALL_RIGHTS)
    assert len({new_token() for _ in range(100)}) == 100
    assert len(token) > 40


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("ci", "not a line"),
        (f"ci read sha256:{DIGEST} more", "not a line"),
        (f"ci reed sha256:{DIGEST}", "no right 'reed'"),
        (f"ci read, sha256:{DIGEST}", "no right ''"),
        ("ci read sha256:abc", "64 hexadecimal digits"),
        (f"ci read SHA256:{DIGEST}", "64 hexadecimal digits"),
        ("ci read secret", "64 hexadecimal digits"),
        (f"c/i read sha256:{DIGEST}", "not a name for a client"),
        (f"{'x' * 65} read sha256:{DIGEST}", "not a name for a client"),
        ("ci read certificate\nci write certificate", "has a line of a certificate already"),
        (f"ci read sha256:{DIGEST}\nother write sha256:{DIGEST}", "the same token"),
    ],
)
def test_what_is_no_access_file_is_refused_with_its_line(file, line, said):
    with pytest.raises(InvalidInput, match=said) as caught:
        read_access(file(line))
    assert str(file(line)) in caught.value.where
    assert "secret" not in str(caught.value) or "secret" not in line


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o602, 0o604, 0o610])
def test_a_file_that_others_may_use_is_refused(file, mode):
    with pytest.raises(FailedPrecondition, match="other users may read or write it") as caught:
        read_access(file("", mode))
    assert "chmod 0600" in caught.value.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(file):
    path = file("")
    os.chown(path, 65534, 65534)
    with pytest.raises(FailedPrecondition, match=r"belongs to another user, user 65534") as caught:
        read_access(path)
    assert caught.value.hint.startswith("do this as user 65534")


def test_whose_a_file_is_that_others_may_read_is_said_to_who_cannot_change_that(file, monkeypatch):
    path = file("", 0o644)
    monkeypatch.setattr("os.geteuid", lambda: 1 << 30)
    monkeypatch.setattr("symd.server.watched_files.read_credentials", lambda _path: (b"", owned_by(0, 0o100644)))
    with pytest.raises(FailedPrecondition, match="other users may read or write it") as caught:
        read_access(path)
    assert caught.value.hint.startswith("it is of user 0 (root), who can: chmod 0600 ")


def owned_by(uid, mode):
    return os.stat_result((mode, 0, 0, 1, uid, 0, 0, 0, 0, 0))


def test_whose_a_file_is_that_cannot_be_read_is_said(file, monkeypatch):
    def refuse(_path):
        raise PermissionError(errno.EACCES, "Permission denied")

    path = file("")
    monkeypatch.setattr("symd.server.watched_files.read_credentials", refuse)
    with pytest.raises(FailedPrecondition, match="permission denied") as caught:
        read_access(path)
    assert caught.value.hint.startswith("chmod u+r ")
    monkeypatch.setattr(Path, "stat", lambda _path: owned_by(1 << 30, 0o100600))
    with pytest.raises(FailedPrecondition, match="permission denied") as caught:
        read_access(path)
    assert caught.value.hint == f"it is of user {1 << 30}: do this as user {1 << 30}"


def test_a_file_that_is_not_there_or_no_text_is_refused(file, tmp_path):
    with pytest.raises(FailedPrecondition, match="no such file"):
        read_access(tmp_path / "nothing")
    path = file("")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="UTF-8"):
        read_access(path)


def test_a_name_is_taken_out_with_all_its_tokens(file):
    other = token_line("other", frozenset((Right.READ,)), new_token())
    path = file(f"# kept\n{token_line('ci', ALL_RIGHTS, new_token())}\n{other}\nci read certificate\n")
    assert edit(path, lambda text: without(text, "ci")).lines[0].name == "other"
    assert path.read_text() == f"# kept\n{other}\n"
    with pytest.raises(NotFound, match="nobody is called 'c'"):
        without(path.read_text(), "c")


LATER, EARLIER = datetime(2100, 1, 2, 3, 4, 5, tzinfo=UTC), datetime(2001, 1, 1, tzinfo=UTC)


def test_a_token_ends_when_its_line_says(file):
    lines = [token_line("ci", ALL_RIGHTS, "old", EARLIER), token_line("ci", ALL_RIGHTS, "new", LATER)]
    assert lines[1].endswith(" expires=2100-01-02T03:04:05Z")
    access = read_access(
        file("\n".join([*lines, "a read certificate expires=2001-01-01", "b read certificate expires=2100-01-01"]))
    )
    assert access.of_token(b"new") == ("ci", ALL_RIGHTS)
    with pytest.raises(Unauthenticated, match="this token of ci expired at 2001-01-01T00:00:00Z"):
        access.of_token(b"old")
    assert access.of_certificate("a") == frozenset()
    assert access.of_certificate("b") == {Right.READ}


@pytest.mark.parametrize("word", ["expires=", "expires=soon", "expires=2100-13-01"])
def test_what_is_no_time_is_refused(file, word):
    with pytest.raises(InvalidInput, match="not when a line expires"):
        read_access(file(f"ci read sha256:{DIGEST} {word}"))


def test_older_tokens_end_and_go_and_the_newest_stays(file):
    first, second, third = (token_line("ci", ALL_RIGHTS, each) for each in ("1", "2", "3"))
    text = f"{first}  # ours\nci read certificate\n{second} expires=2001-01-01T00:00:00Z\nother read sha256:{DIGEST}\n"
    ended = ending(text, "ci", LATER)
    assert ended == text.replace(f"{first}  #", f"{first} expires=2100-01-02T03:04:05Z #")
    assert ending(ended, "ci", EARLIER).count("expires=2001-01-01T00:00:00Z") == 2
    kept = without_older(added(ended, third), "ci")
    assert kept == f"ci read certificate\nother read sha256:{DIGEST}\n{third}\n"
    with pytest.raises(FailedPrecondition, match="has no token, but a certificate"):
        ending("host read certificate\n", "host", LATER)


@pytest.mark.parametrize("have", ["2027-02-20", "2027-02-20T09:00:00", "2027-02-20T09:00:00+01:00"])
def test_a_time_without_a_zone_is_in_utc_when_tokens_end(have):
    text = f"ci read sha256:{DIGEST} expires={have}\n"
    assert ending(text, "ci", datetime(2030, 1, 1, tzinfo=UTC)) == text
    assert "expires=2001-01-01T00:00:00Z" in ending(text, "ci", EARLIER)


def test_an_edit_leaves_the_file_private_whole_and_where_its_link_points(file, tmp_path):
    path = file("", 0o400)
    link = tmp_path / "link"
    link.symlink_to(path)
    edit(link, lambda text: added(text, "a read certificate"))
    assert (link.is_symlink(), path.read_text(), path.stat().st_mode & 0o777) == (True, "a read certificate\n", 0o400)
    with pytest.raises(InvalidInput, match="no right 'x'"):
        edit(path, lambda text: added(text, "b x certificate"))
    assert path.read_text() == "a read certificate\n"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["access", "link"]
    with pytest.raises(FailedPrecondition, match="no such file"):
        edit(tmp_path / "nothing", str)
    before = os.umask(0)
    try:
        edit(tmp_path / "new", lambda text: added(text, "a read certificate"), create=True)
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600


def test_writers_at_the_same_time_lose_nothing(file):
    path = file("")
    names = [f"c{number}" for number in range(40)]

    def write(name):
        edit(path, lambda text: added(text, token_line(name, ALL_RIGHTS, name)))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, names))
    assert sorted(entry.name for entry in read_access(path).lines) == sorted(names)


def test_rights_are_written_as_they_are_read():
    assert parse_rights("admin,read") == {Right.READ, Right.ADMIN}
    assert rights_text(parse_rights("admin,read")) == "read,admin"
    assert parse_rights(rights_text(ALL_RIGHTS)) == ALL_RIGHTS


def test_whoever_may_open_the_folder_keeps_no_writer_waiting(file):
    path = file("")
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)  # as everybody gets one who may list it
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    edit(path, lambda text: added(text, "ci admin certificate"))
    os.close(descriptor)
    assert path.read_text() == "ci admin certificate\n"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link away")
def test_an_edit_does_not_follow_another_users_link_where_everybody_may_write(file, tmp_path):
    path, shared = file("host admin certificate\n"), tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "access").symlink_to(path)
    os.chown(shared / "access", 65534, 65534, follow_symlinks=False)
    with pytest.raises(FailedPrecondition, match="another user's symbolic link"):
        edit(shared / "access", lambda _: "")
    assert path.read_text() == "host admin certificate\n"
