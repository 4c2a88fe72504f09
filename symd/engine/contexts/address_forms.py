"""Device addresses as tools write them: whole, canonical, truncated, or counted in larger units than bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from symd.errors import BadQuery
from symd.model.columns import U64
from symd.model.contexts import AddressForm

WIDTHS = (48, 57, 64)
"""``Context.address_bits``: canonical of 4 or of 5 page levels, or as they are."""


def checked_form(form: AddressForm) -> AddressForm:
    """Raises ``BadQuery`` for an invalid form."""
    if not (0 <= form.shift < 32 <= form.known_bits <= 64):
        raise BadQuery(
            f"no address is written with shift {form.shift} and {form.known_bits} bits",
            hint="shift is 0 to 31, and 32 to 64 bits of the address are known",
        )
    return form


def shifted(values: U64, form: AddressForm) -> tuple[U64, NDArray[np.bool_]]:
    """The addresses that numbers stand for, and whether they fit the bits that are known."""
    addresses = values << np.uint64(form.shift)
    fits = addresses >> np.uint64(form.shift) == values
    if form.known_bits < 64:
        fits &= addresses < np.uint64(1 << form.known_bits)
    return addresses, fits


def reduced(addresses: U64, width: int) -> tuple[U64, NDArray[np.bool_]]:
    """Addresses without their sign extension above ``width`` bits, and whether they are addresses of that width: extended
    by their sign or by zeros."""
    if width == 64:
        return addresses, np.ones(len(addresses), np.bool_)
    low = addresses & np.uint64((1 << width) - 1)
    return low, (low == addresses) | (extended(low, width) == addresses)


def extended(addresses: U64, width: int) -> U64:
    """Reduced addresses in canonical form: their topmost bit repeated."""
    if width == 64:
        return addresses
    room = np.uint64(64 - width)
    canonical: U64 = ((addresses << room).view(np.int64) >> room.astype(np.int64)).view(np.uint64)
    return canonical
