"""Call frame information: every row as llvm-dwarfdump and pyelftools read it, of compilers' objects and of generated ones; what is damaged is
named and left out."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile

from symd.config import Limits
from symd.debuginfo.dwarf.call_frames import (
    MAX_INSTRUCTIONS,
    MAX_RULES,
    MAX_STATES,
    CallFrames,
    FrameAddress,
    FrameRow,
    RegisterRule,
    RuleKind,
)
from symd.errors import Malformed
from symd.formats import elf
from symd.formats.budget import Budget
from tests import tools
from tests.builders.call_frames import (
    REMEMBER,
    RESTORE,
    CallFrameSection,
    Function,
    advance,
    def_aspace_cfa,
    def_cfa,
    def_cfa_expression,
    def_cfa_offset,
    def_cfa_register,
    expression,
    in_register,
    offset_extended,
    rows_of,
    same_value,
    undefined,
    val_expression,
)
from tests.builders.elf import AX, Section, build_elf
from tests.builders.leb128 import sleb, uleb

ROOT = Path(__file__).parents[3]
AMD = ROOT / "samples" / "amdgpu" / "bin"
CALLS = ("v6-gfx900-calls.co", "v6-gfx942-calls.co", "v6-gfx1100-calls-O0.co")
OBJECTS = [AMD / name for name in (*CALLS, "v6-gfx900-calls-unknown.co", "v4-gfx900-O0.co", "v5-gfx1100.co")]
CUBIN = ROOT / "samples" / "cuda" / "bin" / "raycast.sm_90.debug.cubin"


def frames_of(path: Path) -> CallFrames:
    image = elf.parse(path.read_bytes(), Budget(Limits()))
    return CallFrames(image.by_name[".debug_frame"].data)


def rows_of_dwarfdump(path: Path) -> dict[tuple[int, int], list[tuple[int, str, set[str]]]]:
    """For each entry's code its rows: the address, the CFA, and the rules of registers without the registers' names."""
    text = tools.output(tools.require("llvm-dwarfdump-22", "llvm-dwarfdump"), "--debug-frame", path)
    found: dict[tuple[int, int], list[tuple[int, str, set[str]]]] = {}
    rows: list[tuple[int, str, set[str]]] = []
    for line in text.splitlines():
        if entry := re.search(r" FDE .*pc=([0-9a-f]+)\.\.\.([0-9a-f]+)", line):
            rows = found.setdefault((int(entry[1], 16), int(entry[2], 16)), [])
        elif " CIE" in line:
            rows = []
        elif row := re.match(r"  0x([0-9a-f]+): CFA=(.*?)(?:: (.*))?$", line):
            rules = re.split(r", (?=[A-Za-z0-9_]+=)", row[3] or "")
            rows.append((int(row[1], 16), row[2], {rule.partition("=")[2] for rule in rules if rule}))
    return found


def said_of(rule: RegisterRule) -> str:
    """How llvm-dwarfdump writes a rule, where that needs no register's name."""
    sign = f"{rule.number:+d}" if rule.number else ""
    return {
        RuleKind.UNDEFINED: "undefined",
        RuleKind.SAME_VALUE: "same",
        RuleKind.OFFSET: f"[CFA{sign}]",
        RuleKind.VALUE_OFFSET: f"CFA{sign}",
    }.get(rule.kind, "?")


def compare_with_llvm(path: Path, frames: CallFrames) -> int:
    theirs = rows_of_dwarfdump(path)
    compared = 0
    assert not frames.notes
    for entry in frames.entries:
        expected = theirs.get((entry.start, entry.end), [])
        ours = [row for row in rows_of(frames, entry) if row.cfa is not None or row.registers]
        last = {address: (cfa, rules) for address, cfa, rules in expected}  # rows without bytes are rows there
        assert [row.start for row in ours] == [*last]
        for row, (cfa, rules) in zip(ours, last.values(), strict=True):
            plain = [said_of(rule) for rule in row.registers.values() if said_of(rule) != "?"]
            assert set(plain) <= rules
            assert len(row.registers) >= len(rules)
            if row.cfa is not None and row.cfa.expression is None:
                assert cfa.split(" in ")[0].endswith(f"{row.cfa.offset:+d}")
                assert (f"addrspace{row.cfa.address_space}" in cfa) == (row.cfa.address_space is not None)
            compared += 1
    return compared


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.name)
def test_rows_of_compilers_as_llvm_reads_them(path: Path) -> None:
    compared = compare_with_llvm(path, frames_of(path))
    assert compared or path.name in ("v6-gfx900-calls-unknown.co", "v4-gfx900-O0.co", "v5-gfx1100.co")


