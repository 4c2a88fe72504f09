"""The set-up of the newer drivers finds the machine's own mirror in either form of apt's source files."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[3] / "tools" / "live_new.py"


@pytest.fixture(scope="module")
def live_new() -> ModuleType:
    spec = importlib.util.spec_from_file_location("live_new", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_one_line_sources_are_read(live_new: ModuleType) -> None:
    text = """\
# deb http://mirror.example/old stable main
deb http://mirror.example/debian bookworm main contrib  # ours
deb-src http://mirror.example/debian bookworm main
deb [arch=amd64 signed-by=/keys/a.gpg] http://other.example/apt  bookworm main
deb
"""
    found = list(live_new.one_line_sources(text))
    assert found == [
        ("http://mirror.example/debian", ("bookworm",), live_new.KEYRING),
        ("http://other.example/apt", ("bookworm",), "/keys/a.gpg"),
    ]


def test_deb822_sources_are_read(live_new: ModuleType) -> None:
    text = """\
Types: deb deb-src
# a comment between fields
URIs: http://a.example/debian http://b.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /keys/debian.gpg

Types: deb
URIs: http://off.example/debian
Suites: bookworm
Enabled: no

Types: deb-src
URIs: http://src.example/debian
Suites: bookworm
"""
    suites = ("bookworm", "bookworm-updates")
    assert list(live_new.deb822_sources(text)) == [
        ("http://a.example/debian", suites, "/keys/debian.gpg"),
        ("http://b.example/debian", suites, "/keys/debian.gpg"),
    ]


def test_all_files_of_an_apt_folder_are_looked_at(live_new: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text("deb http://one.example/debian stable main\n")
    (tmp_path / "sources.list.d/two.list").write_text("deb http://two.example/debian stable main\n")
    (tmp_path / "sources.list.d/three.sources").write_text(
        "Types: deb\nURIs: http://three.example/debian\nSuites: stable\n"
    )
    (tmp_path / "sources.list.d/four.save").write_text("deb http://four.example/debian stable main\n")
    hosts = [source.uri.split("/")[2] for source in live_new.apt_sources(tmp_path)]
    assert hosts == ["one.example", "two.example", "three.example"]


def test_a_folder_with_other_things_is_never_emptied(
    live_new: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    assert live_new.main(["--root", str(tmp_path), "setup", "--again"]) == 2
    assert "choose an empty folder" in capsys.readouterr().err
    assert (tmp_path / "thesis.tex").exists()


def test_a_compiler_that_was_not_set_up_says_how(
    live_new: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert live_new.main(["--root", str(tmp_path), "ocloc", "compile"]) == 2
    assert "setup" in capsys.readouterr().err
