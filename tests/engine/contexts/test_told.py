"""Loads that are told together name no more segments and texts than the daemon can hold: a base, or one path for all, makes much of little."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from symd.config import Limits
from symd.engine.contexts.placement import MAX_ATTRIBUTES, MAX_CONTEXT_TEXT
from symd.engine.contexts.verbs import StoredAliases, StoredContexts
from symd.errors import BadQuery, ContextNotFound, LimitExceeded
from symd.model.addresses import ByAddress, ByKernel
from symd.model.contexts import Alias, Context, Load, Segment
from symd.store import Store, context_log

MODULE = "ab" * 32
SECTIONS = 1000
NOWHERE = 1 << 40


class ManySections:
    """What of an index a load with a base asks: a module of many text sections."""

    def __init__(self) -> None:
        self.sections = [
            SimpleNamespace(path="", section=f".text.{number}", address=number << 8) for number in range(SECTIONS)
        ]

    def chosen_sections(self, _path: str | None) -> Any:
        return np.arange(SECTIONS)

    def section_size(self, _number: int) -> int:
        return 16


@pytest.fixture
def contexts(tmp_path):
    with Store(tmp_path, Limits()) as store:
        yield StoredContexts(store.context_log, lambda _: ManySections())


def segments(count: int, start: Any, path: str | None = None) -> tuple[Segment, ...]:
    return tuple(Segment(number << 4, 16, start, path) for number in range(count))


def refused(contexts: StoredContexts, events: list[Load]) -> str:
    """The limit that the events pass; nothing of them is kept."""
    name = contexts.add(Context(host="here"))
    with pytest.raises(LimitExceeded) as caught:
        contexts.record(name, events)
    assert not list(contexts.loads(name))
    return caught.value.metadata["limit"]


def test_a_base_of_a_module_of_many_sections_counts_as_its_segments(contexts):
    assert refused(contexts, [Load(MODULE, time, load_base=time << 20) for time in range(201)]) == "segments"


def test_the_path_of_a_load_counts_for_each_of_its_segments(contexts):
    assert refused(contexts, [Load(MODULE, 1, segments(5000, ByAddress(0)), path="p" * 4000)]) == "segment_texts"


def test_names_of_kernels_count_in_all_loads_together(contexts):
    placed = segments(500, ByKernel("k" * 4000, 0))
    assert refused(contexts, [Load(MODULE, time, placed) for time in range(10)]) == "segment_texts"


@pytest.mark.parametrize("of_load", [True, False])
def test_a_path_longer_than_any_name_is_refused(contexts, of_load):
    name, long = contexts.add(Context(host="here")), "p" * 4097
    load = Load(MODULE, 1, segments(1, ByAddress(0), None if of_load else long), path=long if of_load else None)
    with pytest.raises(BadQuery, match="4097 characters"):
        contexts.record(name, [load])


def named(number: int, kernel: str) -> Load:
    return Load(MODULE, number, segments(1, ByKernel(kernel, 0)), key=str(number))


def test_a_map_holds_so_many_texts(contexts, monkeypatch):
    """Equal ones once; what was refused is not read again, until the context was forgotten and made again."""
    monkeypatch.setattr("symd.engine.contexts.verbs.MAX_TEXTS", 10_000, raising=False)
    name = contexts.add(Context(host="here"))
    contexts.record(name, [named(number, "k" * 1000) for number in range(20)])
    assert len(contexts.symbolize(name, [NOWHERE])) == 1
    contexts.record(name, [named(100 + number, f"{number:01000}") for number in range(10)])
    for _ in range(2):
        with pytest.raises(LimitExceeded) as caught:
            contexts.symbolize(name, [NOWHERE])
        assert caught.value.metadata["limit"] == "context_texts"
    contexts.remove(name)
    assert len(contexts.symbolize(contexts.add(Context(host="here")), [NOWHERE])) == 1


def test_texts_count_among_the_segments_of_maps_that_stay(contexts, monkeypatch):
    monkeypatch.setattr("symd.engine.contexts.verbs.KEPT", 100)
    for host in "abc":
        name = contexts.add(Context(host=host))
        contexts.record(name, [named(number, f"{number:04000}") for number in range(5)])
        contexts.symbolize(name, [NOWHERE])
    assert len(contexts._maps) == 1


def test_segments_that_are_read_together_have_room_for_the_longest_names():
    """A character may take four bytes."""
    assert context_log.ROWS * 2 * 4 * MAX_CONTEXT_TEXT < 200 << 20


def test_contexts_that_are_read_together_have_room_for_the_longest_attributes(contexts, monkeypatch):
    known = [contexts.add(Context(host=f"{number}")) for number in range(50)]
    read, asked = contexts._context_log.contexts, []

    def counted(after: str, most: int) -> Any:
        asked.append(most)
        return read(after, most)

    monkeypatch.setattr(contexts._context_log, "contexts", counted)
    assert [record.id for record in contexts.all()] == known
    assert max(asked) * MAX_ATTRIBUTES * 2 * 4 * MAX_CONTEXT_TEXT < 100 << 20


def test_aliases_are_taken_without_what_their_contexts_say(tmp_path, monkeypatch):
    with Store(tmp_path) as store:
        name = store.context_log.add(Context(host="here"))
        monkeypatch.setattr("symd.store.context_log._record", lambda _: pytest.fail("it is read"))
        taken: list[Alias] = []
        aliases = StoredAliases(SimpleNamespace(add=taken.extend), store.context_log)
        aliases.add([Alias("kind", "key", MODULE, context=name)])
        assert len(taken) == 1
        with pytest.raises(ContextNotFound):
            aliases.add([Alias("kind", "key", MODULE, context="ab" * 16)])