def test_what_llvm_23_says_of_calls() -> None:
    """Read off its assembly: .cfi_llvm_register_pair, .cfi_llvm_vector_registers, .cfi_llvm_vector_offset."""
    frames = frames_of(AMD / "v6-gfx900-calls.co")
    first, last = frames.at(0x1640), frames.at(0x16A0)
    assert first is not None
    assert last is not None
    assert (first.cfa, last.cfa) == (FrameAddress(64, 0, 6), FrameAddress(65, 0, 6))
    assert first.registers[16].expression == bytes.fromhex("903e9304903f9304")
    assert last.registers[16].expression == bytes.fromhex("90a9149d204090a9149d2060")
    assert last.registers[2601] == RegisterRule(RuleKind.OFFSET, 256)
    assert last.registers[2600].expression == bytes.fromhex("90a81416e90500e9071194 08e90c2040".replace(" ", ""))
    kernel = frames.at(0x1810)
    assert kernel is not None
    assert kernel.cfa == FrameAddress(expression=bytes.fromhex("3036e902"))
    assert kernel.registers == {16: RegisterRule(RuleKind.UNDEFINED)}


def test_entries_of_compilers_before_have_no_rules() -> None:
    for name in ("v6-gfx900-calls-unknown.co", "v4-gfx900-O0.co"):
        frames = frames_of(AMD / name)
        assert len(frames.entries) >= 3
        for entry in frames.entries:
            assert [(row.start, row.end, row.cfa, row.registers) for row in rows_of(frames, entry)] == [
                (entry.start, entry.end, None, {})
            ]


def rows_of_pyelftools(path: Path) -> dict[int, list[tuple[int, object, dict[int, object]]]]:
    with path.open("rb") as file:
        info = ELFFile(file).get_dwarf_info(relocate_dwarf_sections=False)
        return {
            entry["initial_location"]: [
                (row.pop("pc"), row.pop("cfa", None), row) for row in map(dict, entry.get_decoded().table)
            ]
            for entry in info.CFI_entries()
            if isinstance(entry, FDE)
        }


def as_pyelftools(rule: RegisterRule) -> tuple[str, object]:
    names = {
        RuleKind.UNDEFINED: ("UNDEFINED", None),
        RuleKind.SAME_VALUE: ("SAME_VALUE", None),
        RuleKind.OFFSET: ("OFFSET", rule.number),
        RuleKind.VALUE_OFFSET: ("VAL_OFFSET", rule.number),
        RuleKind.REGISTER: ("REGISTER", rule.number),
        RuleKind.EXPRESSION: ("EXPRESSION", [*rule.expression]),
        RuleKind.VALUE_EXPRESSION: ("VAL_EXPRESSION", [*rule.expression]),
    }
    return names[rule.kind]


def as_row(row: FrameRow) -> tuple[int, object, dict[int, object]]:
    return row.start, row.cfa, {number: as_pyelftools(rule) for number, rule in row.registers.items()}


def compare_with_pyelftools(path: Path, frames: CallFrames) -> int:
    theirs = rows_of_pyelftools(path)
    compared = 0
    for entry in frames.entries:
        rows = [row for row in rows_of(frames, entry) if row.cfa is not None or row.registers]
        expected = [(pc, cfa, rules) for pc, cfa, rules in theirs[entry.start] if cfa is not None or rules]
        last = {pc: (cfa, rules) for pc, cfa, rules in expected}  # rows without bytes are rows there
        assert [row.start for row in rows] == [*last]
        for row in rows:
            cfa, rules = last[row.start]
            assert as_row(row)[2] == {number: (rule.type, rule.arg) for number, rule in rules.items()}  # type: ignore[attr-defined]
            if row.cfa is not None:
                expected_cfa = (cfa.reg, cfa.offset, cfa.expr)  # type: ignore[attr-defined]
                whole = row.cfa.expression
                ours = (row.cfa.register, row.cfa.offset, None) if whole is None else (None, None, [*whole])
                assert ours == expected_cfa
            compared += 1
    return compared


