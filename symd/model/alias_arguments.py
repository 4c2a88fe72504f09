"""What callers of the verbs about aliases hand over, made what the verbs take."""

from __future__ import annotations

from typing import Final, NamedTuple

from symd.model.device_arguments import ContextName, checked_context_id
from symd.model.texts import checked_text

_HINT: Final = "an alias has a kind and a key"


class AliasKey(NamedTuple):
    """What names an alias; ``context`` is an id, or "" for everywhere."""

    kind: str
    key: str
    context: str


def checked_alias_key(kind: str, key: str, context: ContextName) -> AliasKey:
    """Raises BadQuery for what is no text, and for what names no context."""
    return AliasKey(
        checked_text(kind, "the kind of an alias", _HINT),
        checked_text(key, "the key of an alias", _HINT),
        checked_context_id(context),
    )
