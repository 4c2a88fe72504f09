"""What one module answers to the breakpoints that wait for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from symd.errors import ObjectNotFound
from symd.index import Index
from symd.model.breakpoints import Breakpoint, Refusal, Resolved
from symd.model.identities import Digest
from symd.query.breakpoints import locate


def resolved(index: Index, digest: Digest, breakpoints: Sequence[Breakpoint]) -> Iterator[Resolved]:
    """The answers that say something: a module without the file says nothing."""
    for each in breakpoints:
        try:
            answer = locate(index, each.where, each.path, every_address=each.every_address, rules=each.rules)
        except ObjectNotFound:
            continue
        if answer.refusal is not Refusal.NO_SUCH_FILE:
            yield Resolved(each.id, digest, answer)
