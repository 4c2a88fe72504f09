"""Where variables live, as structure."""

from __future__ import annotations

from typing import Any

from symd.model.variables import LocationPiece, LocationRegister, PieceKind, VariableLocation
from symd.rpc.wire.integers import i64_or_none, u64_or_none, wrapped_i64
from symd.rpc.wire.text import utf8, utf8s
from symd.v1 import variable_service_pb2 as pb


def to_location(location: VariableLocation) -> pb.VariableLocation:
    lanes = pb.LaneRange(start=location.lanes[0], end=location.lanes[1]) if location.lanes else None
    return pb.VariableLocation(pieces=map(_to_piece, location.pieces), lanes=lanes)


def from_location(message: pb.VariableLocation) -> VariableLocation:
    lanes = (message.lanes.start, message.lanes.end) if message.HasField("lanes") else None
    return VariableLocation(tuple(map(_from_piece, message.pieces)), lanes)


def _to_piece(piece: LocationPiece) -> pb.LocationPiece:
    where: dict[str, Any]
    match piece.kind:
        case PieceKind.REGISTER:
            where = {"in_register": _to_register(piece.register)}
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
            return PieceKind.REGISTER, {"register": _from_register(message.in_register)}
        case "in_memory":
            return PieceKind.MEMORY, _from_memory(message.in_memory)
        case "constant":
            return PieceKind.CONSTANT, {"value": message.constant}
        case "implicit_value":
            return PieceKind.IMPLICIT, {"data": message.implicit_value}
        case "optimized_out":
            return PieceKind.OPTIMIZED_OUT, {}
    return PieceKind.EXPRESSION, {"text": message.expression}


def _to_register(register: LocationRegister | None) -> pb.RegisterLocation | None:
    if register is None:
        return None
    machine = register.machine_registers
    return pb.RegisterLocation(
        number=u64_or_none(register.number),
        name=utf8(register.name),
        first_bit=u64_or_none(register.first_bit),
        bits=u64_or_none(register.bits),
        machine_registers=None if machine is None else pb.MachineRegisters(names=utf8s(machine)),
        lane_bits=u64_or_none(register.lane_bits),
        lane_registers=u64_or_none(register.lane_registers),
    )


def _from_register(message: pb.RegisterLocation) -> LocationRegister:
    return LocationRegister(
        message.number,
        message.name,
        message.first_bit,
        message.bits if message.HasField("bits") else None,
        tuple(message.machine_registers.names) if message.HasField("machine_registers") else None,
        message.lane_bits,
        message.lane_registers,
    )


def _to_memory(piece: LocationPiece) -> pb.MemoryLocation:
    return pb.MemoryLocation(
        base_register=_to_register(piece.register),
        base_text=utf8(piece.text) if piece.register is None else None,
        offset=wrapped_i64(piece.offset or 0),
        address_space=u64_or_none(piece.address_space),
        address_space_name=utf8(piece.address_space_name),
    )


def _from_memory(message: pb.MemoryLocation) -> dict[str, Any]:
    base = message.WhichOneof("base")
    return {
        "register": _from_register(message.base_register) if base == "base_register" else None,
        "text": message.base_text if base == "base_text" else None,
        "offset": message.offset if base else message.offset % (1 << 64),
        "address_space": message.address_space if message.HasField("address_space") else None,
        "address_space_name": message.address_space_name or None,
    }
