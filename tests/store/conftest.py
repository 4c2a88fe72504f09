"""A store of its own for each test: in a folder, and, where a test speaks of behaviour and not of files, also a shared one.

A test that asks for ``root``, or for ``another`` process over it, speaks of the folder, and is made for that alone."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from symd.config import Limits
from symd.store import ModuleStore, Store

Opened = Callable[..., ModuleStore]
"""Opens the test's store once more, as another process would, with these limits."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "open_store" in metafunc.fixturenames:
        speaks_of_files = {"root", "another"} & set(inspect.signature(metafunc.function).parameters)
        kinds = ["folder"] if speaks_of_files else ["folder", "shared"]
        metafunc.parametrize("store_kind", kinds, indirect=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def open_store(store_kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Opened]:
    with ExitStack() as stack:
        if store_kind == "folder":
            one_more: Opened = partial(Store, tmp_path / "store")
        else:
            one_more = request.getfixturevalue("open_shared")

        def opened(limits: Limits | None = None) -> ModuleStore:
            store = one_more(limits)
            stack.callback(store.close)
            return store

        yield opened


@pytest.fixture
def store(open_store: Opened) -> ModuleStore:
    return open_store()
