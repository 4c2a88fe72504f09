"""The inlined calls of PTX, which ptxas is handed and nvcc writes in full: ``.loc`` says of each the function's name and the place
of the call (``inlined_at``). What a cubin says of them can be nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable

from symd.model.answers import Answer
from tests.agreement.source_text import POSITIONED

Chain = tuple[tuple[str, str, int], ...]
"""(function, file without its folder, line), the innermost first."""
_FILE = re.compile(r"^\s*\.file\s+(\d+) \"(?:[^\"]*/)?([^\"/]+)\"", re.MULTILINE)
_STRING = re.compile(r"^(\S+):\n((?:\.b8 [\d,]+\n)+)", re.MULTILINE)
_BEGIN = re.compile(r"\.(?:entry|func)\s*(?:\([^)]*\)\s*)?(\w+)\(?")
_LOC = re.compile(r"\s*\.loc\s+(\d+) (\d+) (\d+)(?:, function_name (\S+), inlined_at (\d+) (\d+) (\d+))?")


def chains(text: str) -> set[Chain]:
    """The chains of every ``.loc``. A call's place is that of the ``.loc`` last seen there, which may be inlined itself."""
    files = dict(_FILE.findall(text))
    names = {name: _string(data) for name, data in _STRING.findall(text)}
    found: set[Chain] = set()
    function, seen = "", dict[tuple[str, ...], Chain]()
    for line in text.splitlines():
        if begun := _BEGIN.search(line):
            function, seen = begun[1], {}
        elif loc := _LOC.match(line):
            place, call = loc.group(1, 2, 3), loc.group(5, 6, 7)
            outer = seen[call] if loc[4] else ()
            chain = ((names[loc[4]] if loc[4] else function, files[loc[1]], int(loc[2])), *outer)
            seen[place] = chain
            found.add(chain)
    return found


def _string(data: str) -> str:
    return bytes(int(number) for number in re.findall(r"\d+", data.replace(".b8", ""))).rstrip(b"\0").decode()


def answered(answers: Iterable[Answer]) -> set[Chain]:
    """The chains of answers that stand for their lines. Functions of a kernel's own (``$kernel$function``) are called as in PTX."""
    return {
        tuple(
            (
                re.sub(r"^[$].*[$]", "", frame.linkage_name or frame.function or ""),
                (frame.file or "").rpartition("/")[2],
                frame.line,
            )
            for frame in answer.frames
        )
        for answer in answers
        if answer.reason in POSITIONED
    }
