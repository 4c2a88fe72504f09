"""A module's description as the msgpack that an index file carries, and back. A record is the list of its fields."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO
from typing import Any, NamedTuple, TypeAlias

import msgpack

from symd.errors import DataLoss
from symd.formats.lazy import Lazy, LazyMapping
from symd.model.code import NO_FACTS
from symd.model.summaries import (
    UNPACKING,
    ContainerSummary,
    KernelSummary,
    ModuleSummary,
    ObjectSummary,
    large_integer,
)
from symd.model.texts import counted, plural

_MODULE_FIELDS = len(ModuleSummary._fields)
_KERNEL = msgpack.Packer().pack_array_header(len(KernelSummary._fields))
"""What a packed one begins with: one byte, as a list of fewer fields does."""
_BEFORE_KERNELS = ObjectSummary._fields.index("kernels")
_MANY_KERNELS = 16
"""Fewer of an object are packed with it in one step."""
_LONG = 256 << 10
"""Bytes; as many kernels as few modules have."""
_READ_BYTES = 1 << 20
"""Bytes of a long summary that are read at a time."""
MAX_FACTS = 256 << 10
"""Bytes of the facts of one kernel or code object, and of its notes, packed. In answers they take up to a hundred times
as much memory, and whoever makes a file says how many arguments a kernel has: those of real ones take some 50 KB at
most."""
MAX_VALUES = 1 << 14
"""Values in the facts of one kernel or code object; those of real ones have some thousand at most, and each takes as
much memory as hundred bytes of text."""
MAX_CONTAINER_FACTS = 4 << 20
MAX_CONTAINER_VALUES = 1 << 16
"""Values in the facts of one container: fat binaries list what they hold."""
MAX_DESCRIBED = 128 << 20
"""Bytes of a summary, packed, beyond which facts of its kernels and code objects are left out: whoever looks at one has
all of it in memory, and a file that compresses well says very much."""
MAX_KERNELS = 500_000
"""Kernels of a module that are listed; libraries of ROCm have 90,000. All are found by name."""
Packed: TypeAlias = bytes | memoryview
_NO_MSGPACK = (ValueError, TypeError, msgpack.UnpackException)


def pack(summary: ModuleSummary) -> bytes:
    """Facts and notes that nobody looked at yet are read now."""
    before, behind = pack_around(summary, len(summary.objects))
    objects = [*pack_objects(summary.objects)]
    if is_too_much(sum(map(len, objects)), sum(len(each.kernels) for each in summary.objects)):
        objects = shortened(objects)
    return b"".join([before, *objects, behind])


def is_too_much(size: int, kernels: int) -> bool:
    """Whether the packed objects of a module, of so many bytes together, with so many kernels, have to be
    ``shortened``."""
    return size > MAX_DESCRIBED or kernels > MAX_KERNELS


def shortened(objects: Iterable[Packed]) -> list[bytes]:
    """What ``pack_objects`` made of the objects of a module, where all of that is too much: without facts and notes,
    and with those kernels alone of which there may be so many, and whose names leave room."""
    found, most, size = [], MAX_KERNELS, MAX_DESCRIBED
    for each in objects:
        brief, listed = _in_brief(each, most, size)
        found.append(brief)
        most, size = most - listed, max(size - len(brief), 0)
    return found


def pack_objects(items: Iterable[ObjectSummary]) -> Iterator[bytes]:
    """Each of the objects that are between the two of ``pack_around``."""
    pack = msgpack.Packer(default=_plain).pack
    for item in items:
        packed = b""
        if len(item.kernels) < _MANY_KERNELS:
            try:
                packed = pack(tuple(item))
            except UnicodeEncodeError:
                packed = _packed(tuple(item))
        yield packed if 0 < len(packed) <= MAX_VALUES else _pack_large(item)


def _pack_large(item: ObjectSummary) -> bytes:
    *before, kernels, facts, notes = item
    packer = msgpack.Packer()
    head = [packer.pack_array_header(len(item)), *map(_packed, before), packer.pack_array_header(len(kernels))]
    return b"".join([*head, *_packed_kernels(kernels), _packed_facts(facts), _packed_notes(notes)])


def pack_around(summary: ModuleSummary, objects: int) -> tuple[bytes, bytes]:
    """What ``pack`` makes of ``summary`` before and after so many objects, which are none of the summary's."""
    packer = msgpack.Packer()
    before = (summary.sha256, summary.size, summary.format)
    head = [packer.pack_array_header(_MODULE_FIELDS), *map(_packed, before), packer.pack_array_header(objects)]
    return b"".join(head), b"".join([_packed(summary.notes), *_packed_containers(summary.containers)])


