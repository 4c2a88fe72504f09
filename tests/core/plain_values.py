"""Values in which everything compares equal that is."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import numpy as np

from symd.errors import SymdError


def plain(value: object) -> object:
    """Something that compares equal where everything decoded is, types of columns included."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tolist()
    if isinstance(value, SymdError):
        return str(value)
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return value
