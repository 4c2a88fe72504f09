"""A profile over many modules and contexts in one question: each answer is that of its address asked alone, and a device address is
where a search through all loads, one after the other, finds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from symd import Client
from symd.api import Symbolizer
from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import BadQuery, ContextNotFound, ModuleNotFound, ObjectNotFound, SymdError
from symd.model.addresses import LATEST_TIME, ByAddress, ByDevice, ByKernel, BySection
from symd.model.answers import Answer, Reason
from symd.model.contexts import AddressForm, Context, Load, Origin, Segment, Unload
from symd.server.config import Config
from symd.server.listening import listening
from symd.server.server import build_daemon
from symd.store import Store
from symd.v1.query_pb2 import DeviceAddress, FunctionOffset, PackedQueries, Query
from symd.v1.query_pb2 import Origin as OriginMessage
from symd.v1.symbol_service_pb2 import SymbolizeRequest, SymbolizeStreamRequest
from symd.v1.variable_service_pb2 import GetVariablesRequest

SAMPLES = Path(__file__).parents[2] / "samples"
FILES = (
    "kernels/bin/vadd/skl-O0.dbg",
    "kernels/bin/raycast/dg2-opt.dbg",
    "kernels/bin/filters/igc2-dg2-opt.zebin",
    "amdgpu/bin/v4-gfx900.co",
)
NOBODY = "f" * 64
HEAP = 0x7F00_0000_0000


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("daemon")
    config = Config(limits=Limits(batch=300_000), store=folder / "store", address=f"unix:{folder}/s", grace=1.0)
    with Engine(Store(config.store, config.limits, durable=False), config.limits) as engine:
        daemon = build_daemon(engine, config)
        with listening(daemon.server, config.address) as address, Client(address, timeout=60) as client:
            daemon.server.start()
            yield {"engine": engine, "client": client}
            daemon.stop(1)


@pytest.fixture(params=["engine", "client"])
def symd(request, parts) -> Symbolizer:
    return parts[request.param]


@pytest.fixture(scope="module")
def modules(parts) -> list[Any]:
    return [parts["engine"].add((SAMPLES / file).read_bytes()) for file in FILES]


def alone(engine: Engine, origin: Origin, value: int) -> Answer:
    """The answer to one address of one module."""
    try:
        return engine.symbolize_column(
            origin.module, np.array([value], np.uint64), kernel=origin.kernel, section=origin.section, path=origin.path
        )[0]
    except ModuleNotFound:
        return Answer(Reason.UNKNOWN_MODULE)
    except ObjectNotFound:
        return Answer(Reason.UNKNOWN_KERNEL)


def origins_of(module: Any) -> list[Origin]:
    """Everything that can be counted from in a module, and what is not there."""
    found = [
        Origin(module.sha256),
        Origin(module.sha256, None, "nobody"),
        Origin(module.sha256, None, None, ".nothing"),
    ]
    found.append(Origin(module.sha256, "not/there"))
    for each in module.objects:
        for kernel in each.kernels[:12]:
            found += [Origin(module.sha256, None, kernel.name), Origin(module.sha256, each.path, kernel.name)]
            found += [Origin(module.sha256, each.path, None, kernel.section)]
            found += [Origin(module.sha256, each.path, None, kernel.section_index)]
    return list(dict.fromkeys(found))


def check(found: Any, engine: Engine, origins: list[Origin], origin: Any, values: Any) -> None:
    known: dict[tuple[int, int], Answer] = {}
    for at, (number, value) in enumerate(zip(origin.tolist(), values.tolist(), strict=True)):
        if (number, value) not in known:
            known[number, value] = alone(engine, origins[number], value)
        wanted = known[number, value]
        each = found[at]
        assert each.answer._replace(candidates=()) == wanted._replace(candidates=()), (origins[number], hex(value))
        if each.answer.candidates:
            assert each.answer.candidates == wanted.candidates
        assert each.module == origins[number].module
        assert each.address == value


def interleaved(origins: list[Origin], count: int, seed: int) -> tuple[Any, Any]:
    """Numbers of origins and values, most of them inside, in no order."""
    chance = np.random.default_rng(seed)
    origin = chance.integers(0, len(origins), count)
    near = chance.integers(0, 0x200, count).astype(np.uint64) * np.uint64(8)
    far = chance.integers(0, 1 << 64, count, dtype=np.uint64)
    return origin, np.where(chance.random(count) < 0.97, near, far)


def test_each_answer_of_a_profile_over_several_modules_is_that_of_its_address_alone(symd, parts, modules):
    origins = [each for module in modules for each in origins_of(module)] + [Origin(NOBODY, None, "vadd")]
    origin, values = interleaved(origins, 6000, 1)
    found = symd.symbolize_origins(values, origins, origin)
    check(found, parts["engine"], origins, origin, values)
    reasons = {each.answer.reason for each in found}
    assert {Reason.EXACT, Reason.OUTSIDE_TEXT, Reason.UNKNOWN_KERNEL, Reason.UNKNOWN_MODULE} <= reasons


@pytest.mark.parametrize(
    ("kinds", "places", "samples"), [("kernels", 300, 40_000), ("whatever", 300, 40_000), ("kernels", 200_000, 70_000)]
)
def test_samples_at_the_same_places_are_answered_as_each_alone(parts, modules, monkeypatch, kinds, places, samples):
    """Few places are found by the daemon once each; where names have candidates, which count by query, or where most
    places differ, each sample is."""
    engine, client, sizes = parts["engine"], parts["client"], []
    whole = engine.answers
    monkeypatch.setattr(
        engine, "answers", lambda question, *a, **k: sizes.append(len(question.values)) or whole(question, *a, **k)
    )
    origins = [each for module in modules for each in origins_of(module)]
    if kinds == "kernels":
        origins = [each for each in origins if each.kernel not in (None, "nobody")]
    chance = np.random.default_rng(places)
    origin = chance.integers(0, len(origins), places)
    values = chance.integers(0, 1 << (11 if places < samples else 20), places).astype(np.uint64)
    some = chance.integers(0, places, samples)
    found = client.symbolize_origins(values[some], origins, origin[some])
    check(found, engine, origins, origin[some], values[some])
    distinct = len({*zip(origin[some].tolist(), values[some].tolist(), strict=True)})
    if places > samples:
        assert sizes == [samples]
    else:
        assert sizes == [distinct] + [samples] * (kinds == "whatever")


def test_device_addresses_that_are_the_same_are_answered_as_each_alone(parts, modules, stopped):
    engine, client = parts["engine"], parts["client"]
    chance = np.random.default_rng(7)
    places = np.concatenate([HEAP + chance.integers(0, 0x300, 100), HEAP + 0x10000 + chance.integers(0, 0x900, 100)])
    values = np.append(places, [5, HEAP + 0x20000, 1 << 63]).astype(np.uint64)[chance.integers(0, 203, 50_000)]
    context = stopped.removeprefix("contexts/")
    for form in AddressForm(), AddressForm(4, 64):
        asked = values >> np.uint64(form.shift)
        origins = [Origin(context=context, form=form)]
        for times in None, 5, 20:
            found = client.symbolize_origins(asked, origins, None, times)
            wanted = engine.symbolize_origins(asked, origins, None, times)
            assert found.address.tolist() == wanted.address.tolist()
            assert [found.modules[each - 1] if each else None for each in found.module.tolist()] == [
                wanted.modules[each - 1] if each else None for each in wanted.module.tolist()
            ]
            assert [found[at] for at in range(0, 50_000, 97)] == [wanted[at] for at in range(0, 50_000, 97)]


@pytest.mark.parametrize("count", [0, 1, 7, 5000])
def test_a_profile_of_the_kernels_of_one_module_is_answered_as_each_alone(symd, parts, modules, count):
    module = modules[2]
    origins = [Origin(module.sha256, None, kernel.name) for each in module.objects for kernel in each.kernels]
    assert len(origins) > 3
    chance = np.random.default_rng(2)
    origin, values = chance.integers(0, len(origins), count), chance.integers(0, 0x100, count).astype(np.uint64)
    check(symd.symbolize_origins(values, origins, origin), parts["engine"], origins, origin, values)


def sample_files() -> list[Path]:
    folders = sorted(SAMPLES.glob("*/bin")) + sorted(SAMPLES.glob("*/bin/*"))
    files = [sorted(each for each in folder.iterdir() if each.is_file()) for folder in folders if folder.is_dir()]
    return [each for found in files for each in found if each.stat().st_size < 1 << 20]


def test_samples_of_every_sample_module_together_are_answered_as_each_alone(parts):
    """One question for all of them, module after module and mixed."""
    engine, origins = parts["engine"], []
    for file in sample_files():
        try:
            module = engine.add(file.read_bytes())
        except SymdError:
            continue
        kernels = [(each, kernel) for each in module.objects for kernel in each.kernels if kernel.size][:2]
        origins += [Origin(module.sha256, each.path, kernel.name) for each, kernel in kernels]
        origins += [Origin(module.sha256, each.path, None, kernel.section_index) for each, kernel in kernels[:1]]
    origins = list(dict.fromkeys(origins))
    assert len({each.module for each in origins}) > 100
    origin = np.repeat(np.arange(len(origins)), 4)
    chance = np.random.default_rng(3)
    values = chance.integers(0, 0x60, len(origin)).astype(np.uint64) * np.uint64(4)
    mixed = chance.permutation(len(origin))
    check(
        engine.symbolize_origins(values[mixed], origins, origin[mixed]), engine, origins, origin[mixed], values[mixed]
    )


class Mapped(NamedTuple):
    """A piece of device memory: which bytes, from when until when, and what its first byte is."""

    start: int
    size: int
    time: int
    until: int
    origin: Origin
    first: int


def meant(mapped: list[Mapped], address: int, time: int) -> tuple[Reason | None, Mapped | None]:
    """What a search through all of them finds: the reason why nothing is there, or what is."""
    over = [each for each in mapped if each.start <= address < each.start + each.size]
    begun = [each for each in over if each.time <= time]
    if not over:
        return Reason.OUTSIDE_TEXT, None
    last = max(begun, key=lambda each: each.time, default=None)
    return (Reason.UNLOADED, None) if last is None or last.until <= time else (None, last)


def told(chance: Any, modules: list[Any], count: int, base: int) -> tuple[list[Any], list[Mapped]]:
    """Random loads of kernels, each at a time of its own, over each other; some end."""
    events: list[Any] = []
    mapped: list[Mapped] = []
    times = chance.permutation(1000)[:count] + 10
    for number, time in enumerate(times.tolist()):
        module = modules[chance.integers(len(modules))]
        code = module.objects[0]
        kernel = code.kernels[chance.integers(len(code.kernels))]
        start, size = base + int(chance.integers(40)) * 0x80, int(chance.integers(1, 0x300))
        until = int(time + chance.integers(1, 400)) if chance.random() < 0.6 else LATEST_TIME + 1
        place = Segment(start, size, ByKernel(kernel.name, 0), code.path)
        events.append(Load(module.sha256, time, (place,), key=f"k{number}"))
        if until <= LATEST_TIME:
            events.append(Unload(f"k{number}", until))
        mapped.append(Mapped(start, size, time, until, Origin(module.sha256, code.path, kernel.name), 0))
    return events, mapped


@pytest.mark.parametrize("count", [60, 15_000])
def test_device_addresses_of_contexts_among_offsets_are_what_a_search_through_the_loads_finds(
    symd, parts, modules, count
):
    chance, engine = np.random.default_rng(count), parts["engine"]
    origins, maps = [Origin(modules[0].sha256, None, "vadd")], [None]
    for number in range(2):
        name = symd.contexts.add(Context(f"whole {count} {number} {type(symd).__name__}", 1, "gpu", "test"))
        events, mapped = told(chance, modules, 25, HEAP + number * 0x400)
        symd.contexts.record(name, events)
        origins.append(Origin(context=name))
        maps.append(mapped)
    origin = chance.integers(0, 3, count)
    values = np.where(origin == 0, chance.integers(0, 0x400, count), HEAP + chance.integers(0, 0x1C00, count))
    times = np.where(chance.random(count) < 0.2, LATEST_TIME, chance.integers(0, 1500, count))
    found = symd.symbolize_origins(values.astype(np.uint64), origins, origin, times)
    reasons = set()
    for each, number, value, time in zip(found, origin.tolist(), values.tolist(), times.tolist(), strict=True):
        if number == 0:
            assert each.answer == alone(engine, origins[0], value)
            continue
        reason, there = meant(maps[number], value, time)
        assert each.address == value
        reasons.add(each.answer.reason)
        if there is None:
            assert (each.answer, each.module) == (Answer(reason), None)
        else:
            assert each.answer == alone(engine, there.origin, value - there.start)
            assert each.module == there.origin.module
    assert {Reason.EXACT, Reason.UNLOADED, Reason.OUTSIDE_TEXT} <= reasons


@pytest.fixture(scope="module")
def stopped(parts, modules) -> str:
    """A context with vadd of the first module at HEAP and raycast of the second behind it; the first was loaded again elsewhere."""
    engine = parts["engine"]
    name = engine.contexts.add(Context("stopped", 1, "gpu", "test"))
    vadd, raycast = modules[0].sha256, modules[1].sha256
    segments = [Segment(HEAP, 0, ByKernel("vadd", 0)), Segment(HEAP + 0x10000, 0, ByKernel("raycast", 0))]
    events = [Load(vadd, 10, (segments[0],), key="1"), Load(raycast, 10, (segments[1],), key="2")]
    engine.contexts.record(name, [*events, Load(NOBODY, 10, (Segment(HEAP + 0x20000, 64, ByAddress(0)),), key="3")])
    return f"contexts/{name}"


def at(context: str, address: int) -> Query:
    return Query(device_address=DeviceAddress(context=context, address=address))


def test_a_stack_of_device_addresses_is_one_call_whose_answers_say_their_modules(parts, modules, stopped):
    client, engine = parts["client"], parts["engine"]
    asked = [at(stopped, HEAP + 0x1B0), at(stopped, HEAP + 0x10368), at(stopped, 5), at(stopped, HEAP + 0x20000)]
    method = client._calls.stubs.symbols.Symbolize
    answers = client._calls.unary(method, SymbolizeRequest(queries=asked)).answers
    vadd, raycast = modules[0].sha256, modules[1].sha256
    assert [each.module for each in answers] == [f"modules/{vadd}", f"modules/{raycast}", "", f"modules/{NOBODY}"]
    assert [each.device_address for each in answers] == [HEAP + 0x1B0, HEAP + 0x10368, 5, HEAP + 0x20000]
    assert answers[2].reason == Reason.OUTSIDE_TEXT
    assert answers[3].reason == Reason.UNKNOWN_MODULE
    wanted = engine.symbolize_one(raycast, ByKernel("raycast", 0x368))
    assert [frame.function for frame in answers[1].frames] == [frame.function for frame in wanted.frames]
    assert (answers[1].section_offset, answers[1].kernel) == (wanted.section_offset, "raycast")
    mixed = [asked[1], Query(function_offset=FunctionOffset(function="vadd", offset=0x1B0))]
    both = client._calls.unary(method, SymbolizeRequest(module=f"modules/{vadd}", queries=mixed)).answers
    assert both[0] == answers[1]
    assert both[1].kernel == "vadd"
    assert not both[1].HasField("device_address")
    with pytest.raises(BadQuery):
        client._calls.unary(method, SymbolizeRequest(queries=mixed))
    with pytest.raises(ContextNotFound):
        client._calls.unary(method, SymbolizeRequest(queries=[at("contexts/" + "0" * 32, 1)]))


def test_the_variables_of_a_stack_of_device_addresses_are_one_call(symd, modules, stopped):
    stack = [ByDevice(stopped.removeprefix("contexts/"), HEAP + each) for each in (0x1B0, 0x10368, 0x20000)]
    found = symd.variables("", [*stack, ByDevice(stack[0].context, 5)])
    for each, module, kernel, offset in ((0, modules[0], "vadd", 0x1B0), (1, modules[1], "raycast", 0x368)):
        wanted = symd.variables(module.sha256, ByKernel(kernel, offset))
        assert (found[each].at, found[each].visible) == (wanted.at, wanted.visible)
        assert (found[each].module, found[each].device_address) == (module.sha256, stack[each].address)
    assert found[0].visible.variables
    assert [each.at.reason for each in found[2:]] == [Reason.UNKNOWN_MODULE, Reason.OUTSIDE_TEXT]
    assert [each.module for each in found[2:]] == [NOBODY, None]
    assert symd.variables("", stack[0]) == found[0]


def test_variables_of_places_in_a_module_take_its_name(parts, stopped):
    client = parts["client"]
    queries = [at(stopped, HEAP), Query(address=1)]
    with pytest.raises(BadQuery):
        client._calls.unary(client._calls.stubs.variables.GetVariables, GetVariablesRequest(queries=queries))


def test_a_stream_takes_device_addresses_and_each_answer_takes_few_bytes(parts, modules, stopped):
    """Four bytes an answer are what lets a million of them pass a client's limit of 4 MiB."""
    client, count = parts["client"], 100_000
    values = HEAP + np.arange(count, dtype=np.uint64) % np.uint64(0x300)
    column = PackedQueries(count=count, values=values.tobytes(), origins=[OriginMessage(context=stopped)])
    requests = [
        SymbolizeStreamRequest(id=number, request=SymbolizeRequest(packed_queries=column)) for number in range(3)
    ]
    responses = list(client._calls.stream(client._calls.stubs.symbols.SymbolizeStream, lambda: iter(requests)))
    assert [each.id for each in responses] == [0, 1, 2]
    assert [each.response.packed_answers.count for each in responses] == [count] * 3
    assert all(each.ByteSize() < 4 * count for each in responses)
    assert not responses[0].response.packed_answers.device_address
    kernel = OriginMessage(module=f"modules/{modules[0].sha256}", function="vadd")
    two = PackedQueries(
        count=count, values=bytes(2 * count), origins=[kernel, kernel], origin=bytes([0, 1]) * (count // 2)
    )
    response = client._calls.unary(client._calls.stubs.symbols.Symbolize, SymbolizeRequest(packed_queries=two))
    assert response.ByteSize() < 2 * count
    assert response.packed_answers.place_by_origin


def test_whole_addresses_come_where_they_are_not_the_requests(symd):
    name = symd.contexts.add(Context(f"canonical {type(symd).__name__}", 1, "gpu", "test", 48))
    values = np.array([0x8000_0000_1000, 0x1000], np.uint64)
    assert symd.contexts.symbolize(name, values).address.tolist() == [0xFFFF_8000_0000_1000, 0x1000]
    shifted = symd.contexts.symbolize(name, np.array([0x10], np.uint64), None, AddressForm(3, 64))
    assert shifted.address.tolist() == [0x80]


@pytest.mark.parametrize(
    ("origins", "origin", "said"),
    [
        ([Origin(NOBODY)], [1], "no origin 1"),
        ([Origin(NOBODY)], [0, 0], "2 numbers of origins for 1 value"),
        ([Origin()], None, "names neither a module nor a context"),
        ([], None, "no origin 0"),
        (["vadd"], None, "is not an Origin"),
    ],
)
def test_origins_that_cannot_be_are_refused(symd, origins, origin, said):
    with pytest.raises(BadQuery, match=said):
        symd.symbolize_origins([5], origins, origin)


def test_the_module_that_a_request_names_fails_the_call_and_one_that_an_origin_names_its_addresses(parts, modules):
    client = parts["client"]
    column = PackedQueries(
        count=2, origins=[OriginMessage(function="k"), OriginMessage(section_index=1)], origin=b"\0\1"
    )
    method = client._calls.stubs.symbols.Symbolize
    with pytest.raises(ModuleNotFound):
        client._calls.unary(method, SymbolizeRequest(module=f"modules/{NOBODY}", packed_queries=column))
    name = f"modules/{modules[0].sha256}"
    with pytest.raises(ObjectNotFound):
        client._calls.unary(method, SymbolizeRequest(module=name, code_object="not/there", packed_queries=column))
    column.origins[1].module = f"modules/{NOBODY}"
    columns = client._calls.unary(method, SymbolizeRequest(module=name, packed_queries=column)).packed_answers
    assert [columns.locations.reason[number] for number in columns.location] == [
        Reason.UNKNOWN_KERNEL,
        Reason.UNKNOWN_MODULE,
    ]


def test_sections_of_queries_in_memory_and_of_modules_answer_in_columns(parts, modules, stopped):
    """Queries one by one, of which some are in device memory, also come as columns."""
    client = parts["client"]
    request = SymbolizeRequest(module=f"modules/{modules[1].sha256}", form=2)
    request.queries.extend(
        [at(stopped, HEAP + 0x10368), Query(function_offset=FunctionOffset(function="raycast", offset=0x368))]
    )
    columns = client._calls.unary(client._calls.stubs.symbols.Symbolize, request).packed_answers
    assert (columns.count, columns.location[0]) == (2, columns.location[1])
    assert list(columns.modules) == ["", f"modules/{modules[1].sha256}"]
    assert BySection(columns.text_sections[1].section_index, 0x368) == BySection(
        modules[1].objects[0].kernels[0].section_index, 0x368
    )
