"""Fault reports as text: the addresses that each line names are symbolized, with the code that earlier lines said was
loaded.

Sources: what these tools print, by their documentation and their code: rocr-debug-agent, compute-sanitizer (2022 to
2025), cuda-gdb, rocgdb and gdb-oneapi, LLVM's symbolizing runtimes, libomptarget, AMD's AddressSanitizer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from symd.model.addresses import ByAddress, ByKernel, KernelOffset, ObjectAddress, Query
from symd.model.answers import Answer, Reason
from symd.query.function_spellings import taken_apart

MAX_LINE = 1 << 13
"""Characters of a line that are looked at."""


class InFunction(NamedTuple):
    """A place that fault text names: ``offset`` bytes from the start of the function that it calls ``function``."""

    function: str
    offset: int


class AtAddress(NamedTuple):
    """A device address, as ``text`` of the line; ``waits`` says that the line comes before the code that it is in is
    named."""

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
_PC = re.compile(rf"\b(?:PC|pc)(?::| =)? {_HEX}")
_FRAME = re.compile(rf"^#\d+ +{_HEX} in ")


def references(line: str) -> list[Reference]:
    """What a line says, in its order, each once."""
    line = line[:MAX_LINE].strip()
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
    """``0x7f10 <scale<float>(float*)+16>``: up to the bracket that closes the first one, and to the next address, so
    that each is looked at once."""
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


MAX_LOADED = 1000
"""Address ranges that are kept; the first that were told are forgotten first."""
MAX_OPENED = 1000
"""Files that one text may have opened."""
MAX_WAITING = 64
"""Addresses that wait until the code that they are in is named."""
_BRACKETS = re.compile(r"[()<>]")
_NOTHING = frozenset({Reason.UNKNOWN_KERNEL, Reason.UNKNOWN_MODULE, Reason.OUTSIDE_TEXT})
"""Reasons that say: this module has no such place."""


class GivenModule(NamedTuple):
    """A module that was given; ``base`` is where it was loaded (None: addresses are those of its code objects)."""

    name: str
    digest: str
    base: int | None = None


class Modules(Protocol):
    """The modules that answer addresses of fault text, by digest."""

    def symbolize(self, digest: str, query: Query, path: str | None = None) -> Answer:
        """The answer of a module, or of the code object at ``path`` in it."""
        ...

    def open(self, uri: str) -> str | None:
        """The module that a URI names; None where it cannot be had."""
        ...


class FoundAddress(NamedTuple):
    """An answer, and what of the line it is to (``0x68`` or ``probe+0x68``)."""

    subject: str
    answer: Answer


class _Loaded(NamedTuple):
    start: int
    end: int
    digest: str


class Annotator:
    """Annotates the lines of one fault text, in order. ``given`` are modules that answer every line. Not for several
    threads."""

    def __init__(self, modules: Modules, given: Sequence[GivenModule]) -> None:
        self._modules = modules
        self._given = tuple(given)
        self._loaded: dict[tuple[int, int], _Loaded] = {}
        self._opened: dict[str, str | None] = {}
        self._uri: str | None = None
        self._waiting: list[int] = []
        self._answered_early: set[int] = set()

    def line(self, text: str) -> list[FoundAddress]:
        """What is to be under a line."""
        return [found for reference in references(text) for found in self._answers(reference)]

    def _answers(self, reference: Reference) -> Iterator[FoundAddress]:
        match reference:
            case CodeObjectNamed(uri):
                self._uri = uri
            case LoadedAt(start, end):
                yield from self._named(start, end)
            case InFunction(function, offset):
                yield from self._in_function(function, offset)
            case AtAddress(address, waits):
                yield from self._at_address(address, waits=waits)

    def _named(self, start: int, end: int) -> Iterator[FoundAddress]:
        """The code object that was named before is at these addresses; those that waited for it are answered."""
        uri, self._uri = self._uri, None
        digest = self._open(uri) if uri is not None else None
        if digest is not None and start < end:
            kept = {key: each for key, each in self._loaded.items() if each.end <= start or each.start >= end}
            kept[start, end] = _Loaded(start, end, digest)
            self._loaded = dict(list(kept.items())[-MAX_LOADED:])
        waiting, self._waiting = self._waiting, []
        for address in waiting:
            yield from self._at_address(address, waits=False)
            self._answered_early.add(address)

    def _open(self, uri: str) -> str | None:
        if uri not in self._opened and len(self._opened) < MAX_OPENED:
            self._opened[uri] = self._modules.open(uri)
        return self._opened.get(uri)

    def _at_address(self, address: int, *, waits: bool) -> Iterator[FoundAddress]:
        if address in self._answered_early:
            self._answered_early.discard(address)
            return
        subject = f"{address:#x}"
        for digest, at in self._places(address):
            answer = self._modules.symbolize(digest, ByAddress(ObjectAddress(at)))
            if answer.reason not in _NOTHING and answer.reason is not Reason.AMBIGUOUS:
                yield FoundAddress(subject, answer)
                return
        if waits:
            self._waiting = [*self._waiting, address][-MAX_WAITING:]

    def _places(self, address: int) -> Iterator[tuple[str, int]]:
        """The modules that may hold a device address, and the object address there: what the text says was loaded, then
        modules that were given."""
        for loaded in self._loaded.values():
            if loaded.start <= address < loaded.end:
                yield loaded.digest, address - loaded.start
        for module in self._given:
            base = module.base or 0
            if address >= base:
                yield module.digest, address - base

    def _in_function(self, function: str, offset: int) -> Iterator[FoundAddress]:
        """Different answers of several modules are all told. Where the text before a name was taken for a part of it,
        its last word is the name. What is found without parameters may be another overload, and says so."""
        name = taken_apart(function)
        words = [] if _BRACKETS.search(function) else function.split()[-1:]
        for called in dict.fromkeys((function, *words)):
            if known := self._known(f"{function}+{offset:#x}", called, offset):
                yield from known
                return
        if name.parameters is not None:
            overloads = name.text[name.head]
            subject = f"{overloads}+{offset:#x} (there is no {function}+{offset:#x})"
            yield from self._known(subject, overloads, offset)

    def _known(self, subject: str, name: str, offset: int) -> list[FoundAddress]:
        digests = dict.fromkeys(
            [module.digest for module in self._given] + [each for each in self._opened.values() if each]
        )
        query = ByKernel(name, KernelOffset(offset))
        found = [each for digest in digests for each in self._of_each_object(subject, digest, query)]
        return _distinct([each for each in found if each.answer.reason not in _NOTHING])

    def _of_each_object(self, subject: str, digest: str, query: ByKernel) -> list[FoundAddress]:
        """The answer of a module. The text does not say for which architecture code ran: where several code objects
        have the function each of them answers, and the answers say which where they differ."""
        answer = self._modules.symbolize(digest, query)
        paths = list(dict.fromkeys(candidate.path for candidate in answer.candidates))
        if answer.reason is not Reason.AMBIGUOUS or len(paths) < 2:
            return [FoundAddress(subject, answer)]
        each = [FoundAddress(f"{subject} of {path}", self._modules.symbolize(digest, query, path)) for path in paths]
        distinct = _distinct([found for found in each if found.answer.reason not in _NOTHING])
        return distinct if len(distinct) > 1 else [FoundAddress(subject, found.answer) for found in distinct]


def _distinct(found: Sequence[FoundAddress]) -> list[FoundAddress]:
    """Answers that say different things: modules may hold the same code several times."""
    said: dict[object, FoundAddress] = {}
    for each in found:
        answer = each.answer
        said.setdefault((answer.reason, answer.frames, answer.frames or answer.kernel), each)
    return list(said.values())
