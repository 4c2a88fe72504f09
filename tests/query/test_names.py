"""Names found by whole name, beginning and pattern; on samples the functions are those of the symbol table."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import BadQuery, ObjectNotFound
from symd.index import Index
from symd.index.module import build_index
from symd.model.cancellation import cancelled_by
from symd.model.names import Match, NamedItem, NameKind, NameQuery
from symd.query.names import MAX_MATCHED, MAX_PATTERN, _text_matcher, find_names
from tests.agreement import ours
from tests.agreement.samples import Sample, samples
from tests.formats.containers.amd import objects
from tests.query.small import E, Object, S, Scope, index
from tests.tools import output, require

ROOT = Path(__file__).parents[2]
MODULE = index(
    Object(
        "one",
        [(0, 1, S), (0x20, 0, E)],
        [
            Scope("k", 0, 0x20),
            Scope("march<float>", 8, 0x10, 0, 1, "_ZN7shading5marchIfEET_S1_i"),
            Scope("march<float>", 0x10, 0x18, 0, 1, "_ZN7shading5marchIfEET_S1_i"),
            Scope("blend", 0x40, 0x50, linkage_name="_ZN7shading5blendEff"),
        ],
        kernels=[],
        symbols=[("k", 0, 0x20), ("_Z4toneff", 0x60, 0x10)],
        files=("", "/src/a.cl", "/src/lib/b.h"),
    ),
    Object("two", kernels=[], symbols=[("k", 0x10, 8)], files=("",)),
)


def names(pattern: str, match: Match = Match.EXACT, *kinds: NameKind, path: str | None = None) -> list[str]:
    return [each.name for each in find_names(MODULE, NameQuery(pattern, match, frozenset(kinds)), path)]


@pytest.mark.parametrize("pattern", ["march<float>", "march", "shading::march", "_ZN7shading5marchIfEET_S1_i"])
def test_a_function_is_found_by_each_of_its_names(pattern: str) -> None:
    assert names(pattern) == ["march<float>"]


def test_a_name_that_only_a_symbol_has_is_read() -> None:
    assert names("tone") == names("_Z4toneff") == ["_Z4toneff"]


def test_a_part_of_a_name_is_no_name() -> None:
    assert names("marc") == names("shading") == names("float") == names("Tone") == []


def test_a_prefix_is_of_any_of_the_names() -> None:
    assert names("shading::", Match.PREFIX) == names("_ZN7", Match.PREFIX) == ["blend", "march<float>"]
    assert names("mar", Match.PREFIX) == ["march<float>"]
    assert names("b", Match.PREFIX) == ["blend", "/src/lib/b.h"]


def test_a_pattern_is_of_the_whole_name() -> None:
    assert names("*end", Match.GLOB) == ["blend"]
    assert names("[ab].?*", Match.GLOB) == ["/src/a.cl", "/src/lib/b.h"]
    assert names("*", Match.GLOB) == ["k", "blend", "_Z4toneff", "march<float>", "k", "/src/a.cl", "/src/lib/b.h"]


def test_the_order_in_an_object_depends_on_no_other_object() -> None:
    """Strings of the first object are numbered first."""
    first = Object(
        "first",
        scopes=[Scope("k", 0, 0x20), Scope("z", 4, 8, 0, 1), Scope("m", 8, 12, 0, 1)],
        files=("", "/src/z.cl", "/src/m.cl"),
    )
    second = Object(
        "second",
        scopes=[Scope("k", 0, 0x20), *(Scope(name, 4 * at, 4 * at + 4, 0, 1) for at, name in enumerate("amz", 1))],
        kernels=[],
        files=("", "/src/a.cl", "/src/m.cl", "/src/z.cl"),
    )
    expected = ["k", "a", "m", "z", "/src/a.cl", "/src/m.cl", "/src/z.cl"]
    for every in ((second,), (first, second)):
        found = find_names(index(*every), NameQuery("*", Match.GLOB), "second")
        assert [each.name for each in found] == expected


@pytest.mark.parametrize("sample", samples("zebin", "igc-debug"), ids=str)
def test_what_is_inlined_only_and_files_are_in_the_order_of_their_names(sample: Sample) -> None:
    found = find_names(ours.index(sample.data), NameQuery("*", Match.GLOB))
    for path in {each.path for each in found}:
        inlined = [each for each in found if each.path == path and each.section_offset is None]
        said = [(each.kind, each.name, each.linkage_name or "") for each in inlined]
        assert said == sorted(said)


def test_kinds_and_objects_restrict() -> None:
    assert names("*", Match.GLOB, NameKind.FILE) == ["/src/a.cl", "/src/lib/b.h"]
    assert names("k") == ["k", "k"]
    assert names("k", path="two") == ["k"]
    with pytest.raises(ObjectNotFound):
        names("k", path="three")


def test_files_are_found_by_their_last_components() -> None:
    assert names("b.h") == names("lib/b.h") == names("/src/lib/b.h") == ["/src/lib/b.h"]
    assert names("ib/b.h") == names("src/b.h") == []


def test_what_stands_inlined_only_has_no_place_and_is_counted() -> None:
    (march,) = find_names(MODULE, NameQuery("march"))
    linkage = "_ZN7shading5marchIfEET_S1_i"
    assert march == NamedItem(NameKind.FUNCTION, "march<float>", "one", linkage, inlined_copies=2)


def test_a_function_has_its_place() -> None:
    (blend,) = find_names(MODULE, NameQuery("blend"))
    assert (blend.section, blend.section_offset, blend.address, blend.size) == (".text", 0x40, 0x1040, 0x10)
    assert (blend.path, blend.linkage_name, blend.inlined_copies) == ("one", "_ZN7shading5blendEff", 0)


def test_answers_are_made_page_by_page() -> None:
    found = find_names(MODULE, NameQuery("*", Match.GLOB))
    assert [each.name for each in found[1:3]] == ["blend", "_Z4toneff"]
    assert len(found) == 7


@pytest.mark.parametrize("pattern", ["", "x" * (MAX_PATTERN + 1)])
def test_a_pattern_has_bounds(pattern: str) -> None:
    with pytest.raises(BadQuery):
        names(pattern)


def test_a_pattern_of_many_stars_costs_no_time() -> None:
    assert names("*a" * 400 + "b", Match.GLOB) == []


def test_a_search_that_nobody_waits_for_ends_at_the_next_name() -> None:
    looked_at = 0

    def check() -> None:
        nonlocal looked_at
        looked_at += 1
        if looked_at == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError), cancelled_by(check):
        find_names(MODULE, NameQuery("*", Match.GLOB))
    assert looked_at == 3


def test_a_name_longer_than_any_compiler_writes_is_not_held_against_wildcards() -> None:
    fits = _text_matcher(NameQuery("*" + "?" * 500 + "b*", Match.GLOB))
    assert fits("a" * (MAX_MATCHED - 1) + "b")
    assert not fits("a" * MAX_MATCHED + "b")
    assert not fits("a" * 100_000_000)


NOT_READ_BY_NM = ("zstd", "stripped", "headers-cut", "scale")


@pytest.mark.parametrize("name", [name for name in objects.LINKED if not any(word in name for word in NOT_READ_BY_NM)])
def test_each_function_symbol_of_an_amd_object_is_found_where_nm_has_it(name: str) -> None:
    """But for labels, which have no size."""
    found = ours.index(objects.sample(name))
    lines = output(require("llvm-nm"), "--print-size", "--defined-only", objects.path(name)).splitlines()
    symbols = [words for words in map(str.split, lines) if len(words) == 4 and words[2] in "tT" and int(words[1], 16)]
    assert symbols
    for address, size, _, symbol in symbols:
        places = {(each.address, each.size) for each in find_names(found, NameQuery(symbol))}
        assert (int(address, 16), int(size, 16)) in places, symbol


@pytest.mark.parametrize("sample", samples("igc-debug", "zebin"), ids=str)
def test_each_kernel_of_a_sample_is_found_once(sample: Sample) -> None:
    found = ours.index(sample.data)
    for kernel in sample.kernels:
        (one,) = find_names(found, NameQuery(kernel, Match.EXACT, frozenset({NameKind.KERNEL})))
        assert (one.name, one.size > 0, one.address is not None) == (kernel, True, True)
        assert one.facts == next(
            each.facts for item in found.summary.objects for each in item.kernels if each.name == kernel
        )


def named(one: Index, pattern: str, match: Match = Match.EXACT) -> list[str]:
    return [item.name for item in find_names(one, NameQuery(pattern, match))]


def test_a_kernel_is_found_by_what_the_debug_data_calls_it() -> None:
    one = index(
        Object(
            kernels=[("g_saxpy_True_080e", 0, 0x40), ("_Z4kernIfEvPT_", 0x40, 0x40)],
            scopes=[
                Scope("saxpy", 0, 0x40, linkage_name="g_saxpy_True_080e"),
                Scope("kern<float>", 0x40, 0x80, linkage_name="_Z4kernIfEvPT_"),
            ],
        )
    )
    assert named(one, "saxpy") == named(one, "SAXPY") == ["g_saxpy_True_080e"]
    for name in ("kern<float>", "kern", "void kern<float>(float*)", "void kern<float>(T1 *)"):
        assert named(one, name) == ["_Z4kernIfEvPT_"]
    assert named(one, "kern<double>") == []


@pytest.mark.parametrize("match", [Match.EXACT, Match.GLOB])
def test_names_as_they_are_printed_are_found(match: Match) -> None:
    symbols = ["_Z5scaleIfEvPT_", "_Z4fillIN2ns3FooIiEEEvT_", "_ZN8__main__5saxpyB2v1Ef", "_Z8unrolledILj4EEvPf"]
    one = index(Object(kernels=[(name, 0x10 * at, 0x10) for at, name in enumerate(symbols)]))
    done = subprocess.run([require("c++filt")], input="\n".join(symbols), capture_output=True, text=True, check=True)
    for symbol, printed in zip(symbols, done.stdout.splitlines(), strict=True):
        assert named(one, printed, match) == [symbol]


def test_patterns_are_held_against_readable_names() -> None:
    one = index(Object(kernels=[("_ZN2ns5scaleIfEEvPT_", 0, 0x10), ("_ZN2ns5scaleIdEEvPT_", 0x10, 0x10)]))
    assert (
        named(one, "void ns::scale<float>*", Match.GLOB) == named(one, "*<flo*", Match.GLOB) == ["_ZN2ns5scaleIfEEvPT_"]
    )
    assert len(named(one, "ns::sc*", Match.GLOB)) == len(named(one, "scale", Match.PREFIX)) == 2


@pytest.mark.parametrize(
    "name",
    ["cuda/bin/program.rdc", "amdgpu/bin/shade.kpack", "amdgpu/bin/libhost.a", "kernels/bin/raycast/dg2-opt.dbg"],
)
def test_the_address_of_a_kernel_is_that_of_its_section_in_its_own_code_object(name: str) -> None:
    module = Index(build_index((ROOT / "samples" / name).read_bytes(), Limits()))
    found = find_names(module, NameQuery("*", Match.GLOB, frozenset([NameKind.KERNEL])))
    assert found
    for each in found:
        (text,) = (one for one in module.sections if (one.path, one.section_index) == (each.path, each.section_index))
        assert each.address == text.address + (each.section_offset or 0)
