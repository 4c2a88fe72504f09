"""Variables in scope, there and back."""

from __future__ import annotations

from symd.errors import Malformed
from symd.model.addresses import Query
from symd.model.variables import InScope, Kind, Variable, Visible
from symd.rpc.wire.answers import from_answer, to_answer
from symd.rpc.wire.queries import from_query, to_query
from symd.rpc.wire.resource_names import digest_and_path, module_name
from symd.rpc.wire.text import utf8, utf8s
from symd.rpc.wire.variable_locations import from_location, to_location
from symd.rpc.wire.variable_types import from_number, from_type, to_number, to_type
from symd.v1 import variable_service_pb2 as pb

_KINDS: dict[Kind, pb.VariableKind] = {
    "parameter": pb.VARIABLE_KIND_PARAMETER,
    "local": pb.VARIABLE_KIND_LOCAL,
    "global": pb.VARIABLE_KIND_GLOBAL,
}
_KIND_WORDS = {number: kind for kind, number in _KINDS.items()}


def to_request(digest: str, query: Query, path: str | None) -> pb.GetVariablesRequest:
    return pb.GetVariablesRequest(name=module_name(digest), path=path, query=to_query(query))


def from_request(request: pb.GetVariablesRequest) -> tuple[str, Query, str | None]:
    """(the module's digest, the address, the code object's path or None). Raises ``BadQuery``."""
    digest, path = digest_and_path(request)
    return digest, from_query(request.query, "query"), path


def to_response(found: InScope) -> pb.GetVariablesResponse:
    visible = found.visible
    return pb.GetVariablesResponse(
        answer=to_answer(found.at),
        variables=map(_to_variable, visible.variables),
        types=[pb.VariableType(), *map(to_type, visible.types)],
        simd_width=visible.simd_width,
        notes=utf8s(visible.notes),
    )


def from_response(message: pb.GetVariablesResponse) -> InScope:
    """Raises ``Malformed``."""
    visible = Visible(
        tuple(map(_from_variable, message.variables)),
        tuple(map(from_type, message.types[1:])),
        message.simd_width if message.HasField("simd_width") else None,
        tuple(message.notes),
    )
    return InScope(from_answer(message.answer), visible)


def _to_variable(variable: Variable) -> pb.Variable:
    return pb.Variable(
        name=utf8(variable.name),
        type=utf8(variable.type),
        type_number=to_number(variable.type_number),
        kind=_KINDS[variable.kind],
        function=utf8(variable.function),
        inlined=variable.inlined,
        optimized_out=variable.optimized_out,
        location_text=utf8(variable.location),
        locations=map(to_location, variable.locations),
        live=[pb.LiveRange(start=start, end=end) for start, end in variable.live],
    )


def _from_variable(message: pb.Variable) -> Variable:
    kind = _KIND_WORDS.get(message.kind)
    if kind is None:
        raise Malformed(f"the kind {message.kind} of variable {message.name} is not known", where="answer")
    return Variable(
        message.name,
        message.type,
        kind,
        message.function if message.HasField("function") else None,
        message.inlined,
        message.optimized_out,
        message.location_text if message.HasField("location_text") else None,
        tuple((live.start, live.end) for live in message.live),
        from_number(message.type_number),
        tuple(map(from_location, message.locations)),
    )
