"""A record of the model as a message and back, by one table of its fields, for records of which each field travels in
one field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from symd.rpc.wire.fields import i64_or_none, u64_or_none, utf8, utf8s

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


class Record(NamedTuple, Generic[Model]):
    """How one kind of record becomes its message, and is read from it."""

    to_message: Callable[[Model], Any]
    from_message: Callable[[Any], Model]

    @property
    def conversion(self) -> Conversion:
        """How a field that has such a record, or several, is converted."""
        return Conversion(self.to_message, self.from_message)


U64_OR_NONE: Final = Conversion(u64_or_none)
I64_OR_NONE: Final = Conversion(i64_or_none)
_OTHER_NAMES: Final = {"path": "code_object", "size": "size_bytes", "time": "time_ns", "unload_time": "unload_time_ns"}
"""What messages call fields whose names in the model leave out what they count, or whose path it is."""


def record(
    model: type[Model],
    message: type[Message],
    names: Mapping[str, str] | None = None,
    **conversions: Conversion | Record[Any],
) -> Record[Model]:
    """How ``model``, a dataclass or a named tuple, travels as ``message``. A field is called there what ``names`` says,
    or as in the model, or as ``_OTHER_NAMES`` has it. An optional field without a value is None. Texts are made UTF-8,
    repeated fields tuples; ``conversions`` says of the other fields, by their names in the model, what becomes of
    them."""
    known: Mapping[str, Any] = message.DESCRIPTOR.fields_by_name
    named = names or {}
    attributes = getattr(model, "_fields", None) or [each.name for each in fields(model)]  # type: ignore[arg-type]
    writers: list[tuple[str, Callable[[Any], Any]]] = []
    readers: list[Read] = []
    for attribute in attributes:
        name = named.get(attribute, attribute)
        field = known[name if name in known else _OTHER_NAMES[name]]
        found = conversions.get(attribute, Conversion())
        conversion = found.conversion if isinstance(found, Record) else found
        writers.append((field.name, _writer(field, conversion)))
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

    return Record(to_message, from_message)


def _writer(field: FieldDescriptor, conversion: Conversion) -> Callable[[Any], Any]:
    convert = conversion.to_field
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
