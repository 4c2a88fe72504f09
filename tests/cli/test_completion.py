"""What the shell is told to complete."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

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
        "symd core dump -m sam",
        "symd annotate -m sam",
        "symd run -- sam",
    ],
)
def test_files_are_completed_where_a_file_is_meant(words: str) -> None:
    assert completed(words) == ["file,sam"]


def test_verbs_and_options_are_completed() -> None:
    assert completed("symd sym") == ["plain,symbolize"]
    assert completed("symd info --js") == ["plain,--json"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_s_script_is_one_that_the_shell_takes(shell: str, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "symd", "completion", shell], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert f"_SYMD_COMPLETE={shell}_complete" in ended.stdout
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(ended.stdout)
    subprocess.run([shell, "-n", script], check=True, capture_output=True)


def test_bash_completes_files_and_verbs_by_the_script(tmp_path: Path) -> None:
    """As bash does: it sources the script, calls the function for the words, and takes COMPREPLY."""
    (tmp_path / "kernel one.dbg").touch()
    (tmp_path / "symd").write_text(f'#!/bin/sh\nexec {sys.executable} -m symd "$@"\n')
    (tmp_path / "symd").chmod(0o755)
    program = (
        'eval "$(symd completion bash)"; compopt() { echo "option $*"; }; '
        'COMP_WORDS=(symd "$@"); COMP_CWORD=$#; _symd_completion symd "${!#}" x; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}

    def completed_by_bash(*words: str) -> list[str]:
        command = ["bash", "-c", program, "bash", *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    assert "symbolize" in completed_by_bash("sym")
    assert completed_by_bash("info", "kern")[:2] == ["option -o", "default"]  # bash's own way to complete files


def test_the_shell_of_the_user_is_the_one_by_default() -> None:
    command = [sys.executable, "-m", "symd", "completion"]
    ended = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "SHELL": "/usr/bin/fish"}, capture_output=True, text=True, check=True
    )
    assert "fish_complete" in ended.stdout
    ended = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "SHELL": "/bin/tcsh"}, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (
        2,
        "symd: tcsh: $SHELL does not name a shell that symd knows (write one of bash, zsh, fish)\n",
    )
