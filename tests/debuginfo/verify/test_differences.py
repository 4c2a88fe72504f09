"""Whatever symd reads wrongly is reported: one thing is changed in its reading, and that one thing is the difference."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from elftools.construct import ConstructError

from symd.debuginfo import verify as verifying
from symd.debuginfo.dwarf.columns import LineColumns, ScopeColumns, read_lines, read_scopes
from symd.debuginfo.relocation import linear_layout, relocated
from symd.debuginfo.verify import Difference, comparison, second_opinion, verify
from symd.debuginfo.verify.comparison import LocationEntry, Mismatch, VerifiedVariable, mismatches
from symd.errors import Malformed
from symd.formats import containers
from symd.model.debug_info import RowFlag
from tests.builders.elf import Section
from tests.hostile.bombs import image
from tests.hostile.test_debug_budget import END, SET_ADDRESS, SPECIAL, line_table

SAMPLES = Path(__file__).parents[3] / "samples"
CODE = containers.unpack((SAMPLES / "amdgpu/bin/v5-gfx90a.co").read_bytes()).objects


def changed_lines(monkeypatch: pytest.MonkeyPatch, change: Callable[[LineColumns], LineColumns]) -> list[Difference]:
    """The differences when symd's rows come out changed."""
    right = read_lines
    monkeypatch.setattr(verifying, "read_lines", lambda *arguments: change(right(*arguments)))
    return verify(CODE).differences


def changed_scopes(monkeypatch: pytest.MonkeyPatch, change: Callable[[ScopeColumns], ScopeColumns]) -> list[Difference]:
    right = read_scopes
    monkeypatch.setattr(verifying, "read_scopes", lambda *arguments: change(right(*arguments)))
    return verify(CODE).differences


def changed_variables(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[list[VerifiedVariable]], list[VerifiedVariable]]
) -> list[Difference]:
    right = comparison.variables
    monkeypatch.setattr(comparison, "variables", lambda dies: change(list(right(dies))))
    return verify(CODE).differences


def at(column: np.ndarray, number: int, value: int) -> np.ndarray:
    copy = column.copy()
    copy[number] = value
    return copy


def test_the_reading_as_it_is_has_no_difference():
    assert verify(CODE).differences == []


@pytest.mark.parametrize("column", ["address", "file", "line", "column", "flags"])
def test_a_row_that_is_wrong_in_one_column_is_reported(monkeypatch, column):
    def change(lines: LineColumns) -> LineColumns:
        values = getattr(lines, column)
        wrong = int(values[5]) ^ int(RowFlag.PROLOGUE_END) if column == "flags" else (int(values[5]) + 1) % 2**32
        wrong = 0 if column == "file" else wrong
        return replace(lines, **{column: at(values, 5, wrong)})

    [found] = changed_lines(monkeypatch, change)
    assert (found.path, found.kind, found.where) == ("", "row", ".debug_line+0x0 row 5")
    assert found.ours != found.theirs


def test_a_path_in_another_folder_is_no_difference_and_another_name_is(monkeypatch):
    """pyelftools gives the table's entry, not the whole path."""
    names = ["/elsewhere/" + Path(name).name if name else name for name in dwarf_lines().files]
    assert changed_lines(monkeypatch, lambda lines: replace(lines, files=tuple(names))) == []
    monkeypatch.undo()
    others = ["/elsewhere/other" if name else name for name in dwarf_lines().files]
    assert len(changed_lines(monkeypatch, lambda lines: replace(lines, files=tuple(others)))) > 10


def dwarf_lines() -> LineColumns:
    sections = relocated(CODE[0], linear_layout(CODE[0]))
    return read_lines(sections)


@pytest.mark.parametrize(
    "column", ["parent", "name", "linkage_name", "inlined", "call_line", "call_column", "call_file"]
)
def test_a_scope_that_is_wrong_in_one_column_is_reported(monkeypatch, column):
    def change(scopes: ScopeColumns) -> ScopeColumns:
        inlined = int(np.flatnonzero(scopes.inlined)[0])
        values = getattr(scopes, column)
        wrong = 0 if values[inlined] else 1
        return replace(scopes, **{column: at(values, inlined, wrong)})

    [found] = changed_scopes(monkeypatch, change)
    assert found.kind == "scope"
    assert found.theirs is not None
    assert found.theirs.startswith("inlined call of ")


@pytest.mark.parametrize("column", ["range_start", "range_end"])
def test_a_range_that_is_wrong_is_reported(monkeypatch, column):
    changed = changed_scopes(
        monkeypatch, lambda scopes: replace(scopes, **{column: at(getattr(scopes, column), 0, 0x123456)})
    )
    [found] = changed
    assert "0x123456" in (found.ours or "")
    assert "0x123456" not in (found.theirs or "")


