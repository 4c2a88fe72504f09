"""Colours are for terminals; $NO_COLOR forbids them, $FORCE_COLOR asks for them elsewhere."""

from __future__ import annotations

import io
import re

import pytest

from symd.cli.listing_text import Printer
from symd.cli.output import is_coloured
from tests.cli.conftest import ROOT, Run


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


CASES = [
    # terminal, NO_COLOR, FORCE_COLOR, TERM, coloured
    (True, None, None, "xterm", True),
    (True, None, None, "dumb", False),
    (True, "1", None, "xterm", False),
    (True, "", None, "xterm", True),
    (True, "1", "1", "xterm", False),
    (True, None, "1", "dumb", True),
    (False, None, None, "xterm", False),
    (False, None, "", "xterm", False),
    (False, None, "1", "xterm", True),
    (False, "1", "1", "xterm", False),
]


@pytest.mark.parametrize(("terminal", "no_color", "force_color", "term", "coloured"), CASES)
def test_who_gets_colours(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, no_color, force_color, term: str, coloured: bool
) -> None:
    for name, value in (("NO_COLOR", no_color), ("FORCE_COLOR", force_color), ("TERM", term)):
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
    stream = Terminal() if terminal else io.StringIO()
    assert is_coloured(stream) == coloured
    printer = Printer(stream)
    printer.write("file", "vadd.cl")
    printer.flush()
    assert ("\x1b[" in stream.getvalue()) == coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()) == "vadd.cl\n"


@pytest.mark.parametrize("sample", ["kernels/bin/vadd/dg2-opt.dbg", "amdgpu/bin/v4-gfx900.co"])
def test_a_tree_is_plain_in_a_pipe_and_coloured_when_asked(
    run: Run, monkeypatch: pytest.MonkeyPatch, sample: str
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    arguments = ("info", ROOT / "samples" / sample)
    plain = run(*arguments).out
    assert "\x1b" not in plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = run(*arguments).out
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert run(*arguments).out == plain
