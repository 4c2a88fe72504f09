"""A module's description in and out of an index file."""

from __future__ import annotations

import math
from contextlib import suppress

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd.errors import DataLoss
from symd.formats.lazy import LazyMapping, LazySequence
from symd.index import summary as index_summary
from symd.index.summary import PackedFacts, pack, pack_objects, unpack
from symd.model.summaries import ContainerSummary, KernelSummary, ModuleSummary, ObjectSummary
from tests.hostile.growth import steps

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
FACTS = st.dictionaries(st.text(st.characters(codec=None)), VALUES, max_size=4)
KERNEL = KernelSummary("shade", ".text", 7, 256, 180, {"registers": 21})
OBJECT = ObjectSummary("a/b", "amdgpu", "gfx900", 99, "ab" * 32, "dwarf-5", (KERNEL,), {"os": "amdhsa"}, ("a note",))
MODULE = ModuleSummary("cd" * 32, 1 << 40, "archive", (OBJECT,), ("left out",), (ContainerSummary("", "archive", 7),))


def with_facts(facts) -> ModuleSummary:
    return MODULE._replace(objects=(OBJECT._replace(facts=facts, kernels=(KERNEL._replace(facts=facts),)),))


@pytest.mark.parametrize(
    "summary", [MODULE, ModuleSummary("", 0, "spirv"), MODULE._replace(objects=(OBJECT._replace(target=None),))]
)
def test_a_summary_comes_back(summary):
    assert unpack(pack(summary)) == summary


@given(FACTS)
def test_facts_come_back_whatever_they_hold(facts):
    """Whole numbers of any size, halves of surrogate pairs; the keys in their order."""
    back = unpack(pack(with_facts(facts))).objects[0]
    assert back.facts == facts == back.kernels[0].facts
    assert repr(back.facts) == repr(facts)  # True is not 1, and 1 is not 1.0


@pytest.mark.parametrize(
    "number", [1 << 63, (1 << 64) - 1, 1 << 64, -(1 << 63), -(1 << 63) - 1, 10**20, -(10**20), -(1 << 127)]
)
def test_whole_numbers_of_more_than_64_bits_come_back(number):
    assert unpack(pack(with_facts({"n": [number]}))).objects[0].facts == {"n": [number]}


def test_numbers_that_are_none_come_back_so():
    assert math.isnan(unpack(pack(with_facts({"n": math.nan}))).objects[0].facts["n"])


def test_facts_and_notes_that_waited_are_read():
    late = with_facts(LazyMapping(lambda: {"registers": 3, "arguments": [{"size": 8}]}))
    late = late._replace(objects=(late.objects[0]._replace(notes=LazySequence(lambda: ("a", "b"))),))
    [item] = unpack(pack(late)).objects
    assert (item.notes, item.facts) == (("a", "b"), {"registers": 3, "arguments": [{"size": 8}]})
    assert type(item.facts) is dict is type(item.kernels[0].facts)


@given(st.lists(FACTS, min_size=1, max_size=4), st.data())
def test_of_many_kernels_those_that_share_facts_keep_their_own(known, data):
    """Shared, equal but not the same, waiting, and made anew at each look: what is packed is what msgpack packs in one go."""
    chosen = data.draw(st.lists(st.sampled_from(known), min_size=40, max_size=60))
    kinds = [
        lambda facts: facts,
        dict,
        lambda facts: LazyMapping(facts.copy),
        lambda facts: PackedFacts(packed_facts(facts)),
    ]
    kernels = tuple(
        KERNEL._replace(name=f"k\ud800{number}", offset=number << 40, facts=data.draw(st.sampled_from(kinds))(facts))
        for number, facts in enumerate(chosen)
    )
    summary = MODULE._replace(objects=(OBJECT, OBJECT._replace(kernels=kernels), OBJECT))
    few = [OBJECT._replace(kernels=(kernel,)) for kernel in kernels]
    back = unpack(pack(summary)).objects
    assert back[0] == back[2] == OBJECT
    assert [repr(kernel.facts) for kernel in back[1].kernels] == [repr(facts) for facts in chosen]
    assert back[1].kernels == tuple(unpack(pack(MODULE._replace(objects=(one,)))).objects[0].kernels[0] for one in few)


def packed_facts(facts) -> bytes:
    """As ``pack`` has them."""
    packed, nothing = pack_objects(OBJECT._replace(kernels=(), facts=each, notes=()) for each in (facts, {}))
    return packed[len(nothing) - 2 : -1]


