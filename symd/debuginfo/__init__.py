"""A code object in, its line rows and scopes out (``reading``), or the frames at one of its addresses (``one_address``). Importing the package imports none of
it: one answer does without NumPy."""

from __future__ import annotations

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from symd.debuginfo.reading import PartialDebugInfo as PartialDebugInfo
    from symd.debuginfo.reading import read as read
    from symd.debuginfo.reading import read_each as read_each
    from symd.debuginfo.reading import read_in_turn as read_in_turn
    from symd.debuginfo.reading import read_or_refused as read_or_refused
    from symd.debuginfo.reading import read_part as read_part
    from symd.model.code import CodeObject

__all__ = ("PartialDebugInfo", "leaves_out_calls", "read", "read_each", "read_in_turn", "read_or_refused", "read_part")


_HOMES = dict.fromkeys({*__all__} - {"leaves_out_calls"}, "symd.debuginfo.reading")


def __getattr__(name: str) -> object:
    from symd.system.lazy_imports import found  # noqa: PLC0415 - who asks for one address does without

    return found(__name__, _HOMES, name)


def leaves_out_calls(code: CodeObject) -> bool:
    """Whether a SPIR-V module is of a compiler that inlines functions and, where it writes lines alone, says nothing of that: Slang with ``-g1``."""
    return str(code.facts.get("generator", "")).startswith("NVIDIA Slang")
