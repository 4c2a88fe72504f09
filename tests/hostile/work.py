"""Small files that make much work and little or nothing that is answered: what each holds many of, by name. All are at most
100 KB."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable

import msgpack

from symd.formats.elf.constants import SHF_COMPRESSED
from tests.builders.elf import ALLOC, AX, NOTE, OBJECT, Relocation, Section, Symbol, build_elf
from tests.builders.leb128 import uleb
from tests.hostile.bombs import noise
from tests.hostile.growth import instruction, literal

AMD, TEXT = 224, 0x1000
LARGEST = 100_000
TEXT_SECTION = 1
MIB = 1 << 20
TABLE = bytes((1, 1, 1, 251, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1)) + b"\0f\0\0\0\0\0"
SET_ADDRESS = b"\0\x09\x02" + struct.pack("<Q", TEXT)
SPECIAL, ADVANCE, END = b"\x20", b"\x02\x40", b"\0\1\1"


def compressed(name: str, content: bytes) -> Section:
    """A section stored with zlib, with as many random bytes behind its content as keep it below a ratio of 1,000."""
    content += noise(len(content) // 20_000 + 64)
    return stored(name, content)


def stored(name: str, content: bytes) -> Section:
    header = struct.pack("<IIQQ", 1, 0, len(content), 1)
    return Section(name, flags=SHF_COMPRESSED, data=header + zlib.compress(content, 9))


def image(*sections: Section, kind: int = 3, size: int = 64) -> bytes:
    """A linked AMD code object of one kernel and these."""
    text = Section(".text", flags=AX, address=TEXT, data=bytes(size))
    descriptor = Section(
        ".rodata", flags=ALLOC, address=0x8000, data=struct.pack("<IIIxxxxq32xHH4x", 0, 0, 0, TEXT - 0x8000, 0, 0)
    )
    symbols = [Symbol("k", TEXT, size, ".text"), Symbol("k.kd", 0x8000, 64, ".rodata", OBJECT)]
    return build_elf(
        machine=AMD, osabi=64, abiversion=2, type=kind, sections=[text, descriptor, *sections], symbols=symbols
    )


FORMS = b"\x0b\x0c\x11\x0d\x0f\x15\x19\x25"
"""Forms of no more than a byte; behind each stands what the next form is."""


def lists_5(entries: bytes, count: int, *, packed: bool = False) -> bytes:
    """Inlined calls of DWARF 5 that share a list of these entries."""
    make = compressed if packed else lambda name, data: Section(name, data=data)
    body = b"\x01" + struct.pack("<QI", TEXT, 64) + (b"\x02" + struct.pack("<I", 12)) * count + b"\0"
    info = struct.pack("<IHBBI", 8 + len(body), 5, 1, 8, 0) + body
    lists = struct.pack("<HBBI", 5, 8, 0, 0) + entries + b"\0"
    return image(
        Section(".debug_info", data=info),
        Section(".debug_abbrev", data=b"\1\x11\1\x11\1\x12\6\0\0\2\x2e\0\x55\x17\0\0\0"),
        make(".debug_rnglists", struct.pack("<I", len(lists)) + lists),
        Section(".debug_line", data=one_sequence(b"")),
    )


def line_table(program: bytes, operations: int = 1, line_range: int = 14, line_base: int = 251) -> bytes:
    header = TABLE[:1] + bytes([operations]) + TABLE[2:3] + bytes((line_base, line_range)) + TABLE[5:]
    rest = b"\x04\0" + struct.pack("<I", len(header)) + header + program
    return struct.pack("<I", len(rest)) + rest


def one_sequence(opcodes: bytes, operations: int = 1) -> bytes:
    return line_table(SET_ADDRESS + SPECIAL + opcodes + ADVANCE + END, operations)


ABBREVIATIONS = (
    b"\x01\x11\1\x03\x08\x10\x17\x11\x01\x12\x06\0\0"  # unit: name, stmt_list, low_pc, high_pc
    b"\x02\x2e\1\x03\x08\x11\x01\x12\x06\0\0"  # function: name, low_pc, high_pc
)


def unit(tree: bytes, abbreviations: int = 0) -> bytes:
    """A unit whose DIE has so many bytes below it."""
    body = (
        b"\x01u\0"
        + bytes(4)
        + struct.pack("<QI", TEXT, 64)
        + b"\x02f\0"
        + struct.pack("<QI", TEXT, 64)
        + tree
        + b"\0\0"
    )
    return struct.pack("<IHIB", 7 + len(body), 4, abbreviations, 8) + body


def debug(tree: bytes, declared: bytes, *sections: Section, packed: bool = True) -> bytes:
    make = compressed if packed else lambda name, data: Section(name, data=data)
    return image(
        make(".debug_info", unit(tree)),
        make(".debug_abbrev", ABBREVIATIONS + declared + b"\0"),
        Section(".debug_line", data=one_sequence(b"")),
        *sections,
    )


def many_lines(opcodes: bytes, operations: int = 1, size: int = 15 * MIB) -> bytes:
    count = size // len(opcodes)
    info = Section(".debug_info", data=unit(b""))
    return image(
        compressed(".debug_line", one_sequence(opcodes * count, operations)),
        info,
        Section(".debug_abbrev", data=ABBREVIATIONS + b"\0"),
    )


def flags(count: int) -> bytes:
    """Attributes of no bytes (DW_FORM_flag_present)."""
    return b"\x3f\x19" * count


def old_list(count: int, entry: bytes) -> bytes:
    return entry * count + bytes(16)


BASE = b"\xff" * 8 + bytes(8)
PAIR = struct.pack("<QQ", 1, 1)


def variables(count: int, entries: int, entry: bytes, packed: bool = False) -> bytes:
    """Variables that share a location list."""
    make = compressed if packed else lambda name, data: Section(name, data=data)
    return debug(
        b"\x03v\0\0\0\0\0" * count,
        b"\x03\x34\0\x03\x08\x02\x17\0\0",
        make(".debug_loc", old_list(entries, entry)),
        packed=packed,
    )


def blocks(count: int, entries: int, entry: bytes, tag: bytes = b"\x0b", packed: bool = False) -> bytes:
    """Scopes that share a range list."""
    make = compressed if packed else lambda name, data: Section(name, data=data)
    return debug(
        b"\x03\0\0\0\0" * count,
        b"\x03" + tag + b"\0\x55\x17\0\0",
        make(".debug_ranges", old_list(entries, entry)),
        packed=packed,
    )


def expressions(count: int, expression: bytes, packed: bool = True) -> bytes:
    """Variables whose locations are long."""
    block = uleb(len(expression)) + expression
    return debug((b"\x03v\0" + block) * count, b"\x03\x34\0\x03\x08\x02\x18\0\0", packed=packed)


def nested_entry_values(depth: int) -> bytes:
    found = b"\x50"
    for _ in range(depth):
        found = b"\xa3" + uleb(len(found)) + found
    return found


def two_chains(rows: int, depth: int = 62) -> bytes:
    """A cubin with rows in turn in two chains of inlined calls, so that no range of one goes on in the next."""

    def row(context: int) -> bytes:
        body = b"\x90" + uleb(context) + b"\1"
        return b"\0" + uleb(len(body)) + body + b"\x1d"

    chains = [row(number) for number in range(depth + 1)] + [row(0)]
    chains += [row(depth + 2 + number) for number in range(depth)]
    program = SET_ADDRESS[:3] + bytes(8) + b"".join(chains) + (row(depth) + row(2 * depth + 1)) * (rows // 2) + END
    header = bytes((1, 1, 251, 14, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1)) + b"\0f.cu\0\0\0\0\0"
    table = b"\2\0" + struct.pack("<I", len(header)) + header + program
    size = rows + 3 * depth
    return build_elf(
        machine=190,
        type=2,
        sections=[
            stored(".text.k", bytes(size))._replace(flags=AX | SHF_COMPRESSED),
            stored(".debug_line", struct.pack("<I", len(table)) + table),
            Section(".debug_str", data=b"\0n\0"),
        ],
        symbols=[Symbol("k", size=size, section=".text.k", other=0x10)],
        relocations={".debug_line": [Relocation(len(header) + 13, "k", 2)]},
        rela=False,
    )


def overlapping(
    kind: int,
    data: bytes,
    count: int,
    entsize: int = 0,
    flags: int = 0,
    link: int = 0,
    info: int = 0,
    name: str = ".x",
    **more,
) -> bytes:
    """Many section headers that all say the same bytes."""
    base = image(Section(name, kind, flags=flags, data=data, entsize=entsize, link=link, info=info))
    (shoff,) = struct.unpack_from("<Q", base, 40)
    (number,) = struct.unpack_from("<H", base, 60)
    table = base[shoff : shoff + 64 * number]
    wanted = next(
        at
        for at in range(number)
        if struct.unpack_from("<I", table, 64 * at + 4)[0] == kind
        and struct.unpack_from("<Q", table, 64 * at + 32)[0] == len(data)
    )
    head = table[64 * wanted : 64 * wanted + 64]
    found = (
        bytearray(base[:shoff] + bytes(-shoff % 8) + table + head * count)
        if shoff + 64 * number == len(base)
        else bytearray(base + bytes(-len(base) % 8) + table + head * count)
    )
    at = len(found) - 64 * (number + count)
    struct.pack_into("<Q", found, 40, at)
    struct.pack_into("<H", found, 60, number + count)
    return bytes(found)


def words(*instructions: list[int], version: int = 0x10200, bound: int = 100_000) -> bytes:
    found = [0x07230203, version, 0, bound, 0]
    for each in instructions:
        found += each
    return struct.pack(f"<{len(found)}I", *found)


def module(*inside: list[int], before: list[list[int]] = ()) -> bytes:
    return words(
        instruction(17, 6),
        instruction(14, 2, 2),
        instruction(15, 6, 10, *literal("k")),
        *before,
        instruction(7, 5, *literal("a.cl")),
        instruction(19, 1),
        instruction(33, 2, 1),
        instruction(54, 1, 10, 0, 2),
        instruction(248, 11),
        instruction(8, 5, 1, 1),
        *inside,
        instruction(253),
        instruction(56),
    )


def gz(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)


def note(content: bytes, kind: int = 32) -> Section:
    return Section(
        ".note",
        NOTE,
        flags=ALLOC,
        data=struct.pack("<III8s", 7, len(content), kind, b"AMDGPU\0") + content + b"\0" * (-len(content) % 4),
    )


def rich(content_size: int) -> bytes:
    return noise(content_size // 20_000)


def archive(members: int, member: bytes) -> bytes:
    member += b"\n" * (len(member) % 2)
    head = b"%-16s%-12s%-6s%-6s%-8s%-10d`\n" % (b"a/", b"0", b"0", b"0", b"644", len(member))
    return b"!<arch>\n" + (head + member) * members


def tiny() -> bytes:
    return build_elf(
        machine=AMD,
        osabi=64,
        abiversion=2,
        type=3,
        sections=[Section(".text", flags=AX, address=TEXT, data=bytes(4))],
        symbols=[Symbol("f", TEXT, 4, ".text")],
    )


SPIRV_NOP, SPIRV_LINE = instruction(0), instruction(8, 5, 1, 1)

WORK: dict[str, Callable[[], bytes]] = {
    "line negate_stmt": lambda: many_lines(b"\x06"),
    "line advance_pc": lambda: many_lines(b"\x02\x00"),
    "line set_file": lambda: many_lines(b"\x04\x01"),
    "line const_add_pc": lambda: many_lines(b"\x08"),
    "line fixed_advance_pc": lambda: many_lines(b"\x09\0\0"),
    "line extended unknown": lambda: many_lines(b"\0\1\x80"),
    "line set_address": lambda: many_lines(SET_ADDRESS),
    "line define_file": lambda: many_lines(b"\0\6\3ff\0\0\0"),
    "line LEB padding": lambda: many_lines(b"\x02" + b"\x80" * 100 + b"\0"),
    "line negate_stmt vliw": lambda: many_lines(b"\x06", 2),
    "line set_file vliw": lambda: many_lines(b"\x04\x01", 2),
    "line tables of no row": lambda: image(
        compressed(".debug_line", one_sequence(b"") + line_table(SET_ADDRESS) * 31_000)
    ),
    "line not compressed": lambda: image(
        Section(".debug_line", data=one_sequence(b"\x06" * 60_000)),
        Section(".debug_info", data=unit(b"")),
        Section(".debug_abbrev", data=ABBREVIATIONS + b"\0"),
    ),
    "abbreviations": lambda: debug(b"", b"".join(uleb(n) + b"\x34\0\0\0" for n in range(4, 16_000)), packed=True),
    "abbreviations same": lambda: debug(b"", b"\x03\x34\0\0\0" * 3_000_000),
    "abbreviation attributes": lambda: debug(b"\x03" * 60_000, b"\x03\x34\0" + flags(250) + b"\0\0", packed=False),
    "DIE flags": lambda: debug(b"\x03" * 1_000_000, b"\x03\x34\0" + flags(250) + b"\0\0"),
    "DIE functions with flags": lambda: debug(b"\x03" * 900_000, b"\x03\x2e\0" + flags(250) + b"\0\0"),
    "DIEs without children": lambda: debug(b"\x03" * 15 * MIB, b"\x03\x34\0\0\0"),
    "DIE indirect chain": lambda: debug(b"\x03" + b"\x16" * (15 * MIB) + b"\x0b\0", b"\x03\x34\0\x3f\x16\0\0"),
    "DIE many indirect": lambda: debug(b"\x03\x16\x16\x16\x0b\0" * 3 * MIB, b"\x03\x34\0\x3f\x16\0\0"),
    "DIE many indirect functions": lambda: debug(b"\x03\x16\x16\x16\x0b\0" * 160_000, b"\x03\x2e\0\x3f\x16\0\0"),
    "DIE nulls": lambda: debug(b"\x03\0" * 7 * MIB, b"\x03\x0b\1\0\0"),
    "DIE blocks nested": lambda: debug(b"\x03" * 900_000 + b"\0" * 900_000, b"\x03\x0b\1\0\0"),
    "DIE far codes": lambda: debug(b"\xff\xff\x7f" * 5 * MIB, b"\xff\xff\x7f\x34\0\0\0"),
    "units sharing": lambda: image(
        compressed(".debug_info", unit(b"") + (struct.pack("<IHIB", 8, 4, 0, 8) + b"\0") * 30_000),
        Section(
            ".debug_abbrev", data=ABBREVIATIONS + b"".join(uleb(n) + b"\x34\0\0\0" for n in range(4, 10_000)) + b"\0"
        ),
        Section(".debug_line", data=one_sequence(b"")),
    ),
    "units overlapping tables": lambda: image(
        compressed(
            ".debug_info", unit(b"") + b"".join(struct.pack("<IHIB", 8, 4, 5 * n, 8) + b"\0" for n in range(20_000))
        ),
        compressed(".debug_abbrev", ABBREVIATIONS + b"\x03\x34\0\0\0" * 3_000_000 + b"\0"),
        Section(".debug_line", data=one_sequence(b"")),
    ),
    "types skipped": lambda: debug(b"\x03t\0" * 5 * MIB, b"\x03\x24\0\x03\x08\0\0"),
    "location lists bases": lambda: variables(5_000, 3_000, BASE),
    "location lists empty": lambda: variables(5_000, 3_000, PAIR + b"\0\0"),
    "location lists bases packed": lambda: variables(300_000, 800_000, BASE, True),
    "location lists pieces": lambda: variables(5_000, 2_000, struct.pack("<QQH", 0, 64, 1) + b"\x50"),
    "location expressions nested": lambda: expressions(1000, nested_entry_values(500)),
    "location expressions long": lambda: expressions(1, b"\x30\x13" * 7 * MIB),
    "location expressions loop": lambda: expressions(1000, b"\x2f\xfd\xff", packed=False),
    "location expressions loops": lambda: expressions(100_000, b"\x2f\xfd\xff"),
    "location expressions nops": lambda: expressions(1000, b"\x96" * 15_000),
    "location expressions growth": lambda: expressions(
        1, b"\x11\x01" + (b"\x12\x12\x1e" * 100) + b"\x9f", packed=False
    ),
    "location expressions terms": lambda: expressions(
        1, b"\x50" + b"\x70\0" + (b"\x12\x22" * 60) + b"\x9f", packed=False
    ),
    "range lists bases": lambda: blocks(6_000, 3_000, BASE),
    "range lists bases calls": lambda: blocks(6_000, 3_000, BASE, b"\x1d"),
    "range lists functions": lambda: blocks(6_000, 3_000, PAIR, b"\x2e"),
    "range lists full": lambda: blocks(6_000, 3_000, struct.pack("<QQ", 0, 64), b"\x1d"),
    "range lists packed": lambda: blocks(500_000, 700_000, BASE, b"\x1d", True),
    "range list blocks packed": lambda: blocks(500_000, 700_000, BASE, b"\x0b", True),
    "string offsets": lambda: debug(b"", b"", compressed(".debug_str", b"s\0" * 7 * MIB)),
    "macro": lambda: debug(
        b"",
        b"",
        compressed(".debug_macro", b"\x01\x01m\0" * 2 * MIB),
        compressed(".debug_aranges", b"\0" * 3 * MIB),
        compressed(".debug_names", b"\0" * 3 * MIB),
    ),
    "sections compressed": lambda: overlapping(
        1, stored("x", b"\0" * 4 * MIB).data, 7, flags=SHF_COMPRESSED, name=".debug_x"
    ),
    "sections of debug lines": lambda: overlapping(
        1, stored("x", one_sequence(b"\x06" * 4 * MIB)).data, 7, flags=SHF_COMPRESSED, name=".debug_line"
    ),
    "sections of symbols": lambda: overlapping(
        2,
        b"".join(struct.pack("<IBBHQQ", 1, 2, 0, 1, TEXT + n % 64, 64 - n % 64) for n in range(1500)),
        900,
        entsize=24,
        link=3,
        info=0,
        name=".symtab2",
    ),
    "sections of relocations": lambda: overlapping(
        4,
        b"".join(struct.pack("<QQq", n % 64, 1, 0) for n in range(1500)),
        900,
        entsize=24,
        link=3,
        info=1,
        name=".rela.text",
    ),
    "sections of notes": lambda: overlapping(
        7,
        (struct.pack("<III8s", 7, 8, 32, b"AMDGPU\0") + msgpack.packb({"a": []}).ljust(8, b"\0")) * 1000,
        900,
        flags=ALLOC,
        name=".note",
    ),
    "sections of metadata": lambda: overlapping(
        7,
        note(
            msgpack.packb({"amdhsa.version": [1, 1], "amdhsa.kernels": [{".symbol": "k.kd", ".args": [{}] * 30_000}]})
        ).data,
        900,
        flags=ALLOC,
        name=".note",
    ),
    "symbols": lambda: build_elf(
        machine=AMD,
        osabi=64,
        type=3,
        sections=[Section(".text", flags=AX, address=TEXT, data=bytes(4096))],
        symbols=[Symbol("f", TEXT + n % 2048, 4096 - 2 * (n % 2048), ".text") for n in range(3000)],
    ),
    "metadata nested": lambda: image(note(b"\x91" * 90_000)),
    "metadata empty": lambda: image(note(b"\xdd" + struct.pack(">I", 80_000) + b"\x90" * 80_000)),
    "SPIR-V nop": lambda: module(*[SPIRV_NOP] * 20_000),
    "SPIR-V nop gzip": lambda: gz(module() + struct.pack("<I", 1 << 16) * 3 * MIB),
    "SPIR-V lines gzip": lambda: gz(module()[:-8] + struct.pack("<4I", *SPIRV_LINE) * 900_000 + module()[-8:]),
    "SPIR-V names gzip": lambda: gz(
        words(
            instruction(17, 6),
            instruction(14, 2, 2),
            instruction(15, 6, 10, *literal("k")),
            *[instruction(5, 10, *literal("k"))] * 900_000,
        )
    ),
    "SPIR-V decorations gzip": lambda: gz(
        words(
            instruction(17, 6),
            instruction(14, 2, 2),
            instruction(15, 6, 10, *literal("k")),
            *[instruction(71, 10, 0)] * 900_000,
        )
    ),
    "SPIR-V strings gzip": lambda: gz(
        words(
            instruction(17, 6),
            instruction(14, 2, 2),
            instruction(15, 6, 10, *literal("k")),
            *[instruction(7, 5, *literal("a"))] * 900_000,
        )
    ),
    "SPIR-V types gzip": lambda: gz(
        words(
            instruction(17, 6),
            instruction(14, 2, 2),
            instruction(15, 6, 10, *literal("k")),
            *[instruction(21, 7, 32, 0)] * 900_000,
        )
    ),
    "SPIR-V struct nests": lambda: module(before=[instruction(30, 21 + n, 20 + n, 20 + n) for n in range(5000)]),
    "SPIR-V pointer chain": lambda: module(before=[instruction(32, 21 + n, 7, 20 + n) for n in range(5000)]),
    "SPIR-V functions gzip": lambda: gz(
        module()
        + struct.pack(
            "<10I", *instruction(54, 1, 10, 0, 2), *instruction(248, 11), *instruction(253), *instruction(56), 1 << 16
        )
        * 380_000
    ),
    "archive of objects gzip": lambda: gz(archive(20_000, tiny())),
    "archive of garbage gzip": lambda: gz(archive(90_000, b"x")),
    "archive of SPIR-V gzip": lambda: gz(archive(80_000, module())),
    "archive long names gzip": lambda: gz(
        b"!<arch>\n"
        + b"%-16s%-12s%-6s%-6s%-8s%-10d`\n" % (b"//", b"0", b"0", b"0", b"644", 10 * MIB)
        + b"n" * 10 * MIB
        + archive(50_000, b"x")[8:].replace(b"a/  ", b"/0  ")
    ),
    "gzip zeros": lambda: gz(b"\0" * 15 * MIB),
    "gzip ELF zeros": lambda: gz(image(size=15 * MIB)),
    "cubin info": lambda: build_elf(
        machine=190,
        type=2,
        sections=[
            Section(".text.k", flags=AX, data=bytes(16)),
            Section(".nv.info.k", 0x70000000, data=b"\1\1\0\0" * 20_000, info=1),
        ],
        symbols=[Symbol("k", size=16, section=1, other=0x10)],
    ),
    "cubin info gzip": lambda: gz(
        build_elf(
            machine=190,
            type=2,
            sections=[
                Section(".text.k", flags=AX, data=bytes(16)),
                Section(".nv.info.k", 0x70000000, data=b"\1\1\0\0" * 3_500_000, info=1),
            ],
            symbols=[Symbol("k", size=16, section=1, other=0x10)],
        )
    ),
    "line headers of many parameters": lambda: image(
        compressed(
            ".debug_line",
            b"".join(
                line_table(SET_ADDRESS + SPECIAL + b"\x06" * 600 + ADVANCE + END, 1, 1 + n % 200, 1 + n % 127)
                for n in range(14_000)
            ),
        )
    ),
    "abbreviations used": lambda: debug(
        b"".join(uleb(n) for n in range(4, 16_000)),
        b"".join(uleb(n) + b"\x2e\0" + uleb(n) + b"\x19\0\0" for n in range(4, 16_000)),
    ),
    "indirect forms used": lambda: debug(
        b"".join(b"\x03" + bytes(FORMS[n // 8**k % 8] for k in range(5)) for n in range(8**5)),
        b"\x03\x2e\0" + b"".join(b"%c\x16" % (80 + k) for k in range(5)) + b"\0\0",
    ),
    "calls nested without ranges": lambda: debug(
        b"\x03" * 150_000 + b"\x04" + struct.pack("<QI", TEXT, 8) + b"\0" * 150_001,
        b"\x03\x1d\1\0\0\x04\x1d\0\x11\1\x12\6\0\0",
    ),
    "calls nested in a range": lambda: debug(b"\x03" * 150_000 + b"\0" * 150_001, b"\x03\x1d\1\0\0"),
    "range lists of DWARF 5": lambda: lists_5(b"\4\1\1" * 16_000, 20),
    "range lists of DWARF 5 packed": lambda: lists_5(b"\4\1\1" * 3_000_000, 20, packed=True),
    "cubin rows in two chains": lambda: two_chains(150_000),
    "functions overlapping": lambda: debug(
        b"".join(b"\x03" + struct.pack("<QI", TEXT + n % 32, 64 - n % 32) for n in range(6_000)),
        b"\x03\x2e\0\x11\1\x12\6\0\0",
        packed=False,
    ),
    "functions overlapping packed": lambda: debug(
        b"".join(b"\x03" + struct.pack("<QI", TEXT + n % 32, 64 - n % 32) for n in range(600_000)),
        b"\x03\x2e\0\x11\1\x12\6\0\0",
    ),
    "types chained": lambda: debug(
        b"\x04v\0"
        + struct.pack("<I", 56)
        + b"".join(b"\x03" + struct.pack("<I", 56 + 5 * (n + 1)) for n in range(15_000)),
        b"\x03\x0f\0\x49\x13\0\0\x04\x34\0\3\x08\x49\x13\0\0",
        packed=False,
    ),
}
