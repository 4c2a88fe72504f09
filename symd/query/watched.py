"""What one module answers to the breakpoints that wait for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from symd.errors import ObjectNotFound
from symd.index import Index
from symd.model.breakpoints import Breakpoint, Refusal, Resolved
from symd.model.identities import Digest
from symd.model.waiting import always
from symd.query.breakpoints import locate


def resolved(
    index: Index, digest: Digest, breakpoints: Sequence[Breakpoint], check_wanted: Callable[[], None] = always
) -> Iterator[Resolved]:
    """The answers that say something: a module without the file says nothing. ``check_wanted`` is called now and then, and raises when nobody waits
    any more."""
    for each in breakpoints:
        check_wanted()
        try:
            answer = locate(
                index,
                each.where,
                each.path,
                every_address=each.every_address,
                rules=each.rules,
                check_wanted=check_wanted,
            )
        except ObjectNotFound:
            continue
        if answer.refusal is not Refusal.NO_SUCH_FILE:
            yield Resolved(each.id, digest, answer)