def test_a_cubins_rows_as_llvm_reads_them() -> None:
    """64-bit DWARF, 4-byte data alignment of -4; unlinked, so that every function begins at 0."""
    text = tools.output(tools.require("llvm-dwarfdump-22", "llvm-dwarfdump"), "--debug-frame", CUBIN)
    frames = frames_of(CUBIN)
    entries = re.findall(r" FDE .*pc=([0-9a-f]+)\.\.\.([0-9a-f]+)", text)
    assert sorted((entry.start, entry.end) for entry in frames.entries) == sorted(
        (int(start, 16), int(end, 16)) for start, end in entries
    )
    advances = len(re.findall(r"DW_CFA_advance_loc\d?: ", text))
    rows = sum(len([*rows_of(frames, entry)]) for entry in frames.entries)
    assert rows == advances + len(entries)


def program(random_: random.Random, *, factored: bool) -> Iterator[bytes]:
    """``factored``: with CFAs whose offset is counted in units of the data, which pyelftools counts in units of code."""
    depth = 0
    yield def_cfa(random_.randrange(100), random_.randrange(100))
    for _ in range(random_.randrange(30)):
        register = random_.randrange(40)
        choice = random_.randrange(12)
        if choice == 0:
            yield advance(random_.choice((1, 2, 0x50, 0x200)))
        elif choice == 1:
            yield bytes((0x80 | register,)) + uleb(random_.randrange(300))
        elif choice == 2:
            yield random_.choice((undefined, same_value))(register)
        elif choice == 3:
            yield in_register(register, random_.randrange(3000))
        elif choice == 4:
            yield random_.choice((expression, val_expression))(register, b"\x30\x36")
        elif choice == 5:
            yield offset_extended(register + 2000, random_.randrange(1000))
        elif choice == 6:
            yield b"\x11" + uleb(register) + sleb(random_.randrange(-300, 300))
        elif choice == 7:
            yield random_.choice((b"\x14" + uleb(register) + uleb(9), b"\x15" + uleb(register) + sleb(-9)))
        elif choice == 8:
            yield random_.choice((def_cfa_register(register), def_cfa_offset(register)))
        elif choice == 9 and factored:
            yield random_.choice((b"\x12" + uleb(register) + sleb(-2), b"\x13" + sleb(-register)))
        elif choice == 10:
            depth += 1
            yield REMEMBER
        elif depth:
            depth -= 1
            yield RESTORE


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("reader", ["llvm", "pyelftools"])
def test_generated_rows(reader: str, seed: int, tmp_path: Path) -> None:
    """All versions and both widths."""
    random_ = random.Random(seed)
    section = CallFrameSection(
        [
            Function(0x1000 * (number + 1), 0x4000 * 4, [*program(random_, factored=reader == "llvm")])
            for number in range(3)
        ],
        [def_cfa(7, 8), undefined(3)],
        version=(1, 3, 4)[seed % 3],
        data_factor=(-8, 4)[seed % 2],
        code_factor=(1, 4)[seed // 2 % 2],
        return_register=16,
        wide=seed % 5 == 0 and reader == "llvm",  # pyelftools cannot read 64-bit entries
    )
    data = section.build()
    path = tmp_path / "frames.elf"
    sections = [Section(".text", flags=AX, address=0x1000, data=bytes(16)), Section(".debug_frame", data=data)]
    path.write_bytes(build_elf(machine=62, type=3, sections=sections))
    frames = CallFrames(data)
    assert not frames.notes
    if reader == "llvm":
        assert compare_with_llvm(path, frames) >= 3
    else:
        assert compare_with_pyelftools(path, frames) >= 3


def only(*instructions: bytes, initial: tuple[bytes, ...] = ()) -> CallFrames:
    return CallFrames(CallFrameSection([Function(0x1000, 0x100, instructions)], initial).build())


def test_restored_rules_are_those_of_the_common_entry() -> None:
    frames = only(same_value(3), undefined(5), advance(1), b"\xc3", b"\x06\x05", initial=(undefined(3),))
    before, after = (frames.at(0x1000), frames.at(0x1004))
    assert before is not None
    assert after is not None
    assert before.registers == {3: RegisterRule(RuleKind.SAME_VALUE), 5: RegisterRule(RuleKind.UNDEFINED)}
    assert after.registers == {3: RegisterRule(RuleKind.UNDEFINED)}


def test_rules_hold_from_their_place_on() -> None:
    frames = only(def_cfa(7, 8), advance(2), def_cfa_offset(16), advance(0), def_cfa_register(6))
    assert [frames.at(address) for address in (0xFFF, 0x1100)] == [None, None]
    assert [row.cfa and row.cfa.offset for row in map(frames.at, (0x1000, 0x1007, 0x1008, 0x10FF)) if row] == [
        8,
        8,
        16,
        16,
    ]
    (entry,) = frames.entries
    assert [(row.start, row.end) for row in rows_of(frames, entry)] == [(0x1000, 0x1008), (0x1008, 0x1100)]


def test_a_frame_in_an_address_space() -> None:
    row = only(def_aspace_cfa(64, 4, 6), def_cfa_register(65)).at(0x1000)
    assert row is not None
    assert row.cfa == FrameAddress(65, 4, 6)


@pytest.mark.parametrize(
    ("instructions", "said"),
    [
        ([b"\x3c"], "unknown instruction 0x3c"),
        ([def_cfa_register(3)], "not a register and an offset"),
        ([def_cfa_expression(b"0"), def_cfa_offset(3)], "not a register and an offset"),
        ([RESTORE], "no remembered state"),
        ([REMEMBER] * (MAX_STATES + 1), f"more than {MAX_STATES}"),
        ([undefined(number) for number in range(MAX_RULES + 1)], f"more than {MAX_RULES}"),
        ([advance(0)] * (MAX_INSTRUCTIONS + 1), "do not come to an end"),
        ([b"\x10\x05\x7f"], "needed"),
    ],
)
def test_instructions_that_make_no_sense(instructions: list[bytes], said: str) -> None:
    frames = only(*instructions)
    with pytest.raises(Malformed, match=said):
        frames.at(0x1000)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data[:40], "bytes are needed"),
        (lambda data: data[:8] + b"\x09" + data[9:], "version 9"),
        (lambda data: data[:9] + b"q" + data[10:], "augmentation"),
        (lambda data: struct.pack("<I", 0xFFFFFFF0) + data[4:], "reserved"),
    ],
)
def test_entries_that_cannot_be_read_are_named(change: object, said: str) -> None:
    data = CallFrameSection([Function(0x1000, 0x100, [def_cfa(7, 8)])]).build()
    frames = CallFrames(change(data))  # type: ignore[operator]
    assert frames.entries == ()
    assert any(said in note for note in frames.notes)