def _packed(value: object) -> bytes:
    try:
        packed: bytes = msgpack.packb(value, default=_plain)
    except UnicodeEncodeError:  # half a surrogate pair in a text; said beforehand, this makes every text dearer
        packed = msgpack.packb(value, default=_plain, unicode_errors="surrogatepass")
    return packed


_LEFT_OUT = msgpack.packb({"left_out": "the module has too many facts"})
_NO_NOTES = msgpack.packb(["notes are not shown: the module has too many"])


def _packed_facts(facts: Mapping[str, Any], most: int = MAX_FACTS, values: int = MAX_VALUES) -> bytes:
    packed = _packed(facts)
    if len(packed) > most:
        return _packed({"left_out": f"facts of {len(packed):,} bytes, more than {most:,}"})
    if len(packed) > values and _has_more_values(facts, values):
        return _packed({"left_out": f"facts of more than {values:,} values"})
    return packed


_HOLD_NOTHING = frozenset({bool, float, int, str, type(None)})
"""Types of values without values inside."""


def _has_more_values(facts: Mapping[str, Any], most: int) -> bool:
    """Whether they are more than ``most``, those inside values counted."""
    waiting: list[Any] = [facts]
    left = most
    while waiting and left >= 0:
        value = waiting.pop()
        if isinstance(value, Mapping):
            value = [*value.values()]
        if isinstance(value, list | tuple):
            left -= len(value)
            if not _HOLD_NOTHING.issuperset(map(type, value)):  # most are long lists of numbers
                waiting += value
    return left < 0


def _packed_notes(notes: Sequence[str]) -> bytes:
    packed = _packed(notes)
    if len(packed) <= MAX_FACTS:
        return packed
    return _packed([f"{len(notes):,} notes are not shown: they take {len(packed):,} bytes, more than {MAX_FACTS:,}"])


def _packed_containers(items: Sequence[ContainerSummary]) -> Iterator[bytes]:
    """Facts for which all of them leave no room are left out."""
    yield msgpack.Packer().pack_array_header(len(items))
    left = MAX_DESCRIBED
    for *before, facts in items:
        yield msgpack.Packer().pack_array_header(len(ContainerSummary._fields))
        yield from map(_packed, before)
        packed = _packed_facts(facts, MAX_CONTAINER_FACTS, MAX_CONTAINER_VALUES)
        left -= len(packed)
        yield packed if left >= 0 else min(packed, _LEFT_OUT, key=len)


def _packed_kernels(kernels: Sequence[KernelSummary]) -> list[bytes]:
    """Where a format has the same facts in the same dictionary for many kernels, they are packed once."""
    pack = msgpack.Packer(unicode_errors="surrogatepass").pack
    known: dict[int, tuple[bytes, Mapping[str, Any]]] = {}
    found: list[bytes] = []
    for *head, facts in kernels:
        if isinstance(facts, LazyMapping):
            facts = facts.value()  # noqa: PLW2901 - the same facts
        packed = known.get(id(facts))
        if packed is None:
            packed = known[id(facts)] = _packed_facts(facts), facts  # which stays, so that nothing else gets its id
        found += _KERNEL, pack(head)[1:], packed[0]
    return found


def _in_brief(item: Packed, most: int, size: int) -> tuple[bytes, int]:
    """(a packed object without facts and notes, and with no more than the first ``most`` kernels that take no more than
    ``size`` bytes; how many these are)."""
    fields = _before_kernels(item)
    head = item[: fields.tell()]
    kernels: list[Packed] = []
    count, left = fields.read_array_header(), size
    for number in range(count):
        begin = fields.tell()
        _expect(fields, len(KernelSummary._fields))
        for _ in range(len(KernelSummary._fields) - 1):
            fields.skip()
        kernel = item[begin : fields.tell()]
        facts = _skipped(fields, item, _LEFT_OUT)
        left -= len(kernel) + len(facts)
        if 2 * number == len(kernels) < 2 * most and left >= 0:
            kernels += kernel, facts
    listed = len(kernels) // 2
    facts, notes = _skipped(fields, item, _LEFT_OUT), _skipped(fields, item, _NO_NOTES)
    if listed < count:
        why = f"the module has more than {MAX_KERNELS:,}"
        if listed < most:
            why = f"the names of all take more than {MAX_DESCRIBED:,} bytes"
        note = f"{counted(count - listed, 'kernel')} {plural(count - listed, 'is', 'are')} not listed: {why}"
        notes = _packed([*msgpack.unpackb(notes), note])
    return b"".join([head, msgpack.Packer().pack_array_header(listed), *kernels, facts, notes]), listed


def _skipped(fields: msgpack.Unpacker, item: Packed, left_out: bytes) -> Packed:
    """The next value of a packed object, or ``left_out`` where that is shorter."""
    begin = fields.tell()
    fields.skip()
    return min(item[begin : fields.tell()], left_out, key=len)


