"""Numbers that damaged debug data states and no field holds."""

from __future__ import annotations


def unsigned(value: int | None) -> int | None:
    """What does not fit 64 bits without a sign travels as not known."""
    return value if value is not None and 0 <= value < 1 << 64 else None


def signed(value: int | None) -> int | None:
    """What does not fit 64 bits with a sign travels as not known."""
    return value if value is not None and -(1 << 63) <= value < 1 << 63 else None


def wrapped(value: int) -> int:
    """The number that has the same low 64 bits in two's complement."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
