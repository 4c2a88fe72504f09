"""How wide a vector register is, and which of its bits are each lane's: AMD's debug data leaves that to whoever knows the machine."""

from __future__ import annotations

from dataclasses import replace

from symd.debuginfo.variables.registers import is_general, is_vector
from symd.formats.containers.intel.targets import product_core
from symd.model.code import CodeObject, Vendor
from symd.model.variables import LocationPiece, VariableLocation

_INTEL_BYTES = {
    **dict.fromkeys(("gen8", "gen9", "gen11", "gen11lp", "gen12lp", "xe-hp", "xe-hpg"), 32),
    **dict.fromkeys(("xe-hpc", "xe2", "xe3", "xe3p"), 64),
}
"""Bytes of a general register by graphics core."""
_LANE_BITS = 32
"""Bits that AMD's vector registers have for each lane."""


class RegisterWidths:
    """The widths of one code object's vector registers."""

    def __init__(self, code: CodeObject, lanes: int | None) -> None:
        """``lanes`` are those of AMD's wavefronts; None: not known."""
        self._vendor = code.vendor
        core = product_core(code.target or "") or code.target or ""
        self._intel = _INTEL_BYTES.get(core) if self._vendor is Vendor.INTEL else None
        self._amd = None if lanes is None else _LANE_BITS // 8 * lanes

    def told(self, location: VariableLocation) -> VariableLocation:
        """The location with the widths of its vector registers, and what of AMD's is each lane's own."""
        if self._vendor is not Vendor.AMD and self._intel is None:
            return location
        return replace(location, pieces=tuple(map(self._piece, location.pieces)))

    def _piece(self, piece: LocationPiece) -> LocationPiece:
        register = piece.register
        if register is None:
            return piece
        if self._vendor is Vendor.INTEL:
            return replace(
                piece, register=replace(register, bytes=self._intel if is_general(register.number) else None)
            )
        if not is_vector(register.number) or register.lane_bits or register.lane_registers:
            return piece
        return replace(piece, register=replace(register, lane_bits=_LANE_BITS, bytes=self._amd), per_lane=True)
