"""The table of docs/formats.md, between two comments: a run writes the rows that it surveyed, the others stay."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.survey.artefacts import ARTEFACTS, Artefact
from tests.survey.case import ROOT
from tests.survey.surveyed import MIB, Row, shown

PAGE = ROOT / "docs" / "formats.md"
BEGIN, END = "<!-- survey: begin -->", "<!-- survey: end -->"
HEAD = (
    "| package | how to get it again | inside | compared with | result | reasons | `info` | one address |",
    "|---|---|---|---|---|---|---|---|",
)
DOUBTED = ("INFERRED", "CONTRADICTORY")
"""Reasons that are named even where they never occur."""


def line(artefact: Artefact, row: Row) -> str:
    compared = "; ".join(f"{what}: {count:,}{newer(row, what)}" for what, count in row.compared.items())
    result = "all agree" if not row.problems else f"**{len(row.problems)} problems**"
    remarks = "".join(f"; {remark}" for remark in row.remarks)
    cells = (
        artefact.title, artefact.again, inside(row), compared, result + remarks, reasons(row), shown(row.info),
        shown(row.one_address) if row.one_address.peak else "",
    )  # fmt: skip
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def newer(row: Row, what: str) -> str:
    return f" ({row.newer[what]:,} more are newer than the tool)" if row.newer[what] else ""


def inside(row: Row) -> str:
    files = f"{row.files} file{'s' * (row.files != 1)}, {row.size / MIB:,.1f} MB"
    objects = ", ".join(f"{count:,} {kind}" for kind, count in row.objects.most_common())
    return f"{files}: {objects}; {row.kernels:,} kernels"


def reasons(row: Row) -> str:
    told = {**dict.fromkeys(DOUBTED, 0), **row.reasons}
    common = sorted(told.items(), key=lambda item: (item[0] in DOUBTED, -item[1]))
    notes = f"; {row.contradicting} objects with a note of contradictions" if row.contradicting else ""
    return ", ".join(f"{count:,} {name}" for name, count in common) + notes


def missing(artefact: Artefact, why: str) -> str:
    return f"| {artefact.title} | {artefact.again} | | | not surveyed: {why} | | | |"


def updated(text: str, rows: Mapping[str, str], artefacts: Sequence[Artefact] = ARTEFACTS) -> str:
    """``text`` with these lines, by the artefacts' names. Lines of artefacts that there are no more go."""
    before, _, rest = text.partition(BEGIN)
    table, _, after = rest.partition(END)
    if not after:
        raise ValueError(f"{BEGIN} and {END} are not in the page")
    kept = {found[1]: found[0] for found in re.finditer(r"^\| ([^|]*) \|.*\|$", table, re.MULTILINE)}
    lines = [rows.get(each.name) or kept.get(each.title) for each in artefacts]
    body = "\n".join([*HEAD, *(each for each in lines if each)])
    return f"{before}{BEGIN}\n{body}\n{END}{after}"


def write(rows: Mapping[str, str], page: Path = PAGE) -> None:
    page.write_text(updated(page.read_text(encoding="utf-8"), rows), encoding="utf-8")
