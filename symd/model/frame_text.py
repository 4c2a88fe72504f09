"""Frames and answers of the readers that do without NumPy, whose import takes longer than an answer, and a frame's text
in the manner of addr2line. Imports nothing slow, because programs that answer one question begin with it.
"""

from __future__ import annotations

import sys


def frame_text(function: str | None, linkage_name: str | None, file: str | None, line: int, column: int) -> str:
    """FUNCTION at FILE:LINE:COLUMN, as far as it is known."""
    name = function or linkage_name or "(unnamed)"
    if file is None:
        return name
    return f"{name} at {file}:{line}" + (f":{column}" if column else "")


def printable(text: str) -> str:
    """``text`` with everything but spaces and printable characters escaped."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


FrameTuple = tuple[str | None, str | None, str | None, int, int]
"""Function, linkage name, file, line and column, as in ``Frame``."""
AnswerTuple = tuple[int, tuple[FrameTuple, ...]]
"""The number of a ``Reason``, and frames, innermost first."""
EXACT, APPROXIMATE, NO_LINE, INFERRED, CONTRADICTORY = 1, 2, 3, 12, 13
"""Numbers of ``Reason``."""


PYTHON_SUFFIX = ".py"
"""How source files end whose functions compilers of Python, such as Triton and Numba, name."""
CUTE_SYMBOL = "kernel_cutlass_"
"""What CuTe DSL puts in front of the name that a kernel has in its source."""


def is_named_by_source(function: str | None, file: str | None) -> bool:
    """Whether a frame's source, if it is at hand, may tell whose code it is: a compiler of Python left that open."""
    return file is not None and file.endswith(PYTHON_SUFFIX) and (not function or CUTE_SYMBOL in function)


class NeedsIndex(Exception):
    """No answer is possible without an index, or the file is not what it should be: the command line answers, which
    reads everything. The message says why."""


def log_needs_index(file: str, reason: Exception) -> None:
    """Log at debug level why the answer about a file is left to the command line. Only if something has imported
    ``logging`` already, which is slow to import."""
    logging = sys.modules.get("logging")
    if logging is not None:
        logging.getLogger("symd.cli.start").debug("%s is left to the command line: %s", file, reason)
