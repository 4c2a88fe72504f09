"""Sessions write in bulk what ``answer_text`` and ``answer_json`` say of each answer, and answer a line that comes again as before."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from symd.cli import session as sessions
from symd.cli.answer_lines import AnswerLines, TextLines, answer_text
from symd.cli.output import MISUSED
from symd.cli.question_lines import MAX_LINE_BYTES, Lines, addresses_in, arriving_pieces
from symd.cli.session import Session
from symd.config import Limits
from symd.engine.files.opened_file import Queries, SmallFile
from symd.errors import BadQuery, LimitExceeded, SymdError
from symd.index import Index
from symd.model.addresses import ByAddress, parse_query
from symd.model.answers import Answer, Answers, Locations, Reason
from symd.model.json import to_json
from symd.model.json.answers import JsonLines, answer_json
from symd.model.rendered_answers import RenderedAnswers
from symd.query.demangler import Demangler

SAMPLES = Path(__file__).parents[2] / "samples"
FILES = {
    "amdgpu/bin/v4-gfx900.co": range(0x1800, 0x2400, 4),
    "amdgpu/bin/v4-gfx900.o": range(0, 0x800, 4),
    "cuda/bin/raycast.sm_90.debug.cubin": range(0, 0x2000, 16),
    "kernels/bin/raycast/dg2-opt.dbg": range(0, 0xC00, 8),
    "kernels/bin/filters/driver-l0-igc2-dg2-opt.debug-zebin": range(0xFFFF8000FFBF0000, 0xFFFF8000FFBF1000, 8),
    "kernels/bin/vadd/opt.spv": range(0, 0x1000, 4),
}
"""Linked and unlinked code, with and without kernels of one address, debug data that contradicts itself, and addresses outside."""
WRITERS: dict[str, tuple[Callable[..., AnswerLines], Callable[[str, Answer], str]]] = {
    "text": (TextLines, answer_text),
    "json": (JsonLines, lambda query, answer: to_json(answer_json(query, answer)) + "\n"),
}


def followed(session: Session, batches: Sequence[Sequence[str]], monkeypatch: pytest.MonkeyPatch) -> str:
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", out)
        session.follow(iter([[line.encode() for line in batch] for batch in batches]))
    assert isinstance(out.buffer, io.BytesIO)
    return out.buffer.getvalue().decode()


def singly(file: SmallFile, lines: Sequence[str], write: Callable[[str, Answer], str], names: Demangler | None) -> str:
    """Each line asked alone, and its answer written as a whole."""
    answers = [file.symbolize([parse_query(line)])[0] for line in lines]
    return "".join(map(write, lines, names.answers(answers) if names else answers))


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("readable", [False, True])
def test_a_batch_is_written_like_each_answer_of_it(
    file: str, writer: str, readable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if readable and shutil.which("c++filt") is None:
        pytest.skip("no demangler is installed")
    names = Demangler() if readable else None
    one, (lines, write) = SmallFile(str(SAMPLES / file), Limits()), WRITERS[writer]
    asked = [f"{address:#x}" for address in FILES[file]]
    expected = singly(one, asked, write, names)
    assert expected.count("/") > 20, "some have files"
    session = Session(one.symbolize, lines(names.names if names else None), names)
    assert (
        followed(session, [asked, asked[:40], asked], monkeypatch)
        == expected + singly(one, asked[:40], write, names) + expected
    )


@pytest.mark.parametrize("writer", WRITERS)
def test_lines_of_every_kind_are_answered_in_place(writer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, (lines, write) = SmallFile(str(SAMPLES / "kernels/bin/raycast/dg2-opt.dbg"), Limits()), WRITERS[writer]
    made = lines(None)
    kinds = [
        "raycast+0x368",
        "raycast+872",
        "raycas+1",
        "zzz+1",
        "(.text.raycast)+8",
        "(.txt)+4",
        "(#99)+1",
        "",
        "what",
        "0x",
    ]
    kinds += ["0x1_0", "0X10", "+1", "0x10000000000000000", " 0x10", "\u2028+1", 'say "it"+1', "ray\u0007+1", "12"]
    asked = [kinds[number % len(kinds)] for number in range(200)] + [f"raycast+{number}" for number in range(200)]
    expected = "".join(_expected(one, line.strip(), made, write) for line in asked)
    session = Session(one.symbolize, made, None)
    assert (
        followed(session, [asked[:7], asked[7:], asked], monkeypatch)
        == "".join(_expected(one, line.strip(), made, write) for line in asked[:7])
        + "".join(_expected(one, line.strip(), made, write) for line in asked[7:])
        + expected
    )
    assert session.unlike
    wrong = sum(isinstance(_read(line), BadQuery) and bool(line.strip()) for line in asked)
    said: list[str] = []
    monkeypatch.setattr("symd.cli.session.complain", said.append)
    assert session.finish() == MISUSED
    assert said == [f"{2 * wrong} of the queries could not be read (see symd symbolize --help)"]


@pytest.mark.parametrize("writer", WRITERS)
def test_calls_are_written_however_deep_they_are(writer: str) -> None:
    lines, write = WRITERS[writer]
    made, depth = lines(None), 12
    number = np.arange(depth + 1, dtype=np.uint32)
    strings = ["", *(f"function_{each}" for each in number[1:]), "/src/deep.cl"]
    nothing, file = np.zeros_like(number), np.where(number, np.uint32(depth + 1), np.uint32(0))
    inlined, parent = (number > 1).astype(np.uint8), number - (number > 0)
    reason = np.full(depth + 1, Reason.EXACT, np.uint8)
    table = Locations(reason, nothing, number, nothing, file, number * 10, number % 3, inlined, parent, strings)
    for some in ([2, 9], [depth, 1, 7, 3], number[1:].tolist()):
        location = np.array(some, np.uint32)
        answers = Answers(location, np.zeros_like(location), np.zeros(len(some), np.uint64), table, ())
        asked = [f"{each:#x}" for each in some]
        written = RenderedAnswers(made.answers([each.encode() for each in asked], answers), len(some))
        assert [each.decode() for each in written.each()] == list(map(write, asked, answers))


def test_lines_are_those_of_their_text() -> None:
    whole = [b"0x%x" % number if number % 7 else b"" for number in range(100)]
    for lines in (Lines.of(whole), Lines.of([b"x", *whole, b"yz"]).part(1, 101)):
        assert list(lines) == whole
        assert len(lines) == 100
        assert [lines[0], lines[7], lines[99], lines[-1]] == [whole[0], whole[7], whole[99], whole[-1]]
        for at in (slice(3, 9), slice(5, 5), slice(98, 200), slice(None, None, 3), slice(9, 2, -2)):
            assert lines[at] == whole[at]
        assert list(lines.part(10, 20)) == whole[10:20]
        numbers = addresses_in(lines.part(8, 14))
        assert numbers is not None
        assert numbers.tolist() == list(range(8, 14))


def _read(line: str) -> object:
    try:
        return parse_query(line)
    except BadQuery as error:
        return error


def _expected(file: SmallFile, line: str, lines: AnswerLines, write: Callable[[str, Answer], str]) -> str:
    query = _read(line)
    if isinstance(query, BadQuery):
        return lines.refusal(line, str(query) if line else "an empty line")
    return singly(file, [line], write, None)


EVERY_FILE = sorted(path for path in SAMPLES.glob("*/bin/**/*") if path.is_file())


def _asked_of(index: Index) -> list[str]:
    """Addresses all over each text section, one behind it, a few of them again, and what cannot be read."""
    asked = []
    for number, section in enumerate(index.sections):
        size = index.section_size(number)
        asked += [f"{section.address + offset:#x}" for offset in range(0, size + 1, max(4, size // 64))]
    return [*asked, *asked[::3], "0xffffffffffffffff", "what", "0X10", "0x00000000000000010", "16", *asked[:5]]


def test_every_sample_is_written_in_bulk_like_each_answer_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    inlined = 0
    for path in EVERY_FILE:
        try:
            one = SmallFile(str(path), Limits())
            asked = _asked_of(one._index.whole())
        except SymdError:
            continue
        queries = [query for line in asked if not isinstance(query := _read(line), BadQuery)]
        answers = list(one.symbolize(queries))
        for lines, write in WRITERS.values():
            answer = iter(answers)
            expected = [_expected_of(line, answer, lines(None), write) for line in asked]
            plain = [number for number, line in enumerate(asked) if re.fullmatch("0x[0-9a-f]{1,16}", line)]
            for numbers in (range(len(asked)), plain):
                session = Session(one.symbolize, lines(None), None)
                written = followed(session, [[asked[number] for number in numbers]], monkeypatch)
                assert written == "".join(expected[number] for number in numbers), path
        inlined += sum(len(answer.frames) > 1 for answer in answers)
    assert inlined > 1000


def _expected_of(line: str, answers: Iterator[Answer], lines: AnswerLines, write: Callable[[str, Answer], str]) -> str:
    query = _read(line)
    return lines.refusal(line, str(query)) if isinstance(query, BadQuery) else write(line, next(answers))


def test_what_is_kept_is_bounded_and_forgotten_without_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_LINES_AT_ONCE", 16)
    monkeypatch.setattr(sessions, "_KEPT_ANSWERS", 16)
    monkeypatch.setattr(sessions, "_FIRST_LINES", 16)
    monkeypatch.setattr("symd.model.rendered_answers.KEPT_BYTES", 10)
    one = SmallFile(str(SAMPLES / "kernels/bin/raycast/dg2-opt.dbg"), Limits())
    asked = [f"raycast+{number % 50}" for number in range(500)] + ["what"]
    session = Session(one.symbolize, TextLines(), None)
    written = followed(session, [asked] * 3, monkeypatch)
    assert len(session._known) <= 2 * 16
    assert written == 3 * "".join(_expected(one, line, TextLines(), answer_text) for line in asked)


def test_a_line_that_cannot_be_read_counts_also_where_its_answer_is_forgotten_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "_KEPT_ANSWERS", 4)
    monkeypatch.setattr(sessions, "_ANSWERS_WRITTEN_AT_ONCE", 2)
    one = SmallFile(str(SAMPLES / "kernels/bin/raycast/dg2-opt.dbg"), Limits())
    session = Session(one.symbolize, TextLines(), None)
    known = ["raycast+", *(f"raycast+{number}" for number in range(8))]
    followed(session, [known, [*known, "raycast+8"]], monkeypatch)
    assert session._unreadable == 2


def test_a_line_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    one, asked = SmallFile(str(SAMPLES / "kernels/bin/raycast/dg2-opt.dbg"), Limits()), []

    def ask(questions: Queries) -> Sequence[Answer]:
        asked.append(len(questions))
        return one.symbolize(questions)

    lines = [f"raycast+{number % 5}" for number in range(300)]
    followed(Session(ask, TextLines(), None), [lines, lines], monkeypatch)
    assert asked == [5]


@pytest.mark.parametrize(
    ("lines", "numbers"),
    [
        (["0x0", "0xffffffffffffffff", "0xAbC"], [0, (1 << 64) - 1, 0xABC]),
        (["0x0", "0x10000000000000000"], None),
        (["0x0", "10"], None),
        (["0x"], None),
        (["0x0", ""], None),
        (["0x0x0"], None),
        (["0x1_0"], None),
        (["x0x1"], None),
        (["0X1"], None),
        ([" 0x1"], None),
        (["-0x1"], None),
        (["0x1", "0xg"], None),
        (["0x1", "0x1\r"], None),
        (["0x1", "", "0x1"], None),
        (["0x" + "f" * 16, "0x1", "0xFf", "0xaA"], [(1 << 64) - 1, 1, 255, 170]),
    ],
)
def test_addresses_are_read_in_bulk_as_one_by_one(lines: list[str], numbers: list[int] | None) -> None:
    found = addresses_in([line.encode() for line in lines])
    assert (None if found is None else found.tolist()) == numbers
    if numbers is not None:
        assert [parse_query(line) for line in lines] == [ByAddress(number) for number in numbers]


def pieces_of(*written: bytes) -> Iterator[list[bytes]]:
    reader, writer = os.pipe()
    pieces = arriving_pieces(reader)
    for each in written:
        os.write(writer, each)
        yield next(pieces)
    os.close(writer)
    yield from pieces
    os.close(reader)


def test_lines_of_a_piece_come_together_and_the_rest_with_the_next() -> None:
    assert list(pieces_of(b"a\nb\nc", b"d\n", b"e")) == [[b"a", b"b"], [b"cd"], [], [b"e"]]


def test_a_line_without_end_is_refused() -> None:
    with pytest.raises(LimitExceeded, match="a line of more than"):
        list(pieces_of(b"1" * (MAX_LINE_BYTES // 2 + 1), b"1" * (MAX_LINE_BYTES // 2)))
    one = SmallFile(str(SAMPLES / "kernels/bin/raycast/dg2-opt.dbg"), Limits())
    with pytest.raises(LimitExceeded, match="a line of more than"):
        Session(one.symbolize, TextLines(), None).follow(iter([[b"1" * (MAX_LINE_BYTES + 1)]]))


@pytest.mark.parametrize("long", [b"1" * (MAX_LINE_BYTES + 1), b"1" * (1 << 20)])
@pytest.mark.parametrize("end", [b"", b"\n0x20\n"])
def test_lines_before_one_that_is_too_long_come_first(long: bytes, end: bytes, tmp_path: Path) -> None:
    """From a file that is read at once, and from one in pieces."""
    for behind in (b"", b"0x30\n" * (1 << 20)):
        file = tmp_path / "lines"
        file.write_bytes(b"0x10\n" * 1000 + long + end + behind * bool(end))
        found: list[bytes] = []
        with file.open("rb") as stream, pytest.raises(LimitExceeded, match="a line of more than"):
            found.extend(line for lines in arriving_pieces(stream.fileno()) for line in lines)
        assert found == [b"0x10"] * 1000


def test_a_line_of_the_greatest_length_is_none_too_long(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"0x10\n" + b"1" * MAX_LINE_BYTES + b"\n0x20")
    with (tmp_path / "lines").open("rb") as stream:
        assert [len(line) for lines in arriving_pieces(stream.fileno()) for line in lines] == [4, MAX_LINE_BYTES, 4]
