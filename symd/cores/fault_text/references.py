"""A line of fault text to the addresses that it names, and to what it says of loaded code.

Sources: what these tools print, by their documentation and their code: rocr-debug-agent, compute-sanitizer (2022 to 2025),
cuda-gdb, rocgdb and gdb-oneapi, LLVM's symbolizing runtimes, libomptarget, AMD's AddressSanitizer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

LONGEST_LINE = 1 << 13
"""Characters of a line that are looked at."""


class InFunction(NamedTuple):
    """``offset`` bytes from the start of the function that the text calls ``function``."""

    function: str
    offset: int


class AtAddress(NamedTuple):
    """A device address, as ``text`` of the line; ``waits`` says that the line comes before the code that it is in is named."""

    address: int
    waits: bool = False


class CodeObjectNamed(NamedTuple):
    """The URI of the code object that the next address range is of."""

    uri: str


class LoadedAt(NamedTuple):
    """Device addresses of the code object that was named last, ``end`` excluded."""

    start: int
    end: int


Reference = InFunction | AtAddress | CodeObjectNamed | LoadedAt

_HEX = r"0x([0-9a-fA-F]{1,16})(?![0-9a-zA-Z_])"
_URI = re.compile(r"code object: ((?:file|memory)://\S+)")
_LOADED = re.compile(rf"loaded at: \[{_HEX}-{_HEX}\]")
_WAVE = re.compile(rf"\bwave_\d+: pc={_HEX}")
_GDB = re.compile(r"\b0x[0-9a-fA-F]{1,16} <(?=[^\s<+])")
"""gdb writes the function and a decimal offset behind an address."""
_ANGLES = re.compile(r"operator *(?:<=>|<<=|>>=|->\*?|<<(?=\()|>>|[<>]=?)|->|[<>]")
_GDB_OFFSET = re.compile(r"\+([0-9]{1,19})$", re.ASCII)
_GDB_BEHIND = re.compile(r"[\s:,.)]|$")
_CLONE = r"(?:\[clone [^\]]*\] )?"
_SANITIZER = re.compile(rf"\b(?:at |in |Device Frame: ?){_CLONE}([A-Za-z_$~<(][^+]*?)(?:\+|:){_HEX}")
_OLD_AT = re.compile(rf"\bat {_HEX} in (\S.*)$")
_OLD_FRAME = "Device Frame:"
_OLD_FRAME_END = re.compile(rf" : {_HEX}\)")
_FILE_AND_LINE = re.compile(r"^.*?:\d+:(?=[^\d:])")
_PLAIN = re.compile(rf"\+{_HEX}")
_NAMED = re.compile(r"[A-Za-z_$~]|\(anonymous namespace\)|<(?=unnamed>)")
_OPENING = {")": "(", ">": "<", "]": "[", "}": "{"}
_STOPPED_AT = re.compile(rf"^=> {_HEX} <\+\d+>:")
_PC = re.compile(rf"\b(?:at PC|PC|at pc) {_HEX}")
_FRAME = re.compile(rf"^#\d+ +{_HEX} in ")


def references(line: str) -> list[Reference]:
    """What a line says, in its order, each once."""
    line = line[:LONGEST_LINE].strip()
    if "0x" not in line and "://" not in line:
        return []
    return list(dict.fromkeys(_found(line)))


def _found(line: str) -> Iterator[Reference]:
    for found in _URI.finditer(line):
        yield CodeObjectNamed(found[1])
    for found in _LOADED.finditer(line):
        yield LoadedAt(int(found[1], 16), int(found[2], 16))
    functions = list(_functions(line))
    yield from functions
    for pattern in (_WAVE, _STOPPED_AT, _PC, _FRAME):
        for found in pattern.finditer(line):
            yield AtAddress(int(found[1], 16), waits=pattern is _WAVE)


def _functions(line: str) -> Iterator[InFunction]:
    """Functions with offsets; a form that says more of the line than another comes first, and alone."""
    named = list(_in_gdb(line))
    named += _in_old_frame(line)
    if not named:
        named += _after_at(line)
    if not named:
        named += [
            InFunction(_called(_FILE_AND_LINE.sub("", found[2])), int(found[1], 16)) for found in _OLD_AT.finditer(line)
        ]
    if not named:
        named += _plain(line, 0)
    yield from named


def _after_at(line: str) -> Iterator[InFunction]:
    """``at F(args)+0x68``, and plain places behind it: "at a+0x8 and b+0x10" names two."""
    end = 0
    for found in _SANITIZER.finditer(line):
        yield InFunction(_called(found[1]), int(found[2], 16))
        end = found.end()
    if end:
        yield from _plain(line, end)


def _in_gdb(line: str) -> Iterator[InFunction]:
    """``0x7f10 <scale<float>(float*)+16>``: up to the bracket that closes the first one, and to the next address, so that
    each is looked at once."""
    addresses = [each.span() for each in _GDB.finditer(line)]
    for (_, start), (end, _) in pairwise([*addresses, (len(line), 0)]):
        depth, at = 1, start
        while depth and (angle := _ANGLES.search(line, at, end)):
            at = angle.end()
            depth += {"<": 1, ">": -1}.get(angle[0], 0)
        name = line[start : at - 1]
        offset = _GDB_OFFSET.search(name)
        name = name[: offset.start()] if offset else name
        if not depth and "+" not in name and _GDB_BEHIND.match(line, at):
            yield InFunction(name.strip(), int(offset[1]) if offset else 0)


def _plain(line: str, first: int) -> Iterator[InFunction]:
    """``F+0x68``, where F may have template arguments and parameters."""
    for found in _PLAIN.finditer(line, first):
        start = _beginning(line, found.start(), first)
        name = line[start : found.start()]
        if _NAMED.match(name) and (not start or line[start - 1] not in "%/"):
            yield InFunction(name, int(found[1], 16))
        first = found.end()


def _beginning(line: str, end: int, first: int) -> int:
    """Where the name begins that ends at ``end``: brackets belong to it with all that is in them."""
    at = end
    while at > first:
        character = line[at - 1]
        if character in _OPENING:
            depth, opened = 1, at - 1
            while depth and opened > first:
                opened -= 1
                depth += (line[opened] == character) - (line[opened] == _OPENING[character])
            if depth:
                return at
            at = opened
        elif character.isalnum() or character in "_$.@~:":
            at -= 1
        else:
            break
    return at


def _in_old_frame(line: str) -> Iterator[InFunction]:
    """``Device Frame:FILE:LINE:F(args) (F(args) : 0x68)``."""
    start, end = line.find(_OLD_FRAME), _OLD_FRAME_END.search(line)
    at = start
    while start >= 0 and end is not None and (at := line.find(" (", at + 1, end.start())) >= 0:
        name = line[at + 2 : end.start()]
        if name[:1].isalpha() or name[:1] in "_$~":
            yield InFunction(_called(name), int(end[1], 16))
            return


def _called(text: str) -> str:
    return re.sub(rf"^{_CLONE}", "", text.strip())
