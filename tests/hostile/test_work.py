"""Small files that are much work and little answer (``work.WORK``): each is answered, or refused by the name of a limit, and
takes no more steps than its size allows.

Before steps were counted, 62 KB of a compressed line program whose opcodes make no row took 11 to 45 s and more, abbreviations of
one byte more each 31 s, an archive of empty code objects 30 s, functions of SPIR-V 10 s, calls in each other without ranges (1.6 KB)
more than 45 s, and location lists that variables share 12 s."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from symd import profiles
from symd.config import Limits
from symd.cores.fault_text import InFunction, references
from symd.debuginfo.variables.visible import VariableReader
from symd.errors import LimitExceeded, SymdError
from symd.formats import containers
from symd.formats.budget import WorkBudget
from symd.index.module import decoded_objects
from tests.hostile.work import LARGEST, TEXT_SECTION, WORK

ALWAYS = 1_000_000
"""Steps that any file may take, as docs/reliability.md has it."""
ANSWERED = {
    "line not compressed",
    "abbreviations",
    "abbreviations used",
    "location lists bases",
    "location lists empty",
    "location expressions loop",
    "location expressions growth",
    "location expressions terms",
    "range lists bases",
    "string offsets",
    "macro",
    "symbols",
    "metadata nested",
    "metadata empty",
    "SPIR-V nop",
    "SPIR-V struct nests",
    "SPIR-V pointer chain",
    "gzip ELF zeros",
    "cubin info",
    "functions overlapping",
    "types chained",
}
"""What is linear, or bounded by something else, and so no more work than its size explains."""
OTHERS = {
    "DIE many indirect": "100 bytes for each byte of the file",
    "sections compressed": "100 bytes for each byte of the file",
    "sections of debug lines": "100 bytes for each byte of the file",
    "range lists bases calls": "overlap without end",
    "range lists functions": "overlap without end",
    "range lists full": "overlap without end",
    "range lists of DWARF 5": "overlap without end",
    "sections of relocations": "eight times the file",
    "indirect forms used": "no unit can be read",
    "calls nested without ranges": "stand inside each other",
    "calls nested in a range": "stand inside each other",
    "gzip zeros": "no reader knows",
    "range lists of DWARF 5 packed": "range lists overlap without end",
}
"""What something besides ``work_ratio`` refuses, and what the error says."""


@dataclass
class Spent:
    """Of every budget, by its number, what was spent."""

    steps: dict[int, int] = field(default_factory=dict)
    budgets: list[WorkBudget] = field(default_factory=list)


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> Spent:
    found, spend = Spent(), WorkBudget.spend

    def counted(self: WorkBudget, steps: int, where: str) -> None:
        spend(self, steps, where)
        found.budgets.append(self)  # keeps its number its own
        found.steps[id(self)] = self.steps

    monkeypatch.setattr(WorkBudget, "spend", counted)
    return found


def refusals(data: bytes) -> Iterator[str]:
    """What is said of limits while everything of a file is read, and the variables at one address."""
    try:
        objects = containers.unpack(data).objects
        yield from (
            str(each.debug)
            for each in decoded_objects(objects, Limits(), len(data))
            if isinstance(each.debug, SymdError)
        )
        for code in objects:
            yield from VariableReader(code).at(TEXT_SECTION, 4).notes
    except SymdError as error:
        yield str(error)


@pytest.mark.parametrize("kind", WORK)
def test_small_files_are_answered_or_refused_within_the_steps_that_their_size_allows(kind: str, spent: Spent) -> None:
    data = WORK[kind]()
    assert len(data) <= LARGEST
    said = [*refusals(data)]
    wanted = OTHERS.get(kind, "" if kind in ANSWERED else "work_ratio")
    refused = (
        [each for each in said if wanted in each] if wanted else [each for each in said if "raise the limit" in each]
    )
    assert bool(refused) == bool(wanted), said
    assert max(spent.steps.values(), default=0) <= max(ALWAYS, Limits().work_ratio * len(data))


def test_work_that_a_file_of_its_size_explains_is_done() -> None:
    """The same opcodes, not compressed."""
    data = WORK["line not compressed"]()
    [found] = decoded_objects(containers.unpack(data).objects, Limits(), len(data))
    assert not isinstance(found.debug, SymdError)


def test_the_limit_can_be_raised() -> None:
    data, limits = WORK["line negate_stmt"](), Limits(work_ratio=10_000)
    [found] = decoded_objects(containers.unpack(data, limits).objects, limits, len(data))
    assert not isinstance(found.debug, SymdError)


def test_a_question_about_variables_takes_nothing_from_the_next() -> None:
    """A daemon keeps the debug data of a code object open."""
    [code] = containers.unpack(WORK["location lists bases"]()).objects
    reader = VariableReader(code)
    assert len({reader.at(TEXT_SECTION, 4).notes for _ in range(5)}) == 1


def test_a_line_of_a_log_where_gdb_begins_often_is_looked_at_once() -> None:
    """Each beginning went on to the end of the line, as the function's name: 97 KB took 5 s."""
    assert references("0x1 <a>" * 1000) == [InFunction("a", 0)]


def test_records_of_nothing_in_a_gzipped_profile_are_counted_by_its_size() -> None:
    data = gzip.compress(b"\x2a\0" * 400_000)
    with pytest.raises(LimitExceeded, match="fields or samples"):
        profiles.samples(data)
