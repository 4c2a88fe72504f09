"""What the plain reader answers is what the whole index answers, and it answers nearly all that it is for."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from symd import elf
from symd.budget import Budget
from symd.config import Limits
from symd.dwarf.sections import ELF_NAMES
from symd.elf.constants import PT_LOAD
from symd.errors import Malformed
from symd.index import Index
from symd.index.module import build_index
from symd.model.addresses import ByAddress, ByKernel, KernelOffset, ObjectAddress
from symd.model.answers import Answer, Reason
from symd.model.plain_answers import NotPlain, PlainAnswer
from symd.plain.answer import answer_at
from symd.query.symbolize import symbolize

BIN = Path(__file__).parents[2] / "samples/amdgpu/bin"
FILES = sorted(BIN.glob("*.co"))
_NO_FUNCTIONS = "debug data of assembly has lines and no functions: symbols name the frames"
_COMPRESSED = "sections are compressed"
HANDED_OVER = {
    **{
        f"split-{clang}-dwarf{version}.co": "the debug data is in a .dwo file"
        for clang in (14, 19, 22)
        for version in (4, 5)
    },
    **{f"v2-scale{kind}.co": _NO_FUNCTIONS for kind in ("", "-null-headers", "-pages")},
    "v2-scale-packed.co": "the debug data was taken off",
    "v4-gfx900-dwarf2.co": "DWARF 2: versions 3 to 5 are plain",
    "v4-gfx900-headers-cut.co": "the file header names no table of sections",
    "v4-gfx900-nodebug.co": "compiled without debug data",
    "v4-gfx900-stripped.co": "the debug data was stripped",
    "v4-gfx900-zlib.co": _COMPRESSED,
    "v4-gfx900-zstd.co": _COMPRESSED,
    "v4-scale.co": _NO_FUNCTIONS,
}
"""Samples that the plain reader answers nothing of, and why not."""
_NO_DESCRIPTORS = "v2-gfx900.co"
"""Version 2 of code objects has no descriptors, by which kernels are known."""
INLINED = {path.name for path in FILES if path.name.startswith(("v3", "v4"))} - {
    "v4-gfx900-O0.co",
    "v4-gfx900-lines.co",
}
PLAIN = {Reason.EXACT, Reason.APPROXIMATE, Reason.NO_LINE}
CHANGED = ("v4-gfx900.co", "v4-gfx900-O0.co", "v4-gfx900-dwarf4.co", "v6-gfx942-xnack.co", "v5-gfx1100.co")


def plain(data: bytes, address: int, kernel: str = "") -> PlainAnswer | None:
    try:
        return answer_at(lambda offset, size: data[offset : offset + size], len(data), address, kernel)
    except NotPlain:
        return None


def as_plain(answer: Answer | None) -> PlainAnswer | None:
    if answer is None:
        return None
    frames = ((each.function, each.linkage_name, each.file, each.line, each.column) for each in answer.frames)
    return int(answer.reason), tuple(frames)


def asked(index: Index) -> Iterator[tuple[int, Answer | None]]:
    """Every fourth byte of the beginning of the text, and the index's answer."""
    for number, section in enumerate(index.sections):
        for address in range(section.address, section.address + min(index.section_size(number), 2400), 4):
            yield address, index.answer(ByAddress(ObjectAddress(address)))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_plain_answer_is_the_whole_indexs(path: Path) -> None:
    """Nearly all that has a line, or none in debug data that has some, is answered, so that handing over does not become the rule unnoticed."""
    data = path.read_bytes()
    plain_enough, answered, reasons = 0, [], set()
    for address, known in asked(Index(build_index(data, Limits()))):
        said = plain(data, address)
        plain_enough += known is not None and known.reason in PLAIN
        assert said is None or said == as_plain(known), hex(address)
        if said is not None:
            answered.append(len(said[1]))
            reasons.add(said[0])
    if path.name in HANDED_OVER:
        assert not answered
    else:
        assert len(answered) >= max(plain_enough * 3 // 5, 40)
        assert (max(answered) > 1 and reasons == PLAIN) or path.name not in INLINED


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_places_in_kernels_are_the_whole_indexs(path: Path) -> None:
    data = path.read_bytes()
    index = Index(build_index(data, Limits()))
    answered = 0
    for name, entries in index.kernels.items():
        for offset in range(0, entries[0].size + 8, 16):
            said = plain(data, offset, name)
            assert said is None or said == as_plain(index.answer(ByKernel(name, KernelOffset(offset)))), (name, offset)
            answered += said is not None
    assert bool(answered) == (path.name not in {*HANDED_OVER, _NO_DESCRIPTORS})


def test_names_of_no_kernel_or_of_several_things_are_handed_over() -> None:
    data = (BIN / "v4-gfx900.co").read_bytes()
    assert plain(data, 0x40, "shade") is not None
    assert {
        plain(data, 0x40, name) for name in ("", "hade", "shad", "shade.kd", "nobody", "s\0hade", "sh\u00e4de")
    } == {None}
    other = data.replace(b"shade.kd\0", b"shade\0kd\0")
    assert other != data
    assert plain(other, 0x40, "shade") is None


@pytest.mark.parametrize("seed", range(4))
def test_other_bytes_in_the_debug_data_change_both_answers_alike(seed: int) -> None:
    dice = random.Random(seed)
    answered = 0
    for _ in range(60):
        original = (BIN / dice.choice(CHANGED)).read_bytes()
        data, text = changed(dice, original)
        index = Index(build_index(data, Limits()))
        for _ in range(24):
            address = text.start + dice.randrange(len(text)) // 4 * 4
            said = plain(data, address)
            assert said is None or said == as_plain(symbolize(index, [ByAddress(ObjectAddress(address))])[0]), hex(
                address
            )
            answered += said is not None
    assert answered > 100


def test_what_stands_behind_a_unit_without_children_is_not_its_own() -> None:
    data = bytearray((BIN / "v4-gfx900-lines.co").read_bytes())
    image = elf.parse(bytes(data), Budget(Limits()))
    at = image.by_name[".debug_abbrev"].begin
    assert data[at : at + 3] == bytes((1, 0x11, 1)), "the abbreviation of the unit, which has children"
    assert plain(bytes(data), 0x1978) is not None
    data[at + 2] = 0
    assert plain(bytes(data), 0x1978) is None


@pytest.mark.parametrize("change", ["compressed", "far", "long"])
def test_a_section_table_with_one_damaged_section_is_handed_over(change: str) -> None:
    """Whoever reads everything does without the whole table then."""
    data = bytearray((BIN / "v4-gfx900.co").read_bytes())
    image = elf.parse(bytes(data), Budget(Limits()))
    number = next(section.index for section in image.sections if section.name == ".hash")
    at = image.header.shoff + number * 64
    _, _, flags, _, _, size = SECTION.unpack_from(data, at)
    written = {"compressed": (8, flags | 0x800), "far": (16, (1 << 64) - 2), "long": (32, len(data))}
    assert plain(bytes(data), 0x1978) is not None
    data[at + written[change][0] : at + written[change][0] + 8] = written[change][1].to_bytes(8, "little")
    assert (size > 2, plain(bytes(data), 0x1978)) == (True, None)


@pytest.mark.parametrize(
    ("at", "change"), [(55, 0x57), (54, 48), (32 + 4, 1), (57, 0x57)], ids=["wide", "narrow", "far", "many"]
)
def test_a_program_header_table_that_leaves_the_file_is_handed_over(at: int, change: int) -> None:
    """Nothing is answered of such a file: ``at`` is a byte of e_phoff, e_phentsize or e_phnum."""
    data = bytearray((BIN / "v4-gfx900.co").read_bytes())
    data[at] = change
    with pytest.raises(Malformed):
        build_index(bytes(data), Limits())
    assert plain(bytes(data), 0x1978) is None


def test_a_segment_past_the_address_space_is_handed_over() -> None:
    data = bytearray((BIN / "v4-gfx900.co").read_bytes())
    image = elf.parse(bytes(data), Budget(Limits()))
    number = next(number for number, segment in enumerate(image.segments) if segment.type == PT_LOAD)
    address_at = image.header.phoff + number * 56 + 16
    data[address_at : address_at + 8] = ((1 << 64) - 1).to_bytes(8, "little")
    with pytest.raises(Malformed):
        build_index(bytes(data), Limits())
    assert plain(bytes(data), 0x1978) is None


def test_a_symbol_table_with_a_part_of_an_entry_is_handed_over() -> None:
    data = bytearray((BIN / "v4-gfx900.co").read_bytes())
    image = elf.parse(bytes(data), Budget(Limits()))
    number = next(section.index for section in image.sections if section.name == ".symtab")
    size_at = image.header.shoff + number * 64 + 32
    data[size_at] -= 1
    with pytest.raises(Malformed):
        build_index(bytes(data), Limits())
    assert plain(bytes(data), 0x1978) is None


SECTION = struct.Struct("<IIQQQQ")


def changed(dice: random.Random, data: bytes) -> tuple[bytes, range]:
    """An image with a few bytes of its debug sections changed; and the addresses of its text."""
    image, found = elf.parse(data, Budget(Limits())), bytearray(data)
    debug = [
        range(section.begin, section.end)
        for section in image.sections
        if section.name in ELF_NAMES and section.end > section.begin
    ]
    for _ in range(dice.choice((1, 1, 2))):
        extent = dice.choice(debug)
        at = dice.randrange(extent.start, extent.stop)
        found[at] = dice.choice(
            (found[at] ^ 1 << dice.randrange(8), found[at] + dice.choice((1, 4, 252, 255)) & 0xFF, 0, 1)
        )
    text = next(section for section in image.sections if section.executable)
    return bytes(found), range(text.address, text.address + text.size)


def test_a_mistake_of_the_reader_is_not_taken_for_a_file_that_is_not_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the reader means to raise, for files as for programs that are not as they should be, is ``NotPlain`` or ends past the end of
    something (IndexError)."""
    data = (BIN / "v4-gfx900.co").read_bytes()
    for mistake in (KeyError, TypeError, ValueError, StopIteration, OverflowError):
        monkeypatch.setattr("symd.plain.answer.LineTable", Mistaken(mistake))
        with pytest.raises(mistake):
            plain(data, 0x1978)


class Mistaken:
    """Stands for a part of the reader that has a defect."""

    def __init__(self, mistake: type[Exception]) -> None:
        self._mistake = mistake

    def __call__(self, _unit: object) -> object:
        raise self._mistake
