"""SPIR-V modules among the data of a program, as its symbol table has them: variables that begin as a module does."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

from tests.survey.case import Case, Compared
from tests.survey.compare import elf_symbols

_MAGIC = b"\x03\x02\x23\x07"
_SMALLEST = 24
"""Bytes of a header and of an instruction: a variable with the magic number alone is a constant of some compiler's."""
_DATA = (".rodata", ".data")


def arrays(path: Path) -> list[bytes]:
    """The contents of these variables, each place once."""
    ((_, listed),) = elf_symbols.listed([path])
    places = set()
    for symbol in listed.symbols:
        section = listed.sections.get(symbol.section)
        if symbol.type == "OBJECT" and symbol.size >= _SMALLEST and section and section.name.startswith(_DATA):
            places.add((section.offset + symbol.value - section.address, symbol.size))
    found = []
    with path.open("rb") as file:
        for offset, size in sorted(places):
            file.seek(offset)
            content = file.read(size)
            found += [content] if content.startswith(_MAGIC) else []
    return found


def modules(case: Case) -> Compared:
    """The bytes of every module are those of a variable, and the other way round."""
    theirs = Counter(hashlib.sha256(content).hexdigest() for content in arrays(case.path))
    mine = Counter(str(each["sha256"]) for each in case.info["objects"] if each["format"] == "spirv")
    differences = [f"the symbol table has {count} of {digest[:12]}… more" for digest, count in (theirs - mine).items()]
    differences += [f"symd has {count} of {digest[:12]}… more" for digest, count in (mine - theirs).items()]
    return Compared("readelf: bytes of every module", theirs.total(), differences)
