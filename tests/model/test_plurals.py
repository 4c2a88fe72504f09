"""Nouns for so many things, in messages and in what Python shows."""

from __future__ import annotations

from pathlib import Path

import pytest

import symd
from symd.debuginfo.dwarf.sections import Warnings
from symd.model.texts import counted, plural

VADD = Path(__file__).parents[2] / "samples" / "kernels" / "bin" / "vadd" / "dg2-opt.zebin"


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 modules"), (1, "1 module"), (2, "2 modules"), (2197, "2,197 modules")]
)
def test_one_is_not_several(count: int, said: str) -> None:
    assert counted(count, "module") == said


def test_some_nouns_are_irregular() -> None:
    assert (plural(1, "is", "are"), plural(0, "is", "are")) == ("is", "are")
    assert counted(2, "index", "indexes") == "2 indexes"


def test_a_table_of_one_file_says_so() -> None:
    with symd.open(VADD) as module:
        assert repr(module.lines()[0]) == "<LineTable '' for dg2: 12 rows, 1 file>"


def test_one_more_warning_is_one() -> None:
    warnings = Warnings()
    while not any(each.startswith("and ") for each in warnings.all()):
        warnings.add("something")
    assert warnings.all()[-1] == "and 1 more warning"
