"""Variables, their types and their places, there and back."""

from __future__ import annotations

from symd.debuginfo.variables import Kind, Member, TypeInfo, Variable, Visible
from symd.errors import Malformed
from symd.model.addresses import Query
from symd.model.variables import InScope
from symd.v1 import variable_service_pb2 as pb
from symd.wire.answers import from_answer, to_answer
from symd.wire.names import module_name
from symd.wire.queries import to_query
from symd.wire.text import utf8, utf8s

_KINDS: dict[Kind, pb.VariableKind] = {
    "parameter": pb.VARIABLE_KIND_PARAMETER,
    "local": pb.VARIABLE_KIND_LOCAL,
    "global": pb.VARIABLE_KIND_GLOBAL,
}
_BACK = {number: kind for kind, number in _KINDS.items()}


def to_request(digest: str, query: Query, path: str | None) -> pb.GetVariablesRequest:
    return pb.GetVariablesRequest(name=module_name(digest), object=path, query=to_query(query))


def to_response(found: InScope) -> pb.GetVariablesResponse:
    visible = found.visible
    return pb.GetVariablesResponse(
        at=to_answer(found.at),
        variables=[_to_variable(variable) for variable in visible.variables],
        types=[_to_type(info) for info in visible.types],
        simd_width=visible.simd_width,
        notes=utf8s(visible.notes),
    )


def from_response(message: pb.GetVariablesResponse) -> InScope:
    visible = Visible(
        tuple(_from_variable(variable) for variable in message.variables),
        tuple(_from_type(info) for info in message.types),
        message.simd_width if message.HasField("simd_width") else None,
        tuple(message.notes),
    )
    return InScope(from_answer(message.at), visible)


def _to_variable(variable: Variable) -> pb.Variable:
    return pb.Variable(
        name=utf8(variable.name),
        type=utf8(variable.type),
        type_number=variable.type_number,
        kind=_KINDS[variable.kind],
        function=utf8(variable.function),
        inlined=variable.inlined,
        optimized_out=variable.optimized_out,
        location=utf8(variable.location),
        live=[pb.LiveRange(start=start, end=end) for start, end in variable.live],
    )


def _from_variable(message: pb.Variable) -> Variable:
    kind = _BACK.get(message.kind)
    if kind is None:
        raise Malformed(f"the kind {message.kind} of variable {message.name} is not known", where="answer")
    return Variable(
        message.name,
        message.type,
        kind,
        message.function if message.HasField("function") else None,
        message.inlined,
        message.optimized_out,
        message.location if message.HasField("location") else None,
        tuple((live.start, live.end) for live in message.live),
        message.type_number if message.HasField("type_number") else None,
    )


def _to_type(info: TypeInfo) -> pb.VariableType:
    return pb.VariableType(
        text=utf8(info.text),
        kind=info.kind,
        size=_unsigned(info.size),
        encoding=utf8(info.encoding),
        target=info.target,
        counts=[pb.ElementCount(count=_unsigned(count)) for count in info.counts],
        members=[_to_member(member) for member in info.members],
        parameters=[pb.TypeParameter(type=number) for number in info.parameters],
        enumerators=[
            pb.Enumerator(name=utf8(name), value=value if _signed(value) is not None else value - (1 << 64))
            for name, value in info.enumerators
            if _signed(value) is not None or _unsigned(value) is not None
        ],
        address_space=utf8(info.address_space),
    )


def _from_type(message: pb.VariableType) -> TypeInfo:
    return TypeInfo(
        message.text,
        message.kind,
        message.size if message.HasField("size") else None,
        message.encoding if message.HasField("encoding") else None,
        message.target if message.HasField("target") else None,
        tuple(count.count if count.HasField("count") else None for count in message.counts),
        tuple(_from_member(member) for member in message.members),
        tuple(parameter.type if parameter.HasField("type") else None for parameter in message.parameters),
        tuple((each.name, each.value) for each in message.enumerators),
        message.address_space if message.HasField("address_space") else None,
    )


def _to_member(member: Member) -> pb.TypeMember:
    return pb.TypeMember(
        name=utf8(member.name),
        type=member.type,
        offset=_signed(member.offset),
        bit_offset=_signed(member.bit_offset),
        bit_size=_unsigned(member.bit_size),
    )


def _from_member(message: pb.TypeMember) -> Member:
    return Member(
        message.name,
        message.type if message.HasField("type") else None,
        message.offset if message.HasField("offset") else None,
        message.bit_offset if message.HasField("bit_offset") else None,
        message.bit_size if message.HasField("bit_size") else None,
    )


def _unsigned(value: int | None) -> int | None:
    """Damaged debug data states sizes that no field holds; they travel as not known."""
    return value if value is not None and 0 <= value < 1 << 64 else None


def _signed(value: int | None) -> int | None:
    """The same for offsets."""
    return value if value is not None and -(1 << 63) <= value < 1 << 63 else None
