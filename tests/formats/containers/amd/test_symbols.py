"""Where symbols begin, how far those reach that have no size, and which of them own no byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

from symd.formats import elf
from symd.formats.containers.amd import symbols as module
from symd.formats.containers.amd.symbols import Placed, Symbols
from tests.builders.elf import ALLOC, AX, ET_DYN, ET_REL, FUNC, OBJECT, Section, Symbol, build_elf
from tests.core.uncompiled import uncompiled
from tests.formats.containers.amd import objects

NOTYPE, HSA_KERNEL = 0, 10
A, B = 0x1000, 0x2000
CODE = b"\x01\x03\x02\x7e"
"""An instruction, v_mov_b32."""
NOP, CODE_END = b"\0\0\x80\xbf", b"\0\0\x9f\xbf"

SAMPLES = Path(__file__).parents[4] / "samples/amdgpu/bin"


@pytest.fixture(autouse=True, scope="module", params=["compiled", "uncompiled"])
def core(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both readers of symbol tables."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "uncompiled":
            patch.setattr(module, "SymbolTable", uncompiled("amdgpu_symbols").SymbolTable)
        yield


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("v*.*o")), ids=lambda path: path.name)
def test_symbols_with_a_size_are_those_of_pyelftools(path: Path) -> None:
    image = elf.parse(path.read_bytes(), objects.budget())
    with path.open("rb") as file:
        theirs = ELFFile(file)
        table = theirs.get_section_by_name(".symtab") or theirs.get_section_by_name(".dynsym")
        if table is None:
            pytest.skip("without a table of symbols")
        base = {
            number: 0 if image.header.type == ET_REL else section["sh_addr"]
            for number, section in enumerate(theirs.iter_sections())
        }
        expected = {
            (symbol.name, symbol["st_shndx"], symbol["st_value"] - base[symbol["st_shndx"]], symbol["st_size"])
            for symbol in table.iter_symbols()
            if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_size"] and isinstance(symbol["st_shndx"], int)
        }
        kernels = {symbol.name.removesuffix(".kd") for symbol in table.iter_symbols() if symbol.name.endswith(".kd")}
    found = Symbols(image)
    assert {one[:4] for one in found.code} >= expected
    assert found.descriptors.keys() == kernels


def symbols(entries: list[Symbol], kind: int = ET_DYN, text: bytes = CODE * 16) -> Symbols:
    linked = kind == ET_DYN
    sections = [
        Section(".text.a", flags=AX, address=A * linked, data=text),
        Section(".text.b", flags=AX, address=B * linked, data=CODE * 8),
        Section(".rodata", flags=ALLOC, address=0x3000 * linked, data=bytes(range(64))),
    ]
    return Symbols(elf.parse(build_elf(type=kind, machine=224, sections=sections, symbols=entries), objects.budget()))


def placed(entries: list[Symbol], kind: int = ET_DYN, text: bytes = CODE * 16) -> list[tuple[str, int, int, int]]:
    return [one[:4] for one in symbols(entries, kind, text).code]


def test_a_function_without_instructions_owns_no_byte():
    """A compiler leaves it where the next one begins, in front of padding, or where the section ends."""
    text = CODE * 4 + NOP * 3 + bytes(4) + CODE * 4 + CODE_END * 4
    empty = [(0, "first"), (16, "before_padding"), (32, "before_sized"), (48, "last"), (64, "at_end")]
    entries = [Symbol(name, A + at, section=".text.a") for at, name in empty]
    sized = [Symbol("one", A, 16, section=".text.a"), Symbol("two", A + 32, 16, section=".text.a")]
    for kind, base in ((ET_DYN, A), (ET_REL, 0)):
        moved = [one._replace(value=one.value - A + base) for one in [*sized, *entries]]
        assert placed(moved, kind, text) == [
            ("first", 1, 0, 0),
            ("one", 1, 0, 16),
            ("before_padding", 1, 16, 0),
            ("before_sized", 1, 32, 0),
            ("two", 1, 32, 16),
            ("last", 1, 48, 0),
            ("at_end", 1, 64, 0),
        ]


def test_a_function_at_the_end_of_code_is_of_that_code():
    """Also where another section begins there; what has a size, or no type, is nothing there."""
    end = Symbol("end", B, section=".text.a")
    beginning = Symbol("beginning", B, section=".text.b")
    sections = [
        Section(".text.a", flags=AX, address=B - 64, data=CODE * 16),
        Section(".text.b", flags=AX, address=B, data=CODE * 8),
    ]
    labels = [Symbol("sized", B + 32, 4, section=".text.b"), Symbol("label", B + 32, section=".text.b", type=NOTYPE)]
    image = build_elf(type=ET_DYN, machine=224, sections=sections, symbols=[end, beginning, *labels])
    found = Symbols(elf.parse(image, objects.budget())).code
    assert [one[:4] for one in found] == [("end", 1, 64, 0), ("beginning", 2, 0, 32)]


def test_names_at_one_place_reach_equally_far():
    """An alias of a function without a size is no function of size 0."""
    same = [Symbol("k", A, section=".text.a"), Symbol("alias", A, section=".text.a")]
    assert placed([*same, Symbol("next", A + 24, section=".text.a")]) == [
        ("k", 1, 0, 24),
        ("alias", 1, 0, 24),
        ("next", 1, 24, 40),
    ]


def test_a_section_number_that_does_not_hold_the_address_is_not_believed():
    assert placed([Symbol("k", B + 8, 4, section=".text.a")]) == [("k", 2, 8, 4)]
    assert placed([Symbol("k", 8, 4, section=".text.b")], ET_REL) == [("k", 2, 8, 4)]
    assert placed([Symbol("k", 40, 4, section=".text.b")], ET_REL) == []
    assert placed([Symbol("k", B + 32, 4, section=".text.b"), Symbol("j", A - 1, 4, section=".text.a")]) == []


def test_objects_absolute_values_and_symbols_without_section_or_name_are_no_code():
    none = [
        Symbol("data", A, 4, section=".text.a", type=OBJECT),
        Symbol("k.num_vgpr", A, 4, section=0xFFF1, type=NOTYPE),
        Symbol("undefined", A, 4, section=0),
        Symbol("", A, 4, section=".text.a"),
        Symbol("constant", 0x3000, 4, section=".rodata"),
    ]
    assert placed(none) == []


def test_a_descriptor_makes_an_untyped_symbol_a_function_and_is_found_by_its_address():
    found = symbols([Symbol("k", A, section=".text.a", type=NOTYPE), Symbol("k.kd", 0x3000, 8, ".rodata", type=OBJECT)])
    assert found.code == [Placed("k", 1, 0, 64, True, NOTYPE)]
    assert found.bytes_of(found.descriptors["k"], 8) == bytes(range(8))
    assert symbols([Symbol("k", A, section=".text.a", type=NOTYPE)]).code == [Placed("k", 1, 0, 64, False, NOTYPE)]


ENTRIES = st.lists(
    st.tuples(
        st.sampled_from([A, B]),
        st.integers(0, 31),
        st.sampled_from([0, 0, 3, 9, 1 << 62]),
        st.sampled_from([NOTYPE, FUNC]),
    ),
    max_size=12,
)


@given(ENTRIES)
def test_a_symbol_without_a_size_reaches_to_the_next_one(entries):
    """A function to the next function, unless one with a size begins where it does, a label to the next symbol or the end of
    the sized function that began before it, whichever comes first; all to the end of the section."""
    given_ = [
        Symbol(f"s{number}", base + offset, size, ".text.a" if base == A else ".text.b", kind)
        for number, (base, offset, size, kind) in enumerate(entries)
    ]
    found = {name: (section, offset, size) for name, section, offset, size in placed(given_)}
    assert set(found) == {one.name for one in given_}
    for number, (base, offset, size, kind) in enumerate(entries):
        others = [one[1:] for one in entries if one[0] == base]
        stops = {FUNC} if kind == FUNC else {FUNC, NOTYPE}
        ends = [64 if base == A else 32] + [start for start, _, other in others if start > offset and other in stops]
        if kind == NOTYPE:
            begun = [start + length for start, length, other in others if other == FUNC and length and start <= offset]
            ends += [end for end in [max(begun, default=0)] if end > offset]
        taken = kind == FUNC and any(start == offset and length and other == FUNC for start, length, other in others)
        reach = 0 if taken else min(ends) - offset
        assert found[f"s{number}"] == (1 if base == A else 2, offset, size or reach)


def test_labels_inside_a_function_whose_size_is_known_are_no_functions():
    entries = [
        Symbol("sized", A, 16, section=".text.a"),
        Symbol("inside", A + 4, section=".text.a", type=NOTYPE),
        Symbol("behind", A + 16, section=".text.a", type=NOTYPE),
        Symbol("unsized", A + 32, section=".text.a"),
        Symbol("within_unsized", A + 40, section=".text.a", type=NOTYPE),
        Symbol("elsewhere", B + 4, section=".text.b", type=NOTYPE),
    ]
    functions = {each.name: (each.section_index, each.offset, each.size) for each in symbols(entries).functions()}
    assert functions == {
        "sized": (1, 0, 16),
        "behind": (1, 16, 16),
        "unsized": (1, 32, 32),
        "within_unsized": (1, 40, 24),
        "elsewhere": (2, 4, 28),
    }
