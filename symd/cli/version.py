"""Which symd this is: its version, and of a wheel that was built of a checkout its commit."""

from __future__ import annotations

from symd import __version__

_COMMIT = f"{__file__.rpartition('/cli/')[0]}/shipped/commit"


def built_commit() -> str:
    """The commit of which this was built, with "-dirty" where files were changed; "" where nobody knows, as in a checkout."""
    try:
        with open(_COMMIT, encoding="ascii") as file:  # noqa: PTH123 - pathlib is slow to import
            return file.read().strip()
    except (OSError, ValueError):
        return ""


def version_text() -> str:
    """The version and, of a wheel that was built of a checkout, its commit, as a person reads them."""
    commit = built_commit()
    return f"{__version__} (commit {commit})" if commit else __version__
