"""Line programs that were made up from the rows they mean, and damaged ones, against a plain reader; the core compiled and as it stands."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from symd.core import headers, line_program
from symd.core.line_program import NAMED, ProgramParameters
from symd.debuginfo.dwarf import lines as lines_module
from symd.debuginfo.dwarf.columns import LineColumns
from symd.debuginfo.verify import second_opinion
from symd.errors import LimitExceeded, Malformed
from symd.model.debug_info import RowFlag
from tests.builders.line_program import File, LineProgram, Row, Shape, build_line_program
from tests.builders.random_lines import random_program
from tests.core.uncompiled import uncompiled
from tests.debuginfo.dwarf import plain_lines
from tests.debuginfo.dwarf.compare import assert_same_lines, lines_as_rows
from tests.debuginfo.dwarf.decode import read_lines

FLAGS = (
    ("is_stmt", RowFlag.IS_STMT),
    ("basic_block", RowFlag.BASIC_BLOCK),
    ("end_sequence", RowFlag.END_SEQUENCE),
    ("prologue_end", RowFlag.PROLOGUE_END),
    ("epilogue_begin", RowFlag.EPILOGUE_BEGIN),
)


UNCOMPILED, UNCOMPILED_HEADERS = uncompiled("line_program"), uncompiled("headers")


@pytest.fixture(autouse=True, params=["compiled", "uncompiled"])
def core(request, monkeypatch):
    """The core as it runs, and as its source stands."""
    module = line_program if request.param == "compiled" else UNCOMPILED
    assert module.__file__.endswith(".py") == (request.param == "uncompiled")
    read = headers if request.param == "compiled" else UNCOMPILED_HEADERS
    monkeypatch.setattr(lines_module, "LineProgramRows", module.LineProgramRows)
    monkeypatch.setattr(lines_module, "LineHeaderReader", read.LineHeaderReader)
    return module


def _sections(*programs: LineProgram) -> dict[str, bytes]:
    return {
        ".debug_line": b"".join(program.data for program in programs),
        ".debug_line_str": b"".join(program.strings for program in programs),
    }


def _truth(program: LineProgram, version: int) -> Iterator[tuple[int, str, int, int, int]]:
    first = 0 if version >= 5 else 1
    for row in program.rows:
        flags = sum(int(flag) for name, flag in FLAGS if getattr(row, name))
        number = row.file - first
        known = 0 <= number < len(program.files)
        yield row.address, program.files[number].name if known else "", row.line, row.column, flags


def _read(lines: LineColumns) -> list[tuple[int, str, int, int, int]]:
    """Rows with the file's own name instead of its path."""
    flags = lines.flags.tolist()
    return [(a, path.rpartition("/")[2], li, c, flags[n]) for n, (a, path, li, c, _) in enumerate(lines_as_rows(lines))]


@pytest.mark.parametrize("seed", range(150))
def test_rows_are_those_the_program_was_made_from(seed):
    program = random_program(seed)
    version = int.from_bytes(program.data[12 if program.data[:4] == b"\xff" * 4 else 4 :][:2], "little")
    lines = read_lines(_sections(program))
    assert _read(lines) == list(_truth(program, version))
    assert lines.warnings == ()


@pytest.mark.parametrize("seed", range(40))
def test_op_index_counts_the_operations_of_a_vliw_instruction(seed):
    program = random_program(seed, version=4, max_ops=3)
    assert _read(read_lines(_sections(program))) == list(_truth(program, 4))


@pytest.mark.parametrize("base", [1, 4, 9, 10, 12, 200])
def test_any_opcode_base_is_followed(base):
    extra = (1, 0, 2) * 70
    shape = Shape(opcode_base=base, extra_operands=extra[: max(0, base - 13)], line_range=12, line_base=-3)
    rows = [[Row(8 * n, line=1 + 2 * n % 7) for n in range(20)] + [Row(160, line=1, end_sequence=True)]]
    # Below opcode 4 there is no set_file, below 3 no advance_line: these rows need specials alone.
    rows = [[Row(n, line=1 + n) for n in range(15)] + [Row(14, line=15, end_sequence=True)]] if base < 4 else rows
    program = build_line_program(rows, shape=shape)
    assert _read(read_lines(_sections(program))) == list(_truth(program, 4))


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_many_tables_keep_their_order_and_their_own_files(version):
    # pyelftools knows no standard opcode from 13 on.
    programs = [random_program(seed, version=version, extra_operands=(), directory_formats=(("path", "string"),),
                               file_formats=(("path", "string"), ("directory", "udata"))) for seed in range(12)]  # fmt: skip
    lines = read_lines(_sections(*programs))
    assert _read(lines) == [row for program in programs for row in _truth(program, version)]
    assert_same_lines(lines, second_opinion.read_lines(_sections(*programs)))
    starts = [0]
    for program in programs:
        starts.append(starts[-1] + len(program.data))
    assert lines.tables == tuple(starts[:-1])
    assert [int((lines.table_of_row == n).sum()) for n in range(12)] == [len(program.rows) for program in programs]


