"""What a watch tells of loads that lie over one another, and of loads of one code object of several: in-process and over the channel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from symd.api import Symbolizer
from symd.errors import BadQuery, KernelNotFound, ModuleNotFound
from symd.model.addresses import ByAddress, ByDevice, ByKernel, DeviceAddress, KernelOffset
from symd.model.answers import Reason
from symd.model.breakpoints import Breakpoint, FunctionName, SourceLine
from symd.model.contexts import Context, Load, Segment, Unload
from symd.model.identities import ObjectPath
from symd.model.watches import ChangeAcknowledged, LoadBegan, LoadEnded, PlacesGone, Resolved, Watching
from tests.client.test_module_watch import HEAP, RAYCAST, VADD, Served, at_kernel, taken
from tests.client.test_watch import LINE, kinds

SAMPLES = Path(__file__).parents[2] / "samples"
LOW = HEAP & (1 << 48) - 1


@pytest.fixture(params=["engine", "client"])
def symd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Symbolizer]:
    served = Served(tmp_path)
    with served.stack:
        engine, client, _ = served.begin()
        yield engine if request.param == "engine" else client


def over(digest: str, address: int, size: int, time: int, key: str) -> Load:
    return Load(digest, time, (Segment(DeviceAddress(address), size, ByKernel("raycast", KernelOffset(0))),), key=key)


def test_what_a_later_load_covers_is_told_to_be_gone_and_answers_no_breakpoint_any_more(symd: Symbolizer) -> None:
    vadd, raycast = (symd.add(each).sha256 for each in (VADD, RAYCAST))
    name = symd.contexts.add(Context("host", 1, address_bits=48))
    again = Breakpoint("again", SourceLine("vadd.cl", 8))
    with symd.watch([LINE], contexts=[name], only_new=True) as watch:
        assert taken(watch, 1) == [Watching()]
        symd.contexts.record(name, [Load(vadd, 10, (at_kernel(HEAP, "vadd"),), key="under")])
        began, answered = taken(watch, 2)
        assert kinds([began, answered]) == [LoadBegan, Resolved]
        addresses = [at for each in answered.answer.locations for at in each.device_addresses]
        assert addresses
        symd.contexts.record(name, [over(raycast, LOW, 0x100000, 20, "over")])
        began, gone = taken(watch, 2)
        assert (began.loaded.load.key, type(gone), gone.id) == ("over", PlacesGone, "line")
        assert gone.answer == answered.answer
        assert (gone.unloaded.load.key, gone.unloaded.load.unload_time) == ("under", None)
        watch.add(again)
        answer, acknowledged = taken(watch, 2)
        assert (answer.id, answer.loaded.load.key) == ("again", "under")
        assert [each.device_addresses for each in answer.answer.locations] == [() for _ in gone.answer.locations]
        assert answer.answer == symd.locate(vadd, SourceLine("vadd.cl", 8), context=name)
        assert acknowledged == ChangeAcknowledged(("again",))
        symd.contexts.record(name, [Unload("under", 30), Unload("over", 40)])
        assert kinds(taken(watch, 2)) == [LoadEnded, LoadEnded]  # and nothing is gone once more
    for address in addresses:
        assert symd.contexts.symbolize(name, [address], 25)[0].module == raycast


def test_only_the_bytes_that_are_covered_are_gone(symd: Symbolizer) -> None:
    """The places of vadd.cl:8 in a copy of vadd loaded twice: the bytes of one of them are given to another module."""
    vadd, raycast = (symd.add(each).sha256 for each in (VADD, RAYCAST))
    name = symd.contexts.add(Context("host", 1, address_bits=48))
    far = HEAP + 0x40000
    with symd.watch([LINE], contexts=[name], only_new=True) as watch:
        taken(watch, 1)
        loads = [Load(vadd, 10, (at_kernel(at, "vadd"),), key=key) for at, key in ((HEAP, "near"), (far, "far"))]
        symd.contexts.record(name, loads)
        _, near, _, distant = taken(watch, 4)
        (place,) = near.answer.locations
        (address,) = place.device_addresses
        symd.contexts.record(name, [over(raycast, address + 8, 8, 20, "behind")])
        assert kinds(taken(watch, 1)) == [LoadBegan]
        symd.contexts.record(name, [over(raycast, address, 8, 30, "on it")])
        _, gone = taken(watch, 2)
        assert (gone.unloaded.load.key, gone.answer) == ("near", near.answer)
        symd.contexts.record(name, [over(raycast, address - 8, 24, 40, "on that"), Unload("near", 50)])
        assert kinds(taken(watch, 2)) == [LoadBegan, LoadEnded]  # it was gone already
        symd.contexts.record(name, [Unload("far", 60)])
        assert [each.answer for each in taken(watch, 2)[1:]] == [distant.answer]


def test_a_load_that_began_earlier_than_one_recorded_before_it_lies_under_it(symd: Symbolizer) -> None:
    vadd, raycast = (symd.add(each).sha256 for each in (VADD, RAYCAST))
    name = symd.contexts.add(Context("host", 1, address_bits=48))
    here = Load(vadd, 20, (at_kernel(HEAP, "vadd"),), key="late")
    with symd.watch([LINE, Breakpoint("r", FunctionName("raycast"))], contexts=[name], only_new=True) as watch:
        taken(watch, 1)
        symd.contexts.record(name, [here, over(raycast, LOW, 0x100000, 10, "early")])
        began, late, before, early = taken(watch, 4)
        assert (began.loaded.load.key, before.loaded.load.key) == ("late", "early")
        assert all(each.device_addresses for each in late.answer.locations)
        held = {at for each in early.answer.locations for at in each.device_addresses}
    size = symd.module(vadd).objects[0].kernels[0].size or 0
    assert all(not HEAP <= at < HEAP + size for at in held)
    entries = symd.locate(raycast, FunctionName("raycast")).locations
    kernel = symd.module(raycast).objects[0].kernels[0]
    wanted = {HEAP + each.section_offset - kernel.offset for each in entries}
    assert held == {at for at in wanted if not HEAP <= at < HEAP + size}


def test_loads_of_one_time_with_different_code_are_ambiguous_and_equal_ones_are_not(symd: Symbolizer) -> None:
    vadd, raycast = (symd.add(each).sha256 for each in (VADD, RAYCAST))
    same, other = (symd.contexts.add(Context("host", number, address_bits=48)) for number in (1, 2))
    one = Load(vadd, 10, (at_kernel(HEAP, "vadd"),), key="one")
    symd.contexts.record(same, [one, Load(vadd, 10, one.segments, key="two")])
    symd.contexts.record(other, [one, over(raycast, LOW, 0x100000, 10, "two")])
    (place,) = symd.locate(vadd, "vadd.cl:8", context=same).locations
    assert symd.contexts.symbolize(same, place.device_addresses)[0].module == vadd
    ambiguous = symd.contexts.symbolize(other, place.device_addresses)[0]
    assert ambiguous.answer.reason is Reason.AMBIGUOUS
    assert {each.module for each in ambiguous.candidates} == {vadd, raycast}
    in_scope = symd.variables("", ByDevice(other, place.device_addresses[0]))
    assert (in_scope.at, in_scope.device_candidates) == (ambiguous.answer, ambiguous.candidates)
    assert [each.device_addresses for each in symd.locate(vadd, "vadd.cl:8", context=other).locations] == [()]


def test_a_load_of_one_code_object_answers_with_the_places_in_that_one(symd: Symbolizer) -> None:
    """odd.bundle has shade.cl compiled for gfx900 and for gfx90a."""
    digest = symd.add((SAMPLES / "amdgpu/bin/odd.bundle").read_bytes()).sha256
    path = ObjectPath("hipv4-amdgcn-amd-amdhsa--gfx900")
    name = symd.contexts.add(Context("host", 1))
    with symd.watch([Breakpoint("b", SourceLine("shade.cl", 13))], only_new=True) as watch:
        taken(watch, 1)
        segments = (Segment(DeviceAddress(0x10000), 0x1000, ByAddress(0x1000)),)
        symd.contexts.record(name, [Load(digest, 1, segments, key="k", path=path)])
        _, answer = taken(watch, 2)
        symd.contexts.record(name, [Unload("k", 2)])
        *_, gone = taken(watch, 2)
    everywhere = symd.locate(digest, "shade.cl:13").locations
    assert {each.path for each in everywhere} > {path}
    told = {(each.path, *each.device_addresses) for each in answer.answer.locations}
    assert told == {(path, 0x10000 + each.address - 0x1000) for each in everywhere if each.path == path}
    assert gone.answer == answer.answer


def test_a_segment_without_a_size_reaches_to_the_end_of_the_function_that_it_names(symd: Symbolizer) -> None:
    """march of v4-gfx900.co is no kernel; its symbol has 76 bytes, and the next function begins 256 bytes after it."""
    digest = symd.add((SAMPLES / "amdgpu/bin/v4-gfx900.co").read_bytes()).sha256
    name = symd.contexts.add(Context("host", 1))
    march = Segment(DeviceAddress(0x5000), 0, ByKernel("march", KernelOffset(4)))
    symd.contexts.record(name, [Load(digest, 1, (march, at_kernel(0x9000, "shade")))])
    ((_, load),) = symd.contexts.loads(name)
    assert [each.size for each in load.segments] == [76 - 4, 180]
    (place,) = symd.locate(digest, ByKernel("march", KernelOffset(0x48)), context=name).locations
    assert place.device_addresses == (0x5000 + 0x48 - 4,)
    answer = symd.contexts.symbolize(name, place.device_addresses)[0].answer
    assert (answer.frames[0].function, answer.address) == ("march", 0x1848)
    for lost, what in (("marsh", "no code at marsh[+]0x0"), ("shade.kd", "no code at shade.kd[+]0x0")):
        with pytest.raises(KernelNotFound, match=what):
            symd.contexts.record(name, [Load(digest, 1, (at_kernel(0x5000, lost),))])


def test_what_is_missing_for_a_load_is_said_with_what_to_do(symd: Symbolizer) -> None:
    digest = symd.add((SAMPLES / "amdgpu/bin/odd.bundle").read_bytes()).sha256
    name = symd.contexts.add(Context("host", 1))
    with pytest.raises(ModuleNotFound, match="say each segment with its size"):
        symd.contexts.record(name, [Load("0" * 64, 1, (at_kernel(0x5000, "shade"),))])
    with pytest.raises(ModuleNotFound, match="say each segment with its size"):
        symd.contexts.record(name, [Load("0" * 64, 1, load_base=0)])
    with pytest.raises(BadQuery, match=r"overlap.*name the code object"):
        symd.contexts.record(name, [Load(digest, 1, load_base=0x10000)])
