"""The texts of the source files that a module names: from the module, a daemon, or below folders that the user allowed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from symd.api import Symbolizer
from symd.config import Limits
from symd.model.sources import PathRule, SourceText
from symd.query.source_text import Allowed, completed
from symd.store.source_files import read_below


def allowed_folders(roots: Sequence[Path], rules: Sequence[PathRule]) -> Allowed:
    """Absolute folders; where a rule leads is allowed too."""
    folders = [*roots, *(Path(rule.replacement) for rule in rules if rule.replacement)]
    absolute = dict.fromkeys(str(folder.expanduser().absolute()) for folder in folders)
    return Allowed(tuple(absolute), tuple(rules))


def source_texts(
    symbolizer: Symbolizer, digest: str, files: Sequence[str], allowed: Allowed, limits: Limits
) -> dict[str, SourceText]:
    """What is known of each file, by its name in frames."""
    read = partial(read_below, largest=limits.source_size)
    found = symbolizer.sources(digest, files) if files else []
    return {source.file: completed(source, allowed, read) for source in found}
