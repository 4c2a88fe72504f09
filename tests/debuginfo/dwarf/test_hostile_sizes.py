"""Sections made to cost more than their size: each is answered or refused in time and memory that grow with it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from symd.debuginfo.dwarf import lines
from symd.debuginfo.dwarf import lines as lines_module
from symd.debuginfo.dwarf.columns import LineColumns
from symd.errors import LimitExceeded, Malformed
from tests.builders.leb128 import uleb
from tests.builders.line_program import Row, Shape, build_line_program
from tests.debuginfo.dwarf.decode import read_lines, read_scopes

MIB = 1 << 20


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """Half a second would be enough for each; what these tests keep away would take hours and terabytes."""
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300 * MIB


def _info(body: bytes, *declarations: bytes) -> dict[str, bytes]:
    """One unit of DWARF 4 with this tree, whose abbreviations are numbered from 1."""
    unit = b"\x04\0" + bytes(4) + b"\x08" + body
    table = b"".join(uleb(code) + body for code, body in enumerate(declarations, 1)) + b"\0"
    return {".debug_info": len(unit).to_bytes(4, "little") + unit, ".debug_abbrev": table}


ROOT = b"\x11\x01\0\0"


def test_strings_without_an_end_are_looked_for_once():
    sections = _info(b"\x01" + b"\x02" * MIB, ROOT, b"\x34\0\x03\x08\0\0")
    with pytest.raises(Malformed, match="no end"):
        read_scopes(sections, LineColumns.empty())


def test_names_that_lead_into_a_section_without_an_end_are_left_out():
    count = 20_000
    dies = b"".join(b"\x02" + number.to_bytes(4, "little") + bytes(12) for number in range(count))
    sections = _info(b"\x01" + dies + b"\0", ROOT, b"\x2e\0\x03\x0e\x11\x01\x12\x06\0\0") | {
        ".debug_str": b"x" * 4 * MIB
    }
    scopes = read_scopes(sections, LineColumns.empty())
    assert not scopes.name.any()
    assert scopes.warnings == (f"left out: {count:,} references out of string sections",)


def test_names_that_overlap_without_end_are_refused():
    dies = b"".join(b"\x02" + number.to_bytes(4, "little") + bytes(12) for number in range(20_000))
    sections = _info(b"\x01" + dies + b"\0", ROOT, b"\x2e\0\x03\x0e\x11\x01\x12\x06\0\0")
    with pytest.raises(LimitExceeded, match="overlap"):
        read_scopes(sections | {".debug_str": b"x" * MIB + b"\0"}, LineColumns.empty())


def test_range_lists_of_dwarf_5_without_an_end_are_left_out_or_refused():
    dies = b"".join(b"\x02" + (4 * number).to_bytes(4, "little") for number in range(20_000))
    body = b"\x01" + dies + b"\0"
    unit = b"\x05\0\x01\x08" + bytes(4) + body
    sections = _info(body, ROOT, b"\x2e\0\x55\x17\0\0") | {".debug_rnglists": b"\x04\x01\x02\x01" * 200_000}
    sections[".debug_info"] = len(unit).to_bytes(4, "little") + unit
    with pytest.raises(LimitExceeded, match="overlap"):
        read_scopes(sections, LineColumns.empty())


def test_a_damaged_abbreviation_table_is_not_read_again_for_every_unit():
    units = b"".join(
        (12).to_bytes(4, "little") + b"\x04\0" + number.to_bytes(4, "little") + b"\x08" + b"\x01" * 5
        for number in range(20_000)
    )
    sections = {".debug_info": units, ".debug_abbrev": b"\x01\x34\x00\x0b\x0b" + b"\x0b\x0b" * (MIB // 8)}
    with pytest.raises((Malformed, LimitExceeded)):
        read_scopes(sections, LineColumns.empty())


def test_attributes_that_take_no_bytes_are_bounded():
    declaration = b"\x34\0" + b"\x3f\x19" * 100_000 + b"\0\0"
    with pytest.raises(Malformed, match="attributes"):
        read_scopes(_info(b"\x01" + b"\x02" * MIB, ROOT, declaration), LineColumns.empty())


def test_an_abbreviation_code_of_a_million_bytes_is_followed():
    body = b"\x01" + b"\x82" + b"\x80" * MIB + b"\x00" + b"v\0" + b"\x00"
    assert len(read_scopes(_info(body, ROOT, b"\x34\0\x03\x08\0\0"), LineColumns.empty())) == 0


def test_warnings_are_bounded():
    units = ((7).to_bytes(4, "little") + b"\x09\0" + bytes(5)) * 20_000 + _info(b"\x01\0", ROOT)[".debug_info"]
    scopes = read_scopes(_info(b"", ROOT) | {".debug_info": units}, LineColumns.empty())
    assert len(scopes.warnings) == 101
    assert scopes.warnings[-1] == "and 19,900 more warnings"


def _table(program: bytes, shape: Shape) -> bytes:
    data = build_line_program([[Row(0), Row(1, end_sequence=True)]], shape=shape).data
    joined = data + program
    return (len(joined) - 4).to_bytes(4, "little") + joined[4:]


def test_opcodes_with_very_many_operands_are_passed_in_one_step():
    data = _table(b"\x0d" * MIB + b"\x00\x01\x01", Shape(extra_operands=(255,)))
    assert read_lines({".debug_line": data}).address[:2].tolist() == [0, 1]


def test_an_operand_of_a_million_bytes_is_followed():
    data = _table(b"\x05" + b"\x80" * MIB + b"\x01\x01\x00\x01\x01", Shape())
    assert len(read_lines({".debug_line": data})) == 4


def test_operands_that_look_like_extended_instructions_are_not():
    data = _table(b"\x03\x00" * (MIB // 2) + b"\x00\x01\x01", Shape())
    assert len(read_lines({".debug_line": data})) == 3


def test_file_entries_that_share_one_long_name_are_refused():
    formats = (("path", "line_strp"),)
    program = build_line_program([[Row(0, file=0), Row(1, end_sequence=True)]],
                                 shape=Shape(version=5, file_formats=formats)).data  # fmt: skip
    at = program.index(b"\x01\x01\x1f\x01") + 3
    entries = b"".join(number.to_bytes(4, "little") for number in range(60_000))
    data = program[:at] + uleb(60_000) + entries + program[at + 5 :]
    grown = len(data) - len(program)
    length, header = (int.from_bytes(data[place : place + 4], "little") + grown for place in (0, 8))
    data = length.to_bytes(4, "little") + data[4:8] + header.to_bytes(4, "little") + data[12:]
    with pytest.raises(LimitExceeded, match="overlap"):
        read_lines({".debug_line": data, ".debug_line_str": b"d" * MIB + b"\0"})


def listing(directory: bytes, names: list[bytes]) -> bytes:
    """A line table of DWARF 5 with one directory and these files in it, and no rows."""
    content = bytes((1, 1, 1, 251, 14, 13)) + bytes((0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1))
    content += b"\x01\x01\x08" + uleb(1) + directory + b"\0"
    content += b"\x02\x01\x08\x02\x0b" + uleb(len(names)) + b"".join(name + b"\0\0" for name in names)
    rest = b"\x05\x00\x08\x00" + len(content).to_bytes(4, "little") + content
    return len(rest).to_bytes(4, "little") + rest


def test_one_long_directory_and_many_files_are_refused_before_they_multiply(monkeypatch):
    """Gigabytes of paths from three megabytes, which compress to three kilobytes."""
    monkeypatch.setattr(lines, "PATH_BYTES", 10 * MIB)
    data = listing(b"/" + b"d" * (3 * MIB), [b"a"] * 300)
    with pytest.raises(LimitExceeded) as caught:
        read_lines({".debug_line": data})
    assert caught.value.metadata == {"limit": "path_bytes", "value": str(10 * MIB)}


def test_more_files_than_are_taken_are_refused_before_they_are_read(monkeypatch):
    data = listing(b"/d", [b"f"] * 1000) * 3
    monkeypatch.setattr(lines_module, "LINE_FILES", 3003)
    assert len(read_lines({".debug_line": data}).tables) == 3
    monkeypatch.setattr(lines_module, "LINE_FILES", 3002)
    with pytest.raises(LimitExceeded) as caught:
        read_lines({".debug_line": data})
    assert caught.value.metadata == {"limit": "line_files", "value": "3002"}


def test_a_count_of_files_that_the_table_has_no_bytes_for_leaves_the_table_out():
    good = listing(b"/d", [b"f"])
    bad = good.replace(b"\x02\x0b\x01f", b"\x02\x0b\x7ff")
    assert bad != good
    lines = read_lines({".debug_line": bad + good})
    assert len(lines.tables) == 1
    assert "127 entries in 3 bytes" in lines.warnings[0]


def test_many_tiny_tables_are_read():
    one = build_line_program([[Row(0), Row(1, end_sequence=True)]]).data
    lines = read_lines({".debug_line": one * 5000})
    assert len(lines) == 10_000
    assert len(lines.tables) == 5000
