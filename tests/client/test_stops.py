"""A debugger's stop, asked by device address: what is told is what the module tells of its own address, with the module and the way back to device
addresses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from symd import Client
from symd.api import Symbolizer
from symd.config import Limits
from symd.engine import scopes
from symd.engine.engine import Engine
from symd.errors import BadQuery, ContextNotFound, InvalidInput, ModuleNotFound, NotFound
from symd.index import Index
from symd.model.addresses import ByAddress, ByDevice, DeviceAddress, ObjectAddress, SectionRange
from symd.model.answers import Answer, Reason
from symd.model.breakpoints import Breakpoint, FunctionName, Refusal, SourceLine
from symd.model.contexts import Context, Load, Unload
from symd.model.line_tables import Around, ListingPart
from symd.query.code_spans import CodeFinder
from symd.query.disasm import disassemble
from symd.rpc.wire.answers import from_ranged_answer
from symd.server.config import Config
from symd.server.listening import listening
from symd.server.server import build_daemon
from symd.store import Store
from symd.v1 import query_pb2
from symd.v1.symbol_service_pb2 import ANSWER_FORM_PACKED, SymbolizeRequest
from tests.tools import require

SAMPLES = Path(__file__).parents[2] / "samples"
NESTED, SHADE = (SAMPLES / "amdgpu" / "bin" / name for name in ("nested-14.co", "v4-gfx900.co"))
BASE, OTHER = 0x7F00_0000_0000, 0x7F00_1000_0000
SOURCE = "/src/nested.clcpp"


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("daemon")
    config = Config(limits=Limits(), store=folder / "store", address=f"unix:{folder}/s", grace=1.0)
    with Engine(Store(config.store, config.limits, durable=False), config.limits, disassemble=disassemble) as engine:
        daemon = build_daemon(engine, config)
        with listening(daemon.server, config.address) as address, Client(address, timeout=60) as client:
            daemon.server.start()
            yield {"engine": engine, "client": client}
            daemon.stop(1)


@pytest.fixture(params=["engine", "client"])
def symd(request: pytest.FixtureRequest, parts: dict[str, Any]) -> Symbolizer:
    return parts[request.param]


class Loaded(NamedTuple):
    """A module that is loaded in a context, and an address in three functions, of which two are inlined."""

    digest: str
    context: str
    address: int

    def at(self, address: int, time: int | None = None) -> ByDevice:
        return ByDevice(self.context, DeviceAddress(BASE + address), time)

    @property
    def stop(self) -> ByDevice:
        return self.at(self.address)


@pytest.fixture
def loaded(symd: Symbolizer, request: pytest.FixtureRequest) -> Loaded:
    digest = symd.add(NESTED.read_bytes()).sha256
    context = symd.contexts.add(Context(host=request.node.name, process=1))
    symd.contexts.record(context, [Load(digest, 10, load_base=BASE, key="first")])
    address = symd.symbolize_one(digest, "twice+0x54").address
    assert address
    return Loaded(digest, context, address)


def test_variables_and_frames_come_with_ranges(symd: Symbolizer, loaded: Loaded) -> None:
    own = symd.variables(loaded.digest, ByAddress(ObjectAddress(loaded.address)), with_ranges=True)
    [found] = symd.variables("", [loaded.stop], with_ranges=True)
    assert (found.at, found.visible, found.module) == (own.at, own.visible, loaded.digest)
    assert found.at.ranges == symd.symbolize_one(loaded.digest, "twice+0x54", with_ranges=True).ranges
    assert len(found.at.ranges.frames) == len(found.at.frames) == 3
    assert symd.variables("", loaded.stop).at.ranges is None


def test_a_device_address_is_in_a_context_by_its_id_its_name_or_its_record(symd: Symbolizer, loaded: Loaded) -> None:
    require("llvm-objdump")
    own = symd.variables("", loaded.stop)
    (here,) = symd.listing("", ListingPart(within=Around(loaded.stop, 1, 1)))
    for name in (f"contexts/{loaded.context}", symd.contexts.get(loaded.context)):
        stop = replace(loaded.stop, context=name)
        assert symd.variables("", [stop]) == [own]
        assert symd.locate("", stop).locations == symd.locate("", loaded.stop).locations
        (listing,) = symd.listing("", ListingPart(within=Around(stop, 1, 1)))
        assert listing.text == here.text


def test_ranges_are_asked_again_as_they_are(symd: Symbolizer, loaded: Loaded) -> None:
    answer = symd.symbolize_one(loaded.digest, ByAddress(ObjectAddress(loaded.address)), with_ranges=True)
    row, frames = answer.ranges
    for part in (row, *(each for frame in frames for each in frame.code)):
        assert isinstance(part, SectionRange)
        (table,) = symd.lines(loaded.digest, answer.path, within=part)
        assert part.start >= int(table.offset[0])
        assert part.end <= int(table.offset[-1])
    (table,) = symd.lines(loaded.digest, answer.path, within=row)
    assert table.offset.tolist() == [row.start, row.end]
    assert (table.line[0], table.column[0]) == (answer.frames[0].line, answer.frames[0].column)


def test_a_few_answers_of_all_kinds_have_the_same_ranges(symd: Symbolizer, loaded: Loaded) -> None:
    asked = [f"twice+{offset:#x}" for offset in range(0, 0x80, 4)]
    every = symd.symbolize(loaded.digest, asked, with_ranges=True)
    assert list(every) == [symd.symbolize_one(loaded.digest, each, with_ranges=True) for each in asked]
    assert [every[3], every[:2]] == [list(every)[3], list(every)[:2]]
    assert [each.ranges for each in symd.symbolize(loaded.digest, asked)] == [None] * len(asked)


def test_a_stack_over_two_modules_is_told_with_ranges_in_one_call(parts: dict[str, Any], request: Any) -> None:
    client: Client = parts["client"]
    digests = [client.add(path.read_bytes()).sha256 for path in (NESTED, SHADE)]
    context = client.contexts.add(Context(host=request.node.name))
    client.contexts.record(
        context, [Load(digest, 1, load_base=base) for digest, base in zip(digests, (BASE, OTHER), strict=True)]
    )
    own = [
        client.symbolize_one(digest, query, with_ranges=True)
        for digest, query in zip(digests, ("twice+0x54", "shade+0x98"), strict=True)
    ]
    addresses = [BASE + own[0].address, OTHER + own[1].address, 0x10]
    queries = [
        query_pb2.Query(device_address=query_pb2.DeviceAddress(context=f"contexts/{context}", address=each))
        for each in addresses
    ]
    asked = SymbolizeRequest(queries=queries, with_ranges=True)
    response = client._calls.unary(client._calls.stubs.symbols.Symbolize, asked)
    assert [from_ranged_answer(each) for each in response.answers] == [*own, Answer(Reason.OUTSIDE_TEXT)]
    assert [each.module for each in response.answers] == [*(f"modules/{digest}" for digest in digests), ""]
    asked.form = ANSWER_FORM_PACKED
    with pytest.raises(InvalidInput, match="packed answers say no ranges"):
        client._calls.unary(client._calls.stubs.symbols.Symbolize, asked)


def test_instructions_around_a_device_address_are_those_around_the_modules_own(
    symd: Symbolizer, loaded: Loaded
) -> None:
    require("llvm-objdump")
    (own,) = symd.listing(loaded.digest, ListingPart(within=Around(ByAddress(ObjectAddress(loaded.address)), 2, 3)))
    (found,) = symd.listing("", ListingPart(within=Around(loaded.stop, 2, 3)))
    assert len(found) == 6
    assert (list(found.answers), found.text, list(found.code)) == (list(own.answers), own.text, list(own.code))
    assert (own.module, own.section_device_address) == (None, None)
    assert found.module == loaded.digest
    assert [found.section_device_address + each.section_offset for each in found.answers] == [
        BASE + each.address for each in own.answers
    ]


def test_what_is_at_no_device_address_is_said(symd: Symbolizer, loaded: Loaded) -> None:
    symd.contexts.record(loaded.context, [Unload("first", 20), Load(loaded.digest, 30, load_base=OTHER, key="second")])
    for query, said in (
        (loaded.stop, "nothing is loaded at 0x7f0000"),
        (ByDevice(loaded.context, DeviceAddress(0x10)), "nothing was ever loaded at 0x10"),
    ):
        with pytest.raises(NotFound, match=said):
            list(symd.listing("", ListingPart(within=Around(query))))
        assert symd.locate("", query).refusal is Refusal.OUTSIDE_TEXT
    require("llvm-objdump")
    (then,) = symd.listing("", ListingPart(within=Around(loaded.at(loaded.address, 15))))
    assert then.module == loaded.digest
    with pytest.raises(ContextNotFound):
        symd.locate("", ByDevice("0" * 32, DeviceAddress(1)))


def test_several_loads_at_one_address_are_no_place(symd: Symbolizer, loaded: Loaded) -> None:
    other = symd.add(SHADE.read_bytes()).sha256
    symd.contexts.record(loaded.context, [Load(other, 10, load_base=BASE, key="over")])
    for ask in (
        lambda: list(symd.listing("", ListingPart(within=Around(loaded.stop)))),
        lambda: symd.locate("", loaded.stop),
    ):
        with pytest.raises(BadQuery, match="several loads could be meant"):
            ask()


def test_a_module_that_is_not_in_the_store_is_missed(symd: Symbolizer, loaded: Loaded) -> None:
    require("llvm-objdump")
    data = NESTED.read_bytes() + b"another"
    digest = symd.add(data).sha256
    symd.contexts.record(loaded.context, [Load(digest, 40, load_base=OTHER)])
    symd.remove(digest)
    stop = ByDevice(loaded.context, DeviceAddress(OTHER + loaded.address))
    for ask in (
        lambda: list(symd.listing("", ListingPart(within=Around(stop)))),
        lambda: symd.locate("", stop),
    ):
        with pytest.raises(ModuleNotFound):
            ask()


def test_a_breakpoint_says_its_device_addresses_in_a_context(symd: Symbolizer, loaded: Loaded) -> None:
    for where in (SourceLine(SOURCE, 13), FunctionName("f"), "kernel:twice", "twice+0x54"):
        plain = symd.locate(loaded.digest, where)
        assert plain.locations
        assert {each.device_addresses for each in plain.locations} == {()}
        found = symd.locate(loaded.digest, where, context=loaded.context)
        assert [each.device_addresses for each in found.locations] == [
            (BASE + each.address,) for each in plain.locations
        ]
        assert [each.address for each in found.locations] == [each.address for each in plain.locations]
    with pytest.raises(ContextNotFound):
        symd.locate(loaded.digest, "twice+0", context="0" * 32)


def test_each_load_that_has_not_ended_has_its_device_addresses(symd: Symbolizer, loaded: Loaded) -> None:
    def addresses() -> list[tuple[int, ...]]:
        return [
            each.device_addresses for each in symd.locate(loaded.digest, "twice+0", context=loaded.context).locations
        ]

    [start] = [each.address for each in symd.locate(loaded.digest, "twice+0").locations]
    symd.contexts.record(loaded.context, [Load(loaded.digest, 20, load_base=OTHER, key="second")])
    assert addresses() == [(BASE + start, OTHER + start)]
    symd.contexts.record(loaded.context, [Unload("first", 30)])
    assert addresses() == [(OTHER + start,)]
    other = symd.add(SHADE.read_bytes()).sha256
    symd.contexts.record(loaded.context, [Load(other, 40, load_base=OTHER, key="over")])
    assert addresses() == [()]


def test_a_breakpoint_at_a_device_address_is_at_the_modules_own(symd: Symbolizer, loaded: Loaded) -> None:
    [own] = symd.locate(loaded.digest, ByAddress(ObjectAddress(loaded.address))).locations
    found = symd.locate("", loaded.stop)
    [location] = found.locations
    assert (found.module, found.requested) == (loaded.digest, loaded.stop)
    assert location == type(own)(
        **{**{name: getattr(own, name) for name in own.__slots__}, "device_addresses": (BASE + own.address,)}
    )


def test_what_takes_no_device_address_says_so(symd: Symbolizer, loaded: Loaded) -> None:
    with pytest.raises(BadQuery, match="a line table is not asked for by device address"):
        list(symd.lines(loaded.digest, within=Around(loaded.stop)))
    with (
        pytest.raises(BadQuery, match="the breakpoint '1' is at a device address"),
        symd.watch([Breakpoint("1", loaded.stop)]) as watch,
    ):
        next(iter(watch))


def test_loads_in_other_contexts_hide_none(symd: Symbolizer, loaded: Loaded) -> None:
    """However many there are."""
    busy = symd.contexts.add(Context(host="busy"))
    symd.contexts.record(busy, [Load(loaded.digest, 1, load_base=n << 24, key=str(n)) for n in range(1001)])
    symd.contexts.record(loaded.context, [Load(loaded.digest, 20, load_base=OTHER, key="late")])
    [start] = [each.address for each in symd.locate(loaded.digest, "twice+0").locations]
    [found] = symd.locate(loaded.digest, "twice+0", context=loaded.context).locations
    assert found.device_addresses == (BASE + start, OTHER + start)


def test_ranges_at_places_of_one_module_are_found_together(
    parts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine: Engine = parts["engine"]
    digest = engine.add(NESTED.read_bytes()).sha256
    asked = ["twice+0x0", "twice+0x20", "twice+0x54"]
    alone = [engine.variables(digest, each, with_ranges=True) for each in asked]
    made: list[Index] = []

    class Counted(CodeFinder):
        def __init__(self, index: Index) -> None:
            made.append(index)
            super().__init__(index)

    monkeypatch.setattr(scopes, "CodeFinder", Counted)
    assert engine.variables(digest, asked, with_ranges=True) == alone
    assert len(made) == 1
    assert all(each.at.ranges for each in alone)
