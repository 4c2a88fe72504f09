"""Answers for device addresses, which mean something as of a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

from symd.model.addresses import DeviceAddress, Query
from symd.model.answers import Answer, Answers
from symd.model.columns import U32, U64
from symd.model.identities import Digest, ObjectPath


@dataclass(frozen=True, slots=True)
class DeviceCandidate:
    """What an ambiguous device address could mean: the whole ``address``, and the ``query`` for the place in a module that was there."""

    address: DeviceAddress
    module: Digest
    path: ObjectPath | None
    query: Query


@dataclass(frozen=True, slots=True)
class DeviceAnswer:
    """The answer for one device address: the module that held it (None: none, or several) and the frames there.
    ``address`` is the whole address meant, in canonical form. Where several loads could be meant ``candidates`` has
    them; candidates within the one module are the answer's own."""

    answer: Answer
    module: Digest | None
    address: DeviceAddress
    candidates: tuple[DeviceCandidate, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceAnswers(Sequence[DeviceAnswer]):
    """Answers to a batch of device addresses as columns, in the order asked. ``module`` indexes ``modules`` plus one
    (0: none); ``candidates`` maps the number of an ambiguous address to what it could mean, for the first 10,000
    and until 100,000 places are named in all."""

    answers: Answers
    module: U32
    address: U64
    modules: Sequence[Digest]
    candidates: Mapping[int, tuple[DeviceCandidate, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.module)

    @overload
    def __getitem__(self, at: int) -> DeviceAnswer: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[DeviceAnswer]: ...
    def __getitem__(self, at: int | slice) -> DeviceAnswer | Sequence[DeviceAnswer]:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        module = self.modules[int(self.module[at]) - 1] if self.module[at] else None
        candidates = self.candidates.get(at % len(self), ())
        return DeviceAnswer(self.answers[at], module, DeviceAddress(int(self.address[at])), candidates)

    def __iter__(self) -> Iterator[DeviceAnswer]:
        """One after the other; answers of one location share their frames."""
        modules = (None, *self.modules)
        for at, answer in enumerate(self.answers):
            candidates = self.candidates.get(at, ()) if self.candidates else ()
            address = DeviceAddress(int(self.address[at]))
            yield DeviceAnswer(answer, modules[int(self.module[at])], address, candidates)
