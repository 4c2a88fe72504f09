"""What is decoded of code objects together and of each by itself, and the two compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass

import numpy as np

from symd import debuginfo
from symd.budget import DebugBudget
from symd.config import Limits
from symd.debuginfo.small_objects import read_in_batches
from symd.errors import SymdError
from symd.model.code import CodeObject
from symd.model.debug_info import DebugInfo

LIMITS = Limits()
STORED = 1 << 30
"""Bytes of a file that may have as many rows as it likes."""


def together(codes: Sequence[CodeObject]) -> tuple[list[tuple[CodeObject, object]], list[CodeObject]]:
    """(what ``read_in_batches`` says, the code objects that it read by themselves)."""
    budget, alone = DebugBudget(LIMITS, STORED), []

    def read(code: CodeObject) -> tuple[CodeObject, DebugInfo | SymdError]:
        alone.append(code)
        return debuginfo.read_or_refused(code, LIMITS, budget)

    return list(read_in_batches(codes, LIMITS, budget, read)), alone


def alone(codes: Sequence[CodeObject]) -> list[tuple[CodeObject, object]]:
    budget = DebugBudget(LIMITS, STORED)
    return [debuginfo.read_or_refused(code, LIMITS, budget) for code in codes]


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
