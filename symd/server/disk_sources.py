"""Texts of source files on the daemon's disk, which its operator allowed it to read (``symd serve --source-root``)."""

from __future__ import annotations

from functools import partial

from symd.model.sources import PathRule, SourceText
from symd.query.source_text import Allowed, completed
from symd.server.config import Config
from symd.store.source_files import read_below


class DiskSources:
    """Reads below the roots that ``config`` names, by its path rules."""

    def __init__(self, config: Config) -> None:
        rules = tuple(PathRule(prefix, here) for prefix, here in config.source_map)
        self._allowed = Allowed(config.source_roots, rules)
        self._read = partial(read_below, largest=config.limits.source_size)

    def completed(self, source: SourceText) -> SourceText:
        """``source`` itself where its module carried the text or no allowed file is the one, else the same with the file's text."""
        return completed(source, self._allowed, self._read)
