"""Exit codes, verb by verb: for a file that is not there, one that is empty, an option that is none, a name that nothing has, and a daemon
that is not there. What is wrong is always one line that says what to do, never a traceback."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from symd.cli.verbs import VERBS
from tests.cli.conftest import ROOT, Run

SAMPLES = ROOT / "samples"
ZEBIN = SAMPLES / "kernels" / "bin" / "vadd" / "dg2-opt.zebin"
NO, WRONG, FAILED = 1, 2, 3

FILE_VERBS = {
    "info": ["FILE"],
    "add": ["FILE"],
    "extract": ["FILE", "OUT"],
    "lines": ["FILE"],
    "symbolize": ["FILE", "vadd+1"],
    "locate": ["FILE", "vadd.cl:9"],
    "variables": ["FILE", "vadd+1"],
    "names": ["FILE", "*"],
    "listing": ["FILE"],
    "view": ["--no-browser", "FILE"],
    "core": ["FILE"],
    "check": ["FILE"],
    "hot": ["FILE"],
    "profile": ["FILE", "OUT"],
    "batch": ["FILE", "OUT"],
    "slim": ["FILE", "OUT"],
    "verify": ["FILE"],
    "grab": ["--simulate", "dg2", "FILE"],
}
"""Verbs that read a FILE, with what else they need."""
DROP_INS = {"addr2line", "llvm-symbolizer"}
"""Verbs that end as the tools of their names do, and may become these (test_drop_ins.py)."""
DAEMON_VERBS = {
    "status": [],
    "stop": [],
    "modules": [],
    "rm": ["0" * 64],
    "contexts": [],
    "watch": [],
    "record": [],
    "collect": ["--once", "FOLDER"],
    "add": ["FILE"],
}
"""Verbs that ask a daemon, always; symd add reads a FILE first."""
NO_DAEMON_IS_NO = {"health": []}
"""The probe: it says no."""
ASK_A_DAEMON_TOO = (
    "info",
    "extract",
    "lines",
    "symbolize",
    "locate",
    "variables",
    "names",
    "listing",
    "core",
    "hot",
    "profile",
)
"""Verbs that read a FILE, or ask a daemon."""
NAMES_NOTHING = {
    "symbolize": ["FILE", "nothing+1"],
    "lines": ["--kernel", "nothing", "FILE"],
    "locate": ["FILE", "nothing.cl:1"],
    "variables": ["FILE", "nothing+1"],
    "names": ["FILE", "nothing"],
    "listing": ["--function", "nothing", "FILE"],
}
"""What asks for a name that nothing in FILE has."""
NO_FILE_NO_DAEMON = {
    "serve", "start", "token", "fetch", "run", "attach", "install-shim", "gdb-script", "lldb-script", "annotate", "store", "samples", "mcp", "completion", "doctor", "daemon", "setup",
}  # fmt: skip
"""Verbs that take neither FILE nor a daemon's answer; what they refuse has tests of its own."""


def filled(arguments: list[str], file: object, tmp_path: Path) -> list[str]:
    places = {"FILE": str(file), "OUT": str(tmp_path / "out"), "FOLDER": str(tmp_path)}
    return [places.get(each, each) for each in arguments]


def one_line(text: str) -> bool:
    return re.fullmatch(r"symd: [^\n]+\n", text) is not None


def test_every_verb_is_in_the_table() -> None:
    known = {*FILE_VERBS, *DAEMON_VERBS, *NO_DAEMON_IS_NO, *NO_FILE_NO_DAEMON, *DROP_INS}
    assert known == {verb for verb, _ in VERBS}


@pytest.mark.parametrize("verb", FILE_VERBS)
def test_a_file_that_is_not_there(run: Run, verb: str, tmp_path: Path) -> None:
    missing = tmp_path / "missing.bin"
    outcome = run(verb, *filled(FILE_VERBS[verb], missing, tmp_path))
    assert outcome.code == WRONG
    assert str(missing) in outcome.err
    assert "o such file" in outcome.err
    assert one_line(outcome.err)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("verb", FILE_VERBS)
def test_a_file_that_is_empty(run: Run, verb: str, tmp_path: Path) -> None:
    empty = tmp_path / "empty.bin"
    empty.touch()
    outcome = run(verb, *filled(FILE_VERBS[verb], empty, tmp_path))
    assert outcome.code == WRONG
    assert outcome.out == ""
    assert str(empty) in outcome.err
    assert "empty" in outcome.err.replace(str(empty), "")
    assert one_line(outcome.err)


