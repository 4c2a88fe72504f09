"""The attributes of a declaration that was met before are those that reading it again gives."""

from __future__ import annotations

import random

from symd.dwarf.abbreviations import _attributes, _known_attributes
from symd.dwarf.constants import Form
from symd.dwarf.cursor import Cursor
from symd.dwarf.forms import Widths
from symd.errors import Malformed

WIDTHS = (Widths(8, 4, 4), Widths(4, 4, 4), Widths(8, 8, 8))
FORMS = [int(form) for form in Form] + [int(Form.DW_FORM_implicit_const)] * 8


def attribute(chance: random.Random) -> bytes:
    """One as compilers write it, with a long number now and then, or noise."""
    name = chance.choice((b"\x03", b"\x87\x40", b"\x80\x00", b"\x00"))
    form = chance.choice(FORMS)
    code = bytes([form]) if form < 0x80 else bytes([form & 0x7F | 0x80, form >> 7])
    constant = chance.choice((b"\x00", b"\x7f", b"\x80\x00", b"\x05")) if form == Form.DW_FORM_implicit_const else b""
    return chance.choice((name + code + constant, chance.randbytes(2)))


def read(data: bytes, at: int, widths: Widths) -> tuple[object, int]:
    cursor = Cursor(data, ".debug_abbrev", at, len(data))
    try:
        return _attributes(cursor, widths), cursor.at
    except Malformed:
        return None, at


def test_remembered_attributes_are_those_that_stand_there():
    chance = random.Random(5)
    kept = 0
    for _ in range(20_000):
        data = b"".join(attribute(chance) for _ in range(chance.randrange(6))) + chance.choice((b"\0\0", b"\0", b""))
        data += chance.randbytes(chance.randrange(4))
        widths, at = chance.choice(WIDTHS), min(chance.randrange(3), len(data))
        cursor = Cursor(data, ".debug_abbrev", at, len(data))
        found = _known_attributes(cursor, widths)
        if found is None:
            assert cursor.at == at
        else:
            kept += 1
            assert (found, cursor.at) == read(data, at, widths)
    assert kept > 2_000
