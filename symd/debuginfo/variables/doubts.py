"""Locations that cannot be right. LLVM marks a variable in AMD's private memory by what stands at the end of its expression, and leaves the mark
behind where it keeps the value in a register, or knows it."""

from __future__ import annotations

from collections.abc import Sequence

from symd.debuginfo.variables.constants import Reading
from symd.debuginfo.variables.expression import LaneLocation
from symd.debuginfo.variables.registers import PRIVATE_SPACES, is_vector
from symd.debuginfo.variables.terms import Constant, Deref, Register, StackValue, Sum, Term
from symd.model.code import Vendor
from symd.model.variables import LocationDoubt

VALUE_NOT_ADDRESS = "VALUE_NOT_ADDRESS"
"""The reason where what is said to be an address is the value."""
_REGISTER_BITS = 32
"""Bits that a vector register has for each lane."""
_LARGEST = 8
"""Bytes of a scalar."""


def doubt(found: Sequence[LaneLocation], reading: Reading, vendor: Vendor) -> LocationDoubt | None:
    """Why a location is wrong, where it is one of AMD's code, of a scalar, and all of it is what cannot be.

    A variable of a function is at an offset from its frame, which all lanes share and scalar registers hold; only what is passed by address, which no
    scalar is, can be at an address of each lane's own. Nothing is loaded from a fixed address of private memory: a known value is meant.
    """
    size = _LARGEST if reading.size is None and reading.encoding == "address" else reading.size
    if vendor is not Vendor.AMD or reading.encoding == "bytes" or size is None or not 0 < size <= _LARGEST:
        return None
    pieces = [piece for each in found for piece in each.pieces if piece.place is not None]
    if not pieces or any(each.error for each in found):
        return None
    if all(_is_constant(piece.place) for piece in pieces):
        return LocationDoubt(
            VALUE_NOT_ADDRESS, "the address is the value: no variable is at a fixed address of private memory"
        )
    if all(_is_vector(piece.place) and (piece.size or 8 * size) <= _REGISTER_BITS for piece in pieces):
        what = "a vector register has the value: no scalar is in private memory at an address of each lane's own"
        return LocationDoubt(VALUE_NOT_ADDRESS, what)
    return None


def _is_vector(place: Term | None) -> bool:
    if not isinstance(place, Deref) or place.size is not None or place.space not in PRIVATE_SPACES:
        return False
    address = place.address
    if isinstance(address, Sum) and not address.offset.value:  # DW_OP_bregx adds one, if only 0
        address = address.base
    return isinstance(address, Register) and is_vector(address.number)


def _is_constant(place: Term | None) -> bool:
    value = place.term if isinstance(place, StackValue) else None
    if not isinstance(value, Deref) or value.size is not None or value.space not in PRIVATE_SPACES:
        return False
    return isinstance(value.address, Constant) and not value.address.linked