@pytest.mark.parametrize("verb", [verb for verb in FILE_VERBS if verb != "batch"])
def test_a_folder(run: Run, verb: str, tmp_path: Path) -> None:
    outcome = run(verb, *filled(FILE_VERBS[verb], SAMPLES, tmp_path))
    assert (outcome.code, outcome.out) == (WRONG, "")
    assert f"cannot read the file: is a directory (`symd collect --once {SAMPLES}` gives" in outcome.err
    assert one_line(outcome.err)


@pytest.mark.parametrize("verb", [verb for verb, _ in VERBS if verb not in DROP_INS])
def test_an_option_that_is_none(run: Run, verb: str) -> None:
    outcome = run(verb, "--nonsense")
    assert (outcome.code, outcome.out) == (WRONG, "")
    assert "--nonsense" in outcome.err
    assert one_line(outcome.err)


@pytest.mark.parametrize("verb", NAMES_NOTHING)
def test_a_name_that_nothing_has(run: Run, verb: str, tmp_path: Path) -> None:
    outcome = run(verb, *filled(NAMES_NOTHING[verb], ZEBIN, tmp_path))
    assert outcome.code == NO
    assert "nothing" in outcome.out + outcome.err


@pytest.mark.parametrize("verb", [*DAEMON_VERBS, *ASK_A_DAEMON_TOO])
def test_a_daemon_that_is_not_there(run: Run, verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = DAEMON_VERBS.get(verb) or FILE_VERBS.get(verb, [])
    file = SAMPLES / "profiles" / "stalls.csv" if verb in ("hot", "profile") else ZEBIN
    more = ["-m", str(ZEBIN)] if verb in ("hot", "profile") else []
    monkeypatch.setattr("sys.stdin", io.StringIO('{"context": {"process": 4711}}\n'))
    (tmp_path / "module.zebin").write_bytes(ZEBIN.read_bytes())
    outcome = run(verb, "--server", f"unix:{tmp_path}/nobody", *more, *filled(arguments, file, tmp_path))
    assert outcome.code == FAILED, outcome
    hint = (
        f"start one with `symd daemon start --address unix:{tmp_path}/nobody`" if verb != "stop" else "nothing to stop"
    )
    assert f"no such socket ({hint}" in outcome.err
    assert one_line(outcome.err.splitlines(keepends=True)[-1])  # collect says first what it took


def test_a_probe_of_a_daemon_that_is_not_there_says_no(run: Run, tmp_path: Path) -> None:
    outcome = run("health", "--server", f"unix:{tmp_path}/nobody")
    assert outcome.code == NO
    assert one_line(outcome.err)


@pytest.mark.parametrize(
    ("typed", "meant"), [("symbolise", "symbolize"), ("module", "daemon modules"), ("linse", "lines")]
)
def test_a_mistyped_verb_is_told_which_is_like_it(run: Run, typed: str, meant: str) -> None:
    outcome = run(typed, "x")
    assert (outcome.code, outcome.out) == (WRONG, "")
    assert re.fullmatch(
        rf"symd: no verb '{typed}'; did you mean {meant}( or [\w -]+)*\? Write symd {meant} x( or symd [\w -]+)* \(see symd --help\)\n",
        outcome.err,
    )


def test_a_file_without_a_verb_is_told_two(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a b.co").write_bytes(b"")
    outcome = run(tmp_path / "a b.co", "0x40")
    assert (outcome.code, outcome.out) == (WRONG, "")
    assert f"a verb comes before the file, as in symd info '{tmp_path}/a b.co' or" in outcome.err


@pytest.mark.parametrize("asked", [["help"], ["help", "help"], ["help", "info"]])
def test_help_may_be_asked_for_as_a_verb(run: Run, asked: list[str]) -> None:
    outcome = run(*asked)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == run(*(verb for verb in asked if verb != "help"), "--help").out


@pytest.mark.parametrize("option", ["--server", "--json", "-C"])
def test_a_verb_s_option_in_front_of_the_verb_is_told_where_it_stands(run: Run, option: str) -> None:
    outcome = run(option, "default", "info", ZEBIN)
    assert (outcome.code, outcome.out) == (WRONG, "")
    called = f": symd info {ZEBIN}" if option == "-C" else f": symd info {option} default {ZEBIN}"  # it has no -C
    assert f"a verb's options come after the verb{called} (see" in outcome.err
    assert one_line(outcome.err)


def test_a_mistyped_option_of_symd_itself_is_told_which_is_like_it(run: Run) -> None:
    assert "Did you mean '--version'?" in run("--versoin").err


def test_a_mistyped_option_is_told_which_is_like_it(run: Run) -> None:
    outcome = run("lines", "--kernal", "vadd", ZEBIN)
    assert outcome.code == WRONG
    assert "Did you mean '--kernel'?" in outcome.err
