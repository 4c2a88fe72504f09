"""``symd symbolize FILE QUERY...`` where each asks for an address or a place in a kernel, and the debug data around it is as compilers write it as a rule."""

from __future__ import annotations

import gc
import os
import stat

from symd.model.plain_answers import NotPlain
from symd.start.plain_text import MODULE_BYTES, answer_text, names_server, plain_questions

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST_QUERIES = 3
"""Queries that are answered one by one. Of 14 MB three took less than half of the command line's processor time, five 0.6 and eight 0.8 of it;
where one of them is not plain the command line answers all, and what was read is lost."""
_HEAD = b"\x7fELF\2\1"
_MACHINE_AT, _AMDGPU = 18, b"\xe0\0"


def file_answers(arguments: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """What is written for a command line, without its verb. None where it says more than a file and a few queries, or where an answer is
    not plain: then the command line answers."""
    asked = plain_questions(arguments)
    if asked is None or len(asked[1]) > _MOST_QUERIES or names_server(environment):
        return None
    file, queries = asked
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):  # the latter: a name that no file can have
        return None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or not 0 < status.st_size <= MODULE_BYTES:
            return None
        head = os.pread(handle, _MACHINE_AT + 2, 0)
        if not head.startswith(_HEAD) or head[_MACHINE_AT:] != _AMDGPU:
            return None
        from symd.plain.answer import answer_at  # noqa: PLC0415 - of other files it answers nothing

        def read(offset: int, size: int) -> bytes:
            return os.pread(handle, size, offset)

        gc.disable()  # thousands of objects, of which none refers to itself
        return "".join(
            answer_text(query, answer_at(read, status.st_size, value, kernel)) for query, kernel, value in queries
        )
    except (OSError, NotPlain):
        return None
    finally:
        gc.enable()
        os.close(handle)