@pytest.mark.parametrize("zeros", [4, 8, 4000])
def test_zero_words_between_entries_are_passed_over_at_once(zeros: int) -> None:
    """Also before an entry whose length begins with a byte of zero."""
    nops = [b"\0" * 236]
    functions = [Function(0x1000, 4, [def_cfa(7, 8)]), Function(0x2000, 4, nops)]
    section = CallFrameSection(functions).build()
    length = 4 + 0x100
    assert section[-length : -length + 4] == struct.pack("<I", 0x100)
    told: list[str] = []
    frames = CallFrames(section[:-length] + bytes(zeros) + section[-length:] + bytes(zeros), count=told.append)
    assert [entry.start for entry in frames.entries] == [0x1000, 0x2000]
    assert told == [".debug_frame"] * 3
    assert frames.notes == []


def test_a_vendors_augmentation_has_no_data() -> None:
    section = CallFrameSection([Function(0x1000, 0x100, [def_cfa(7, 8)])], augmentation=b"[llvm:v0.0]")
    row = CallFrames(section.build()).at(0x1000)
    assert row is not None
    assert row.cfa == FrameAddress(7, 8)


def test_functions_without_bytes_are_no_entries() -> None:
    """What a linker left out has the address 0 and no size."""
    frames = CallFrames(CallFrameSection([Function(0, 0), Function(0x1000, 4, [def_cfa(7, 8)])]).build())
    assert [entry.start for entry in frames.entries] == [0x1000]
