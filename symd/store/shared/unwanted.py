"""Objects that no row names any more: their names stand in a table until somebody has removed them, so that a kill forgets none."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from symd.model.identities import Digest
from symd.store.shared.advisory_locks import STORING, AdvisoryLocks
from symd.store.shared.catalogue import PostgresCatalogue
from symd.store.shared.object_names import is_of_module
from symd.store.shared.object_storage import FileCache

log = logging.getLogger("symd.store")

_PAGE: Final = 100


def remove_unwanted(
    catalogue: PostgresCatalogue, files: FileCache, locks: AdvisoryLocks, stop: Callable[[], bool] = lambda: False
) -> int:
    """Remove them, here and in the storage, until there are none or ``stop`` says so; how many went. Whoever adds the same module holds
    its lock meanwhile or finds nothing: the row that comes with an object takes its name out of the table.

    The table is not believed where it would cost something that is wanted: it may be of a backup, or filled without triggers. What a row
    names stays, and a name that is none of its module's is left alone."""
    removed, last = 0, ""
    while found := catalogue.unwanted_objects(_PAGE, last):
        for name, digest in found:
            if stop():
                return removed
            if is_of_module(name, digest):
                removed += _removed(catalogue, files, locks, name, digest)
            else:
                log.warning("unwanted_objects has the name %.200r, which is no object of module %s", name, digest)
        last = found[-1][0]
    return removed


def _removed(catalogue: PostgresCatalogue, files: FileCache, locks: AdvisoryLocks, name: str, digest: Digest) -> bool:
    with locks.held(STORING, digest):
        if not catalogue.is_unwanted(name):
            return False
        is_named = catalogue.is_named(name, digest)
        if not is_named:
            files.remove(name)
        catalogue.forget_unwanted(name)
        return not is_named
