"""Breakpoints that wait: each module that is there or arrives is asked for their lines, and what it answers is an
event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from symd.errors import ObjectNotFound, SymdError
from symd.index import Index
from symd.model.breakpoints import Breakpoint, Event, Refusal, Resolved, Watching
from symd.model.identities import Digest
from symd.query.breakpoints import locate
from symd.store.arrivals import Listener


def events(
    breakpoints: Sequence[Breakpoint], there: Iterable[Digest], news: Listener, opener: Callable[[str], Index]
) -> Iterator[Event]:
    """Events of the modules that are ``there``, then ``Watching``, then those of modules that arrive, until ``news`` is
    closed. What arrives while the first are gone through is told once. ``opener`` opens the index of a digest."""
    told: set[str] = set()
    for digest in there:
        if news.closed:
            return
        told.add(digest)
        yield from _resolved(opener, digest, breakpoints)
    overlap = len(news)
    yield Watching()
    while (arrived := news.take()) is not None:
        if overlap <= 0 or arrived not in told:
            yield from _resolved(opener, arrived, breakpoints)
        overlap -= 1


def _resolved(opener: Callable[[str], Index], digest: Digest, breakpoints: Sequence[Breakpoint]) -> Iterator[Event]:
    """A module that is gone again or cannot be read, whatever the reason, answers nothing: the watch is about all others
    too."""
    try:
        found = list(resolved(opener(digest), digest, breakpoints))
    except SymdError:
        return
    yield from found


def resolved(index: Index, digest: Digest, breakpoints: Sequence[Breakpoint]) -> Iterator[Resolved]:
    """The answers of one module that say something: a module without the file says nothing."""
    for each in breakpoints:
        try:
            answer = locate(index, each.where, each.path, every_address=each.every_address, rules=each.rules)
        except ObjectNotFound:
            continue
        if answer.refusal is not Refusal.NO_SUCH_FILE:
            yield Resolved(each.id, digest, answer)
