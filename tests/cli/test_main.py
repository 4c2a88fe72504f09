"""Exit codes, the one line on stderr, and help: what every verb has in common."""

import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import click
import pytest

from symd.cli.command_line import GROUP, ended
from symd.cli.process import Terminated
from symd.cli.unknown_verbs import MEANT
from symd.cli.verbs import BELOW, OTHERS, SECTIONS, SYNONYMS, VERBS, full_name
from symd.client import Client
from symd.errors import DataLoss, KernelNotFound, LimitExceeded, SymdError
from tests.cli.conftest import ROOT, SYMD, Run
from tests.cli.fake import FakeSymbolizer

NAMED_BY_THE_TOOL = ("addr2line", "llvm-symbolizer")
"""Verbs whose modules have the name as a constant."""
FILE_VERBS = ("info", "extract", "lines", "symbolize")


def test_every_module_of_a_verb_is_in_the_table():
    written = "".join(path.read_text() for path in (ROOT / "symd" / "cli").glob("*.py"))
    named = re.findall(r'^@click\.(?:command|group)\(\s*"?([\w-]+)', written, re.MULTILINE)
    assert sorted(named) == sorted("NAME" if verb in NAMED_BY_THE_TOOL else verb for verb, _ in VERBS)


@pytest.mark.parametrize("verb", [verb for verb, _ in VERBS])
def test_every_verb_explains_itself_with_an_example(run: Run, verb: str):
    outcome = run(verb, "--help")
    assert outcome.code == 0
    assert re.search(rf"\bsymd {full_name(verb)}\b", outcome.out.partition("Example:\n")[2])
    command = GROUP.get_command(click.Context(GROUP), verb)
    assert command is not None
    assert command.name == verb


def test_help_lists_every_verb_once_under_its_heading(run: Run):
    outcome = run("--help")
    assert outcome.code == 0
    verbs = outcome.out.partition(f"\n{next(iter(SECTIONS))}:\n")[2]
    listed = [verb for verbs in SECTIONS.values() for verb in verbs]
    assert re.findall(r"^  ([a-z][\w-]*) ", verbs, re.MULTILINE) == listed
    assert len(listed) <= 24
    assert f"Also: {', '.join(OTHERS)}." in outcome.out
    below = [verb for verbs in BELOW.values() for verb in verbs]
    assert sorted([*listed, *below, *OTHERS]) == sorted(verb for verb, _ in VERBS)
    positions = [outcome.out.index(f"\n{heading}:\n") for heading in SECTIONS]
    assert positions == sorted(positions)


@pytest.mark.parametrize("above", BELOW)
def test_a_verb_below_another_is_the_same_with_that_word_and_without(run: Run, above: str):
    listed = re.findall(r"^  ([a-z][\w-]*) ", run(above, "--help").out.partition("\nVerbs:\n")[2], re.MULTILINE)
    assert listed == [*BELOW[above]]
    for verb in listed:
        assert run(above, verb, "--help").out.partition("\n")[2] == run(verb, "--help").out.partition("\n")[2]


@pytest.mark.parametrize(("word", "verb"), SYNONYMS.items())
def test_a_word_of_another_tool_does_as_the_verb_does(run: Run, word: str, verb: str):
    assert run(word, "--help").out == run(verb, "--help").out


def test_words_of_other_tools_mean_verbs_that_there_are(run: Run):
    words = [*SYNONYMS, *(word for each in MEANT.values() for word in each.split())]
    assert [word for word, count in Counter(words).items() if count > 1] == ["validate"]
    assert not set(words) & {verb for verb, _ in VERBS}
    known = {full_name(verb) for verb, _ in VERBS}
    assert {re.sub(r" --.*| (bash|zsh|fish)$", "", verb) for verb in MEANT} <= known
    takes_no_word = {"serve", "daemon", "daemon store", "doctor", "setup", "setup gdb-script", "setup lldb-script"}
    takes_no_word |= {f"setup completion {shell}" for shell in ("bash", "zsh", "fish")}
    for verb, each in MEANT.items():
        for word in each.split():
            said = run(word, "y.bin", *(["0x10"] if verb == "symbolize" else [])).err
            asked = "check or verify" if word == "validate" else verb
            assert f"no verb '{word}'; did you mean {asked}?" in said
            assert (f" symd {verb.partition(' --')[0]} " in said) is (verb not in takes_no_word)


