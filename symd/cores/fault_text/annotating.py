"""Line after line of fault text: what it says of loaded code is kept, and the addresses in it are asked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from symd.cores.fault_text.references import AtAddress, CodeObjectNamed, InFunction, LoadedAt, Reference, references
from symd.model.addresses import ByAddress, ByKernel, KernelOffset, ObjectAddress, Query
from symd.model.answers import Answer, Reason
from symd.query.function_spellings import taken_apart

MOST_LOADED = 1000
"""Address ranges that are kept; the first that were told are forgotten first."""
MOST_OPENED = 1000
"""Files that one text may have opened."""
MOST_WAITING = 64
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
    """Who answers."""

    def symbolize(self, digest: str, query: Query, path: str | None = None) -> Answer:
        """The answer of a module, or of the code object at ``path`` in it."""
        ...

    def open(self, uri: str) -> str | None:
        """The module that a URI names; None where it cannot be had."""
        ...


class Found(NamedTuple):
    """An answer, and what of the line it is to (``0x68`` or ``probe+0x68``)."""

    subject: str
    answer: Answer


class _Loaded(NamedTuple):
    start: int
    end: int
    digest: str


class Annotator:
    """``given`` are modules that answer every line. Not for several threads."""

    def __init__(self, modules: Modules, given: Sequence[GivenModule]) -> None:
        self._modules = modules
        self._given = tuple(given)
        self._loaded: dict[tuple[int, int], _Loaded] = {}
        self._opened: dict[str, str | None] = {}
        self._uri: str | None = None
        self._waiting: list[int] = []
        self._told: set[int] = set()

    def line(self, text: str) -> list[Found]:
        """What is to stand under a line."""
        return [found for reference in references(text) for found in self._answers(reference)]

    def _answers(self, reference: Reference) -> Iterator[Found]:
        match reference:
            case CodeObjectNamed(uri):
                self._uri = uri
            case LoadedAt(start, end):
                yield from self._named(start, end)
            case InFunction(function, offset):
                yield from self._in_function(function, offset)
            case AtAddress(address, waits):
                yield from self._at_address(address, waits=waits)

    def _named(self, start: int, end: int) -> Iterator[Found]:
        """The code object that was named before is at these addresses; those that waited for it are answered."""
        uri, self._uri = self._uri, None
        digest = self._open(uri) if uri is not None else None
        if digest is not None and start < end:
            kept = {key: each for key, each in self._loaded.items() if each.end <= start or each.start >= end}
            kept[start, end] = _Loaded(start, end, digest)
            self._loaded = dict(list(kept.items())[-MOST_LOADED:])
        waiting, self._waiting = self._waiting, []
        for address in waiting:
            yield from self._at_address(address, waits=False)
            self._told.add(address)

    def _open(self, uri: str) -> str | None:
        if uri not in self._opened and len(self._opened) < MOST_OPENED:
            self._opened[uri] = self._modules.open(uri)
        return self._opened.get(uri)

    def _at_address(self, address: int, *, waits: bool) -> Iterator[Found]:
        if address in self._told:
            self._told.discard(address)
            return
        subject = f"{address:#x}"
        for digest, at in self._places(address):
            answer = self._modules.symbolize(digest, ByAddress(ObjectAddress(at)))
            if answer.reason not in _NOTHING and answer.reason is not Reason.AMBIGUOUS:
                yield Found(subject, answer)
                return
        if waits:
            self._waiting = [*self._waiting, address][-MOST_WAITING:]

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

    def _in_function(self, function: str, offset: int) -> Iterator[Found]:
        """Different answers of several modules are all told. Where the text before a name was taken for a part of it, its last word is the
        name. What is found without parameters may be another overload, and says so."""
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

    def _known(self, subject: str, name: str, offset: int) -> list[Found]:
        digests = dict.fromkeys(
            [module.digest for module in self._given] + [each for each in self._opened.values() if each]
        )
        query = ByKernel(name, KernelOffset(offset))
        found = [each for digest in digests for each in self._of_each_object(subject, digest, query)]
        return _distinct([each for each in found if each.answer.reason not in _NOTHING])

    def _of_each_object(self, subject: str, digest: str, query: ByKernel) -> list[Found]:
        """The answer of a module. The text does not say for which architecture code ran: where several code objects have the function each
        of them answers, and the answers say which where they differ."""
        answer = self._modules.symbolize(digest, query)
        paths = list(dict.fromkeys(candidate.path for candidate in answer.candidates))
        if answer.reason is not Reason.AMBIGUOUS or len(paths) < 2:
            return [Found(subject, answer)]
        each = [Found(f"{subject} of {path}", self._modules.symbolize(digest, query, path)) for path in paths]
        distinct = _distinct([found for found in each if found.answer.reason not in _NOTHING])
        return distinct if len(distinct) > 1 else [Found(subject, found.answer) for found in distinct]


def _distinct(found: Sequence[Found]) -> list[Found]:
    """Answers that say different things: modules may hold the same code several times."""
    said: dict[object, Found] = {}
    for each in found:
        answer = each.answer
        said.setdefault((answer.reason, answer.frames, answer.frames or answer.kernel), each)
    return list(said.values())
