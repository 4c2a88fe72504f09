"""NAME+OFFSET for every function that has code: kernels, symbols, names of the debug data, readable C++ names."""

from __future__ import annotations

from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import LimitExceeded
from symd.formats import containers
from symd.index import Index, build
from symd.index.format import Strings
from symd.index.module import decoded_objects
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.answers import Answer, Reason
from symd.model.cancellation import cancelled_by
from symd.model.summaries import ModuleSummary
from symd.query import function_names, function_spellings
from symd.query.symbolize import MAX_SUGGESTED, NameSearchBudget, symbolize
from tests.query.small import Object, Scope, index

SAMPLES = Path(__file__).parents[2] / "samples"
SQUARED = "cuda/bin/raycast.sm_90.debug.cubin"
FOLDED = "cuda/bin/raycast.sm_90.lines.cubin"


def opened(name: str) -> Index:
    objects = containers.unpack((SAMPLES / name).read_bytes(), Limits()).objects
    return Index(build(decoded_objects(objects), ModuleSummary("0" * 64, 0, "")))


def asked(index: Index, name: str, offset: int = 0, path: str | None = None) -> Answer:
    return symbolize(index, [ByKernel(name, KernelOffset(offset))], path)[0]


@pytest.mark.parametrize(
    "name",
    ["_Z7squaredfff", "squared", "squared(float, float, float)", "squared(float,float,float)"],
)
def test_a_device_function_is_meant_by_its_symbol_its_name_and_its_readable_name(name: str) -> None:
    answer = asked(opened(SQUARED), name, 0x40)
    assert (answer.reason, answer.section, answer.section_offset) == (Reason.EXACT, ".text._Z7squaredfff", 0x40)
    assert [(frame.function, frame.line) for frame in answer.frames] == [("squared", 11)]


@pytest.mark.parametrize("name", ["_Z7raycastPfi6float3", "raycast", "raycast(float*, int, float3)"])
def test_a_kernel_is_meant_by_its_readable_name(name: str) -> None:
    assert asked(opened(SQUARED), name, 0x100) == asked(opened(SQUARED), "_Z7raycastPfi6float3", 0x100)
    assert asked(opened(SQUARED), name, 0x100).reason is Reason.EXACT


def test_readable_names_of_templates_are_meant_where_there_is_no_debug_data() -> None:
    """As demanglers and NVIDIA's tools write them, and shortened. What the last template argument is does not matter."""
    symbols = {
        "_Z5scaleIfEvPT_": ("scale<float>", "void scale<float>(float*)", "void scale<float>(T1 *)"),
        "_Z6maskedILb1EEvPf": ("masked<true>", "masked<(bool)1>", "masked"),
        "_Z8unrolledILj4EEvPf": ("unrolled<4u>", "unrolled<(unsigned int)4>(float *)"),
        "_Z4fillIN2ns3FooIiEEEvT_": ("fill<ns::Foo<int> >", "fill<ns::Foo<int>>", "void fill<ns::Foo<int>>(T1)"),
        "_ZN8__main__5saxpyB2v1Ef": ("saxpy", "__main__::saxpy", "__main__::saxpy[abi:v1](float)"),
        "_QMshapesPadvance": ("shapes::advance", "ADVANCE", "SHAPES::ADVANCE"),
    }
    for symbol, names in symbols.items():
        kernels = [(each, 0x10 * at, 0x10) for at, each in enumerate(symbols)]
        for one in (index(Object(kernels=kernels)), index(Object(kernels=[], symbols=kernels))):
            for name in names:
                assert asked(one, name, 4).section_offset == 0x10 * list(symbols).index(symbol) + 4


def test_parameters_are_part_of_a_name() -> None:
    answer = asked(opened(SQUARED), "squared(float, float, int)")
    assert answer.reason is Reason.UNKNOWN_KERNEL
    assert [candidate.function for candidate in answer.candidates] == ["_Z7squaredfff"]


