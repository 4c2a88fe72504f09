"""The examples in docstrings print what they say."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from typing import Any

import pytest

import symd
from tests.cli.conftest import ROOT, server  # noqa: F401 - a fixture

FILE = ROOT / "samples/amdgpu/bin/v4-gfx900.co"


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def check(documented: Callable[..., Any], **names: object) -> None:
    """The docstring has an example, and what it prints is what happens."""
    (test,) = doctest.DocTestFinder(recurse=False).find(documented, globs={"symd": symd, **names})
    done = doctest.DocTestRunner().run(test)
    assert done.attempted
    assert not done.failed


def test_those_of_a_module() -> None:
    check(symd.open)
    with symd.open(FILE) as module:
        check(symd.Module.symbolize, module=module)


def test_those_of_a_client(server: str) -> None:  # noqa: F811 - the fixture
    with symd.Client(server) as client:
        check(symd.Client.symbolize_one, client=client, digest=client.add(FILE.read_bytes()).sha256)
