"""``symd symbolize FILE -``: a session on standard input about one file, in text, without the libraries of the command line, which take as long to
import as thousands of answers."""

from __future__ import annotations

import gc
import os
import sys

from symd.cli.start.plain_text import is_plain_file, names_server

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def piped_answers(arguments: Sequence[str], environment: Mapping[str, str]) -> int | None:
    """The exit code, once all questions are answered, of a command line without its verb. None where it says more than a file: then nothing was
    read, and the command line answers."""
    if names_server(environment) or sys.stdin is None or sys.stderr is None:
        return None
    file = arguments[0]
    if file.startswith("-") or not is_plain_file(file):
        return None
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as ``cli.command_line.main``
    try:
        return _followed(file)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the command line says what happened
        from symd.cli.command_line import ended  # noqa: PLC0415 - slow to import

        happened = error

        def failed() -> int:
            raise happened

        return ended(failed)


def _followed(file: str) -> int:
    """The exit code of a session about ``file``."""
    gc.disable()  # modules are imported and the file is opened, and nothing of it is given up again
    from symd.cli.answer_lines import TextLines  # noqa: PLC0415 - NumPy is slow to import
    from symd.cli.question_lines import arriving_pieces  # noqa: PLC0415 - likewise
    from symd.cli.session import Session  # noqa: PLC0415 - likewise
    from symd.config import DEFAULT_LIMITS  # noqa: PLC0415 - likewise
    from symd.engine.files.file_hints import hints_name  # noqa: PLC0415 - likewise
    from symd.engine.files.local_module import LocalModule  # noqa: PLC0415 - likewise

    with hints_name(file):
        asked = LocalModule(file, DEFAULT_LIMITS)
        gc.freeze()
        gc.enable()
        session = Session(asked.symbolize, TextLines(), None)
        session.follow(arriving_pieces(sys.stdin.fileno()))
        session.say_what_was_meant(file, asked)
        return session.finish()