def test_what_is_not_json_is_refused_with_its_type():
    with pytest.raises(TypeError, match="facts hold a set"):
        pack(with_facts({"n": {1}}))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"{}",
        msgpack.packb(None),
        msgpack.packb({}),
        msgpack.packb(["", 0, "", [], []]),
        msgpack.packb(["", 0, "", [["", "", None]], [], []]),
        msgpack.packb(["", 0, "", [["", "", None, 0, "", "", [[1]], {}, []]], [], []]),
        msgpack.packb(["", 0, "", 5, [], []]),
        msgpack.packb(["", msgpack.ExtType(9, b""), "", [], [], []]),
        pack(MODULE) + b"\0",
    ],
)
def test_what_is_no_summary_is_lost_data(data):
    with pytest.raises(DataLoss, match="summary"):
        unpack(data)


def test_a_summary_that_was_cut_is_lost_data():
    whole = pack(MODULE)
    for length in range(len(whole)):
        with pytest.raises(DataLoss):
            unpack(whole[:length])


@given(st.data())
def test_damage_costs_an_answer_or_lost_data(data):
    damaged = bytearray(pack(MODULE))
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] = data.draw(st.integers(0, 255))
    with suppress(DataLoss):
        unpack(bytes(damaged))


@pytest.fixture
def long(monkeypatch):
    """Every summary is taken for a long one."""
    monkeypatch.setattr(index_summary, "_LONG", 0)


@pytest.mark.usefixtures("long")
def test_of_a_long_summary_the_facts_of_kernels_wait():
    facts = {"n": [1 << 70], "name": "\ud800", "arguments": [{"size": 8}, {}]}
    packed = pack(with_facts(facts))
    back = unpack(packed)
    waiting = back.objects[0].kernels[0].facts
    assert isinstance(waiting, PackedFacts)
    assert back == with_facts(facts)
    assert pack(back) == packed
    assert list(waiting.items()) == list(facts.items())
    assert waiting.value() is not waiting.value()


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize("change", [lambda data: data[:-3], lambda data: data + b"\0", lambda data: b"\x90" + data[1:]])
def test_a_long_summary_that_is_damaged_is_refused(change):
    with pytest.raises(DataLoss, match="summary"):
        unpack(change(pack(MODULE)))


@pytest.mark.usefixtures("long")
def test_facts_that_are_damaged_say_so_when_somebody_looks():
    packed = pack(with_facts({"name": "registers"}))
    at = packed.rindex(b"registers", 0, packed.rindex(b"registers"))
    back = unpack(packed[:at] + b"\xff" + packed[at + 1 :])
    with pytest.raises(DataLoss, match="summary"):
        back.objects[0].kernels[0].facts["name"]


@pytest.mark.parametrize("kernels", [1, 40])
def test_facts_and_notes_without_measure_are_not_kept(kernels):
    """A kernel of 100,000 arguments: 40 clients that listed it took the daemon's own process to 1.1 GB."""
    many, some = {"arguments": [{"size": 4}] * 50_000}, {"arguments": [{"size": 4}] * 1_000}
    large = [KERNEL._replace(name=f"k{number}", facts=many) for number in range(kernels)]
    small = [KERNEL._replace(name=f"s{number}", facts=some) for number in range(kernels)]
    notes = ("x" * 1000,) * 300
    item = OBJECT._replace(kernels=(*large, *small), facts=many, notes=notes)
    containers = (
        ContainerSummary("", "archive", 7, {"arguments": [{"size": 4}] * 30_000}),
        ContainerSummary("a", "archive", 7, {"entries": "y" * (5 << 20)}),
    )
    found = unpack(pack(MODULE._replace(objects=(item, OBJECT), containers=containers)))
    (read, other), (kept, left_out) = found.objects, found.containers
    said = {"left_out": "facts of 350,014 bytes, more than 262,144"}
    assert [dict(each.facts) for each in read.kernels] == [said] * kernels + [some] * kernels
    assert [each.name for each in read.kernels] == [each.name for each in item.kernels]
    assert (read.facts, other, kept) == (said, OBJECT, containers[0])
    assert read.notes == ("300 notes are not shown: they take 300,903 bytes, more than 262,144",)
    assert left_out.facts == {"left_out": "facts of 5,242,894 bytes, more than 4,194,304"}


def test_facts_of_a_module_that_has_too_many_are_left_out(monkeypatch):
    """A file of 3 MB, compressed, whose 3,000 kernels have an argument with a long name each: it took the daemon's own process to 2.2 GB."""
    monkeypatch.setattr(index_summary, "MAX_DESCRIBED", 100_000)
    facts = {"registers": 21}
    kernels = [KERNEL._replace(facts=facts | {"arguments": [{"name": f"{n}" * 2_000}]}) for n in range(40)]
    large = OBJECT._replace(kernels=(KERNEL, *kernels), facts={"os": "x" * 2_000}, notes=("y" * 2_000,))
    few = OBJECT._replace(kernels=(*kernels[:3],), facts={"os": "x" * 2_000})
    said = {"left_out": "the module has too many facts"}
    read, other = unpack(pack(MODULE._replace(objects=(large, few)))).objects
    assert [dict(each.facts) for each in read.kernels] == [facts] + [said] * 40
    assert (read.facts, read.notes) == (said, ("notes are not shown: the module has too many",))
    assert [each._replace(facts=None) for each in read.kernels] == [each._replace(facts=None) for each in large.kernels]
    assert (other.facts, other.notes, dict(other.kernels[0].facts)) == (said, few.notes, said)
    assert unpack(pack(MODULE._replace(objects=(few,)))).objects == (few,)


