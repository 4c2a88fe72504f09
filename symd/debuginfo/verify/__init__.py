"""The second opinion: the debug data of a module read by symd and by pyelftools, code object by code object, and every
difference between the two."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from elftools.common.exceptions import DWARFError, ELFError
from elftools.construct import ConstructError

from symd.debuginfo.dwarf.columns import read_lines, read_scopes
from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.dwarf.units import Units, read_units
from symd.debuginfo.relocation import linear_layout, relocated
from symd.debuginfo.variables import DieReader
from symd.debuginfo.verify import comparison, second_opinion
from symd.debuginfo.verify.comparison import (
    Deviation,
    Difference,
    Kind,
    Met,
    Mismatch,
    NotCompared,
    VerifiedLine,
    VerifiedScope,
    VerifyReport,
)
from symd.errors import LimitExceeded, SymdError
from symd.formats.budget import DebugBudget
from symd.model.code import CodeObject, DebugScheme

__all__ = ("Difference", "VerifyReport", "verify")

Records = TypeVar("Records")

_WHY_NOT: Mapping[DebugScheme, str] = {
    DebugScheme.NONE: "there is no debug data",
    DebugScheme.SPIRV: "it is SPIR-V, which pyelftools does not read",
}
THEIR_FAILURES = (
    DWARFError, ELFError, ConstructError, LookupError, AssertionError, TypeError, AttributeError, ValueError,
    ArithmeticError, RuntimeError, StopIteration, EOFError, struct.error,
)  # fmt: skip
"""What pyelftools raises for debug data that it cannot read: its own errors, NotImplementedError, and those that it
does not foresee (a division by a line_range of 0, say)."""


def verify(codes: Iterable[CodeObject]) -> VerifyReport:
    """What symd and pyelftools read of each code object, compared."""
    report, budget = VerifyReport(), None
    for code in codes:
        budget = budget or DebugBudget.of(code)
        report.add(_verify(code, budget))
    return report


def _verify(code: CodeObject, budget: DebugBudget) -> VerifyReport:
    reason = _WHY_NOT.get(code.debug)
    if reason is not None:
        return VerifyReport(not_compared=[NotCompared(code.path, reason)])
    try:
        sections = relocated(code, linear_layout(code), budget)
        units = read_units(sections)
    except SymdError as error:
        return VerifyReport(not_compared=[NotCompared(code.path, f"symd refuses the debug data: {error}")])
    report = _Object(code, sections, units).compare()
    if not (report.rows or report.scopes or report.variables or report.differences or report.not_compared):
        report.not_compared.append(NotCompared(code.path, "its debug sections hold no row, function or variable"))
    return report


class _Object:
    """One code object's relocated debug sections, and the report that is being written."""

    def __init__(self, code: CodeObject, sections: DebugSections, units: Units) -> None:
        self.path = code.path
        self.sections = sections
        self.units = units
        self.report = VerifyReport()
        contents = {section.name: section.data for section in sections.every() if section.data}
        self.contents = second_opinion.DebugContents(contents)
        self.contents.budget = sections.budget
        self.met: Met = Counter()
        self.address_size = units.units[0].widths.address if units.units else code.address_bits // 8

    def compare(self) -> VerifyReport:
        """Compare rows, scopes and variables, each as far as both can read them."""
        try:
            lines = read_lines(self.sections, self.units)
            scopes = comparison.scopes(lines, read_scopes(self.sections, lines, self.units))
        except SymdError as error:
            self._refused("object", self.sections.info.name, error)
            return self.report
        self._compare_rows(comparison.line_tables(lines))
        if any(unit.contributions for unit in self.units.units):
            reason = "scopes and variables: pyelftools does not read units of .dwo files together with their object"
            self.report.not_compared.append(NotCompared(self.path, reason))
        else:
            self._compare_scopes(scopes)
            self._compare_variables()
        self.report.deviations += [
            Deviation(self.path, known.name, known.reason, count) for known, count in self.met.items()
        ]
        return self.report

    def _compare_rows(self, ours: Mapping[int, list[VerifiedLine]]) -> None:
        theirs = self._read("rows", lambda: second_opinion.read_tables(self.contents, self.address_size, self.met))
        if theirs is None:
            return
        for offset in sorted(ours.keys() | theirs.keys()):
            mine, others = ours.get(offset, []), theirs.get(offset, [])
            self.report.rows += len(others)
            where = f"{self.sections.lines.name}+{offset:#x}"
            self._add("row", where, comparison.mismatches(mine, others, comparison.same_line))

    def _compare_scopes(self, ours: Sequence[VerifiedScope]) -> None:
        theirs = self._read("scopes", lambda: second_opinion.read_scopes(self.contents, self.address_size))
        if theirs is not None:
            self.report.scopes += len(theirs)
            self._add("scope", self.sections.info.name, comparison.mismatches(ours, theirs, comparison.same_scope))

    def _compare_variables(self) -> None:
        theirs = self._read(
            "variables", lambda: second_opinion.read_variables(self.contents, self.address_size, self.met)
        )
        if theirs is None:
            return
        try:
            dies = DieReader(self.sections, self.units)
            ours = list(comparison.variables(dies))
        except SymdError as error:
            self._refused("variable", self.sections.info.name, error)
            return
        self.report.variables += len(theirs)
        self._add("variable", self.sections.info.name, comparison.mismatches(ours, theirs, comparison.same_variable))

    def _read(self, what: str, reader: Callable[[], Records]) -> Records | None:
        """What pyelftools reads; None where it cannot, which is noted."""
        try:
            return reader()
        except LimitExceeded as error:
            self.report.not_compared.append(NotCompared(self.path, f"pyelftools does not read the {what}: {error}"))
            return None
        except THEIR_FAILURES as error:
            reason = f"pyelftools cannot read the {what}: {type(error).__name__}: {error}"
            self.report.not_compared.append(NotCompared(self.path, reason))
            return None

    def _add(self, kind: Kind, section: str, found: Iterable[Mismatch]) -> None:
        for one in found:
            where = f"{section} {kind} {one.number}"
            ours, theirs = comparison.text(one.ours), comparison.text(one.theirs)
            self.report.differences.append(Difference(self.path, kind, where, ours, theirs))

    def _refused(self, kind: Kind, where: str, error: SymdError) -> None:
        """symd reads nothing of what pyelftools reads."""
        self.report.differences.append(Difference(self.path, kind, where, f"refused: {error}", "read"))
