"""What takes long says so on a terminal, and on nothing else."""

from __future__ import annotations

import io
import sys
from threading import Event

import pytest

from symd.engine import files
from symd.engine.files import working
from tests.cli.conftest import ROOT, Run


class Terminal(io.StringIO):
    """What was written, and word of the first of it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = Event()

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        self.written.set()


@pytest.fixture(autouse=True)
def terminal_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def test_what_lasts_is_said_and_then_gone() -> None:
    terminal = Terminal()
    with working("reading x.bin", terminal, after=0):
        assert terminal.written.wait(60)
    text = terminal.getvalue()
    assert text.startswith("\r\x1b[Ksymd: reading x.bin, 0 s")
    assert text.endswith("\r\x1b[K")


def test_it_is_gone_after_an_error_too() -> None:
    terminal = Terminal()

    def fail() -> None:
        with working("reading", terminal, after=0):
            assert terminal.written.wait(60)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_what_is_done_at_once_says_nothing() -> None:
    terminal = Terminal()
    with working("reading", terminal, after=3600):
        pass
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("kind", [io.StringIO, Terminal])
def test_what_is_no_terminal_or_a_dumb_one_gets_nothing(kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb" if kind is Terminal else "xterm")
    stream = kind()
    with working("reading", stream, after=0):
        pass
    assert stream.getvalue() == ""


@pytest.mark.parametrize("line", ["info FILE", "lines FILE", "symbolize FILE vadd+16", "verify FILE"])
def test_a_verb_says_what_it_reads(line: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = ROOT / "samples" / "kernels" / "bin" / "vadd" / "dg2-opt.dbg"
    terminal, told = Terminal(), []
    tell = files._tell

    def waited_for(what, out, after, done) -> None:
        told.append(what)
        tell(what, out, after, done)

    monkeypatch.setattr(files, "_tell", waited_for)
    monkeypatch.setattr(sys, "stderr", terminal)
    outcome = run(*line.replace("FILE", str(sample)).split())
    assert outcome.code == 0
    assert told[0] == f"reading {sample}"
    assert "\x1b" not in outcome.out
