"""Fields of messages: violations, integers, texts, times, chunks, reasons, resource names, and records of them.

* A field that cannot be is reported to the caller as a violation of a google.rpc.BadRequest, by its path in the
  request, such as "packed_queries.values".
* Integers of debug data that do not fit into 64 bits, as damaged debug data states them, are left out or wrapped.
* Names and paths are made valid UTF-8, as Protocol Buffers require.
* Seconds are converted to google.protobuf.Timestamp and Duration and back.
* Streams cut bytes into chunks that fit a message, and gather messages by the header that begins them.
* Reasons travel as numbers of an open enum: a newer daemon may send one without a name here.
* A module's resource name is "modules/{sha256}", a context's "contexts/{id}".
* A record of the model of which each field travels in one field becomes a message, and is read from it, by one table of
  its fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar, overload

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from symd.errors import BadQuery, InvalidInput, Malformed
from symd.model.arguments import ModuleName, unchecked_digest
from symd.model.columns import U8
from symd.model.identities import Digest, ObjectPath, checked_digest, named_digest
from symd.model.reasons import KNOWN, Reason
from symd.rpc.wire.columns import OTHER_SIDE

FIELD = "field"
"""The key of an error's metadata under which the field stands."""


def bad_field(field: str, message: str, hint: str = "") -> BadQuery:
    """The error that blames a field for an invalid address, name or number."""
    return BadQuery(message, hint=hint, metadata={FIELD: field})


def wrong_field(field: str, message: str, hint: str = "") -> InvalidInput:
    """The error that blames a field for what it asks: it is missing, too much, or not among the choices."""
    return InvalidInput(message, hint=hint, metadata={FIELD: field})


def from_each(messages: Iterable[Each], read: Callable[[Each], Taken], field: str) -> list[Taken]:
    """What ``read`` makes of each message of a request's repeated ``field``. An error that blames a field of one of
    them blames it by its path in the request, such as "events[3].kind"."""
    found = []
    for number, message in enumerate(messages):
        try:
            found.append(read(message))
        except InvalidInput as error:
            path, own = f"{field}[{number}]", error.metadata.get(FIELD)
            error.metadata = {**error.metadata, FIELD: f"{path}.{own}" if own else path}
            raise
    return found


def u64_or_none(value: int | None) -> int | None:
    """The value where it fits 64 bits without a sign; None, which stands for "not known", where it does not."""
    return value if value is not None and 0 <= value < 1 << 64 else None


def i64_or_none(value: int | None) -> int | None:
    """The value where it fits 64 bits with a sign; None, which stands for "not known", where it does not."""
    return value if value is not None and -(1 << 63) <= value < 1 << 63 else None


def wrapped_i64(value: int) -> int:
    """The number of 64 bits with a sign that has the same low 64 bits in two's complement."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


_SURROGATE = re.compile("[\ud800-\udfff]")


@overload
def utf8(text: str) -> str: ...
@overload
def utf8(text: None) -> None: ...
def utf8(text: str | None) -> str | None:
    """``text`` with U+FFFD for every surrogate: a byte that was no UTF-8 in the file it was read from, or half a pair
    that the file had."""
    if text is None or text.isascii():
        return text
    return _SURROGATE.sub("\ufffd", text)


def utf8s(texts: Iterable[str]) -> list[str]:
    return [text if text.isascii() else utf8(text) for text in texts]


_NANO = 1_000_000_000


def to_timestamp(seconds: float) -> Timestamp:
    """A time in seconds since 1970, to the nanosecond."""
    return Timestamp(**_parts(seconds))


def to_duration(seconds: float) -> Duration:
    """A length of time that is not negative, to the nanosecond."""
    return Duration(**_parts(seconds))


def from_time(message: Timestamp | Duration) -> float:
    """The seconds of a time or a duration."""
    return message.seconds + message.nanos / _NANO


def _parts(seconds: float) -> dict[str, int]:
    """The fraction is rounded by itself: seconds since 1970 and nanoseconds do not fit a float together."""
    whole = int(seconds // 1)
    carry, nanos = divmod(round((seconds - whole) * _NANO), _NANO)
    return {"seconds": whole + carry, "nanos": nanos}


Each = TypeVar("Each", bound=Any)
Taken = TypeVar("Taken")


def chunks_of(data: bytes, size: int) -> Iterator[bytes]:
    """``data`` in chunks of ``size`` bytes; none when it is empty."""
    view = memoryview(data)
    for start in range(0, len(view), size):
        yield bytes(view[start : start + size])


def by_header(messages: Iterable[Each]) -> Iterator[list[Each]]:
    """The messages of a stream in groups: each group begins with a message that has the field ``header``, but for what
    comes before the first of them."""
    group: list[Each] = []
    for message in messages:
        if message.HasField("header") and group:
            yield group
            group = []
        group.append(message)
    if group:
        yield group


_REASONS: Final[Mapping[int, Reason]] = {int(reason): reason for reason in KNOWN}
_IS_KNOWN: Final = np.isin(np.arange(256), KNOWN)


def from_reason(number: int) -> Reason:
    """The reason of a number on the wire, UNRECOGNIZED for one that is newer. Raises ``Malformed`` for 0."""
    if not number:
        raise _none()
    return _REASONS.get(number, Reason.UNRECOGNIZED)


def from_reasons(numbers: U8) -> U8:
    """The reasons of a table's entries. Entry 0, which stands for none, has none. Raises ``Malformed`` where another
    has none."""
    is_known = _IS_KNOWN[numbers]
    if is_known[1:].all():
        return numbers
    if not numbers[1:].all():
        raise _none()
    found = np.where(is_known, numbers, np.uint8(Reason.UNRECOGNIZED))
    found[0] = 0
    return found


def _none() -> Malformed:
    return Malformed("an answer has no reason", hint=OTHER_SIDE)


CONTEXT = re.compile(r"contexts/([0-9a-f]{32})\Z")

RECENT = 1 << 12
"""Names that are known to be right: most questions are about modules that were asked about before."""


NAME_TAG: Final = 0x0A
"""The byte that is before field 1 of a message where it has a length, such as a text
(protobuf.dev/programming-guides/encoding). Most requests begin with it and a module's name."""
_MODULES: Final = "modules/"
_BATCH: Final = re.compile(rb"(?:\x08[\x80-\xff]*[\x00-\x7f])?\x12[\x80-\xff]*[\x00-\x7f]")
"""What is before a batch in a request of SymbolizeStream: field 1, a number, if it has one, then the tag and the
length of field 2."""
_NAME_BYTES: Final = 2 + len(_MODULES) + 64
"""Bytes of a module's name, with its tag and length."""