def test_sequences_are_numbered_through_and_each_ends():
    lines = read_lines(_sections(random_program(1), random_program(2, version=4)))
    ends = [bool(flag & RowFlag.END_SEQUENCE) for flag in lines.flags.tolist()]
    expected, now = [], 0
    for end in ends:
        expected.append(now)
        now += end
    assert lines.sequence.tolist() == expected
    assert ends[-1]


def test_call_sites_are_counted_over_the_object_and_only_lead_back():
    rows = [
        [Row(0, line=3), Row(0, line=9, context=1, name=1), Row(16, line=4), Row(24, end_sequence=True, line=4)],
        [
            Row(0, line=5),
            Row(0, line=9, context=2, name=1),
            Row(8, line=9, context=1, name=7),
            Row(9, end_sequence=True),
        ],
    ]
    program = build_line_program(rows, shape=Shape(version=2, trailer=struct.pack("<I", 2)))
    lines = read_lines(_sections(program) | {".debug_str": b"..\0inner\0outer\0"})
    assert lines.calls is not None
    # The second row of the second sequence calls itself its call site; that is not an earlier row.
    in_table = (lines.flags & RowFlag.IMPLIED) == 0
    assert lines.calls.written_site[in_table].tolist() == [0, 1, 0, 0, 0, 0, 5, 0]
    names = [lines.names[number] for number in lines.calls.written_name[in_table].tolist()]
    assert names == ["", "inner", "", "", "", "", "outer", ""]


def test_a_file_register_that_names_no_entry_is_no_file():
    program = build_line_program([[Row(0, file=7), Row(4, file=1), Row(8, end_sequence=True)]], files=[File("a.c")])
    lines = read_lines(_sections(program))
    assert [lines.files[number] for number in lines.file] == ["", "a.c", "a.c"]


def test_a_sequence_without_an_end_is_left_out_with_a_warning():
    rows = [[Row(0, line=3), Row(4, end_sequence=True)], [Row(0, line=5), Row(9, end_sequence=True)]]
    program = build_line_program(rows)
    cut = program.data[:-3]  # the last end_sequence
    data = struct.pack("<I", len(cut) - 4) + cut[4:]
    lines = read_lines({".debug_line": data})
    assert lines.address.tolist() == [0, 4]
    assert len(lines.warnings) == 1
    assert "no end" in lines.warnings[0]


def test_one_malformed_table_leaves_the_others():
    good, bad = random_program(3, version=4), bytearray(random_program(4, version=4, dwarf64=False).data)
    bad[4:6] = b"\x09\x00"
    lines = read_lines({".debug_line": bytes(bad) + good.data})
    assert _read(lines) == list(_truth(good, 4))
    assert len(lines.warnings) == 1
    assert lines.warnings[0].startswith(".debug_line+0x0:")


def test_a_section_without_one_readable_table_is_malformed():
    program = bytearray(build_line_program([[Row(0), Row(1, end_sequence=True)]]).data)
    program[4:6] = b"\x09\x00"
    with pytest.raises(Malformed, match="version 9"):
        read_lines({".debug_line": bytes(program)})


def _plain(program: bytes, header: plain_lines.Header) -> list[plain_lines.Row] | None:
    try:
        return plain_lines.run(header, program)
    except plain_lines.Refused:
        return None


def _ours(core, program: bytes, shape: ProgramParameters) -> list[plain_lines.Row] | None:
    rows = core.LineProgramRows(program, ".debug_line")
    try:
        rows.run(0, 0, len(program), shape)
    except Malformed:
        assert rows.count == len(rows.ends) == 0
        return None
    none = [0] * rows.count
    columns = (rows.address, rows.file, rows.line, rows.column, rows.flags, rows.context or none, rows.name or none)
    every = (plain_lines.Row(*row) for row in zip(*(column[: rows.count] for column in columns), strict=True))
    return [row._replace(flags=row.flags & ~NAMED) for row in every if not row.flags & RowFlag.IMPLIED]


FRAGMENTS = (
    b"\x00\x09\x02" + struct.pack("<Q", 0x1234), b"\x00\x05\x02" + struct.pack("<I", 0x88), b"\x00\x01\x01",
    b"\x00\x02\x04\x85", b"\x05\x00", b"\x05\x80\x01", b"\x03\x7f", b"\x03\xe4\x00", b"\x09\x05\x00", b"\x09\x00\x09",
    b"\x02\x81\x00", b"\x04\x03", b"\x00\x03\x90\x01\x02", b"\x0c\x00", b"\x00\x06\x03a\x00\x01\x02\x03", b"\x0d\x00\x09",
)  # fmt: skip


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.binary(max_size=6), st.integers(13, 255).map(lambda b: bytes([b])))),
        min_size=1, max_size=4,
    ),
    st.sampled_from((10, 13, 14, 17)),
    st.sampled_from((1, 4)),
)  # fmt: skip
def test_any_bytes_mean_the_same_rows_or_the_same_refusal(core, programs, base, step):
    counts = bytes((0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 2, 0, 1, 3)[: base - 1])
    shape = ProgramParameters(base, -3, 12, step, 1, True, counts)
    pieces = [b"".join(piece) + b"\x00\x01\x01" for piece in programs]
    for piece in pieces:
        assert _ours(core, piece, shape) == _plain(piece, plain_lines.Header(base, -3, 12, step, True, counts))


