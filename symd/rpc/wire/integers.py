"""Integers of debug data in fields of 64 bits: damaged debug data states larger ones."""

from __future__ import annotations


def u64_or_none(value: int | None) -> int | None:
    """The value where it fits 64 bits without a sign; None, which stands for "not known", where it does not."""
    return value if value is not None and 0 <= value < 1 << 64 else None


def i64_or_none(value: int | None) -> int | None:
    """The value where it fits 64 bits with a sign; None, which stands for "not known", where it does not."""
    return value if value is not None and -(1 << 63) <= value < 1 << 63 else None


def wrapped_i64(value: int) -> int:
    """The number of 64 bits with a sign that has the same low 64 bits in two's complement."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