def module_name(digest: str) -> str:
    return f"{_MODULES}{digest}"


def leading_digest(request: bytes) -> str | None:
    """What may be the digest in the module's name with which the bytes of a request begin; None where they begin with
    something else. Nothing is checked: whoever decodes the request does."""
    if not request.startswith(b"modules/", 2) or request[0] != NAME_TAG:
        return None
    return request[2 + len(_MODULES) : 2 + request[1]].decode(errors="replace")


def leading_digest_of_batch(request: bytes) -> str | None:
    """What may be the digest in the module's name with which the batch in a request of SymbolizeStream begins, before
    which a number may stand; None where there is none."""
    begins = _BATCH.match(request)
    return leading_digest(request[begins.end() : begins.end() + _NAME_BYTES]) if begins else None


def checked_module_name(digest: ModuleName) -> str:
    """``modules/SHA256``. Raises ``BadQuery`` when ``digest`` names no module by a lower-case hexadecimal SHA-256."""
    return _module_name(unchecked_digest(digest))


@lru_cache(RECENT)
def _module_name(digest: str) -> str:
    return module_name(checked_digest(digest))


@lru_cache(RECENT)
def module_digest(name: str, field: str = "module") -> Digest:
    """The digest in a module's name, which is in the request's ``field``. Raises ``BadQuery``."""
    digest = named_digest(name)
    if digest is None:
        raise bad_field(
            field,
            f"{name[:100]!r} is not a module's name",
            'a module is named "modules/" and its SHA-256 in 64 lower-case hexadecimal digits',
        )
    return digest


def optional_module_name(digest: str) -> str:
    """The name of the module with that digest; "" for none."""
    return module_name(digest) if digest else ""


def optional_digest(name: str) -> Digest | str:
    """The digest in a module's name; "" where the name is empty. Raises ``BadQuery``."""
    return module_digest(name) if name else ""


def digest_and_path(request: Any) -> tuple[Digest, ObjectPath | None]:
    """The module that a request names, and the one code object that its ``code_object`` restricts it to, if any. Raises
    ``BadQuery``."""
    return module_digest(request.module), optional_path(request)


def optional_path(message: Any) -> ObjectPath | None:
    """The path in ``code_object`` of a message that may have one: "" names the module itself, None stands for any code
    object."""
    return ObjectPath(message.code_object) if message.HasField("code_object") else None


def context_name(context: str) -> str:
    return f"contexts/{context}"


def context_id(name: str, field: str = "context") -> str:
    """The id in a context's name, which is in the request's ``field``. Raises ``BadQuery``."""
    match = CONTEXT.match(name)
    if match is None:
        raise bad_field(
            field,
            f"{name[:100]!r} is not a context's name",
            'a context is named "contexts/" and 32 lower-case hexadecimal digits, as CreateContext says',
        )
    return match[1]


