"""The protos keep to the rules of buf.yaml, and a change that breaks clients of the last release is refused."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class Checkout:
    """A repository of its own with our protos, committed and tagged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "protos", folder / "protos")
        (folder / "tools").mkdir()
        shutil.copy(ROOT / "tools/buf.py", folder / "tools")
        shutil.copy(ROOT / "buf.yaml", folder)
        self.git("init", "-q")
        self.commit()

    def git(self, *command: str) -> None:
        who = ("-c", "user.name=nobody", "-c", "user.email=nobody@localhost")
        subprocess.run(["git", *who, *command], cwd=self.folder, check=True, capture_output=True)

    def commit(self) -> None:
        self.git("add", ".")
        self.git("commit", "-q", "-m", "protos")

    def change(self, file: str, before: str, after: str) -> None:
        path = self.folder / "protos/symd/v1" / file
        text = path.read_text()
        assert text.count(before) == 1
        path.write_text(text.replace(before, after))

    def buf(self, *arguments: str) -> tuple[int, str]:
        command = [sys.executable, "tools/buf.py", *arguments]
        done = subprocess.run(command, cwd=self.folder, check=False, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    return Checkout(tmp_path)


def test_the_protos_pass() -> None:
    done = subprocess.run([sys.executable, ROOT / "tools/buf.py"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_without_a_release_nothing_can_break(checkout: Checkout) -> None:
    checkout.change(
        "module.proto", "uint64 size_bytes = 3;\n  // The format of", "uint64 bytes = 3;\n  // The format of"
    )
    code, said = checkout.buf("breaking")
    assert (code, "nothing has been released" in said) == (0, True)


@pytest.mark.parametrize("arguments", [("breaking",), ("breaking", "v1.0.0"), ()])
def test_a_change_that_breaks_clients_of_the_last_release_is_refused(
    checkout: Checkout, arguments: tuple[str, ...]
) -> None:
    checkout.git("tag", "v1.0.0")
    assert checkout.buf(*arguments)[0] == 0
    checkout.change("module.proto", "  string label = 5;", "  string title = 5;")
    checkout.commit()
    code, said = checkout.buf(*arguments)
    assert (code != 0, "label" in said) == (True, True), said


def test_what_is_only_added_breaks_nobody(checkout: Checkout) -> None:
    checkout.git("tag", "v1.0.0")
    checkout.change("module.proto", "  string label = 5;", "  string label = 5;\n  // More.\n  string more = 99;")
    assert checkout.buf() == (0, "")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("  // The same digest alone.\n", "", "non-empty comment"),
        ("CODE_KIND_UNSPECIFIED", "CODE_KIND_NONE", "suffixed with"),
    ],
)
def test_a_breach_of_the_rules_is_named(checkout: Checkout, before: str, after: str, words: str) -> None:
    checkout.change("module.proto", before, after)
    code, said = checkout.buf("lint")
    assert (code != 0, "module.proto" in said, words in said) == (True, True, True), said
