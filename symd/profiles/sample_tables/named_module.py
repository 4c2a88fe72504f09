"""``--module [ID=]FILE``: a module of which a profile, or a table of samples, speaks by names of its own."""

from __future__ import annotations

from pathlib import Path

from symd.api import Symbolizer
from symd.config import Limits
from symd.engine.files.module import add_module
from symd.errors import InvalidInput
from symd.profiles import NamedModule


def named_module(text: str, symbolizer: Symbolizer, server: str | None, limits: Limits) -> NamedModule:
    """The module of ``FILE`` or ``ID=FILE``, which the symbolizer has then; a file whose own name has an equals sign is taken as such."""
    identity, file = named_file(text)
    digest = add_module(symbolizer, file, server, limits)
    return NamedModule(digest, file, identity or None)


def named_file(text: str) -> tuple[str, str]:
    """ID, "" where none is given, and FILE. Raises ``InvalidInput`` where one of the two is empty."""
    identity, equals, file = text.partition("=")
    if not equals or Path(text).exists():
        return "", text
    if not identity or not file:
        raise InvalidInput("a module is named by a file", where=f"--module {text}", hint="write FILE or ID=FILE")
    return identity, file