def test_facts_of_containers_are_left_out_where_all_of_them_leave_no_room(monkeypatch):
    monkeypatch.setattr(index_summary, "MAX_DESCRIBED", 100_000)
    containers = tuple(ContainerSummary(f"{n}", "archive", 7, {"entries": "y" * 3_000}) for n in range(40))
    read = unpack(pack(MODULE._replace(containers=containers)))
    said = {"left_out": "the module has too many facts"}
    assert [each.facts for each in read.containers] == [each.facts for each in containers[:33]] + [said] * 7


def test_kernels_whose_names_are_too_much_are_counted_in_a_note(monkeypatch):
    """266 KB of a zebin whose 800 text sections have one long name took the daemon's own process to 550 MB."""
    monkeypatch.setattr(index_summary, "MAX_DESCRIBED", 100_000)
    long = tuple(KERNEL._replace(name=f"{n}" * 3_000, section="s" * 20_000, facts={}) for n in range(9))
    few, none = OBJECT._replace(kernels=(KERNEL,)), OBJECT._replace(kernels=())
    read = unpack(pack(MODULE._replace(objects=(few, OBJECT._replace(kernels=long), few, none))))
    why = "not listed: the names of all take more than 100,000 bytes"
    assert (read.objects[0], read.objects[3]) == (few, none)
    assert read.objects[1] == OBJECT._replace(kernels=long[:4], notes=(*OBJECT.notes, f"5 kernels are {why}"))
    assert read.objects[2].kernels == few.kernels


def test_equal_facts_of_kernels_are_one_value():
    kernels = tuple(KERNEL._replace(name=f"{n:05}", facts={"n": [n % 2] * 100}) for n in range(4_000))
    read = unpack(pack(MODULE._replace(objects=(OBJECT._replace(kernels=kernels),)))).objects[0].kernels
    assert len({id(each.facts) for each in read}) == 2
    assert read == kernels


@pytest.mark.parametrize("kernels", [1, 40])
def test_facts_of_very_many_values_are_not_kept(kernels):
    """Of 262,000 arguments of which nothing is said, a byte each: 40 clients that listed such kernels took the daemon's own process to 744 MB."""
    many, some = {"arguments": [{}] * 20_000}, {"arguments": [{}] * 16_000}
    large = [KERNEL._replace(name=f"k{number}", facts=each) for number in range(kernels) for each in (many, some)]
    opened = (ContainerSummary("", "archive", 7, some), ContainerSummary("", "archive", 7, {"a": [[0]] * 40_000}))
    read = unpack(pack(MODULE._replace(objects=(OBJECT._replace(kernels=large, facts=many),), containers=opened)))
    said = {"left_out": "facts of more than 16,384 values"}
    assert [dict(each.facts) for each in read.objects[0].kernels] == [said, some] * kernels
    assert (read.objects[0].facts, read.containers[0]) == (said, opened[0])
    assert read.containers[1].facts == {"left_out": "facts of more than 65,536 values"}


def test_long_lists_of_numbers_take_no_step_for_each_number():
    """Attributes of CUDA's kernels list offsets: 1.8 million in a library of 60 MB."""
    long, longer = ({"offsets": [70_000] * count} for count in (8_000, 16_000))
    assert steps(lambda: pack(with_facts(longer))) < steps(lambda: pack(with_facts(long))) + 1_000


def test_kernels_beyond_as_many_as_are_listed_are_counted_in_a_note(monkeypatch):
    """A file of 20 MB, compressed, with a million kernels took the daemon's own process to 557 MB."""
    monkeypatch.setattr(index_summary, "MAX_KERNELS", 5)
    kernels = tuple(KERNEL._replace(name=f"{n}") for n in range(7))
    three, seven = OBJECT._replace(kernels=kernels[:3]), OBJECT._replace(kernels=kernels, notes=("a note",))
    read = unpack(pack(MODULE._replace(objects=(three, seven, three, OBJECT._replace(kernels=())))))
    assert read.objects[0] == three
    assert read.objects[1] == seven._replace(
        kernels=kernels[:2], notes=("a note", "5 kernels are not listed: the module has more than 5")
    )
    assert read.objects[2].kernels == ()
    assert read.objects[2].notes == (*three.notes, "3 kernels are not listed: the module has more than 5")
    assert read.objects[3] == OBJECT._replace(kernels=())
    five = MODULE._replace(objects=(three, OBJECT._replace(kernels=kernels[:2])))
    assert unpack(pack(five)) == five
