"""Which disassemblers this machine has. Looking for them walks PATH, which takes longer than a batch of addresses, and
clients ask before each large batch what the daemon takes."""

from __future__ import annotations

import time

from symd.query.disasm import DISASSEMBLERS

REMEMBERED_SECONDS = 30.0
"""How long an installation, or a removal, may go unnoticed."""


class InstalledDisassemblers:
    """Looked up when they are asked for, at most every 30 seconds. Safe to use from several threads."""

    def __init__(self) -> None:
        self._found: tuple[float, dict[str, bool]] | None = None

    def by_name(self) -> dict[str, bool]:
        """For each disassembler that symd knows whether it is here."""
        now = time.monotonic()
        found = self._found
        if found is None or now - found[0] > REMEMBERED_SECONDS:
            found = self._found = now, {each.NAME: each.installed() for each in DISASSEMBLERS}
        return found[1]