def _before_kernels(item: Packed) -> msgpack.Unpacker:
    """What reads a packed object, where the list of its kernels begins."""
    fields = msgpack.Unpacker(max_buffer_size=len(item), **UNPACKING)
    fields.feed(item)
    _expect(fields, len(ObjectSummary._fields))
    for _ in range(_BEFORE_KERNELS):
        fields.skip()
    return fields


def _plain(value: object) -> Any:
    """What msgpack does not know, in terms of what it does."""
    if value is NO_FACTS:  # which takes ten times as long to be told below
        return {}
    if isinstance(value, Lazy):
        return value.value()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, int):
        return msgpack.ExtType(*large_integer(value))
    raise TypeError(f"facts hold a {type(value).__name__}, which is not JSON")


class PackedFacts(LazyMapping):
    """Facts that are unpacked whenever somebody looks, and not kept: those of many kernels take several times what
    their bytes take. Raises DataLoss."""

    __slots__ = ()

    def __init__(self, data: bytes) -> None:
        super().__init__(partial(_unpacked, data))

    def value(self) -> Any:
        return self._read()

    def items(self) -> ItemsView[str, Any]:
        facts: dict[str, Any] = self.value()
        return facts.items()


def _unpacked(data: bytes) -> Any:
    try:
        return msgpack.unpackb(data, **UNPACKING)
    except _NO_MSGPACK as error:
        raise _damaged(error) from error


def unpack(data: bytes) -> ModuleSummary:
    """Raises DataLoss. In a long one the facts of kernels are ``PackedFacts``."""
    try:
        return _module(msgpack.unpackb(data, **UNPACKING)) if len(data) < _LONG else _long_module(data)
    except _NO_MSGPACK as error:
        raise _damaged(error) from error


def _damaged(error: Exception) -> DataLoss:
    return DataLoss(f"has a summary that does not read: {error}", where="index file")


def _long_module(data: bytes) -> ModuleSummary:
    buffer = max(len(data), _READ_BYTES)
    fields = msgpack.Unpacker(BytesIO(data), read_size=_READ_BYTES, max_buffer_size=buffer, **UNPACKING)
    _expect(fields, _MODULE_FIELDS)
    digest, size, form = (fields.unpack() for _ in range(3))
    known = _Known({}, {})
    objects = tuple(_long_object(fields, data, known) for _ in range(fields.read_array_header()))
    notes, containers = fields.unpack(), fields.unpack()
    opened = tuple(ContainerSummary(*each) for each in containers)
    if fields.tell() != len(data):
        raise ValueError("there is something after it")
    return ModuleSummary(digest, size, form, objects, tuple(notes), opened)


def _long_object(fields: msgpack.Unpacker, data: bytes, known: _Known) -> ObjectSummary:
    _expect(fields, len(ObjectSummary._fields))
    before = [fields.unpack() for _ in range(_BEFORE_KERNELS)]
    kernels = tuple(_long_kernel(fields, data, known) for _ in range(fields.read_array_header()))
    facts, notes = fields.unpack(), fields.unpack()
    return ObjectSummary._make((*before, kernels, facts, tuple(notes)))


class _Known(NamedTuple):
    """Facts, by what they are packed as, and sections of other kernels: those of many are the same."""

    facts: dict[bytes, PackedFacts]
    sections: dict[str | None, str | None]


def _long_kernel(fields: msgpack.Unpacker, data: bytes, known: _Known) -> KernelSummary:
    _expect(fields, len(KernelSummary._fields))
    name, section, *others = (fields.unpack() for _ in range(len(KernelSummary._fields) - 1))
    begin = fields.tell()
    fields.skip()
    packed = data[begin : fields.tell()]
    facts = known.facts.get(packed)
    if facts is None:
        facts = known.facts[packed] = PackedFacts(packed)
    return KernelSummary._make((name, known.sections.setdefault(section, section), *others, facts))


def _expect(fields: msgpack.Unpacker, count: int) -> None:
    found = fields.read_array_header()
    if found != count:
        raise ValueError(f"a record has {found} fields, not {count}")


def _module(fields: list[Any]) -> ModuleSummary:
    digest, size, form, objects, notes, containers = fields
    opened = tuple(ContainerSummary(*each) for each in containers)
    return ModuleSummary(digest, size, form, tuple(map(_object, objects)), tuple(notes), opened)


def _object(fields: list[Any]) -> ObjectSummary:
    *before, kernels, facts, notes = fields
    described = tuple(KernelSummary(*each) for each in kernels)
    return ObjectSummary._make((*before, described, facts, tuple(notes)))
