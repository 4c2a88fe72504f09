"""Intel's patch-token program binary, recognised so that it is never taken for the debug container with which it shares
magic and version. It holds code without debug data: there is nothing in it that symd answers from."""

from __future__ import annotations

from symd.errors import Unsupported
from symd.formats.budget import Budget
from symd.formats.containers.format import Contents, Element
from symd.formats.containers.intel import igc_debug

NAME = "patch-tokens"


def claims(data: bytes) -> bool:
    """The shared magic, with a device where the debug container has its empty size word."""
    return data[:4] == igc_debug.MAGIC and not igc_debug.claims(data)


def read(element: Element, budget: Budget) -> Contents:
    """Always Unsupported, with the way to the debug data."""
    del element, budget
    raise Unsupported(
        "is a patch-token program binary, which carries no debug data",
        where="IGC program binary",
        hint="build with -g and grab the debug data, or take the .dbg file that ocloc writes beside it",
    )
