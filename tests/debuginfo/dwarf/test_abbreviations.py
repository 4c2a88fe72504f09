"""Abbreviation tables that the core reads, against a declaration-by-declaration reading of the same bytes."""

from __future__ import annotations

import random
from contextlib import nullcontext

import pytest

from symd.config import Limits
from symd.debuginfo.dwarf import Form
from symd.debuginfo.dwarf.forms import Abbreviation, AbbreviationTables, Cursor, Widths, _read
from symd.debuginfo.dwarf.sections import DebugSection
from symd.errors import Malformed
from symd.formats.budget import DebugBudget
from tests.core.uncompiled import without_compiled_core

WIDTHS = (Widths(8, 4, 4), Widths(4, 4, 4), Widths(8, 8, 8))
FORMS = [form for name, form in vars(Form).items() if name.startswith("DW_")] + [Form.DW_FORM_implicit_const] * 8


def number(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80, value >> 7])


def attribute(chance: random.Random) -> bytes:
    """One as compilers write it, with a long number now and then, or noise."""
    name = chance.choice((b"\x03", b"\x87\x40", b"\x80\x00", b"\x00"))
    form = chance.choice(FORMS)
    constant = chance.choice((b"\x00", b"\x7f", b"\x80\x00", b"\x05")) if form == Form.DW_FORM_implicit_const else b""
    return chance.choice((name + number(form) + constant, chance.randbytes(2)))


def one_by_one(data: bytes, widths: Widths) -> dict[int, Abbreviation] | None:
    """The first declaration of each code; None where the table has no end."""
    cursor = Cursor(data, ".debug_abbrev", 0, len(data))
    found: dict[int, Abbreviation] = {}
    try:
        while cursor.at < cursor.end and (code := cursor.uleb()):
            found.setdefault(code, _read(cursor, widths))
    except Malformed:
        return None
    return found


@pytest.fixture(params=["compiled", "uncompiled"])
def way(request):
    """The core, compiled or not."""
    with without_compiled_core() if request.param == "uncompiled" else nullcontext():
        yield


@pytest.mark.usefixtures("way")
def test_tables_are_those_that_stand_there():
    chance = random.Random(5)
    whole = 0
    for _ in range(2_000):
        declarations = [
            number(chance.choice((1, 2, 3, 200, 600, 16_000)))
            + b"\x2e\x01"
            + b"".join(attribute(chance) for _ in range(chance.randrange(6)))
            + b"\0\0"
            for _ in range(chance.randrange(5))
        ]
        data = b"".join(declarations) + chance.choice((b"\0", b"", b"\0\0", b"\x07"))
        widths = chance.choice(WIDTHS)
        expected = one_by_one(data, widths)
        tables = AbbreviationTables(DebugSection(".debug_abbrev", {".debug_abbrev": data}))
        if expected is None:
            with pytest.raises(Malformed):
                tables.table(0, widths)
            continue
        whole += bool(expected)
        table = tables.table(0, widths)
        assert list(table.every()) == list(expected.values())
        assert {code: table.get(code) for code in expected} == expected
        assert table.get(99) is None
    assert whole > 500


def test_a_table_takes_steps_however_short_it_is():
    """Each place of a section may be said to be a table of its own."""
    budget = DebugBudget(Limits(), 0)
    count, steps = 1_000, budget.steps_left
    tables = AbbreviationTables(DebugSection(".debug_abbrev", {".debug_abbrev": bytes(count)}), budget)
    for offset in range(count):
        assert not list(tables.table(offset, WIDTHS[0]).every())
    assert steps - budget.steps_left > 50 * count
