"""The engine reads what is in scope at a place once, while a debugger asks for it again and again."""

from __future__ import annotations

import pytest

from symd.engine import scopes
from symd.engine.engine import Engine
from symd.engine.reading.questions import VariablesAt
from symd.errors import ModuleNotFound
from symd.store import Store
from tests.query.test_variables import SAMPLES

MODULE = SAMPLES / "amdgpu" / "bin" / "nested-14.co"


@pytest.fixture
def engine(tmp_path):
    with Engine(Store(tmp_path)) as engine:
        yield engine


@pytest.fixture
def read(engine, monkeypatch):
    """The places that were read, in order."""
    places = []
    ask = engine._indexes.ask

    def noted(name, request, *rest, **options):
        if isinstance(request, VariablesAt):
            places.extend(request.places)
        return ask(name, request, *rest, **options)

    monkeypatch.setattr(engine._indexes, "ask", noted)
    return places


def test_return_addresses_that_stay_are_read_once(engine, read):
    digest = engine.add(MODULE.read_bytes()).sha256
    first = engine.variables(digest, ["stirred+8", "stirred+0x10", "stirred+0x18"])
    assert len(read) == 3
    second = engine.variables(digest, ["stirred+0x20", "stirred+0x10", "stirred+0x18", "stirred+0x18"])
    assert len(read) == 4
    assert second[1:] == [first[1], first[2], first[2]]
    assert second[0] == engine.variables(digest, "stirred+0x20")
    assert len(read) == 4


def test_what_is_kept_has_a_bound(engine, read, monkeypatch):
    monkeypatch.setattr(scopes, "KEPT_VARIABLES", 1)
    digest = engine.add(MODULE.read_bytes()).sha256
    found = [engine.variables(digest, "stirred+8") for _ in range(2)]
    assert len(read) == 2
    assert found[0] == found[1]
    assert found[0].visible.variables


def test_a_module_that_was_removed_is_not_answered_from_memory(engine):
    digest = engine.add(MODULE.read_bytes()).sha256
    engine.variables(digest, "stirred+8")
    engine.remove(digest)
    with pytest.raises(ModuleNotFound):
        engine.variables(digest, "stirred+8")
