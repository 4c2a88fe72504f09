"""A row without a line may begin in one function and end in the next: which earlier row stands in for it is decided where the
question points to, never where the row begins."""

from __future__ import annotations

import pytest

from symd.model.addresses import BySection, SectionOffset
from symd.model.answers import Reason
from symd.query.symbolize import symbolize
from tests.query.small import E, Object, S, Scope, index

ROWS = [(0, 5, S), (0x10, 0, S), (0x30, 7, S), (0x40, 7, E)]
FORMS = {
    "functions": Object(rows=ROWS, scopes=[Scope("a", 0, 0x20), Scope("b", 0x20, 0x40)]),
    "symbols": Object(rows=ROWS, symbols=[("a", 0, 0x20), ("b", 0x20, 0x20)]),
    "inlined calls": Object(
        rows=ROWS,
        scopes=[Scope("k", 0, 0x40), Scope("a", 0, 0x20, parent=0, call_line=9), Scope("b", 0x20, 0x40, parent=0)],
    ),
}


@pytest.mark.parametrize("module", FORMS.values(), ids=FORMS)
def test_a_row_without_a_line_takes_no_line_of_the_function_before(module: Object) -> None:
    answers = symbolize(index(module), [BySection(".text", SectionOffset(at)) for at in (0x18, 0x20, 0x28, 0x30)])
    found = [(answer.reason, answer.frames[0].function, answer.frames[0].line) for answer in answers]
    assert found == [
        (Reason.APPROXIMATE, "a", 5),
        (Reason.NO_LINE, "b", 0),
        (Reason.NO_LINE, "b", 0),
        (Reason.EXACT, "b", 7),
    ]