def test_help_and_version_import_no_heavy_package():
    for option in ("--help", "--version"):
        script = (
            f"import sys; from symd.cli.command_line import invoke; invoke([{option!r}]); "
            "heavy = {'numpy', 'grpc', 'elftools', 'sqlite3'} & set(sys.modules); sys.exit(repr(heavy) if heavy else 0)"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["info"],
        ["info", "--nonsense", "x"],
        ["info", "/no/such/file"],
        ["info", "/"],
        ["info", "a\0b"],
        ["info", "modules/" + "0" * 64],
        ["info", "x", "--limit", "nonsense=1"],
        ["info", "x", "--limit", "module_size=much"],
        ["lines", "/no/such/file"],
        ["extract", "/no/such/file", "/tmp/never-made"],
        ["symbolize", "/no/such/file", "0"],
        ["symbolize", "x"],
        ["symbolize", "-", "-"],
        ["symbolize", "x", "no query"],
        ["grab", "/no/such/file"],
        ["grab", "/dev/null"],
        ["grab", "x", "--api", "cuda"],
        ["serve", "--workers", "0"],
        ["serve", "--address", "nonsense"],
    ],
    ids=" ".join,
)
def test_a_wrong_call_is_one_line_on_stderr_and_exit_code_2(
    run: Run, arguments: list[str], monkeypatch, tmp_path: Path
):
    monkeypatch.setenv("SYMD_STORE", str(tmp_path / "store"))
    outcome = run(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert re.fullmatch(r"symd: [^\n]+\n", outcome.err)


def test_no_verb_at_all_shows_the_help_and_is_a_wrong_call(run: Run):
    outcome = run()
    assert outcome.code == 2
    assert "symbolize" in outcome.err


def test_bytes_of_no_format_are_exit_code_2(symd: Run, tmp_path: Path):
    path = tmp_path / "noise"
    path.write_bytes(bytes(range(7, 207)) * 3)
    for verb in ("info", "lines"):
        outcome = symd(verb, path)
        assert outcome.code == 2
        assert re.fullmatch(rf"symd: {re.escape(str(path))}: [^\n]+\n", outcome.err)


def test_a_file_beyond_the_limit_names_the_limit(run: Run, module: Path):
    outcome = run("info", "--limit", "module_size=4", module)
    assert outcome.code == 2
    assert "module_size" in outcome.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KernelNotFound("no such kernel", where="module.bin", hint="look at symd info"), 1),
        (LimitExceeded("too deep"), 2),
        (DataLoss("gone"), 3),
        (SymdError("a\nline\nand more"), 3),
    ],
)
def test_an_error_of_the_engine_has_its_exit_code_and_one_line(
    run: Run, fake: FakeSymbolizer, module: Path, monkeypatch, error: SymdError, code: int
):
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(fake, "lines", fail)
    outcome = run("lines", module)
    assert outcome.code == code
    assert outcome.err == f"symd: {' '.join(str(error).split())}\n"


