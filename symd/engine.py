"""The verbs of symd, and the in-process engine that joins the rooms to answer them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from symd.model import (
    U64,
    Answers,
    Grabbed,
    GrabRequest,
    LineTable,
    ModuleRecord,
    ModuleSummary,
    Query,
)


class Symbolizer(Protocol):
    """What the in-process engine and the client over gRPC both do, with the same words and the same answers.

    Digests are lower-case hexadecimal SHA-256 of the module's bytes. All methods raise ``SymdError``.
    """

    def missing(self, digests: Sequence[str]) -> list[str]:
        """Those of ``digests`` that are not in the store, in the order given."""
        ...

    def add(self, data: bytes, label: str = "") -> ModuleSummary:
        """Store a module and index it. Adding what is there already is cheap and changes nothing."""
        ...

    def grab(self, request: GrabRequest) -> tuple[ModuleSummary, Grabbed]:
        """Build a module with a real driver, take its debug data and add that."""
        ...

    def modules(self) -> Iterator[ModuleRecord]:
        """The catalogue, oldest first."""
        ...

    def module(self, digest: str) -> ModuleSummary:
        """One module described: code objects, kernels, notes."""
        ...

    def object_data(self, digest: str, path: str) -> bytes:
        """The bytes of the code object at nesting path ``path``."""
        ...

    def lines(self, digest: str, path: str | None = None) -> Iterator[LineTable]:
        """The decoded line table, one for each code object (or only the one at ``path``)."""
        ...

    def symbolize(self, digest: str, queries: Sequence[Query], path: str | None = None) -> Answers:
        """Frames for each query, in order; ``path`` restricts all of them to one code object."""
        ...

    def symbolize_column(
        self,
        digest: str,
        values: U64,
        *,
        kernel: str | None = None,
        section: str | int | None = None,
        path: str | None = None,
    ) -> Answers:
        """The same for a column of numbers: kernel offsets when ``kernel`` is given, section offsets when ``section``
        is, object addresses otherwise."""
        ...
