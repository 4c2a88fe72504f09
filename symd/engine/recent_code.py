"""Instructions that were disassembled lately: a debugger asks for one place after another of the same function, and
starting a disassembler takes much longer than answering.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from symd.errors import SymdError
from symd.model.line_tables import CodeSpan
from symd.query.code_spans import is_held
from symd.query.line_tables import Disassembled

KEPT_INSTRUCTIONS: Final = 1 << 16
"""The most instructions that are kept, of all modules together; each takes about 200 bytes."""
KEPT_PARTS: Final = 64
"""The most disassembled parts that are kept, each of which is looked at for a place."""


class _Key(NamedTuple):
    digest: str
    target: str | None
    path: str
    section: int


class RecentCode:
    """The disassembled parts of code that were asked for last, of all modules. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[_Key, int], Disassembled] = OrderedDict()

    def get(self, digest: str, target: str | None, span: CodeSpan) -> Disassembled | None:
        """The code object with the instructions of the range of code that ``span`` lies in, and maybe of others; None
        where they are not kept."""
        wanted = _Key(digest, target, span.path, span.section)
        with self._lock:
            for key, code in self._kept.items():
                if (
                    key[0] == wanted
                    and not isinstance(code.instructions, SymdError)
                    and is_held(code.instructions, span)
                ):
                    self._kept.move_to_end(key)
                    return code
        return None

    def keep(self, digest: str, target: str | None, span: CodeSpan, found: Sequence[Disassembled]) -> None:
        """Keep what was disassembled for ``span``, which lies in one code object."""
        (code,) = found
        if not 0 < _count(code) <= KEPT_INSTRUCTIONS:
            return
        with self._lock:
            self._kept[_Key(digest, target, span.path, span.section), span.start] = code
            left = KEPT_INSTRUCTIONS - sum(map(_count, self._kept.values()))
            while left < 0 or len(self._kept) > KEPT_PARTS:
                left += _count(self._kept.popitem(last=False)[1])


def _count(code: Disassembled) -> int:
    return 0 if isinstance(code.instructions, SymdError) else len(code.instructions)