CHANGES: dict[str, Callable[[VerifiedVariable], VerifiedVariable]] = {
    "tag": lambda one: one._replace(tag="constant"),
    "name": lambda one: one._replace(name=one.name + "x"),
    "scope": lambda one: one._replace(scope=one.scope + 1),
    "type": lambda one: one._replace(type=one.type[:-1]),
    "no location": lambda one: one._replace(locations=()),
    "range": lambda one: one._replace(locations=(LocationEntry(1, 2, b"\x50"), *one.locations[1:])),
    "expression": lambda one: one._replace(
        locations=(one.locations[0]._replace(expression=b"\x50"), *one.locations[1:])
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_variable_that_is_wrong_is_reported(monkeypatch, change):
    def wrong(variables: list[VerifiedVariable]) -> list[VerifiedVariable]:
        number = next(number for number, one in enumerate(variables) if len(one.locations) > 1)
        return [*variables[:number], CHANGES[change](variables[number]), *variables[number + 1 :]]

    [found] = changed_variables(monkeypatch, wrong)
    assert found.kind == "variable"
    assert found.ours != found.theirs


def test_a_variable_that_is_missing_or_too_many_is_one_difference(monkeypatch):
    [found] = changed_variables(monkeypatch, lambda variables: [*variables[:7], *variables[8:]])
    assert (found.ours, found.where) == (None, ".debug_info variable 7")
    monkeypatch.undo()
    extra = VerifiedVariable(1, "variable", "extra", 0, (), ())
    [found] = changed_variables(monkeypatch, lambda variables: [*variables[:7], extra, *variables[7:]])
    assert found.theirs is None
    assert "extra" in (found.ours or "")


def test_what_symd_refuses_and_pyelftools_reads_is_a_difference(monkeypatch):
    def refuse(*_arguments: object) -> LineColumns:
        raise Malformed("no table can be read", where=".debug_line")

    monkeypatch.setattr(verifying, "read_lines", refuse)
    [found] = verify(CODE).differences
    assert "no table can be read" in (found.ours or "")


def test_what_pyelftools_cannot_read_is_said_and_the_rest_compared(monkeypatch):
    def refuse(*_arguments: object) -> None:
        raise KeyError("DW_FORM_new")

    monkeypatch.setattr(second_opinion, "read_scopes", refuse)
    report = verify(CODE)
    assert [one.reason for one in report.not_compared] == ["pyelftools cannot read the scopes: KeyError: 'DW_FORM_new'"]
    assert (report.scopes, report.differences) == (0, [])
    assert report.rows > 0
    assert report.variables > 0


@pytest.mark.parametrize(
    "failure", [ZeroDivisionError, NotImplementedError, ConstructError, struct.error, StopIteration]
)
def test_what_pyelftools_does_not_foresee_is_not_compared(monkeypatch, failure):
    def fails(*_arguments: object) -> None:
        raise failure("odd")

    monkeypatch.setattr(second_opinion, "read_scopes", fails)
    report = verify(CODE)
    assert [one.reason for one in report.not_compared] == [
        f"pyelftools cannot read the scopes: {failure.__name__}: odd"
    ]


def test_a_line_table_that_divides_by_zero_is_not_compared():
    sound = line_table(SET_ADDRESS + SPECIAL + END)
    damaged = bytearray(sound)
    damaged[sound.index(b"\xfb\x0e\x0d") + 1] = 0  # line_range
    data = image(Section(".debug_line", data=sound + bytes(damaged)))
    report = verify(containers.unpack(data).objects)
    assert any("ZeroDivisionError" in one.reason for one in report.not_compared)


def test_a_defect_of_symd_is_not_taken_for_pyelftools(monkeypatch):
    def defect(*_arguments: object) -> None:
        raise KeyError("ours")

    monkeypatch.setattr(verifying, "read_scopes", defect)
    with pytest.raises(KeyError, match="ours"):
        verify(CODE)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ("abc", "abc", []),
        ("", "", []),
        ("abc", "abd", [Mismatch(2, "c", "d")]),
        ("abcd", "acd", [Mismatch(1, "b", None)]),
        ("aab", "ab", [Mismatch(1, "a", None)]),
        ("", "xy", [Mismatch(0, None, "x"), Mismatch(1, None, "y")]),
        ("abcde", "axcye", [Mismatch(1, "b", "x"), Mismatch(3, "d", "y")]),
    ],
)
def test_equal_ends_are_set_aside(ours: str, theirs: str, expected: list[Mismatch]):
    assert list(mismatches(ours, theirs, str.__eq__)) == expected
