"""A partial index answers as the whole index does, from less: on every sample, and on objects of many units."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from symd.config import Limits
from symd.debuginfo.reading import read_part
from symd.errors import SymdError
from symd.formats import containers
from symd.index import Index, build
from symd.index.module import decoded_objects
from symd.index.partial import MAX_DECODED, MIN_OBJECTS, PartialIndex
from symd.model.addresses import ByAddress, ByKernel, BySection, KernelOffset, ObjectAddress, Query, SectionOffset
from symd.model.answers import Reason
from symd.model.code import CodeObject
from symd.model.summaries import ModuleSummary
from symd.query.symbolize import symbolize
from tests.builders import igc
from tests.tools import require

SAMPLES = Path(__file__).parents[2] / "samples"
FILES = sorted(path for path in SAMPLES.rglob("*") if "bin" in path.parts and path.is_file())
NO_SUMMARY = ModuleSummary("", 0, "")
ASKED = 24
"""Questions about each file; one partial is asked a few of them."""


def opened(data: bytes) -> tuple[CodeObject, ...]:
    return containers.unpack(data, Limits()).objects


def whole(objects: tuple[CodeObject, ...]) -> Index:
    return Index(build(decoded_objects(objects), NO_SUMMARY))


def questions(objects: tuple[CodeObject, ...], seed: int) -> Iterator[tuple[Query, str | None]]:
    """Every kind of query, about random places of random text sections, with and without the object's path."""
    chance = random.Random(seed)
    texts = [(code, text) for code in objects for text in code.sections if text.executable and text.size]
    while texts:
        code, text = chance.choice(texts)
        offset = chance.randrange(text.size)
        path = chance.choice((code.path, code.path, None))
        kinds: list[Query] = [
            BySection(text.index, SectionOffset(offset)),
            ByAddress(ObjectAddress(text.address + offset)),
        ]
        if code.kernels:
            kernel = chance.choice(code.kernels)
            kinds.append(ByKernel(kernel.name, KernelOffset(chance.randrange(kernel.size + 8))))
        if code.functions:
            function = chance.choice(code.functions)
            kinds.append(ByKernel(function.name, KernelOffset(chance.randrange(function.size + 8))))
        yield chance.choice(kinds), path


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(SAMPLES)) for path in FILES])
def test_an_excerpt_answers_as_the_whole_index(path: Path) -> None:
    try:
        objects = opened(path.read_bytes())
    except SymdError:
        pytest.skip("is no module by itself")
    everything, partial = whole(objects), PartialIndex(objects, NO_SUMMARY, units=True)
    for (query, at), number in zip(questions(objects, 7), range(ASKED), strict=False):
        partial = PartialIndex(objects, NO_SUMMARY, units=True) if number % 4 == 0 else partial
        found = partial.index([query], at)
        if found is not None:
            assert symbolize(found, [query], at)[0] == symbolize(everything, [query], at)[0], (query, at)


SOURCE = """\
static float twice(float x) {{
    return x + x * {k}.5f;
}}

kernel void kernel_{k}(global float *out, int n) {{
    float value = out[n];
    for (int i = 0; i < n; ++i)
        value = twice(value) + (float)i;
    out[n + 1] = value;
}}
"""
UNITS = 5


