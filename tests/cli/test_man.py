"""Manual pages: they say what --help says, and groff reads them without a warning."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import click
import pytest

from symd.cli import GROUP, VERBS
from symd.cli.man import page
from tests.cli.conftest import Run
from tests.tools import find

VERB_NAMES = [verb for verb, _ in VERBS]


def test_a_folder_gets_a_page_of_each_verb(run: Run, tmp_path: Path) -> None:
    outcome = run("man", "--directory", tmp_path / "man1")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    written = {path.name: path.read_text() for path in (tmp_path / "man1").iterdir()}
    assert set(written) == {"symd.1", *(f"symd-{verb}.1" for verb in VERB_NAMES)}
    assert written["symd-info.1"] == run("man", "info").out
    assert written["symd.1"] == run("man").out


def test_a_page_cannot_be_both(run: Run, tmp_path: Path) -> None:
    assert run("man", "--directory", tmp_path, "info").code == 2
    assert run("man", "nonsense").code == 2


def rendered(text: str, tmp_path: Path) -> str:
    """What a reader sees, and groff's warnings as a failure."""
    groff = find("groff")
    if groff is None:
        pytest.skip("groff is not installed")
    source = tmp_path / "page.1"
    source.write_text(text)
    command = [groff, "-man", "-ww", "-Tutf8", "-P-c", "-rLL=200n", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    return re.sub(r".\x08", "", done.stdout)


@pytest.mark.parametrize("verb", VERB_NAMES)
def test_a_page_says_what_the_help_says(verb: str, tmp_path: Path) -> None:
    context = click.Context(GROUP, info_name="symd")
    command = GROUP.get_command(context, verb)
    text = rendered(page(command, f"symd {verb}"), tmp_path)
    words = " ".join(text.split())
    own = click.Context(command, info_name=f"symd {verb}")
    for parameter in command.get_params(own):
        record = parameter.get_help_record(own)
        if record is not None and record[1]:
            assert " ".join(record[0].split()) in words
            assert " ".join(record[1].split())[:60].rsplit(" ", 1)[0] in words.replace("\u2010 ", "")
    for line in (command.epilog or "").partition("Example:\n")[2].splitlines():
        assert line.removeprefix("  ") in text
    for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT STATUS", "ENVIRONMENT"):
        assert f"\n{heading}\n" in text


def test_the_page_of_symd_names_every_verb(tmp_path: Path) -> None:
    text = rendered(page(GROUP, "symd"), tmp_path)
    assert not [verb for verb in VERB_NAMES if not re.search(rf"^ +{verb}\b", text, re.MULTILINE)]


def test_what_groff_takes_for_its_own_stays_text(tmp_path: Path) -> None:
    strange = click.Command("x", help=".PP is \\fBno\\fR macro, 'quoted' `code` a-b ^ ~\n\n'tis no request")
    text = rendered(page(strange, "symd x"), tmp_path)
    assert ".PP is \\fBno\\fR macro, 'quoted' `code` a-b ^ ~" in text
    assert "'tis no request" in text
