"""A daemon's module as the user names it: by its SHA-256, or by as much of it as no other has."""

from __future__ import annotations

from symd.api import Symbolizer
from symd.errors import BadQuery, ModuleNotFound
from symd.model.identities import is_digest

_NAME = "modules/"
_SHOWN = 4
"""So many modules are named that a beginning could mean."""
SHORT = 16
"""Digits of a digest that are shown where a person reads it."""


def chosen_module(symbolizer: Symbolizer, text: str) -> str:
    """The digest of the module that ``text`` names: ``modules/SHA256`` or a SHA-256, either whole or the beginning that it alone has. A
    whole one is not looked for. Raises ``ModuleNotFound`` and ``BadQuery``."""
    beginning = text.removeprefix(_NAME)
    if is_digest(beginning):
        return beginning
    if not beginning or beginning.strip("0123456789abcdef"):
        raise BadQuery(
            f"{text[:80]!r} does not name a module",
            hint="write its SHA-256, or the beginning of it; symd modules lists them",
        )
    found = [record.sha256 for record in symbolizer.modules() if record.sha256.startswith(beginning)]
    if len(found) > 1:
        names = ", ".join(found[:_SHOWN])
        raise BadQuery(f"{len(found)} modules begin with {beginning!r}", hint=f"give more of {names}")
    if not found:
        raise ModuleNotFound(f"no module begins with {beginning!r}", hint="symd modules lists them")
    return found[0]
