"""What one profile has cost so far: what was read of it and is kept, and what was written into it. A small file expands, and an
answer of many frames is written wherever its address stands."""

from __future__ import annotations

from symd.config import MIB
from symd.formats.budget import beyond, exceeded
from symd.profiles.format import Options
from symd.profiles.json_text import WHERE

PROFILE_RECORDS = 4_000_000
"""Fields, samples, rows and frames that are read of one profile; of a gzipped one so many for each MiB that is stored: records of nothing compress
so well that their number alone says little."""
_SHARE = 12
"""Any gzipped one may have this part of them: what compresses no further has all."""
MEMBERS_A_RECORD = 16
"""JSON values that count as one record: what is read of a sample or a record has about as many."""


class ProfileBudget:
    """Counts what one profile of ``size`` bytes has cost, against ``limits``."""

    def __init__(self, options: Options, size: int) -> None:
        self.limits = options.limits
        self._most_records = most = PROFILE_RECORDS
        if options.stored is not None:
            self._most_records = min(most, max(most // _SHARE, options.stored * most // MIB))
        self._records = 0
        self._bytes = size

    def read(self, number: int = 1) -> None:
        """Count fields, samples, rows or frames that are read. Raises LimitExceeded."""
        self._records += number
        most = self._most_records
        if self._records > most:
            raise beyond("profile_records", most, f"has more than {most} fields or samples", WHERE)

    def read_json(self, text: str, begin: int, end: int) -> None:
        """Count the JSON values of ``text[begin:end]``, which are about to be read. Raises LimitExceeded."""
        self.read(1 + text.count(",", begin, end) // MEMBERS_A_RECORD)

    def read_table(self, rows: int, columns: int) -> None:
        """Count the values of a table that is about to be kept, which a small file may name one by one. Raises
        LimitExceeded."""
        self.read(rows * columns // MEMBERS_A_RECORD)

    def written(self, size: int) -> None:
        """Count bytes or characters that are about to be written. Raises LimitExceeded."""
        self._bytes += size
        most = self.limits.profile_size
        if self._bytes > most:
            raise exceeded("profile_size", most, f"takes more than profile_size = {most} bytes with its frames", WHERE)
