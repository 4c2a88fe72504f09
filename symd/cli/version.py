"""Which symd this is: its version, and of a wheel that was built of a checkout its commit."""

from __future__ import annotations

from pathlib import Path

from symd import __version__

_COMMIT = Path(__file__).parents[1] / "shipped" / "commit"


def built_commit() -> str:
    """The commit of which this was built, with "-dirty" where files were changed; "" where nobody knows, as in a checkout."""
    try:
        return _COMMIT.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def version_text() -> str:
    """As a person reads it."""
    commit = built_commit()
    return f"{__version__} (commit {commit})" if commit else __version__