def test_a_function_that_is_folded_into_two_kernels_is_ambiguous_by_its_own_name() -> None:
    answer = asked(opened(FOLDED), "distance_to", 0x10)
    assert answer.reason is Reason.AMBIGUOUS
    assert [(each.kernel, each.section_offset) for each in answer.candidates] == [
        ("_Z5probePfPK6float3", 0xF0),
        ("_Z7raycastPfi6float3", 0x10B0),
    ]
    assert asked(opened(FOLDED), "$_Z7raycastPfi6float3$_Z11distance_tofff", 0x10).section_offset == 0x10B0


def test_functions_of_every_maker_are_meant_by_name() -> None:
    for name, function in (
        ("amdgpu/bin/v2-gfx900.co", "march"),
        ("kernels/bin/raycast/dg2-O0.zebin", "length_squared"),
    ):
        answer = asked(opened(name), function)
        assert answer.frames[-1].function == function


def test_a_kernel_comes_before_a_symbol_and_a_symbol_before_what_reads_alike() -> None:
    kernel = Object("a", kernels=[("sum", 0x40, 0x40)])
    symbol = Object("b", kernels=[], symbols=[("sum", 0x20, 0x10), ("_Z3sumf", 0x60, 0x10)])
    scope = Object(
        "c", kernels=[], scopes=[Scope("sum", 0x80, 0x90, linkage_name="_Z3sumi")], symbols=[("_Z3sumi", 0x80, 0x10)]
    )
    assert asked(index(kernel, symbol, scope), "sum").section_offset == 0x40
    assert asked(index(symbol, scope), "sum").section_offset == 0x20
    assert asked(index(scope), "sum").section_offset == 0x80
    assert asked(index(symbol, scope), "sum(float)").section_offset == 0x60
    assert asked(index(symbol, scope), "sum(int)").section_offset == 0x80
    assert asked(index(kernel, symbol), "sum", path="b").section_offset == 0x20


def test_what_only_stands_inlined_has_no_code_of_its_own() -> None:
    inlined = Object(scopes=[Scope("k", 0, 0x100), Scope("twice", 0x10, 0x20, parent=0)])
    assert asked(index(inlined), "twice").reason is Reason.UNKNOWN_KERNEL


def test_the_names_most_like_an_unknown_one_are_suggested_and_nothing_that_is_not_like_it() -> None:
    one = index(Object(kernels=[("vector_add", 0, 0x40)], symbols=[("vector_add", 0, 0x40), ("scale", 0x40, 0x20)]))
    answer = asked(one, "vectr_add")
    assert (answer.reason, answer.address) == (Reason.UNKNOWN_KERNEL, None)
    assert [(each.function, each.section_offset) for each in answer.candidates] == [("vector_add", 0)]
    assert asked(one, "raycast").candidates == ()


@pytest.mark.parametrize("written", ["marhc", "amrch", "mach", "marchh"])
def test_a_short_name_with_two_letters_changed_round_is_suggested(written: str) -> None:
    one = index(Object(symbols=[("march", 0, 0x40), ("shade", 0x40, 0x40)]))
    assert [each.function for each in asked(one, written).candidates] == ["march"]


def test_suggestions_are_made_for_the_first_unknown_names_of_a_batch() -> None:
    one = index(Object(symbols=[("vector_add", 0, 0x40)]))
    queries = [ByKernel(f"vector_add{at}", KernelOffset(0)) for at in range(MAX_SUGGESTED + 4)]
    answers = symbolize(one, queries)
    assert sorted(answers.candidates) == list(range(MAX_SUGGESTED))
    assert {answer.reason for answer in answers} == {Reason.UNKNOWN_KERNEL}


def test_names_are_read_once_for_all_suggestions_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    one = index(Object(symbols=[("vector_add", 0, 0x40), ("vector_sub", 0x40, 0x40)]))
    read = []
    spelled = function_names.spellings
    monkeypatch.setattr(function_names, "spellings", lambda name: read.append(name) or spelled(name))
    answers = symbolize(one, [ByKernel(f"vector_{at}", KernelOffset(0)) for at in range(MAX_SUGGESTED)])
    assert len(answers.candidates) == MAX_SUGGESTED
    assert sorted(read) == ["vector_add", "vector_sub"]


