"""What the fuzzer tries: a reader as a function of bytes that raises only what is a find, with the seeds and the way of
changing them that suit it."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from symd.config import MIB
from symd.errors import SymdError
from tests.fuzz.mutations import Change, below, changed

REFUSED = frozenset({"INVALID_ARGUMENT", "UNIMPLEMENTED", "RESOURCE_EXHAUSTED"})
"""The statuses by which a refusal is the input's fault."""

Mutate = Callable[[random.Random, bytes, Change], bytes]
"""An input, changed; ``Change`` is what changes plain bytes."""


class BadRefusal(AssertionError):
    """An error of the tree that does not fit bad bytes."""


class Find(AssertionError):
    """A find; ``data`` is the input that is to blame, which is not always the one at hand."""

    def __init__(self, what: str, data: bytes) -> None:
        super().__init__(what)
        self.data = data


class Refused(Exception):
    """The reader refused the input with a fitting status."""


def plainly(dice: random.Random, data: bytes, change: Change) -> bytes:
    """The input as one string of bytes."""
    del dice
    return change(data)


@dataclass(frozen=True, slots=True)
class Target:
    """``run`` raises ``Refused`` for a fitting refusal, and otherwise only what is a find. ``seeds`` are inputs that
    are right. Where there is a ``kind`` inputs are counted by what it says of them. ``memory`` is the address space in bytes that an input may take, above what the process has."""

    run: Callable[[bytes], object]
    seeds: Callable[[], Sequence[bytes]] = field(repr=False)
    mutate: Mutate = plainly
    memory: int = 1024 * MIB
    largest: int = MIB
    """Bytes of an input."""
    kind: Callable[[bytes], str] | None = None
    shares: Sequence[float] | None = field(default=None, repr=False)
    """How often each seed is taken, relative to the others, each with those before it added; None: all alike."""
    distilled: bool = True
    """Whether a run begins with a look at what each seed reaches: not where that would take minutes, or what an input finds depends on those
    before it."""

    def mutated(self, dice: random.Random) -> bytes:
        """A seed, changed once or several times."""
        [data] = dice.choices(self.seeds(), cum_weights=self.shares)
        for _ in range((1, 1, 1, 2, 4)[below(dice, 5)]):
            data = self.mutate(dice, data, lambda content: changed(dice, content))
        return data[: self.largest]


@contextmanager
def fitting(also: Collection[str] = ()) -> Iterator[None]:
    """A refusal by one of the statuses in REFUSED or ``also`` becomes ``Refused``; one by another is a find."""
    try:
        yield
    except SymdError as error:
        if error.status not in REFUSED and error.status not in also:
            raise BadRefusal(f"{type(error).__name__}, {error.status}: {error}") from error
        if not error.message:
            raise BadRefusal(f"{type(error).__name__} without a message") from error
        raise Refused from error
