"""What the shell is told to complete."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cli.conftest import ROOT


def completed(words: str) -> list[str]:
    """What bash gets for the last of ``words``: a type and a value a line."""
    environment = {**os.environ, "_SYMD_COMPLETE": "bash_complete", "COMP_WORDS": words}
    environment["COMP_CWORD"] = str(len(words.split(" ")) - 1)
    asked = [sys.executable, "-m", "symd"]
    ended = subprocess.run(asked, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return ended.stdout.splitlines()


@pytest.mark.parametrize(
    "words",
    [
        "symd info sam",
        "symd symbolize sam",
        "symd grab sam",
        "symd profile sam",
        "symd profile in.pb.gz sam",
        "symd profile -m sam",
        "symd slim sam",
        "symd lines --debug sam",
    ],
)
def test_files_are_completed_where_a_file_is_meant(words: str) -> None:
    assert completed(words) == ["file,sam"]


def test_verbs_and_options_are_completed() -> None:
    assert completed("symd sym") == ["plain,symbolize"]
    assert completed("symd info --js") == ["plain,--json"]
