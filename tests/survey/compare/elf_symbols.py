"""What readelf lists of the code objects: kernels with their sizes, and the function around each address asked."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.survey.case import Case, CodeFile, Compared
from tests.survey.toolbox import printed

_SYMBOL = re.compile(
    r"^\s*\d+: (?P<value>[0-9a-f]+)\s+(?P<size>\d+|0x[0-9a-f]+) (?P<type>\S+)\s+(?P<bind>\S+)\s+(?P<visibility>\S+)"
    r"\s+(?:\[(?P<other>[^\]]*)\]\s+)?(?P<section>\d+|[A-Z]+) (?P<name>.*)$"
)
_SECTION = re.compile(r"^\s*\[\s*(\d+)\] (\S*)\s+\S+\s+([0-9a-f]{16}) ([0-9a-f]+) ([0-9a-f]+) ")
"""Number, name, address, offset in the file, size."""
_FILE = re.compile(r"^File: (.*)$")
TOGETHER = 64
"""Files that one call of readelf lists."""
FUNCTIONS_ALONE = "Intel_Symbol_Table_Void_Program"
CUDA_ENTRY = "10"
"""STO_CUDA_ENTRY, as readelf shows st_other."""


@dataclass(frozen=True)
class Symbol:
    value: int
    size: int
    type: str
    other: str
    section: int
    name: str


@dataclass(frozen=True)
class Section:
    """``offset`` is the place in the file."""

    name: str
    address: int
    offset: int
    size: int


@dataclass(frozen=True)
class Listed:
    symbols: tuple[Symbol, ...]
    sections: Mapping[int, Section]


def listed(paths: Iterable[Path]) -> Iterator[tuple[Path, Listed]]:
    """What readelf says of each of these files."""
    every = list(paths)
    for some in (every[at : at + TOGETHER] for at in range(0, len(every), TOGETHER)):
        text = printed("readelf", "-sSW", *some)
        parts = _parts(text, some)
        for path in some:
            lines = parts[str(path)]
            yield path, Listed(tuple(_symbols(lines)), dict(_sections(lines)))


def _parts(text: str, paths: Sequence[Path]) -> dict[str, list[str]]:
    """The lines of each file's part. Of a single file readelf does not print the name."""
    parts: dict[str, list[str]] = {str(path): [] for path in paths}
    current = parts[str(paths[0])]
    for line in text.splitlines():
        named = _FILE.match(line)
        if named:
            current = parts[named[1]]
        else:
            current.append(line)
    return parts


def _symbols(lines: list[str]) -> Iterator[Symbol]:
    """Those of the symbol table; the dynamic one repeats some of them."""
    inside = False
    for line in lines:
        if line.startswith("Symbol table '"):
            inside = line.startswith("Symbol table '.symtab'")
        found = _SYMBOL.match(line) if inside else None
        if found and found["section"].isdigit():
            size = int(found["size"], 0)
            other = (found["other"] or "").removeprefix("<other>: ").strip()
            yield Symbol(int(found["value"], 16), size, found["type"], other, int(found["section"]), found["name"])


def _sections(lines: list[str]) -> Iterator[tuple[int, Section]]:
    for line in lines:
        found = _SECTION.match(line)
        if found:
            yield int(found[1]), Section(found[2], *(int(number, 16) for number in found.groups()[2:]))


def kernels(case: Case) -> Compared:
    """Names and sizes of the kernels of every ELF code object."""
    return compare_kernels(each for each in case.objects if each.format in _KERNELS)


def compare_kernels(objects: Iterable[CodeFile]) -> Compared:
    by_path = {each.path: each for each in objects}
    count, differences = 0, []
    for path, elf in listed(by_path):
        each = by_path[path]
        theirs = _KERNELS[each.format](elf)
        mine = sorted((kernel["name"], kernel["size"]) for kernel in each.entry["kernels"])
        count += len(theirs)
        if mine != theirs:
            unlike = sorted(set(mine) ^ set(theirs))
            differences.append(f"{each.name}: symd has {len(mine)} kernels, readelf {len(theirs)}: {unlike[:4]}")
    return Compared("readelf: kernels with their sizes", count, differences)


def _amd_kernels(elf: Listed) -> list[tuple[str, int]]:
    """A kernel is a function with a descriptor of its name."""
    described = {symbol.name.removesuffix(".kd") for symbol in elf.symbols if symbol.name.endswith(".kd")}
    functions = [symbol for symbol in elf.symbols if symbol.type == "FUNC" and symbol.name in described]
    return sorted((symbol.name, symbol.size) for symbol in functions)


def _cuda_kernels(elf: Listed) -> list[tuple[str, int]]:
    entries = [symbol for symbol in elf.symbols if symbol.type == "FUNC" and symbol.other == CUDA_ENTRY]
    return sorted((symbol.name, symbol.size) for symbol in entries)


def _zebin_kernels(elf: Listed) -> list[tuple[str, int]]:
    """A kernel is the function that a text section is named for. The section may be longer; that of functions alone has a
    name of the compiler's."""
    texts = {number: section.name.removeprefix(".text.") for number, section in elf.sections.items()}
    entries = [symbol for symbol in elf.symbols if symbol.type == "FUNC" and symbol.name == texts[symbol.section]]
    return sorted((symbol.name, symbol.size) for symbol in entries if symbol.name != FUNCTIONS_ALONE)


_KERNELS = {"amdgpu": _amd_kernels, "cubin": _cuda_kernels, "zebin": _zebin_kernels}


def functions(case: Case) -> Compared:
    """The outermost function of each answer is that of the smallest symbol around the address."""
    by_path = {each.path: each for each in case.asked if each.format in {"amdgpu", "cubin"}}
    count, differences = 0, []
    for path, elf in listed(by_path):
        around = SymbolsAround(elf)
        for query, answer in zip(by_path[path].queries, by_path[path].answers(), strict=True):
            section, offset = (int(number, 0) for number in query.removeprefix("(#").split(")+"))
            expected = around.names(section, offset)
            frame = answer["frames"][-1] if answer["frames"] else {}
            count += 1
            if not expected & {frame.get("function"), frame.get("linkage_name")}:
                differences.append(f"{by_path[path].name} {query}: symd {frame}, readelf {sorted(expected)}")
    return Compared("readelf: function around an address", count, differences)


class SymbolsAround:
    """Function symbols by section and place."""

    def __init__(self, elf: Listed) -> None:
        self._by_section: dict[int, list[tuple[int, int, str]]] = {}
        for symbol in elf.symbols:
            if symbol.type == "FUNC" and symbol.size:
                start = symbol.value - elf.sections[symbol.section].address
                self._by_section.setdefault(symbol.section, []).append((start, symbol.size, symbol.name))
        for symbols in self._by_section.values():
            symbols.sort()

    def names(self, section: int, offset: int) -> set[str]:
        """Of the smallest symbol that has the byte; several may have the same extent."""
        symbols = self._by_section.get(section, [])
        before = symbols[: bisect_right(symbols, (offset, 1 << 62, ""))]
        having = [(size, name) for start, size, name in before if offset < start + size]
        return {name for size, name in having if size == min(having)[0]}