def optional_context_name(context: str) -> str:
    """The name of the context with that id; "" for none."""
    return context_name(context) if context else ""


def optional_context_id(name: str) -> str:
    """The id in a context's name; "" where the name is empty. Raises ``BadQuery``."""
    return context_id(name) if name else ""


def cuts(sizes: Iterable[int], most: int, size: int) -> Iterator[tuple[int, int]]:
    """Where each message's entries begin and end, of entries of these sizes: ``most`` of them, of ``size`` together,
    give or take one."""
    start = end = taken = 0
    for each in sizes:
        end, taken = end + 1, taken + each
        if end - start == most or taken >= size:
            yield start, end
            start, taken = end, 0
    if start < end:
        yield start, end


Model = TypeVar("Model")
Read = Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


class Conversion(NamedTuple):
    """How a value becomes what its field has, and back. Of a repeated field that is each of a tuple of values, or where
    it is ``whole`` all of them together. A message that is not there is read as one that says nothing where it is
    ``required``, and else as None."""

    to_field: Callable[[Any], Any] = _same
    from_field: Callable[[Any], Any] = _same
    whole: bool = False
    required: bool = False


class RecordConversion(NamedTuple, Generic[Model]):
    """How one kind of record becomes its message, and is read from it."""

    to_message: Callable[[Model], Any]
    from_message: Callable[[Any], Model]

    @property
    def conversion(self) -> Conversion:
        """How a field that has such a record, or several, is converted."""
        return Conversion(self.to_message, self.from_message)


_FITTING: Final[Mapping[int, Callable[[Any], Any]]] = {
    FieldDescriptor.TYPE_UINT64: u64_or_none,
    FieldDescriptor.TYPE_INT64: i64_or_none,
    FieldDescriptor.TYPE_SINT64: i64_or_none,
}
_OTHER_NAMES: Final = {"path": "code_object", "size": "size_bytes", "time": "time_ns", "unload_time": "unload_time_ns"}
"""What messages call fields whose names in the model leave out what they count, or whose path it is."""


def record(
    model: type[Model],
    message: type[Message],
    names: Mapping[str, str] | None = None,
    *,
    omit_misfits: bool = False,
    **conversions: Conversion | RecordConversion[Any],
) -> RecordConversion[Model]:
    """How ``model``, a dataclass or a named tuple, travels as ``message``. A field is called there what ``names`` says,
    or as in the model, or as ``_OTHER_NAMES`` has it. An optional field without a value is None. Texts are made UTF-8,
    repeated fields tuples; ``conversions`` says of the other fields, by their names in the model, what becomes of
    them. Integers that do not fit into their fields of 64 bits are errors, or, with ``omit_misfits``, left out."""
    known: Mapping[str, Any] = message.DESCRIPTOR.fields_by_name
    named = names or {}
    attributes = getattr(model, "_fields", None) or [each.name for each in fields(model)]  # type: ignore[arg-type]
    writers: list[tuple[str, Callable[[Any], Any]]] = []
    readers: list[Read] = []
    for attribute in attributes:
        name = named.get(attribute, attribute)
        field = known[name if name in known else _OTHER_NAMES[name]]
        found = conversions.get(attribute, Conversion())
        conversion = found.conversion if isinstance(found, RecordConversion) else found
        writers.append((field.name, _writer(field, conversion, omit_misfits=omit_misfits)))
        readers.append(_reader(field, conversion))
    values = attrgetter(*attributes)

    def to_message(value: Model) -> Any:
        return message(
            **{
                name: write(each)
                for (name, write), each in zip(writers, values(value), strict=True)
                if each is not None
            }
        )

    def from_message(found: Any) -> Model:
        return model(*[read(found) for read in readers])

    return RecordConversion(to_message, from_message)


def _writer(field: FieldDescriptor, conversion: Conversion, *, omit_misfits: bool) -> Callable[[Any], Any]:
    convert = conversion.to_field
    if omit_misfits and convert is _same:
        convert = _FITTING.get(field.type, _same)
    is_text = field.type == FieldDescriptor.TYPE_STRING and convert is _same
    if not field.is_repeated or conversion.whole:
        return utf8 if is_text else convert
    if is_text:
        return utf8s
    return lambda values: [convert(each) for each in values]


def _reader(field: FieldDescriptor, conversion: Conversion) -> Read:
    name, convert = field.name, conversion.from_field
    if field.is_repeated and not conversion.whole:
        if convert is _same:
            return lambda message: tuple(getattr(message, name))
        return lambda message: tuple([convert(each) for each in getattr(message, name)])
    if field.has_presence and not conversion.required:
        return lambda message: convert(getattr(message, name)) if message.HasField(name) else None
    return attrgetter(name) if convert is _same else lambda message: convert(getattr(message, name))
