"""What both debug-info clients print: for each kernel every source line, and the kernel offsets that it owns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from symd.model.debug_info import RowFlag
from symd.model.line_tables import LineTable


def line_report(tables: Iterable[LineTable], source: Sequence[str]) -> str:
    """``source`` holds the lines of the program's own text; lines of other files are named by file and number."""
    owned = _owned(tables)
    blocks = []
    for kernel, lines in owned.items():
        blocks.append(f"Kernel {kernel}")
        for (file, number), ranges in sorted(lines.items()):
            spans = " ".join(f"[{start:#06x}, {end:#06x})" for start, end in ranges)
            blocks += [f"  {Path(file).name}:{number}: {_text(source, number, file)}".rstrip(), f"      {spans}"]
    return "\n".join(blocks)


def _owned(tables: Iterable[LineTable]) -> dict[str, dict[tuple[str, int], list[tuple[int, int]]]]:
    """Kernel to (file, line) to its ranges: each row owns the bytes up to the next row."""
    result: dict[str, dict[tuple[str, int], list[tuple[int, int]]]] = {}
    for table in tables:
        for row in range(len(table) - 1):
            start, end = int(table.offset[row]), int(table.offset[row + 1])
            if table.flags[row] & RowFlag.END_SEQUENCE or start == end or not table.line[row]:
                continue
            lines = result.setdefault(table.strings[table.kernel[row]], defaultdict(list))
            ranges = lines[table.strings[table.file[row]], int(table.line[row])]
            if ranges and ranges[-1][1] == start:
                ranges[-1] = (ranges[-1][0], end)
            else:
                ranges.append((start, end))
    return result


def _text(source: Sequence[str], number: int, file: str) -> str:
    """The source line, when it is one of the program's own: drivers call a program without a file "1"."""
    own = Path(file).name in {"1", "<stdin>"} or Path(file).suffix in {".cl", ".clcpp"}
    return source[number - 1].strip() if own and number <= len(source) else ""
