"""Code objects as other tools can read them: the container split by hand, and relocations stored that those tools do not
know. Written from the format descriptions with struct alone, so that it shares nothing with what it checks."""

from __future__ import annotations

import struct

SHT_PROGBITS, SHT_SYMTAB, SHT_RELA = 1, 2, 4


def split_container(data: bytes) -> dict[str, bytes]:
    """Kernel name to ELF image of an IGC debug container."""
    count = struct.unpack_from("<I", data, 24)[0]
    at, images = 28, {}
    for _ in range(count):
        name_size, image_size, _gen = struct.unpack_from("<3I", data, at)
        name = data[at + 12 : at + 12 + name_size].rstrip(b"\0").decode()
        start = at + 12 + name_size
        images[name] = data[start : start + image_size]
        at = start + image_size
    return images


def neo_debug_section(data: bytes) -> bytes:
    """The content of the section of type 0xff000008."""
    return next(content for kind, _, content in _sections(data) if kind == 0xFF000008)


def addends_stored(data: bytes, widths: dict[int, int]) -> bytes:
    """The same ELF with the addend of each RELA entry of a known type stored at its place (``widths``: type to bytes),
    and the tables made to look like plain data, so that no reader applies them again. The symbol table too: LLVM prefers
    symbols to what the debug data says, and a zebin's ``_entry`` is no function."""
    image = bytearray(data)
    sections = _sections(data)
    for number, (kind, name, content) in enumerate(sections):
        if kind == SHT_SYMTAB:
            struct.pack_into("<I", image, _table(data) + number * 64 + 4, SHT_PROGBITS)
        if kind != SHT_RELA or not name.startswith(".rela.debug_"):
            continue
        _, base, _ = next(_header(data, other) for other, (_, title, _) in enumerate(sections) if title == name[5:])
        for at in range(0, len(content), 24):
            offset, info, addend = struct.unpack_from("<QQq", content, at)
            width = widths[info & 0xFFFFFFFF]
            image[base + offset : base + offset + width] = addend.to_bytes(8, "little")[:width]
        struct.pack_into("<I", image, _table(data) + number * 64 + 4, SHT_PROGBITS)
    return bytes(image)


APART = 0x1000000
"""How far apart ``linked`` puts the kernels of a zebin."""


def linked(data: bytes) -> tuple[bytes, list[str]]:
    """A zebin of several kernels with its relocations stored as if the n-th text section, and with it the n-th unit, line
    program and address table, lay at n * APART; and the names of the text sections. Symbols are not consulted."""
    image = bytearray(data)
    sections = _sections(data)
    texts = [name for _, name, _ in sections if name.startswith(".text.")]
    numbers = {title: number for number, (_, title, _) in enumerate(sections)}
    for number, (kind, name, content) in enumerate(sections):
        if kind in {SHT_SYMTAB, SHT_RELA}:
            struct.pack_into("<I", image, _table(data) + number * 64 + 4, SHT_PROGBITS)
        if kind != SHT_RELA or not name.startswith(".rela.debug_"):
            continue
        _, base, size = _header(data, numbers[name[5:]])
        starts = _unit_starts(data[base : base + size]) if name[5:] in UNITED else [0]
        assert len(starts) == len(texts) or name[5:] not in UNITED, f"{name}: {len(starts)} units, {len(texts)} texts"
        for at in range(0, len(content), 24):
            offset, info, addend = struct.unpack_from("<QQq", content, at)
            unit = sum(start <= offset for start in starts) - 1
            value = addend + unit * APART if info & 0xFFFFFFFF == 1 else addend
            width = 8 if info & 0xFFFFFFFF == 1 else 4
            image[base + offset : base + offset + width] = value.to_bytes(8, "little")[:width]
    return bytes(image), [name.removeprefix(".text.") for name in texts]


UNITED = {".debug_info", ".debug_line", ".debug_addr"}


def _unit_starts(data: bytes) -> list[int]:
    """Where each contribution of a section starts: each begins with its 32-bit length."""
    starts, at = [], 0
    while at < len(data):
        starts.append(at)
        at += 4 + struct.unpack_from("<I", data, at)[0]
    return starts


def _table(data: bytes) -> int:
    return int(struct.unpack_from("<Q", data, 40)[0])


def _header(data: bytes, number: int) -> tuple[int, int, int]:
    """(type, file offset, size) of a section."""
    at = _table(data) + number * 64
    kind = struct.unpack_from("<I", data, at + 4)[0]
    offset, size = struct.unpack_from("<QQ", data, at + 24)
    return kind, offset, size


def _sections(data: bytes) -> list[tuple[int, str, bytes]]:
    count, names_index = struct.unpack_from("<HH", data, 60)
    _, names_at, names_size = _header(data, names_index)
    names = data[names_at : names_at + names_size]
    result = []
    for number in range(count):
        kind, offset, size = _header(data, number)
        start = struct.unpack_from("<I", data, _table(data) + number * 64)[0]
        name = names[start : names.index(b"\0", start)].decode()
        result.append((kind, name, data[offset : offset + size] if kind != 8 else b""))
    return result


def text_sections(data: bytes) -> dict[str, int]:
    """Names and sizes of the .text sections, in order."""
    return {name: len(content) for _, name, content in _sections(data) if name.startswith(".text")}


def function_symbols(data: bytes) -> set[str]:
    """The names of the FUNC symbols."""
    sections = _sections(data)
    result = set()
    for number, (kind, _, content) in enumerate(sections):
        if kind != SHT_SYMTAB:
            continue
        strings = sections[struct.unpack_from("<I", data, _table(data) + number * 64 + 40)[0]][2]
        for at in range(0, len(content), 24):
            name, info = struct.unpack_from("<IB", content, at)
            if info & 15 == 2:
                result.add(strings[name : strings.index(b"\0", name)].decode())
    return result
