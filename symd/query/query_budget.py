"""What one request may spend on the names of functions: how people write them is worked out name by name, and a module may have a
million of them."""

from __future__ import annotations

from collections.abc import Callable

from symd.errors import LimitExceeded
from symd.model.waiting import never_cancelled

NAME_SEARCH_LETTERS = 50_000_000
"""Letters of functions' names that one request may have spelled as people write them, where it asks for names that no kernel and no symbol has."""


class QueryBudget:
    """What one request may spend on the names of functions. ``check_cancelled`` is called now and then, and raises
    when nobody waits for the answer any more."""

    def __init__(self, check_cancelled: Callable[[], None] = never_cancelled) -> None:
        self._left = NAME_SEARCH_LETTERS
        self.check_cancelled = check_cancelled

    def spend(self, characters: int) -> None:
        """Count characters of names that were spelled out. Raises ``LimitExceeded`` and what ``check_cancelled``
        raises."""
        self.check_cancelled()
        self._left -= characters
        if self._left < 0:
            raise LimitExceeded(
                f"to find the functions by the names asked for, more than {NAME_SEARCH_LETTERS} characters of names would have to be spelled out",
                hint="ask by linkage names, as `symd names` lists them; or for one code object",
                metadata={"limit": "name_search_letters", "value": str(NAME_SEARCH_LETTERS)},
            )
