"""Where the command ``symd`` begins: what can be answered before anything slow is imported is answered; the rest is the
command line's (``symd.cli``), whose libraries alone take a symbolizer's time."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Mapping, Sequence

from symd import __version__
from symd.model.frame_text import EXACT, AnswerTuple, NeedsIndex, frame_text, is_named_by_source, printable
from symd.model.light_typing import NoReturn

INTERRUPTED = 130
"""The exit code after Ctrl-C, as a shell reports it."""
_COMMIT = f"{__file__.rpartition('/cli/')[0]}/shipped/commit"


def main() -> NoReturn:
    """The console script."""
    try:
        _begin()
    except KeyboardInterrupt:  # while something is imported; the command line explains what comes later
        sys.exit(INTERRUPTED)


def _begin() -> NoReturn:
    text = None
    if sys.argv[1:2] == ["symbolize"] and sys.stdout is not None and os.get_blocking(sys.stdout.fileno()):
        text = direct_answers(sys.argv[2:], os.environ)
    elif sys.argv[1:] == ["--version"] and sys.stdout is not None:
        text = f"symd {version_text()}\n"
    rest = b"" if text is None else _unwritten(text)
    if text is not None and not rest:
        end(0, at_once=True)
    from symd.cli import command_line  # noqa: PLC0415 - 40 ms: what is answered at once needs none of it

    if rest:

        def write_rest() -> int:
            sys.stdout.buffer.write(rest)
            return 0

        end(command_line.ended(write_rest), at_once=True)
    command_line.main()


def direct_answers(arguments: list[str], environment: Mapping[str, str]) -> str | None:
    """What is written for a command line, without its verb, that can be answered at once."""
    if "--store" in arguments:
        from symd.cli.start.stored_answers import stored_answers  # noqa: PLC0415 - 2 ms: most command lines are others

        return stored_answers(arguments, environment)
    asked = direct_questions(arguments)
    if asked is None or names_server(environment):
        return None
    from symd.cli.start.file_answers import direct_answers_text  # noqa: PLC0415 - 8 ms: most command lines are others

    return direct_answers_text(asked)


def _unwritten(text: str) -> bytes | memoryview:
    """Write a text; what cannot be written is for the command line to write once more, or to explain: only that, not
    what is written already."""
    sys.stdout.flush()
    rest = memoryview(text.encode("utf-8", "backslashreplace"))
    try:
        while rest:
            rest = rest[os.write(sys.stdout.fileno(), rest) :]
    except OSError:
        pass
    return rest


def end(code: int, *, at_once: bool) -> NoReturn:
    """End the process with an exit code. ``at_once``: nobody waits for the end, and to take modules and indexes apart
    takes as long as to answer thousands."""
    gc.freeze()  # the process gives all its memory back at once: nothing is looked through before
    gc.disable()
    if at_once and not atexit._ncallbacks() and not _has_other_threads():  # noqa: SLF001 - nothing else tells
        if sys.stderr is not None:
            sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _has_other_threads() -> bool:
    threading = sys.modules.get("threading")  # most who answer a file need no thread, and do not import it
    return threading is not None and threading.active_count() > 1


def built_commit() -> str:
    """The commit of which this was built, with "-dirty" where files were changed; "" where nobody knows, as in a
    checkout."""
    try:
        with open(_COMMIT, encoding="ascii") as file:  # noqa: PTH123 - pathlib is slow to import
            return file.read().strip()
    except (OSError, ValueError):
        return ""


def version_text() -> str:
    """The version and, of a wheel that was built of a checkout, its commit, as a person reads them."""
    commit = built_commit()
    return f"{__version__} (commit {commit})" if commit else __version__


Asked = tuple[str, list[tuple[str, str, int]]]
"""The file, and the queries, each with the kernel it names (none: ""), and an address or an offset."""

MODULE_BYTES = 2048 << 20
"""The largest module in bytes, the same number as ``Limits.module_size``."""
ELSEWHERE = 14
"""``Reason.DEBUG_DATA_ELSEWHERE``: files beside FILE may have what is not in it."""
CONTRADICTORY = 13
"""``Reason.CONTRADICTORY``."""
_DECIMAL, _HEXADECIMAL = frozenset("0123456789"), frozenset("0123456789abcdefABCDEF")


def names_server(environment: Mapping[str, str]) -> bool:
    """Whether all verbs ask a daemon."""
    return environment.get("SYMD_SERVER") not in (None, "", "none")


def is_file_name(file: str) -> bool:
    """Whether a word names a file, as it is and whole."""
    return not file.startswith(("modules/", "file:", "memory:")) and not file.endswith(".gz")


def direct_questions(words: Sequence[str]) -> Asked | None:
    """What words without options ask; None where one is an option, or a file or a query of another kind."""
    if len(words) < 2 or any(word.startswith("-") for word in words):
        return None
    file, *texts = words
    if not is_file_name(file):
        return None
    queries = []
    for query in texts:
        kernel, _, number = query.rpartition("+")
        value = _number(number)
        if value is None or kernel.startswith("(") or kernel != kernel.strip() or query.startswith("+"):
            return None
        if kernel and number.isdecimal() and len(number) > 1 and sys.stderr is not None and sys.stderr.isatty():
            return None  # a person is told of the place that the digits are in hexadecimal
        queries.append((query, kernel, value))
    return file, queries


def _number(text: str) -> int | None:
    if text[:2] in ("0x", "0X"):
        return int(text, 16) if 2 < len(text) <= 18 and _HEXADECIMAL.issuperset(text[2:]) else None
    return int(text) if 0 < len(text) < 19 and _DECIMAL.issuperset(text) else None


def answer_text(query: str, answer: AnswerTuple, reason_name: str) -> str:
    """The lines of an answer as ``cli.answer_lines`` writes them, with the name of its reason. Raises NeedsIndex where
    more is to be looked for."""
    reason, frames = answer
    if reason == ELSEWHERE:
        raise NeedsIndex("debug data may be in files beside this one")
    shown = ""
    if reason == CONTRADICTORY and sys.stderr is not None and sys.stderr.isatty():
        raise NeedsIndex("a person is told what the debug data says")
    if reason != EXACT:
        if any(is_named_by_source(function, file) for function, _, file, _, _ in frames):
            raise NeedsIndex("a source in Python may tell the names of functions")
        shown = f" [{reason_name}]"
    first, *callers = (frame_text(*frame) for frame in frames)
    lines = [f"{query}: {first}{shown}", *(f"  (inlined by) {caller}" for caller in callers)]
    return "".join(f"{printable(line)}\n" for line in lines)
