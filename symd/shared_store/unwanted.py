"""Objects that no row names any more: their names stand in a table until somebody has removed them, so that a kill forgets none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from symd.shared_store.catalogue import PostgresCatalogue
from symd.shared_store.object_storage import FileCache
from symd.shared_store.turns import STORING, Turns

_PAGE: Final = 100


def remove_unwanted(
    catalogue: PostgresCatalogue, files: FileCache, turns: Turns, stop: Callable[[], bool] = lambda: False
) -> int:
    """Remove them, here and in the storage, until there are none or ``stop`` says so; how many went. Whoever adds the same module has the
    turn at it meanwhile or finds nothing: the row that comes with an object takes its name out of the table."""
    removed = 0
    while found := catalogue.unwanted_objects(_PAGE):
        for name, digest in found:
            if stop():
                return removed
            with turns.turn(STORING, digest):
                if catalogue.is_unwanted(name):
                    files.remove(name)
                    catalogue.forget_unwanted(name)
                    removed += 1
    return removed
