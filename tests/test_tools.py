"""Tools are found under plain and versioned names; a missing one skips a test at home and fails it under CI."""

from __future__ import annotations

import pytest

from tests import tools


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A PATH of one folder with its own tools."""
    for name in ("plain", "plain-99", "versioned-9", "versioned-14", "versioned-14-extra"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "versioned-20").write_text("not executable")
    monkeypatch.setenv("PATH", str(tmp_path))
    tools.find.cache_clear()
    yield tmp_path
    tools.find.cache_clear()


def test_the_plain_name_wins_and_then_the_highest_version(folder):
    assert tools.require("plain") == str(folder / "plain")
    assert tools.require("versioned") == str(folder / "versioned-14")
    assert tools.require("absent", "versioned") == str(folder / "versioned-14")


@pytest.mark.parametrize(("under_ci", "outcome"), [(True, pytest.fail.Exception), (False, pytest.skip.Exception)])
def test_a_missing_tool_skips_at_home_and_fails_under_ci(folder, monkeypatch, under_ci, outcome):
    monkeypatch.setattr(tools, "UNDER_CI", under_ci)
    with pytest.raises(outcome, match="absent or gone is not installed"):
        tools.require("absent", "gone")
