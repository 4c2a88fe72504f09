"""symd token, and what symd serve takes of who may come in."""

from __future__ import annotations

import stat
from datetime import timedelta
from pathlib import Path

import pytest

from symd.server.access_file import read_access
from symd.server.config import parse_rights
from tests.cli.conftest import Run


def test_a_token_is_printed_once_and_its_digest_kept(symd: Run, tmp_path: Path) -> None:
    path = tmp_path / "access"
    first, second = (symd("token", "ci", "--rights", "read,write", "--access", path) for _ in range(2))
    tokens = [outcome.out.strip() for outcome in (first, second)]
    assert (first.code, second.code, len(set(tokens))) == (0, 0, 2)
    assert "did not exist and was created" in first.err
    assert "was created" not in second.err
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not any(token in path.read_text() for token in tokens)
    access = read_access(path)
    assert [access.of_token(token.encode()) for token in tokens] == [("ci", parse_rights("read,write"))] * 2


def test_a_file_that_others_wrote_in_goes_on_whole(symd: Run, tmp_path: Path) -> None:
    path = tmp_path / "access"
    path.write_text("# ours\nhost admin certificate")
    path.chmod(0o600)
    token = symd("token", "ci", "--access", path).out.strip()
    assert path.read_text().startswith("# ours\nhost admin certificate\nci read sha256:")
    assert symd("token", "ci", "--access", path, "--revoke").code == 0
    assert path.read_text() == "# ours\nhost admin certificate\n"
    assert read_access(path).of_token(token.encode()) is None
    again = symd("token", "ci", "--access", path, "--revoke")
    assert (again.code, again.out) == (1, "")
    assert "nobody is called 'ci'" in again.err


def test_tokens_are_listed_without_what_would_let_anybody_in(symd: Run, tmp_path: Path) -> None:
    path = tmp_path / "access"
    token = symd("token", "ci", "--rights", "read,write", "--expires", "2100-02-03", "--access", path).out.strip()
    with path.open("a") as stream:
        stream.write("host admin certificate\nold read certificate expires=2001-01-01\n")
    outcome = symd("token", "--list", "--access", path)
    assert [line.split() for line in outcome.out.splitlines()] == [
        ["NAME", "RIGHTS", "KIND", "EXPIRES"],
        ["ci", "read,write", "token", "2100-02-03T00:00:00Z"],
        ["host", "admin", "certificate", "never"],
        ["old", "read", "certificate", "2001-01-01T00:00:00Z", "(it", "has)"],
    ]
    assert "sha256" not in outcome.out
    assert token not in outcome.out
    answers = symd("token", "--list", "--json", "--access", path, "host").json
    assert answers == [{"name": "host", "rights": ["admin"], "kind": "certificate", "expires": None, "expired": False}]
    path.chmod(0o640)
    outcome = symd("token", "--list", "--access", path)
    assert (outcome.code, outcome.out) == (3, "")
    assert "chmod 0600" in outcome.err


def test_a_token_is_rotated_while_both_are_valid(symd: Run, tmp_path: Path) -> None:
    path = tmp_path / "access"
    old = symd("token", "ci", "--rights", "read,grab", "--access", path).out.strip()
    new = symd("token", "ci", "--rotate", "--old-until", "7d", "--expires", "90d", "--access", path).out.strip()
    who = ("ci", parse_rights("read,grab"))
    assert [read_access(path).of_token(token.encode()) for token in (old, new)] == [who, who]
    until = [entry.expires for entry in read_access(path).lines]
    assert timedelta(82) < until[1] - until[0] < timedelta(84)
    assert symd("token", "ci", "--revoke-old", "--access", path).code == 0
    assert [read_access(path).of_token(token.encode()) for token in (old, new)] == [None, who]
    outcome = symd("token", "other", "--rotate", "--access", path)
    assert (outcome.code, outcome.out) == (3, "")
    assert "'other' has no token" in outcome.err


def test_without_a_file_the_line_is_shown(symd: Run, tmp_path: Path) -> None:
    outcome = symd("token", "ci", "--rights", "grab")
    assert outcome.out.startswith("symd_")
    says, line, rest = outcome.err.splitlines()
    assert line.startswith("ci grab sha256:")
    assert "access file" in says
    assert "client" in rest
    path = tmp_path / "access"
    path.write_text(outcome.err)  # as somebody may keep it
    path.chmod(0o600)
    assert read_access(path).of_token(outcome.out.strip().encode()) == ("ci", parse_rights("grab"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a b"], "not a name for a client"),
        (["ci", "--rights", "reed"], "there is no right 'reed'"),
        (["ci", "--rights", "none"], "must name at least one"),
        (["ci", "--revoke"], "needs the --access file"),
        (["ci", "--rotate"], "needs the --access file"),
        ([], "whose token? Give a NAME"),
        (["--list"], "needs the --access file"),
        (["ci", "--rotate", "--revoke", "--access", "x"], "--rotate and --revoke do not go together"),
        (["ci", "--old-until", "1d"], "--old-until goes with --rotate"),
        (["ci", "--revoke", "--expires", "1d", "--access", "x"], "--revoke does not make one"),
        (["ci", "--expires", "soon"], "'soon' is not a time; write how long"),
        (["ci", "--expires", "2001-01-01"], "'2001-01-01' is past"),
        (["ci", "--expires", "999999w"], "is not a time"),
    ],
)
def test_what_makes_no_token(symd: Run, arguments: list[str], said: str) -> None:
    outcome = symd("token", *arguments)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert said in outcome.err


def test_a_file_that_others_may_read_gets_no_token(symd: Run, tmp_path: Path) -> None:
    path = tmp_path / "access"
    path.write_text("")
    path.chmod(0o644)
    outcome = symd("token", "ci", "--access", path)
    assert (outcome.code, outcome.out) == (3, "")
    assert "chmod 0600" in outcome.err


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--address", "127.0.0.1:0"], 3, "no plain TCP"),
        (["--address", "127.0.0.1:0", "--access", "/nowhere"], 2, "symd token NAME --access /nowhere makes one"),
        (["--address", "127.0.0.1:0", "--access", "/dev/null"], 3, "not a regular file"),
        (["--address", "127.0.0.1:0", "--tls-cert", "/nowhere"], 2, "/nowhere: no such file"),
        (["--address", "127.0.0.1:0", "--tls-cert", "/dev/null"], 2, "also give --tls-key"),
        (["--address", "127.0.0.1:0", "--tls-key", "/dev/null"], 2, "also give --tls-cert"),
        (["--address", "127.0.0.1:0", "--tls-client-ca", "/dev/null"], 2, "give --tls-cert and --tls-key too"),
        (["--metrics", "0.0.0.0:0"], 3, "--open-metrics for who wants it all the same"),
        (["--socket-group", "nobody-s"], 2, "there is no group 'nobody-s'"),
        (["--anonymous", "all"], 2, "there is no right 'all'"),
    ],
)
def test_ways_to_listen_that_do_not_close_are_refused(
    symd: Run, tmp_path: Path, options: list[str], code: int, said: str
) -> None:
    outcome = symd("serve", "--store", tmp_path / "store", *options)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (code, "", 1)
    assert said in outcome.err
