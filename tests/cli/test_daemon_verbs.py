"""What a daemon has, how it is, and how it is meant: the verbs about it, $SYMD_SERVER, --server default, and beginnings of digests."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

import symd
from symd import Client
from symd.cli import background
from symd.cli.status import size_text
from symd.config import MIB, default_server
from symd.engine.files.added_module import chosen_module
from symd.errors import BadQuery, ModuleNotFound
from symd.model.summaries import ModuleRecord
from tests.cli.conftest import Run

VADD = Path(__file__).parents[2] / "samples" / "kernels" / "bin" / "vadd"
FILES = (VADD / "dg2-opt.dbg", VADD / "dg2-opt.zebin")
SHADE = VADD.parents[2] / "amdgpu" / "bin" / "v4-gfx900.co"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def filled(server: str) -> str:
    """A daemon with two modules, the older one with the debug data."""
    with Client(server) as client:
        for path in FILES:
            client.add(path.read_bytes(), path.name)
    return server


def test_a_file_that_a_daemon_takes_is_said_to_be_there(run: Run, server: str) -> None:
    name = f"modules/{digest(FILES[0])}"
    told = run("info", "--server", server, FILES[0])
    assert (told.code, told.err) == (0, "")
    assert f"├── daemon  at {server}, which has it as {name}" in told.out.splitlines()
    assert run("modules", "--server", server).out.startswith(digest(FILES[0])[:16])
    assert run("info", "--json", "--server", server, FILES[0]).err == (
        f"symd: {FILES[0]}: the daemon at {server} has it as {name}\n"
    )
    for form in ((), ("--json",)):  # a name of the daemon's is no file
        named = run("info", *form, "--server", server, name)
        assert (named.err, "daemon  " in named.out) == ("", False)


def test_a_terminal_gets_headings_above_the_columns(run: Run, filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = run("modules", "--server", filled).out.splitlines()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    heading, *modules = run("modules", "--server", filled).out.splitlines()
    assert modules == plain
    assert [(heading.index(each), each) for each in ("SHA-256", "format", "came", "label")] == [
        (0, "SHA-256"), (18, "format"), (48, "came"), (plain[0].index(FILES[0].name), "label")
    ]  # fmt: skip
    assert heading.index("bytes") + len("bytes") == plain[0].index(str(FILES[0].stat().st_size)) + len(
        str(FILES[0].stat().st_size)
    )
    assert run("modules", "--server", filled, "--json").json[0]["format"]
    assert run("modules", "--server", filled, "no label").out == ""


def test_the_modules_of_a_daemon_are_listed_counted_and_removed(run: Run, filled: str) -> None:
    listed = run("modules", "--server", filled)
    assert [line.split()[0] for line in listed.out.splitlines()] == [digest(path)[:16] for path in FILES]
    assert [line.split()[-1] for line in listed.out.splitlines()] == [path.name for path in FILES]
    as_json = run("modules", "--server", filled, "--json").json
    sizes = [path.stat().st_size for path in FILES]
    assert [(each["sha256"], each["size"], each["label"]) for each in as_json] == [
        (digest(path), size, path.name) for path, size in zip(FILES, sizes, strict=True)
    ]
    assert [each["module"] for each in run("modules", "--server", filled, "--json", "*.dbg").json] == [
        f"modules/{digest(FILES[0])}"
    ]
    assert (run("modules", "--server", filled, "*.nothing").code, run("modules", "--server", filled, "*").code) == (
        1,
        0,
    )

    none = run("modules", "--server", filled, "99")
    assert (none.code, none.out) == (1, "")
    assert (
        none.err
        == "symd: no module's SHA-256 begins with '99', and no label matches it; symd modules lists what there is\n"
    )

    (status,) = run("status", "--server", filled, "--json").json
    assert (status["modules"], status["module_bytes"], status["health"]) == (2, sum(sizes), "SERVING")
    assert status["limits"]["module_size"] == 2 << 30
    text = run("status", "--server", filled).out
    assert status["store"] == str(Path(filled.removeprefix("unix:")).with_name("store"))
    assert f"store          {status['store']}\n" in text
    assert text.startswith(f"symd {status['version']} at {filled}: SERVING\n")
    assert f"\nmodules        2, {size_text(sum(sizes))}\n" in text

    gone = run("rm", "--server", filled, digest(FILES[0])[:12], "modules/" + "0" * 64, "feed" * 4)
    assert (gone.code, gone.out) == (1, f"removed modules/{digest(FILES[0])}\n")
    assert len(gone.err.splitlines()) == 2
    (left,) = run("rm", "--server", filled, "--json", f"modules/{digest(FILES[1])}").json
    assert left == {"module": f"modules/{digest(FILES[1])}", "removed": True}
    empty = run("modules", "--server", filled)
    assert (empty.code, empty.out) == (0, "")


@pytest.mark.parametrize("verb", ["info", "lines", "symbolize", "variables", "names", "locate", "extract"])
def test_the_beginning_of_a_digest_is_enough_wherever_a_module_is_named(
    run: Run, filled: str, verb: str, tmp_path: Path
) -> None:
    more = {"symbolize": ["vadd+16"], "variables": ["vadd+0x1b0"], "names": ["*"], "locate": ["vadd.cl:9"]}
    more |= {"extract": [tmp_path / "out"]}
    whole, part = f"modules/{digest(FILES[0])}", f"modules/{digest(FILES[0])[:9]}"
    found = [run(verb, "--server", filled, name, *more.get(verb, [])) for name in (whole, part)]
    assert found[0].code == found[1].code == 0, found[1].err
    assert found[1].out.replace(part, whole) == found[0].out


def test_a_beginning_that_none_has_or_that_is_none(run: Run, filled: str) -> None:
    for name, code, says in (
        ("modules/feedfeedfeed", 1, "no module begins with 'feedfeedfeed' (symd modules lists them)"),
        ("modules/nothex", 2, "to name a module of a daemon write modules/"),
    ):
        outcome = run("info", "--server", filled, name)
        assert (outcome.code, outcome.out) == (code, "")
        assert says in outcome.err
    digits = digest(FILES[0])[:16]
    assert (
        run("info", "--server", filled, digits).out.splitlines()[1:]
        == (run("info", "--server", filled, f"modules/{digits}").out.splitlines()[1:])
    )
    assert "no module begins with 'feedfeed'" in run("info", "--server", filled, "feedfeed").err
    assert "write modules/ with its SHA-256" in run("info", digits).err
    for name in ("feedfee", "feed" * 17, "xeedfeed"):
        assert "modules/" not in run("info", "--server", filled, name).err
    for name in ("", "modules/", "xyz"):
        outcome = run("rm", "--server", filled, name)
        assert (outcome.code, outcome.out) == (2, "")


class Catalogue:
    """What has a list of modules, and nothing else."""

    def __init__(self, *digests: str) -> None:
        self._digests = digests

    def modules(self):
        return (ModuleRecord(each, 1, "zebin", "", 0.0) for each in self._digests)


def test_a_beginning_that_several_have_is_refused_with_their_names() -> None:
    first, second = "ab" + "0" * 62, "ab" + "1" * 62
    catalogue = Catalogue(first, second)
    assert chosen_module(catalogue, "ab0") == chosen_module(catalogue, f"modules/{first}") == first
    with pytest.raises(BadQuery, match=f"2 modules begin with 'ab' .give more of {first}, {second}"):
        chosen_module(catalogue, "ab")
    with pytest.raises(ModuleNotFound):
        chosen_module(catalogue, "cd")


def test_the_variable_names_the_daemon_of_every_verb(
    run: Run, filled: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = f"modules/{digest(FILES[0])}"
    assert run("info", name).code == 2
    monkeypatch.setenv("SYMD_SERVER", filled)
    assert run("info", name).code == 0
    assert run("symbolize", name, "vadd+16").code == 0
    assert (run("health").out, run("modules").code, run("contexts").code) == ("SERVING\n", 0, 0)
    assert run("info", "--server", "none", name).code == 2
    assert run("info", "--server", f"unix:{tmp_path}/nobody", name).code == 3
    with Client() as client:
        assert client.address == filled
    monkeypatch.setenv("SYMD_SERVER", "none")
    assert run("info", name).code == 2


def test_the_daemon_that_runs_is_meant_by_default(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, filled: str
) -> None:
    monkeypatch.delenv("SYMD_SERVER", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "other"))  # gRPC waits before it tries an address again
    outcome = run("info", "--server", "default", FILES[0])
    assert outcome.code == 3
    assert "no such socket (start one with `symd daemon start`)" in outcome.err
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    (tmp_path / "run" / "symd").mkdir(parents=True)
    (tmp_path / "run" / "symd" / "symd.sock").symlink_to(filled.removeprefix("unix:"))
    assert default_server() == f"unix:{tmp_path}/run/symd/symd.sock"
    assert run("info", "--server", "default", f"modules/{digest(FILES[0])[:8]}").code == 0
    with Client("default") as client:
        assert client.address == default_server()
    assert symd.open(FILES[0], server="default").sha256 == digest(FILES[0])
    assert run("health").out == "SERVING\n"
    monkeypatch.setenv("SYMD_SERVER", "default")
    assert run("info", f"modules/{digest(FILES[0])[:8]}").code == 0


def test_the_machine_s_daemon_is_meant_where_the_user_has_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SYMD_SERVER", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr("symd.config._MACHINE_SOCKET", str(tmp_path / "machine"))
    assert default_server() == f"unix:{tmp_path}/symd/symd.sock"
    (tmp_path / "machine").touch()
    assert default_server() == f"unix:{tmp_path}/machine"
    (tmp_path / "symd").mkdir()
    (tmp_path / "symd" / "symd.sock").touch()
    assert default_server() == f"unix:{tmp_path}/symd/symd.sock"


def test_a_daemon_that_has_nothing_says_so_beside_the_output(run: Run, server: str) -> None:
    for verb, said in (
        ("modules", f"no modules yet; symd daemon add --server {server} FILE adds one"),
        ("contexts", "no program was recorded yet"),
    ):
        outcome = run(verb, "--server", server)
        assert (outcome.code, outcome.out) == (0, "")
        assert said in outcome.err


def test_a_store_of_less_than_a_mebibyte_has_bytes() -> None:
    sizes = (0, 1, 52_429, MIB, 5 * MIB + MIB // 2)
    assert [size_text(each) for each in sizes] == ["0 bytes", "1 byte", "52,429 bytes", "1.0 MiB", "5.5 MiB"]


def test_stop_without_a_daemon_does_not_tell_to_start_one(run: Run, tmp_path: Path) -> None:
    done = run("daemon", "stop", "--server", f"unix:{tmp_path}/none.sock")
    assert (done.code, "no daemon is running" in done.err, "start one" in done.err) == (3, True, False), done.err
    assert "nothing to stop; --server ADDRESS names a daemon that listens elsewhere" in done.err


def processes_with(text: str) -> list[int]:
    """Those whose command line has the text."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if text.encode() in each.read_bytes():
                found.append(int(each.parent.name))
    return found


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The address where a daemon of a user with no other files listens."""
    monkeypatch.delenv("SYMD_SERVER", raising=False)
    for name, folder in (("XDG_RUNTIME_DIR", "run"), ("XDG_STATE_HOME", "state"), ("SYMD_STORE", "store")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    (tmp_path / "run").mkdir()
    return f"unix:{tmp_path}/run/symd/symd.sock"


def test_a_daemon_is_started_given_files_and_stopped(run: Run, elsewhere: str, tmp_path: Path) -> None:
    log = tmp_path / "state" / "symd" / "audit.log"
    command = [sys.executable, "-m", "symd", "daemon", "start", "--http", "127.0.0.1:0"]
    started = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    try:
        address, page = started.stdout.splitlines()
        assert (started.returncode, address) == (0, f"symd serves at {elsewhere}")
        with urllib.request.urlopen(page.removeprefix("symd serves at "), timeout=60) as answer:  # noqa: S310 - a page of our own
            assert answer.status == 200
        told = re.fullmatch(
            rf"symd: process (\d+), its log is {re.escape(str(log))}; symd daemon stop ends it\n", started.stderr
        )
        assert told
        process = int(told[1])
        assert os.getsid(process) == process
        assert Path(f"/proc/{process}/fd/0").readlink() == Path("/dev/null")
        assert Path(f"/proc/{process}/fd/2").readlink() == log
        assert run("daemon", "status").out.startswith("symd ")
        again = run("start")
        assert (again.code, again.out) == (0, f"symd serves at {elsewhere}\n")
        assert again.err == "symd: it was started before, with its own options; symd daemon stop ends it\n"

        added = run("daemon", "add", *FILES)
        assert (added.code, added.err) == (0, "")
        assert [line.split()[0] for line in added.out.splitlines()] == [digest(path)[:16] for path in FILES]
        assert added.out == run("daemon", "modules").out
        assert log.read_text().count("what=UploadModule") == len(FILES)
        for form in (("load",), ("daemon", "put")):
            assert run(*form, FILES[0]).out == added.out.splitlines()[0] + "  already there\n"
        as_json = run("add", "--json", FILES[1]).json
        assert as_json == [{**each, "added": False} for each in run("modules", "--json", "*.zebin").json]
        mixed = run("add", "--json", tmp_path / "none.co", tmp_path / "run", SHADE)
        assert [(each["sha256"], each["added"]) for each in mixed.json] == [(digest(SHADE), True)]
        assert (mixed.code, len(mixed.err.splitlines())) == (2, 2)
        assert f"`symd collect --once {tmp_path}/run` gives the modules in a folder to a daemon" in mixed.err
        loaded = run("load", FILES[0], "0xffff0000")
        assert (loaded.code, "symd daemon record takes what is loaded where" in loaded.err) == (2, True)
    finally:
        assert run("daemon", "stop").code == 0
    assert processes_with(str(tmp_path)) == []


def test_a_daemon_that_cannot_start_says_why_and_is_gone(run: Run, elsewhere: str, tmp_path: Path) -> None:
    log = tmp_path / "state" / "symd" / "audit.log"
    log.parent.mkdir(parents=True)
    log.write_text("of another daemon\n")
    nowhere = f"unix:{tmp_path}/none/deep/s.sock"
    failed = run("daemon", "start", "--address", nowhere)
    assert (failed.code, failed.out, len(failed.err.splitlines())) == (3, "", 1)
    assert f"{tmp_path}/none/deep: cannot use the folder: no such file or directory" in failed.err
    refused = run("daemon", "start", "--http-name", "here")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == "symd: --http-name needs --http HOST:PORT (see symd serve --help)\n"
    assert log.read_text() == "of another daemon\n" + failed.err + refused.err
    log.unlink()
    log.mkdir()
    assert "audit.log: cannot write the log: is a directory ($XDG_STATE_HOME names" in run("start").err
    assert processes_with(str(tmp_path)) == []


def test_a_daemon_that_does_not_serve_in_time_is_ended(
    run: Run, elsewhere: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("symd.cli.background._START_SECONDS", 0.01)
    late = run("daemon", "start", "--store", f"{tmp_path}/store")
    assert (late.code, late.out) == (3, "")
    assert late.err == "symd: symd serve: not ready within 0.01 seconds, and ended\n"
    assert processes_with(str(tmp_path)) == []


def test_a_start_that_another_was_faster_than_is_a_start(
    run: Run, elsewhere: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run("daemon", "start")
    try:
        serves = iter([False])  # the first question came before the other daemon listened
        now = background._serves
        monkeypatch.setattr(background, "_serves", lambda address: next(serves, None) is not False and now(address))
        second = run("daemon", "start")
        assert (second.code, second.out) == (0, first.out) == (0, f"symd serves at {elsewhere}\n")
        assert second.err == "symd: it was started before, with its own options; symd daemon stop ends it\n"
    finally:
        assert run("daemon", "stop").code == 0
    assert processes_with(str(tmp_path)) == []
