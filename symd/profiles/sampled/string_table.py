"""Messages whose strings stand in a table and are named by their number there, as pprof's and OTLP's profiles are."""

from __future__ import annotations

from symd.errors import Malformed
from symd.profiles.protobuf_wire import VARINT, Field, fields
from symd.profiles.spending import Spending


class StringTableReader:
    """Who inherits it fills ``_strings``."""

    def __init__(self, data: bytes, where: str, spending: Spending) -> None:
        self._data, self._where, self._spending = data, where, spending
        self._strings: list[str] = []

    def _inside(self, item: Field) -> list[Field]:
        return fields(self._data, item.value, item.end, self._where, self._spending)

    def _numbers(self, item: Field) -> dict[int, int]:
        return {one.number: one.value for one in self._inside(item) if one.wire == VARINT}

    def _string(self, number: int) -> str:
        """Raises Malformed for a number that the table does not have."""
        if number >= len(self._strings):
            raise Malformed(f"string {number} is named, and there are {len(self._strings)}", where=self._where)
        return self._strings[number]