def _damaged(seed: int) -> bytes:
    """Three tables with a few bytes changed, most of them in the programs, and sometimes an end cut off."""
    chance = random.Random(seed)
    data = bytearray(b"".join(random_program(seed * 7 + n, version=chance.choice((2, 4))).data for n in range(3)))
    for _ in range(chance.randint(1, 4)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data[: len(data) if chance.random() < 0.7 else chance.randrange(len(data))])


def _accepted(data: bytes) -> dict[int, plain_lines.Table]:
    """What the plain reader makes of each table that it does not refuse."""
    return {table.offset: table for table in plain_lines.read_section(data) if table is not None}


@pytest.mark.parametrize("seed", range(200))
def test_damaged_sections_give_what_the_plain_reader_gives_or_a_refusal(seed):
    data = _damaged(seed)
    expected = _accepted(data)
    try:
        lines = read_lines({".debug_line": data})
    except Malformed:
        assert not expected
        return
    ours = lines_as_rows(lines, keep_is_stmt=True)
    unit = lines.table_of_row.tolist()
    for table, offset in enumerate(lines.tables):
        mine = [row for row, number in zip(ours, unit, strict=True) if number == table]
        theirs = expected.pop(offset, None)
        assert theirs is not None or (
            not mine and any(f"+{offset:#x}: line table left out" in w for w in lines.warnings)
        )
        if theirs is not None:
            assert [(a, li, c, f) for a, _, li, c, f in mine] == [
                (r.address, r.line, r.column, r.flags) for r in theirs.rows
            ]
            assert [path for _, path, _, _, _ in mine] == [theirs.file(row.file) for row in theirs.rows]
    assert not expected


def test_of_the_damaged_sections_some_tables_are_refused_and_more_are_read():
    tables = [table for seed in range(200) for table in plain_lines.read_section(_damaged(seed))]
    assert 50 < tables.count(None) < len(tables) / 2


def test_a_lying_file_count_costs_no_memory():
    shape = Shape(version=5)
    program = bytearray(build_line_program([[Row(0), Row(1, end_sequence=True)]], shape=shape).data)
    at = program.index(b"kernel.cl") - 1
    program[at] = 0x7F
    with pytest.raises(Malformed):
        read_lines({".debug_line": bytes(program)})


SHAPE = ProgramParameters(13, -3, 12, 1, 1, True, bytes((0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1)))


class Stop(Exception):
    pass


def test_a_program_that_is_stopped_leaves_no_row(core):
    """Whoever counts rows may refuse more of them; what was run before stays, and another program can follow."""
    sound, large = b"\x20" * 10 + b"\x00\x01\x01", b"\x00\x01\x01" + b"\x20" * 1000 + b"\x00\x01\x01"
    told = []

    def check(rows: int) -> None:
        told.append(rows)
        if rows > 100:
            raise Stop

    rows = core.LineProgramRows(sound + large + sound, ".debug_line", check)
    rows.run(0, 0, len(sound), SHAPE)
    with pytest.raises(Stop):
        rows.run(1, len(sound), len(sound + large), SHAPE)
    assert (rows.count, list(rows.ends), list(rows.program)) == (11, [11], [0])
    rows.run(2, len(sound + large), len(sound + large + sound), SHAPE)
    assert (rows.count, list(rows.ends), list(rows.program)) == (22, [11, 22], [0, 2])
    assert list(rows.line[11:22]) == list(rows.line[:11])
    assert told == sorted(told)


def test_room_is_taken_for_rows_that_can_be_there_and_given_back(core):
    program = b"\x20" * 5000 + b"\x00\x01\x01"
    rows = core.LineProgramRows(program, ".debug_line")
    rows.run(0, 0, len(program), SHAPE)
    assert rows.count == 5001 <= len(rows.address) <= len(program)
    rows.trim()
    assert {len(each) for each in (rows.address, rows.file, rows.line, rows.column, rows.flags)} == {5001}
    assert not rows.context


def test_files_that_programs_define_count_as_those_that_headers_list(monkeypatch):
    define = b"\x00\x06\x03a\0\0\0\0"
    rows = [[Row(0), Row(1, end_sequence=True)]]
    data = build_line_program(rows, shape=Shape(version=2)).data
    data = data[:-3] + 11 * define + data[-3:]
    data = struct.pack("<I", len(data) - 4) + data[4:]
    assert len(read_lines({".debug_line": data}).address) == 2
    monkeypatch.setattr(lines_module, "LINE_FILES", 10)
    with pytest.raises(LimitExceeded, match="directories and files"):
        read_lines({".debug_line": data})
