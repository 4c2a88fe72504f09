"""llvm-symbolizer on AMD's code objects: it answers what rows and scopes say, and so symd is asked for that."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.survey.case import Case, CodeFile, Compared, SurveyError
from tests.survey.measured import run
from tests.survey.toolbox import tool

Frames = list[tuple[str, str, int, int]]
"""Function by its linkage name, file, line, column; innermost first."""


def frames(case: Case) -> Compared:
    count, differences = 0, []
    for each in case.asked:
        if each.format == "amdgpu":
            found = compare(each)
            count += found.count
            differences += found.differences
    return Compared("llvm-symbolizer: every frame of an address", count, differences)


def compare(each: CodeFile) -> Compared:
    answers = each.answers(as_written=True)
    theirs = asked(each, [answer["address"] for answer in answers])
    differences = [
        f"{each.name} {query}: symd {answer['reason']} {mine(answer)}, llvm-symbolizer {other}"
        for query, answer, other in zip(each.queries, answers, theirs, strict=True)
        if not agrees(answer, other)
    ]
    return Compared("llvm-symbolizer", len(answers), differences)


def agrees(answer: dict[str, Any], other: Frames) -> bool:
    """Frames are equal. Where the row says line 0, symd says the line before it and that it is approximate, and where
    there is none before it, none."""
    if answer["reason"] in {"APPROXIMATE", "NO_LINE"}:
        return other[0][2] == 0 and mine(answer)[0][0] == other[0][0] and mine(answer)[1:] == other[1:]
    return mine(answer) == other


def mine(answer: dict[str, Any]) -> Frames:
    found = [
        (frame["linkage_name"] or frame["function"] or "", frame["file"] or "", frame["line"], frame["column"])
        for frame in answer["frames"]
    ]
    return found or [("", "", 0, 0)]


def asked(each: CodeFile, addresses: Sequence[int]) -> list[Frames]:
    command = [tool("llvm-symbolizer-22"), f"--obj={each.path}", "--inlines", "--no-demangle"]
    stdin = "".join(f"{address:#x}\n" for address in addresses).encode()
    done = run([*command, "--output-style=JSON"], each.path.parent, stdin=stdin)
    lines = [json.loads(line) for line in done.output.splitlines() if line.strip()]
    if done.code or len(lines) != len(addresses):
        raise SurveyError(f"llvm-symbolizer on {each.path}: exit code {done.code}: {done.errors[-300:]}")
    return [[_frame(symbol) for symbol in line["Symbol"]] for line in lines]


def _frame(symbol: dict[str, Any]) -> tuple[str, str, int, int]:
    return symbol["FunctionName"], symbol["FileName"], symbol["Line"], symbol["Column"]