def test_a_defect_shows_itself_and_does_not_look_like_a_no(run: Run, fake: FakeSymbolizer, module: Path, monkeypatch):
    monkeypatch.setattr(fake, "lines", lambda *_: 1 // 0)
    outcome = run("lines", module)
    assert outcome.code == 3
    assert "ZeroDivisionError" in outcome.err


@pytest.mark.parametrize("verb", FILE_VERBS)
def test_a_server_that_is_not_there_is_exit_code_3(symd: Run, module: Path, tmp_path: Path, verb: str):
    more = {"extract": [tmp_path / "out"], "symbolize": ["0"]}.get(verb, [])
    outcome = symd(verb, "--server", f"unix:{tmp_path}/nobody.sock", module, *more)
    assert outcome.code == 3
    assert re.fullmatch(r"symd: [^\n]+\n", outcome.err)


def test_a_reader_that_goes_away_is_no_error(sample: Path):
    with subprocess.Popen([*SYMD, "lines", "--json", sample], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout
        assert child.stderr
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode == 141


FULL = "symd: standard output: cannot write: no space left on device\n"


@pytest.mark.parametrize(
    "line",
    ["--help", "info --help", "info FILE", "lines FILE", "lines --json FILE", "names FILE *", "locate FILE vadd.cl:5"],
)
def test_standard_output_on_a_full_disk_is_one_line(sample: Path, line: str):
    arguments = [str(sample) if word == "FILE" else word for word in line.split()]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*SYMD, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert (done.returncode, done.stderr) == (3, FULL)


def test_an_error_of_the_system_that_is_not_of_standard_output_is_a_defect(
    run: Run, fake: FakeSymbolizer, module: Path, monkeypatch
):
    monkeypatch.setattr(FakeSymbolizer, "lines", lambda *_: Path("/no/such/file").read_bytes())
    outcome = run("lines", module)
    assert outcome.code == 3
    assert "Traceback" in outcome.err


def test_a_signal_while_a_class_is_made_ends_the_command_as_any_other(capsys: pytest.CaptureFixture[str]) -> None:
    """Python 3.11 takes what is raised in ``__set_name__`` for the cause of a RuntimeError."""

    def made(signal_came: BaseException) -> int:
        class Raises:
            def __set_name__(self, owner: type, name: str) -> None:
                raise signal_came

        type("Owner", (), {"raises": Raises()})
        return 0

    with pytest.raises(Terminated):
        ended(lambda: made(Terminated(signal.SIGTERM)))
    assert ended(lambda: made(KeyboardInterrupt())) == 130
    assert capsys.readouterr() == ("", "")


def test_ctrl_c_ends_quietly_with_130(sample: Path):
    """Whatever the tests run in may ignore the signal, and its children then do."""
    with subprocess.Popen(
        ["env", "--default-signal=INT", *SYMD, "symbolize", sample, "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdin
        assert child.stdout
        assert child.stderr
        child.stdin.write(b"vadd+0\n")
        child.stdin.flush()
        assert child.stdout.readline()
        child.send_signal(signal.SIGINT)
        assert child.wait(30) == 130
        assert child.stderr.read() == b""


CLOSED = "symd: standard output: cannot write: bad file descriptor\n"
"""What coreutils say, in symd's words."""


@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("run", "--help"),
        ("info", "samples/amdgpu/bin/v4-gfx900.co"),
        ("symbolize", "samples/amdgpu/bin/v4-gfx900.co", "0x1978"),
    ],
)
@pytest.mark.parametrize(("closed", "said"), [(">&-", CLOSED), (">&- 2>&-", ""), ("1</dev/null", CLOSED)])
def test_an_answer_to_a_closed_standard_output_is_lost_and_that_is_said(
    arguments: tuple[str, ...], closed: str, said: str
) -> None:
    assert _with_streams(closed, *arguments) == (3, "", said)


def test_what_says_nothing_needs_no_standard_output() -> None:
    assert _with_streams(">&-", "run", "--", "true")[:2] == (0, "")
    assert _with_streams("2>&-", "--version")[0] == 0


def test_a_daemon_goes_on_where_its_standard_output_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "symd.sock"
    options = ["--address", f"unix:{path}", "--store", str(tmp_path / "store")]
    with subprocess.Popen(["sh", "-c", 'exec "$@" >&-', "sh", *SYMD, "serve", *options]) as daemon:
        while daemon.poll() is None and not path.is_socket():
            time.sleep(0.1)
        with Client(f"unix:{path}") as client:
            assert client.server_info().version
        daemon.terminate()
        assert daemon.wait(60) == 0


def _with_streams(closed: str, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", *SYMD, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("verb", [("batch",), ("serve",), ("store", "check")])
def test_a_help_that_names_a_page_says_where_the_pages_are(run: Run, verb: tuple[str, ...]) -> None:
    """Of an installed wheel they lie in the package."""
    said = run(*verb, "--help").out
    folder = Path(said.rpartition("docs/ is ")[2].strip())
    named = set(re.findall(r"docs/([a-z-]+\.md)", said))
    assert named
    assert all((folder / name).is_file() for name in named)
    assert "docs/ is" not in run("token", "--help").out
