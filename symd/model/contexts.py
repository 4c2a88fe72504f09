"""Contexts: where device addresses mean something, what is loaded there when, and other names of modules; and
answers for device addresses, as of a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, overload

from symd.model.addresses import DeviceAddress, Query
from symd.model.answers import Answer, Answers, Reason
from symd.model.columns import I64, U32, U64
from symd.model.identities import Digest, ObjectPath

CONTEXT_HINT = 'pass Context(host="…", process=1, device="…"), of symd.model.contexts'
EVENT_HINT = "pass a list of Load and Unload, of symd.model.contexts"
ALIAS_HINT = 'pass Alias("build-id", key, module), of symd.model.contexts'


@dataclass(frozen=True, slots=True)
class Context:
    """Where device addresses mean something: one device as one process sees it. Equal contexts are the same one, so a
    process number that the system uses again needs an attribute that tells the two apart (such as its start time).

    ``clock`` names the clock whose nanoseconds all times of the context count. ``address_bits`` is 64 where addresses
    are taken as they are; 48 or 57 where they are canonical: then an address with its sign extended and the same one
    with zeros above that many bits are one address.
    """

    host: str = ""
    process: int = 0
    device: str = ""
    clock: str = ""
    address_bits: int = 64
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ContextRecord:
    """A known context. ``id`` follows from what it says; ``create_time`` is seconds since the epoch."""

    id: str
    context: Context
    create_time: float


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a load: ``size`` bytes of device memory at ``address``; its first byte is ``start`` of the module
    that is loaded (in the code object at ``path``, or any when None). Size 0: to the end of the kernel or section
    that ``start`` names."""

    address: DeviceAddress
    size: int
    start: Query
    path: ObjectPath | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """A module came to device memory at ``time`` (nanoseconds): at ``segments``, or whole at load base ``load_base``
    (device address = load_base + object address modulo 2^64; ``path`` names one code object of several). With neither
    it is known to have been loaded and nobody knows where: no address means it.

    ``key`` names the load until its unload, as a driver's handle does; "" lets it be named after what it says.
    ``unload_time`` is when it was unloaded, where that is known already.
    """

    module: Digest
    time: int
    segments: tuple[Segment, ...] = ()
    load_base: int | None = None
    path: ObjectPath | None = None
    key: str = ""
    unload_time: int | None = None


@dataclass(frozen=True, slots=True)
class Unload:
    """What was loaded under ``key`` went at ``time`` (nanoseconds): from then on it is not there."""

    key: str
    time: int


@dataclass(frozen=True, slots=True)
class LoadInContext:
    """A load, its ``number`` among all loads, and the context in which it was told."""

    context: ContextRecord
    number: int
    load: Load


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name of a module, or of the code object at ``path`` in it: ``key``, of a kind such as "build-id",
    "amd-uri", "cupti-crc"; unique in ``context`` (an id), or everywhere when that is ""."""

    kind: str
    key: str
    module: Digest
    path: ObjectPath | None = None
    context: str = ""


class AddressForm(NamedTuple):
    """How numbers are written: a number is (device address >> ``shift``), of which only the low ``known_bits`` of the
    address are known. Intel's EU-stall samples hold 29-bit instruction pointers in units of 8 bytes:
    ``AddressForm(3, 32)``."""

    shift: int = 0
    known_bits: int = 64


WHOLE_ADDRESS = AddressForm()

Times = I64 | int | None
"""Nanoseconds of a context's clock: one for each address, one for all, or None, which means what it does in
``ByDevice``."""


class Origin(NamedTuple):
    """What numbers of a column count from: they are offsets in ``kernel``, or in ``section`` (its name or number), of
    the module with the digest ``module``, or of its code object at ``path``; object addresses there where neither is
    given; or device addresses in the context with the id ``context``, written in ``form``, where what was loaded says
    which module is meant."""

    module: str = ""
    path: str | None = None
    kernel: str | None = None
    section: str | int | None = None
    context: str = ""
    form: AddressForm = WHOLE_ADDRESS


@dataclass(frozen=True, slots=True)
class DeviceCandidate:
    """What an ambiguous device address could mean: the whole ``address``, and the ``query`` for the place in a module
    that was there."""

    address: DeviceAddress
    module: Digest
    path: ObjectPath | None
    query: Query


@dataclass(frozen=True, slots=True)
class DevicePlace:
    """What a device address means: ``query`` for the place in ``module``, or in its code object at ``path``. ``query``
    is None where nothing holds the address, and ``reason`` says why. ``address`` is the whole address, in canonical
    form. Where several loads could be meant ``candidates`` has them."""

    address: DeviceAddress
    reason: Reason | None = None
    module: Digest | None = None
    path: ObjectPath | None = None
    query: Query | None = None
    candidates: tuple[DeviceCandidate, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceAnswer:
    """The answer for one device address: the module that held it (None: none, or several) and the frames there.
    ``address`` is the whole address meant, in canonical form; what was asked where it was no device address. Where
    several loads could be meant ``candidates`` has them; candidates within the one module are the answer's own."""

    answer: Answer
    module: Digest | None
    address: DeviceAddress
    candidates: tuple[DeviceCandidate, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceAnswers(Sequence[DeviceAnswer]):
    """Answers to a batch of device addresses, or of addresses in several modules, as columns, in the order asked.
    ``module`` indexes ``modules`` plus one (0: none); ``candidates`` maps the number of an ambiguous address to what it
    could mean, for the first 10,000 and until 100,000 places are named in all."""

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
