"""Bounds of a store beside the bytes of modules: limits that operators set, and fixed ones; an error names the one that
was passed.
"""

from __future__ import annotations

from typing import NamedTuple

from symd.config import Limits
from symd.errors import LimitExceeded
from symd.model.contexts import Alias
from symd.model.identities import Digest
from symd.store import rows
from symd.store.connection import ANY_NUMBER, Connection, typed
from symd.store.folder import not_found

LABEL_LENGTH = 1024
"""Characters of a module's label."""
ALIAS_KIND_LENGTH = 64
"""Characters of an alias's kind."""
ALIAS_KEY_LENGTH = 1024
"""Characters of an alias's key."""
MODULE_ALIASES = 10_000
"""Aliases of one module, those of contexts included."""
LOADS = 1_000_000
"""Loads and unloads that one context may be told, over all time."""
MAPPINGS = 4_000_000
"""Mapped segments that one context may have, over all time; each takes about 150 bytes while it is asked about, and up
to 500 where all of them lie in one another."""
_OF_MODULE = "SELECT count(*) FROM aliases WHERE sha256 = ?"


class Totals(NamedTuple):
    """What is in a catalogue: bytes of modules and indexes, numbers of aliases and contexts."""

    bytes: int
    aliases: int
    contexts: int


def totals(connection: Connection) -> Totals:
    """Kept by triggers: nothing is counted to know them."""
    row = connection.execute("SELECT bytes, aliases, contexts FROM totals").fetchone()
    return Totals._make(typed(row or (None,) * len(Totals._fields), *[ANY_NUMBER] * len(Totals._fields)))


def bytes_of_module(connection: Connection, digest: Digest, size: int) -> int:
    """What a module of ``size`` bytes adds to the store: nothing where it is there already."""
    return 0 if rows.exists(connection, digest) else size


def bytes_of_index(connection: Connection, digest: Digest, version: int, size: int) -> int:
    """What an index of ``size`` bytes adds to the store, beyond the one that it replaces. Raises ``ModuleNotFound``."""
    if not rows.exists(connection, digest):
        raise not_found(digest)
    return size - rows.index_size(connection, digest, version)


def check_size(size: int, limits: Limits) -> None:
    """Raises ``LimitExceeded`` when a module of ``size`` bytes is more than this store takes."""
    if size > limits.module_size:
        raise exceeded(limits, "module_size", f"the module is larger than {limits.module_size} bytes")


def check_label(label: str) -> None:
    """Raises ``LimitExceeded`` for a label that is too long."""
    _check_length(label, "label_length", LABEL_LENGTH, "the label")


def check_alias(alias: Alias) -> None:
    """Raises ``LimitExceeded`` for a kind or key that is too long."""
    _check_length(alias.kind, "alias_kind_length", ALIAS_KIND_LENGTH, "an alias's kind")
    _check_length(alias.key, "alias_key_length", ALIAS_KEY_LENGTH, "an alias's key")


def check_alias_counts(connection: Connection, digests: set[str], limits: Limits) -> None:
    """Raises ``LimitExceeded`` when the store, or one of the modules, has more aliases than it may."""
    if totals(connection).aliases > limits.aliases:
        what = f"the store would have more than {limits.aliases} aliases"
        raise exceeded(limits, "aliases", what, "delete aliases, contexts or modules")
    for digest in sorted(digests):
        if connection.execute(_OF_MODULE, (digest,)).fetchone()[0] > MODULE_ALIASES:
            what = f"module {digest} would have more than {MODULE_ALIASES} aliases"
            raise _beyond("module_aliases", MODULE_ALIASES, what, "delete some of them")


def check_contexts(connection: Connection, limits: Limits) -> None:
    """Raises ``LimitExceeded`` when the store has more contexts than it may."""
    if totals(connection).contexts > limits.contexts:
        what = f"the store would have more than {limits.contexts} contexts"
        raise exceeded(limits, "contexts", what, "delete those that have ended")


def check_context(segments: int, events: int) -> None:
    """Raises ``LimitExceeded`` when a context was told more than it may be."""
    if segments > MAPPINGS:
        what = f"the context would have {segments} segments, at most {MAPPINGS} are kept"
        raise _beyond("mappings", MAPPINGS, what, "begin another context")
    if events > LOADS:
        what = f"the context would have {events} loads and unloads, at most {LOADS} are kept"
        raise _beyond("loads", LOADS, what, "begin another context")


def exceeded(limits: Limits, name: str, what: str, instead: str = "") -> LimitExceeded:
    """The error of the limit ``name``: what is too much, and what may be done instead of raising it."""
    hint = f"raise the limit {name}"
    return _beyond(name, getattr(limits, name), what, f"{instead}, or {hint}" if instead else hint)


def _check_length(text: str, name: str, most: int, whose: str) -> None:
    if len(text) > most:
        raise _beyond(name, most, f"{whose} has {len(text)} characters, at most {most} are taken", "shorten it")


def _beyond(name: str, most: int, what: str, hint: str) -> LimitExceeded:
    return LimitExceeded(what, hint=hint, metadata={"limit": name, "value": str(most)})
