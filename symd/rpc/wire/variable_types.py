"""Types of variables, as structure. In messages entry 0 of the table of types says nothing, and numbers are by one higher
than those of ``Visible.types``."""

from __future__ import annotations

from collections.abc import Mapping

from symd.errors import Malformed
from symd.model.variables import Member, TypeInfo
from symd.rpc.wire.integers import i64_or_none, u64_or_none, wrapped_i64
from symd.rpc.wire.text import utf8
from symd.v1 import variable_service_pb2 as pb


def _words(prefix: str, values: Mapping[str, int], special: Mapping[str, str]) -> dict[str, int]:
    """The numbers of an enum by the model's words, which are the values' names but for the ``special`` ones."""
    words = {name.removeprefix(prefix).lower(): number for name, number in values.items() if number}
    return {special.get(word, word): number for word, number in words.items()}


_KINDS = _words("TYPE_KIND_", dict(pb.TypeKind.items()), {"unspecified_type": "unspecified"})
_ENCODINGS = _words("TYPE_ENCODING_", dict(pb.TypeEncoding.items()), {"utf": "UTF", "ucs": "UCS", "ascii": "ASCII"})
_KIND_WORDS = {number: word for word, number in _KINDS.items()}
_ENCODING_WORDS = {number: word for word, number in _ENCODINGS.items()}
_TAG, _ENCODING = "tag ", "encoding "
"""What stands before the number of a kind, or an encoding, that has no word."""


def to_number(number: int | None) -> int:
    return 0 if number is None else number + 1


def from_number(number: int) -> int | None:
    return number - 1 if number else None


def to_type(info: TypeInfo) -> pb.VariableType:
    kind, encoding = _KINDS.get(info.kind), _ENCODINGS.get(info.encoding or "")
    return pb.VariableType(
        text=utf8(info.text),
        kind=kind,  # type: ignore[arg-type] # the enum's own number
        dwarf_tag=_number(info.kind, _TAG) if kind is None else None,
        size_bytes=u64_or_none(info.size),
        encoding=encoding,  # type: ignore[arg-type] # likewise
        dwarf_encoding=_number(info.encoding, _ENCODING) if encoding is None else None,
        target=to_number(info.target),
        dimensions=[pb.ArrayDimension(count=u64_or_none(count)) for count in info.counts],
        members=map(_to_member, info.members),
        parameters=map(to_number, info.parameters),
        enumerators=[
            pb.Enumerator(name=utf8(name), value=wrapped_i64(value))
            for name, value in info.enumerators
            if i64_or_none(value) is not None or u64_or_none(value) is not None
        ],
        address_space=utf8(info.address_space),
    )


def from_type(message: pb.VariableType) -> TypeInfo:
    """Raises ``Malformed``."""
    return TypeInfo(
        message.text,
        _from_kind(message),
        message.size_bytes if message.HasField("size_bytes") else None,
        _from_encoding(message),
        from_number(message.target),
        tuple(each.count if each.HasField("count") else None for each in message.dimensions),
        tuple(map(_from_member, message.members)),
        tuple(map(from_number, message.parameters)),
        tuple((each.name, each.value) for each in message.enumerators),
        message.address_space if message.HasField("address_space") else None,
    )


def _number(word: str | None, before: str) -> int | None:
    """The number in a word such as "tag 0x4109"."""
    return u64_or_none(int(word.removeprefix(before), 16)) if word and word.startswith(before) else None


def _from_kind(message: pb.VariableType) -> str:
    if message.HasField("dwarf_tag"):
        return f"{_TAG}{message.dwarf_tag:#x}"
    kind = _KIND_WORDS.get(message.kind)
    if kind is None:
        raise Malformed(f"the kind {message.kind} of type {message.text} is not known", where="answer")
    return kind


def _from_encoding(message: pb.VariableType) -> str | None:
    if message.HasField("dwarf_encoding"):
        return f"{_ENCODING}{message.dwarf_encoding:#x}"
    return _ENCODING_WORDS.get(message.encoding)


def _to_member(member: Member) -> pb.TypeMember:
    return pb.TypeMember(
        name=utf8(member.name),
        type_number=to_number(member.type),
        offset=i64_or_none(member.offset),
        bit_offset=i64_or_none(member.bit_offset),
        bit_size=u64_or_none(member.bit_size),
        discriminant=i64_or_none(member.discriminant),
    )


def _from_member(message: pb.TypeMember) -> Member:
    return Member(
        message.name,
        from_number(message.type_number),
        message.offset if message.HasField("offset") else None,
        message.bit_offset if message.HasField("bit_offset") else None,
        message.bit_size if message.HasField("bit_size") else None,
        message.discriminant if message.HasField("discriminant") else None,
    )
