"""Files that a verb writes, compared with those that it reads: none is written over another."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from symd.errors import InvalidInput
from symd.formats.containers import uri
from symd.system.atomic_output import check_no_input


def check_output_is_not_input(targets: Iterable[Path | str | None], files: Iterable[str | None]) -> None:
    """Raises ``InvalidInput`` where one of ``targets`` is one of the ``files`` that the verb was given: paths, code object URIs, "-". None is a
    file that nobody named."""
    check_no_input(
        (each for each in targets if each is not None), (path_of(each) for each in files if each is not None)
    )


def path_of(file: str) -> str:
    """The path in a code object URI; anything else as it is."""
    try:
        return uri.parse(file).path if uri.is_uri(file) else file
    except InvalidInput:
        return file  # whoever reads it says what is wrong with it
