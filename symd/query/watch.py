"""Breakpoints that wait: each module that arrives is asked for their lines, and what it answers is an event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from symd.errors import ObjectNotFound
from symd.index import Index
from symd.model.breakpoints import Breakpoint, Refusal, Resolved
from symd.query.breakpoints import locate


def resolved(index: Index, digest: str, breakpoints: Sequence[Breakpoint]) -> Iterator[Resolved]:
    """The answers of one module that say something: a module without the file says nothing."""
    for each in breakpoints:
        try:
            answer = locate(index, each.where, each.path, every=each.every, rules=each.rules)
        except ObjectNotFound:
            continue
        if answer.refusal is not Refusal.NO_SUCH_FILE:
            yield Resolved(each.id, digest, answer)
