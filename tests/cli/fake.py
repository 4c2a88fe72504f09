"""A symbolizer with one made-up module, whose answers are those that docs and contract show."""

from collections.abc import Iterator, Sequence

import numpy as np

from symd.errors import ObjectNotFound
from symd.model.addresses import ByKernel, BySection, Query
from symd.model.answers import Answer, Candidate, Frame, Reason, TextSection
from symd.model.debug_info import RowFlag
from symd.model.line_tables import LineLevel, LineTable
from symd.model.summaries import KernelSummary, ModuleSummary, ObjectSummary

DIGEST = "1" * 64
HELPER = Frame("helper", None, "/src/vadd.cl", 3, 23, inlined=True)
VADD = Frame("vadd", None, "/src/vadd.cl", 10, 0, inlined=False)


def line_table(path: str = "", section: str | None = ".text.vadd") -> LineTable:
    """Two rows of kernel vadd: a statement at 272 and the end of the sequence at 288."""
    rows = [(0, 272, 1, 1, 2, 8, 15, RowFlag.IS_STMT), (0, 288, 0, 0, 0, 0, 0, RowFlag.END_SEQUENCE)]
    place, offset, kernel, function, file, line, column, flags = (
        np.array(column) for column in zip(*rows, strict=True)
    )
    return LineTable(
        path,
        "dg2",
        place,
        offset,
        kernel,
        function,
        file,
        line,
        column,
        flags,
        (TextSection(path, section, 1, 0),),
        ("", "vadd", "/src/vadd.cl"),
    )


class FakeSymbolizer:
    """Knows ``vadd+OFFSET``; everything else is answered by a reason."""

    def __init__(self) -> None:
        kernel = KernelSummary("vadd", ".text.vadd", 1, 0, 640, {"simd_width": 16, "size": "never shown"})
        self.summary = ModuleSummary(
            DIGEST,
            4096,
            "zebin",
            (ObjectSummary("", "zebin", "dg2", 4096, "2" * 64, "dwarf-4", (kernel,), {"abi": 1}, ("half a note",)),),
            ("a note",),
        )
        self.tables: tuple[LineTable, ...] = (line_table(),)
        self.ptx_tables: tuple[LineTable, ...] = ()
        self.data = {"": b"\x7fELF"}
        self.asked: list[list[Query]] = []
        self.name = "helper"

    def add(self, data: bytes, label: str = "") -> ModuleSummary:
        return self.summary

    def module(self, digest: str) -> ModuleSummary:
        return self.summary

    def missing(self, digests: Sequence[str]) -> list[str]:
        return []

    def object_data(self, digest: str, path: str) -> bytes:
        return self.data[path]

    def objects(self) -> Iterator[tuple[ObjectSummary, bytes]]:
        return ((each, self.data[each.path]) for each in self.summary.objects)

    def lines(self, digest: str, path: str | None = None, level: LineLevel = LineLevel.SOURCE) -> Iterator[LineTable]:
        return iter(self.tables if level is LineLevel.SOURCE else self.ptx_tables)

    def symbolize(
        self, digest: str, queries: Sequence[Query], path: str | None = None, *, as_written: bool = False
    ) -> list[Answer]:
        if path == "nowhere":
            raise ObjectNotFound("there is no code object 'nowhere'")
        self.asked.append(list(queries))
        return [self._answer(query) for query in queries]

    def _answer(self, query: Query) -> Answer:
        if isinstance(query, ByKernel) and query.kernel == "vadd":
            helper = Frame(self.name, None, "/src/vadd.cl", 3, 23, inlined=True)
            return Answer(Reason.EXACT, "", "vadd", ".text.vadd", 1, query.offset, query.offset, (helper, VADD))
        if isinstance(query, ByKernel):
            return Answer(Reason.UNKNOWN_KERNEL)
        if isinstance(query, BySection):
            return Answer(Reason.OUTSIDE_TEXT)
        places = tuple(Candidate("", f".text.{name}", 1, query.address, name) for name in ("vadd", "vsub"))
        return Answer(Reason.AMBIGUOUS, candidates=places)