def test_suggestions_are_looked_for_among_so_many_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    one = index(Object(kernels=[], symbols=[("vector_add", 0, 0x40), ("vector_sub", 0x40, 0x40)]))
    monkeypatch.setattr(function_names, "MAX_CHARACTERS_COMPARED", len("vector_add"))
    assert [each.function for each in asked(one, "vector_s").candidates] == ["vector_add"]


def every_name(index: Index) -> list[str]:
    """Names of functions, as debug data and people spell them, and some that no function has."""
    functions = index.functions
    texts = [index.strings[number] for number in {*functions.name.tolist(), *functions.linkage_name.tolist()}]
    spelled = {each for text in texts for each in function_spellings.spellings(text)}
    return sorted(spelled.union(texts, (f"{text}x" for text in texts), ("", "float", "(", "a" * 20_000)))


@pytest.mark.parametrize("characters", [0, 1 << 40], ids=["name by name", "word by word"])
@pytest.mark.parametrize("sample", [SQUARED, FOLDED, "amdgpu/bin/v2-gfx900.co", "kernels/bin/raycast/dg2-O0.zebin"])
def test_names_that_are_looked_up_together_are_found_where_each_is_found_alone(
    sample: str, characters: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = opened(sample)
    names = every_name(one)
    alone = {name: function_names.starts(one, name, None) for name in names}
    assert any(alone.values())
    monkeypatch.setattr(function_names, "CHARACTERS_A_NAME", characters)
    assert function_names.starts_of_each(one, names, None, NameSearchBudget()) == alone


def test_what_the_symbol_says_comes_before_what_debug_data_says() -> None:
    one = index(
        Object(kernels=[], symbols=[("_Z3sumf", 0, 0x10)]), Object("b", kernels=[], scopes=[Scope("sum", 0x20, 0x30)])
    )
    assert asked(one, "sum(float)").section_offset == 0
    assert asked(one, "sum", path="b").section_offset == 0x20


def test_many_unknown_names_read_the_module_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    for name in ("holding", "equal_to"):
        found = getattr(Strings, name)
        monkeypatch.setattr(Strings, name, lambda *given, found=found, name=name: read.append(name) or found(*given))
    symbols = [(f"_Z{len(name)}{name}f", at, 1) for at in range(0x100) if (name := f"vector_add_{at}")]
    one = index(Object(kernels=[], symbols=symbols))
    read_ways = function_names.ways_to_read
    monkeypatch.setattr(function_names, "ways_to_read", lambda name, **how: read.append(name) or read_ways(name, **how))
    answers = symbolize(one, [ByKernel(f"vector_add_{at}", KernelOffset(0)) for at in range(2_000)])
    assert [answer.reason for answer in answers].count(Reason.UNKNOWN_KERNEL) == 2_000 - 0x100
    assert len(read) <= len(symbols) + 4


def test_a_search_for_names_is_bounded_by_the_letters_that_it_spells_out(monkeypatch: pytest.MonkeyPatch) -> None:
    symbols = [(f"_Z4sum{at}f", at, 1) for at in range(10)]
    one = index(Object(kernels=[], symbols=symbols))
    query = [ByKernel("sum", KernelOffset(0))]
    assert symbolize(one, query)[0].reason is Reason.UNKNOWN_KERNEL
    monkeypatch.setattr("symd.query.symbolize.NAME_SEARCH_LETTERS", 50)
    with pytest.raises(LimitExceeded) as caught:
        symbolize(one, query)
    assert caught.value.metadata == {"limit": "name_search_letters", "value": "50"}
    monkeypatch.setattr("symd.query.symbolize.NAME_SEARCH_LETTERS", 1)
    assert symbolize(one, [ByKernel("_Z4sum3f", KernelOffset(0))])[0].path == ""


def test_a_search_for_names_ends_where_nobody_waits() -> None:
    class Left(Exception):
        pass

    def check() -> None:
        raise Left

    one = index(Object(kernels=[], symbols=[("vector_add", 0, 0x40)]))
    for name in ("add", "vector"):  # looked for as a word, and among those that are like it
        with pytest.raises(Left), cancelled_by(check):
            symbolize(one, [ByKernel(name, KernelOffset(0))])
