"""Variables in scope, with their types and locations, to messages and back.

In messages entry 0 of the table of types says nothing, so numbers of types are higher by one than those of
``Visible.types``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from symd.errors import Malformed
from symd.model.addresses import ByDevice, DeviceAddress, Query
from symd.model.variables import (
    InScope,
    Kind,
    LocationDoubt,
    LocationPiece,
    LocationRegister,
    Member,
    PieceKind,
    TypeInfo,
    Variable,
    VariableLocation,
    Visible,
)
from symd.rpc.wire.answers import from_answer, from_device_candidate, from_ranged_answer, to_answer, to_device_candidate
from symd.rpc.wire.fields import (
    Conversion,
    i64_or_none,
    module_digest,
    module_name,
    optional_digest,
    optional_module_name,
    optional_path,
    record,
    u64_or_none,
    utf8,
    utf8s,
    wrapped_i64,
    wrong_field,
)
from symd.rpc.wire.queries import add_any_query, from_any_query
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
"""What is before the number of a kind, or an encoding, that has no word."""


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
        members=map(_MEMBER.to_message, info.members),
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
        tuple(map(_MEMBER.from_message, message.members)),
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


TYPE_NUMBER = Conversion(to_number, from_number)
_MEMBER = record(
    Member,
    pb.TypeMember,
    {"type": "type_number"},
    omit_misfits=True,
    type=TYPE_NUMBER,
)


def _to_piece(piece: LocationPiece) -> pb.LocationPiece:
    where: dict[str, Any]
    match piece.kind:
        case PieceKind.REGISTER:
            where = {"in_register": None if piece.register is None else _REGISTER.to_message(piece.register)}
        case PieceKind.MEMORY:
            where = {"in_memory": _to_memory(piece)}
        case PieceKind.CONSTANT:
            where = {"constant": wrapped_i64(piece.value or 0)}
        case PieceKind.IMPLICIT:
            where = {"implicit_value": piece.data}
        case PieceKind.OPTIMIZED_OUT:
            where = {"optimized_out": pb.OptimizedOut()}
        case PieceKind.EXPRESSION:
            where = {"expression": utf8(piece.text or "")}
    return pb.LocationPiece(
        bit_offset=u64_or_none(piece.bit_offset),
        bit_size=u64_or_none(piece.bit_size),
        skipped_bits=u64_or_none(piece.skipped_bits),
        per_lane=piece.per_lane,
        lane_stride=i64_or_none(piece.lane_stride),
        **where,
    )


def _from_piece(message: pb.LocationPiece) -> LocationPiece:
    kind, fields = _from_where(message)
    return LocationPiece(
        kind,
        bit_offset=message.bit_offset if message.HasField("bit_offset") else None,
        bit_size=message.bit_size if message.HasField("bit_size") else None,
        skipped_bits=message.skipped_bits,
        per_lane=message.per_lane,
        lane_stride=message.lane_stride,
        **fields,
    )


def _from_where(message: pb.LocationPiece) -> tuple[PieceKind, dict[str, Any]]:
    """The kind, and what of a ``LocationPiece`` it fills. What a newer daemon says otherwise is an expression without
    words."""
    match message.WhichOneof("where"):
        case "in_register":
            return PieceKind.REGISTER, {"register": _REGISTER.from_message(message.in_register)}
        case "in_memory":
            return PieceKind.MEMORY, _from_memory(message.in_memory)
        case "constant":
            return PieceKind.CONSTANT, {"value": message.constant}
        case "implicit_value":
            return PieceKind.IMPLICIT, {"data": message.implicit_value}
        case "optimized_out":
            return PieceKind.OPTIMIZED_OUT, {}
    return PieceKind.EXPRESSION, {"text": message.expression}


_REGISTER = record(
    LocationRegister,
    pb.RegisterLocation,
    {"bytes": "width_bytes"},
    omit_misfits=True,
    machine_registers=Conversion(
        lambda names: pb.MachineRegisters(names=utf8s(names)), lambda found: tuple(found.names)
    ),
)


def _to_memory(piece: LocationPiece) -> pb.MemoryLocation:
    return pb.MemoryLocation(
        base_register=None if piece.register is None else _REGISTER.to_message(piece.register),
        base_text=utf8(piece.text) if piece.register is None else None,
        offset=wrapped_i64(piece.offset or 0),
        address_space=u64_or_none(piece.address_space),
        address_space_name=utf8(piece.address_space_name),
        base_divisor=piece.base_divisor if piece.base_divisor > 1 else None,
    )


def _from_memory(message: pb.MemoryLocation) -> dict[str, Any]:
    base = message.WhichOneof("base")
    return {
        "register": _REGISTER.from_message(message.base_register) if base == "base_register" else None,
        "text": message.base_text if base == "base_text" else None,
        "offset": message.offset if base else message.offset % (1 << 64),
        "address_space": message.address_space if message.HasField("address_space") else None,
        "address_space_name": message.address_space_name or None,
        "base_divisor": message.base_divisor or 1,
    }


_VARIABLE_KINDS: dict[Kind, pb.VariableKind] = {
    "parameter": pb.VARIABLE_KIND_PARAMETER,
    "local": pb.VARIABLE_KIND_LOCAL,
    "global": pb.VARIABLE_KIND_GLOBAL,
}
_VARIABLE_KIND_WORDS = {number: kind for kind, number in _VARIABLE_KINDS.items()}


def _from_variable_kind(number: pb.VariableKind) -> Kind:
    kind = _VARIABLE_KIND_WORDS.get(number)
    if kind is None:
        raise Malformed(f"the kind {number} of a variable is not known", where="answer")
    return kind


_RANGE = Conversion(lambda ends: pb.LiveRange(start=ends[0], end=ends[1]), lambda found: (found.start, found.end))
_LOCATION = record(
    VariableLocation,
    pb.VariableLocation,
    pieces=Conversion(_to_piece, _from_piece),
    lanes=Conversion(lambda ends: pb.LaneRange(start=ends[0], end=ends[1]), lambda found: (found.start, found.end)),
    doubt=record(LocationDoubt, pb.LocationDoubt),
)
_VARIABLE = record(
    Variable,
    pb.Variable,
    {"location": "location_text"},
    omit_misfits=True,
    kind=Conversion(_VARIABLE_KINDS.__getitem__, _from_variable_kind),
    live=_RANGE,
    type_number=TYPE_NUMBER,
    locations=_LOCATION,
    block=_RANGE,
)


MOST_PLACES = 256
"""Addresses of one request."""


def to_requests(
    digest: str, queries: Sequence[Query | ByDevice], path: str | None, *, with_ranges: bool
) -> Iterator[pb.GetVariablesRequest]:
    """The requests for the variables at some addresses: as many as ``MOST_PLACES`` asks for. ``digest`` may be "" where
    all are in device memory."""
    for start in range(0, len(queries), MOST_PLACES):
        name = optional_module_name(digest)
        request = pb.GetVariablesRequest(module=name, code_object=path, with_ranges=with_ranges)
        for each in queries[start : start + MOST_PLACES]:
            add_any_query(request.queries, each)
        yield request


def from_request(request: pb.GetVariablesRequest) -> tuple[str, list[Query | ByDevice], str | None]:
    """(the module's digest or "", the addresses, the code object's path or None). Raises ``BadQuery`` and
    ``InvalidInput``."""
    if not 0 < len(request.queries) <= MOST_PLACES:
        what = f"the request has {len(request.queries)} addresses"
        raise wrong_field("queries", what, hint=f"ask about 1 to {MOST_PLACES} addresses at a time")
    queries = [from_any_query(each, f"queries[{number}]") for number, each in enumerate(request.queries)]
    in_memory = all(isinstance(each, ByDevice) for each in queries)
    digest = optional_digest(request.module) if in_memory else module_digest(request.module)
    return digest, queries, optional_path(request)


def to_place(found: InScope) -> pb.VariablesInScope:
    visible, answer = found.visible, to_answer(found.at)
    if found.device_address is not None:
        answer.device_address = found.device_address
    if found.module is not None:
        answer.module = module_name(found.module)
    answer.device_candidates.extend(map(to_device_candidate, found.device_candidates))
    return pb.VariablesInScope(
        answer=answer,
        variables=map(_VARIABLE.to_message, visible.variables),
        types=[pb.VariableType(), *map(to_type, visible.types)],
        simd_width=visible.simd_width,
        notes=utf8s(visible.notes),
    )


def from_response(message: pb.GetVariablesResponse, *, with_ranges: bool) -> list[InScope]:
    """Raises ``Malformed``."""
    return [from_place(each, with_ranges=with_ranges) for each in message.places]


def from_place(message: pb.VariablesInScope, *, with_ranges: bool = False) -> InScope:
    """Raises ``Malformed``."""
    visible = Visible(
        tuple(map(_VARIABLE.from_message, message.variables)),
        tuple(map(from_type, message.types[1:])),
        message.simd_width if message.HasField("simd_width") else None,
        tuple(message.notes),
    )
    answer = message.answer
    return InScope(
        from_ranged_answer(answer) if with_ranges else from_answer(answer),
        visible,
        module_digest(answer.module) if answer.module else None,
        DeviceAddress(answer.device_address) if answer.HasField("device_address") else None,
        tuple(map(from_device_candidate, answer.device_candidates)),
    )
