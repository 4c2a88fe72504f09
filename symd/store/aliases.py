"""Other names of modules and code objects, in both directions. A name of a context means what it means there alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symd.config import Limits
from symd.errors import AliasNotFound
from symd.model.contexts import Alias
from symd.model.identities import checked_digest
from symd.store import budgets, rows
from symd.store.catalogue_queries import CatalogueQueries
from symd.store.connection import DIGEST, TEXT, Connection, optional, typed
from symd.store.lock_timeout import patience
from symd.store.paths import not_found

_COLUMNS = "SELECT kind, key, sha256, object, context FROM aliases "
_REMOVE = "DELETE FROM aliases WHERE context = ? AND kind = ? AND key = ?"
_ADD = (
    "INSERT INTO aliases (context, kind, key, sha256, object) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (context, kind, key) DO UPDATE SET sha256 = excluded.sha256, object = excluded.object"
)
_ONE = _COLUMNS + "WHERE context = ? AND kind = ? AND key = ?"
_PAGE = _COLUMNS + "WHERE sha256 = ? AND (context, kind, key) > (?, ?, ?) ORDER BY context, kind, key LIMIT ?"


class Aliases:
    """The aliases in one catalogue. Safe to use from several threads."""

    def __init__(self, catalogue: CatalogueQueries, limits: Limits) -> None:
        self._catalogue = catalogue
        self._limits = limits

    def add(self, aliases: Sequence[Alias]) -> None:
        """Add all aliases or, on an error, none; of one kind and key in one context the last one told wins. Raises
        ``ModuleNotFound``, and ``LimitExceeded`` for names that are too long or too many."""
        for alias in aliases:
            budgets.check_alias(alias)
        with self._catalogue.writing(seconds=patience()) as connection:
            for alias in aliases:
                _add(connection, alias)
            budgets.check_alias_counts(connection, {alias.module for alias in aliases}, self._limits)

    def resolve(self, kind: str, key: str, context: str = "") -> Alias | None:
        """What the name means in the context with that id, or else everywhere; None when nobody told."""
        with self._catalogue.reading() as connection:
            for scope in dict.fromkeys((context, "")):
                row = connection.execute(_ONE, (scope, kind, key)).fetchone()
                if row is not None:
                    return _alias(row)
        return None

    def remove(self, kind: str, key: str, context: str = "") -> None:
        """Forget what the name means in the context with that id, or ("") everywhere. Raises ``AliasNotFound``."""
        with self._catalogue.writing(seconds=patience()) as connection:
            if not connection.execute(_REMOVE, (context, kind, key)).rowcount:
                raise AliasNotFound(
                    f"no alias {key[:100]!r} of kind {kind[:100]!r}", hint="list the aliases of its module"
                )

    def of(self, digest: str, after: Alias | None = None, limit: int = 1000) -> Sequence[Alias]:
        """One page of a module's other names, by context, kind and key: those after ``after``."""
        last = (after.context, after.kind, after.key) if after else ("", "", "")
        with self._catalogue.reading() as connection:
            return self._catalogue.page(
                lambda after, limit: connection.execute(_PAGE, (checked_digest(digest), *after, limit)).fetchall(),
                last,
                lambda row: (row[4], row[0], row[1]),
                _alias,
                limit,
            )


def _alias(row: Sequence[Any]) -> Alias:
    kind, key, digest, path, context = typed(row, TEXT, TEXT, DIGEST, optional(TEXT), TEXT)
    return Alias(kind, key, digest, path, context)


def _add(connection: Connection, alias: Alias) -> None:
    if not rows.exists(connection, checked_digest(alias.module)):
        raise not_found(alias.module)
    values = (alias.context, alias.kind, alias.key, alias.module, alias.path)
    connection.execute(_ADD, values)