@pytest.fixture(scope="module", params=["linked", "relocatable"])
def units(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[CodeObject, ...]:
    """An AMD code object of several translation units, with one function a text section where it is relocatable."""
    folder = tmp_path_factory.mktemp("units")
    clang, linker = require("clang"), require("ld.lld")
    flags = ["-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx900", "-nogpulib", "-O1", "-g"]
    for number in range(UNITS):
        (folder / f"k{number}.cl").write_text(SOURCE.format(k=number))
        subprocess.run([clang, *flags, "-c", "-o", f"k{number}.o", f"k{number}.cl"], cwd=folder, check=True)
    how = ["-shared"] if request.param == "linked" else ["-r"]
    names = [f"k{number}.o" for number in range(UNITS)]
    subprocess.run([linker, *how, "-o", "whole", *names], cwd=folder, check=True)
    return opened((folder / "whole").read_bytes())


def test_units_that_nobody_asks_for_are_not_decoded(units: tuple[CodeObject, ...]) -> None:
    everything = whole(units)
    partial = PartialIndex(units, NO_SUMMARY, units=True)
    for number in range(UNITS - 1):
        kernel = f"kernel_{number}"
        queries = [ByKernel(kernel, KernelOffset(offset)) for offset in range(0, 64, 4)]
        for query in queries:
            found = partial.index([query])
            assert found is not None
            answer = symbolize(found, [query])[0]
            assert answer == symbolize(everything, [query])[0]
            assert answer.frames[-1].function == kernel
        assert int(found.columns.object_rows[0]) < int(everything.columns.object_rows[0])
    assert partial.index([ByKernel(f"kernel_{UNITS - 1}", KernelOffset(0))]) is None, "that would be all"


def test_a_kernel_is_known_wherever_its_offset_leads(units: tuple[CodeObject, ...]) -> None:
    everything = whole(units)
    far = ByKernel("kernel_1", KernelOffset(1 << 40))
    for queries in ([far], [ByKernel("kernel_0", KernelOffset(8)), far]):
        partial = PartialIndex(units, NO_SUMMARY, units=True)
        for query in queries:
            found = partial.index([query])
            assert found is not None
            assert symbolize(found, [query])[0] == symbolize(everything, [query])[0]
        assert symbolize(found, [far])[0].reason is Reason.OUTSIDE_TEXT


def test_an_address_of_no_unit_is_left_to_the_whole_index(units: tuple[CodeObject, ...]) -> None:
    text = next(section for section in units[0].sections if section.executable and section.size)
    queries = [BySection(text.index, SectionOffset(place)) for place in range(0, text.size, 4)]
    beyond = [query for query in queries if PartialIndex(units, NO_SUMMARY, units=True).index([query]) is None]
    outside = BySection(text.index, SectionOffset(text.size))
    everything = whole(units)
    found = PartialIndex(units, NO_SUMMARY, units=True).index([outside])
    assert found is not None
    assert symbolize(found, [outside])[0] == symbolize(everything, [outside])[0]
    gaps = [query for query in queries if symbolize(everything, [query])[0].reason is Reason.GAP]
    assert set(beyond) <= set(gaps)
    assert len(beyond) < len(queries)


def container(count: int) -> tuple[CodeObject, ...]:
    """The same kernel under many names."""
    code = opened((SAMPLES / "kernels" / "bin" / "raycast" / "dg2-opt.dbg").read_bytes())[0]
    return opened(igc.debug_container([igc.DebugRecord(f"ray_{number}", code.data) for number in range(count)]))


def test_of_many_code_objects_those_are_decoded_that_are_asked_for() -> None:
    objects = container(MIN_OBJECTS)
    everything = whole(objects)
    partial = PartialIndex(objects, NO_SUMMARY, units=True)
    for number in range(MAX_DECODED):
        query = ByKernel(f"ray_{number}", KernelOffset(16))
        found = partial.index([query])
        assert found is not None
        assert symbolize(found, [query])[0] == symbolize(everything, [query])[0]
        assert [bool(count) for count in found.columns.object_rows.tolist()] == [
            other <= number for other in range(MIN_OBJECTS)
        ]
    assert partial.index([ByKernel(f"ray_{MAX_DECODED}", KernelOffset(16))]) is None, "who asks on wants all"
    assert partial.index([ByKernel("ray_0", KernelOffset(16))]) is not None


@pytest.mark.parametrize("count", [2, MIN_OBJECTS])
@pytest.mark.parametrize("query", [ByAddress(ObjectAddress(16)), BySection(".text", SectionOffset(16))])
def test_a_place_of_several_code_objects_decodes_none(count: int, query: Query) -> None:
    objects = container(count)
    partial = PartialIndex(objects, NO_SUMMARY, units=True)
    found = partial.index([query])
    assert found is not None
    assert not found.columns.object_rows.any()
    (answer,) = symbolize(found, [query])
    assert answer == symbolize(whole(objects), [query])[0]
    assert [candidate.kernel for candidate in answer.candidates] == [f"ray_{number}" for number in range(count)]


def test_a_code_object_of_which_kernels_alone_were_asked_is_decoded_when_its_lines_are() -> None:
    objects = container(MIN_OBJECTS)
    partial = PartialIndex(objects, NO_SUMMARY, units=True)
    partial.index([ByAddress(ObjectAddress(16))])
    query = ByKernel("ray_3", KernelOffset(16))
    found = partial.index([query])
    assert found is not None
    assert symbolize(found, [query])[0] == symbolize(whole(objects), [query])[0]


def test_few_code_objects_are_decoded_whole_or_not_at_all() -> None:
    objects = container(MIN_OBJECTS - 1)
    assert PartialIndex(objects, NO_SUMMARY, units=True).index([ByKernel("ray_0", KernelOffset(16))]) is None


def test_a_kernel_that_nobody_knows_yet_needs_all() -> None:
    query = ByKernel("nobody", KernelOffset(0))
    nameless = (
        *container(2),
        *opened((SAMPLES / "kernels" / "bin" / "raycast" / "dg2-opt-patch.raycast.elf").read_bytes()),
    )
    assert any(code.kernel_named_by_debug_data for code in nameless)
    assert PartialIndex(nameless, NO_SUMMARY, units=True).index([query]) is None
    assert PartialIndex(container(2), NO_SUMMARY, units=True).index([query]) is None, "debug data may have the name"


def test_a_name_that_one_kernel_has_may_be_that_of_another_which_nobody_knows_yet() -> None:
    dump = (SAMPLES / "kernels" / "bin" / "raycast" / "dg2-opt-patch.raycast.elf").read_bytes()
    objects = (*container(MIN_OBJECTS), *opened(dump))
    known = next(kernel.name for code in objects for kernel in code.kernels)
    renamed = tuple(
        code._replace(kernels=tuple(k._replace(name="raycast") if k.name == known else k for k in code.kernels))
        for code in objects
    )
    query = ByKernel("raycast", KernelOffset(16))
    assert symbolize(whole(renamed), [query])[0].reason is Reason.AMBIGUOUS
    assert PartialIndex(renamed, NO_SUMMARY, units=True).index([query]) is None


def test_an_offset_beyond_every_kernel_of_a_name_is_outside_for_both() -> None:
    objects = opened((SAMPLES / "amdgpu" / "bin" / "host").read_bytes())
    kernel = "_Z5shadePfPKfi"
    assert sum(each.name == kernel for code in objects for each in code.kernels) > 1
    query = ByKernel(kernel, KernelOffset(0x99999))
    partial = PartialIndex(objects, NO_SUMMARY, units=True).index([query])
    assert partial is not None
    for index in (partial, whole(objects)):
        assert symbolize(index, [query])[0].reason is Reason.OUTSIDE_TEXT


def test_text_of_no_function_needs_all(units: tuple[CodeObject, ...]) -> None:
    """A row without a line is given an earlier one of the same owner, which may be nobody, in whichever unit."""
    query = ByKernel("kernel_0", KernelOffset(0))
    bare = tuple(code._replace(functions=()) for code in units)
    assert PartialIndex(bare, NO_SUMMARY, units=True).index([query]) is not None, "the debug data has the function"
    (code,) = units
    found = read_part(code, places(code, 0))
    assert found is not None
    scopes = found.debug.scopes
    start, end = scopes.range_offset.tolist(), scopes.range_end.tolist()
    held = set(zip(scopes.range_section.tolist(), start, end, strict=True))
    held |= {(each.section_index, each.offset, each.offset + each.size) for each in code.functions}
    part = zip(found.text.section.tolist(), found.text.start.tolist(), found.text.end.tolist(), strict=True)
    assert set(part) <= held


def places(code: CodeObject, offset: int) -> list[tuple[int, int]]:
    kernel = code.kernels[0]
    return [(kernel.section_index, kernel.offset + offset)]
