"""Pages that are followed from the first line to the last: every command does what the page says, and prints what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.docs.shell import ROOT, Shell, programs, shows, steps
from tests.tools import require

PAGES = {
    "README.md": ("llvm-symbolizer",),
    "docs/index.md": (),
    "docs/quickstart.md": (),
    "docs/profiles.md": (),
    "docs/tutorials/slow-kernel.md": ("iga64",),
    "docs/tutorials/scripts.md": (),
    "docs/tutorials/profiler.md": (),
    "docs/tutorials/debugger.md": ("iga64",),
    "docs/tutorials/operator.md": (),
    "docs/formats/archive.md": (),
    "docs/formats/code-object.md": ("clang",),
    "docs/formats/cubin.md": (),
    "docs/formats/host-program.md": (),
    "docs/formats/kernel-pack.md": (),
    "docs/formats/offload-bundle.md": (),
    "docs/formats/spirv.md": (),
    "docs/formats/zebin.md": (),
}
"""With what has to be installed for them beside symd; iga64 comes with the library that listings of Intel's code need."""


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_true_from_the_first_line_to_the_last(page: str, tmp_path: Path) -> None:
    for tool in PAGES[page]:
        require(tool)
    text = (ROOT / page).read_text()
    shell = Shell(tmp_path)
    try:
        for name, program in programs(text).items():
            (tmp_path / name).write_text(program)
        typed = steps(text)
        assert typed
        printed = ""
        for step in typed:
            printed += shell.run(step.line, step.exit_code)
            for line in filter(str.strip, step.shown):
                assert shows(printed, line), f"{line!r} is not in\n{printed}"
            if step.shown:
                printed = ""
    finally:
        shell.stop()


@pytest.mark.parametrize("page", PAGES)
def test_every_indented_command_is_shown_as_code(page: str) -> None:
    """Four spaces below an entry of a list are a paragraph of it, whose lines run together."""
    text = (ROOT / page).read_text()
    shown: set[int] = set()
    for token in MarkdownIt().enable("table").parse(text):
        if token.type in ("code_block", "fence") and token.map:
            shown.update(range(*token.map))
    assert [
        line for number, line in enumerate(text.split("\n")) if line.startswith("    ") and number not in shown
    ] == []
