"""How stores in an object storage are named, and told from folders."""

from __future__ import annotations

import os
import re
from typing import Final

import click

_ONE_SLASH: Final = re.compile(r"(s3:/|file:/)([^/].*)", re.DOTALL)
_WHOLE: Final = {"s3:/": "s3://", "file:/": "file:///"}


def is_url(store: str) -> bool:
    """Whether that is an object storage, and no folder. Raises ``UsageError`` for a URL that lacks a slash, which would name a folder."""
    lacking = _ONE_SLASH.fullmatch(store)
    if lacking and not os.path.lexists(store):
        raise click.UsageError(f"{store} lacks a slash: write {_WHOLE[lacking[1]]}{lacking[2]}")
    return "://" in store
