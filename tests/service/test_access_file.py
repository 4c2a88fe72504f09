"""The access file and the tokens in it."""

from __future__ import annotations

import hashlib
import os

import pytest

from symd.errors import FailedPrecondition, InvalidInput
from symd.model.rights import ALL_RIGHTS, Right, parse_rights, rights_text
from symd.service.access_file import new_token, read_access, token_line, without

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
    assert access.certificates == {"host": {Right.ADMIN}}


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
        (f"c/i read sha256:{DIGEST}", "no name of a client"),
        (f"{'x' * 65} read sha256:{DIGEST}", "no name of a client"),
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
    with pytest.raises(FailedPrecondition, match="belongs to another user"):
        read_access(path)


def test_a_file_that_is_not_there_or_no_text_is_refused(file, tmp_path):
    with pytest.raises(FailedPrecondition, match="No such file"):
        read_access(tmp_path / "nothing")
    path = file("")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="UTF-8"):
        read_access(path)


def test_a_name_is_taken_out_with_all_its_tokens(file):
    other = token_line("other", frozenset((Right.READ,)), new_token())
    path = file(f"# kept\n{token_line('ci', ALL_RIGHTS, new_token())}\n{other}\nci read certificate\n")
    assert without(path, "ci") == f"# kept\n{other}\n"
    with pytest.raises(FailedPrecondition, match="nobody is called 'c'"):
        without(path, "c")


def test_rights_are_written_as_they_are_read():
    assert parse_rights("admin,read") == {Right.READ, Right.ADMIN}
    assert rights_text(parse_rights("admin,read")) == "read,admin"
    assert parse_rights(rights_text(ALL_RIGHTS)) == ALL_RIGHTS
