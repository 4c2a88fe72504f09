r"""``symd mcp``: symd's questions as tools of the Model Context Protocol, on standard input and output.

JSON may escape half of a surrogate pair (``\ud800``), which is no valid text. The package that reads the messages drops
such a message, and its sender waits forever. So half a pair is replaced by U+FFFD on the way in, and the question is
answered.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import closing, suppress
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import Final

import click

from symd.cli.code_objects import daemon_of
from symd.cli.options import complete_files, example, limit_option, rules_option, server_option
from symd.cli.process import AWAKE_SECONDS
from symd.config import Limits
from symd.engine.files.added_module import add_module
from symd.engine.files.input import AllowedFiles, read_input
from symd.engine.files.listing_sources import allowed_folders, source_texts, with_python_names
from symd.engine.files.module import open_symbolizer
from symd.errors import InvalidInput, ToolMissing, extra_hint
from symd.formats.containers import uri
from symd.model.sources import PathRule, SourceText
from symd.server.mcp.tools import AskedModule, Tools
from symd.system.messages import os_error_text

_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""What a backslash begins: a whole character of two escapes; half a character, which is the group; or anything else."""


async def whole_lines() -> AsyncIterator[str]:
    """The lines of standard input, which nobody else reads then. They are read by a thread that nobody waits for, so
    that a signal ends the command while the input is open."""
    read: asyncio.Queue[bytes] = asyncio.Queue(1)
    thread = Thread(
        target=_read,
        args=(_take_standard_input(), read, asyncio.get_running_loop()),
        name="symd-mcp-lines",
        daemon=True,
    )
    thread.start()
    awake = asyncio.create_task(_awake())
    try:
        while line := await read.get():
            yield with_whole_characters(line).decode("utf-8", "replace")
    finally:
        awake.cancel()


async def _awake() -> None:
    """A loop that only waits for lines would not hear of some signals."""
    while True:  # noqa: ASYNC110 - for nothing in particular
        await asyncio.sleep(AWAKE_SECONDS)


def with_whole_characters(line: bytes) -> bytes:
    """A line of JSON in which half characters are U+FFFD."""
    return _ESCAPE.sub(lambda found: b"\\ufffd" if found[1] else found[0], line)


def _take_standard_input() -> int:
    """Standard input under another number; what is run meanwhile finds none."""
    source = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return source


def _read(source: int, read: asyncio.Queue[bytes], loop: asyncio.AbstractEventLoop) -> None:
    with suppress(OSError, RuntimeError, CancelledError), os.fdopen(source, "rb") as lines:  # the loop has ended
        for line in chain(lines, (b"",)):
            with closing(read.put(line)) as putting:  # the loop may have ended before it takes it
                asyncio.run_coroutine_threadsafe(putting, loop).result()


_HINT = "start it as symd mcp FILE for this file, or as symd mcp --source-root FOLDER for all files of a folder"
_DAEMON_HINT = f"{_HINT}; modules/SHA256 names a module of the daemon"


@click.command(
    "mcp",
    epilog=example(
        "symd setup mcp --source-root ~/src kernel.dbg\nclaude mcp add symd -- symd mcp --source-root ~/src"
    ),
)
@server_option
@click.option(
    "--source-root",
    "roots",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Modules, profiles and sources below this folder may be opened.  [default: none]",
)
@rules_option
@limit_option
@click.argument("files", nargs=-1, metavar="[FILE]...", shell_complete=complete_files)
def command(
    server: str | None, roots: tuple[Path, ...], rules: tuple[PathRule, ...], limits: Limits, files: tuple[str, ...]
) -> None:
    """Answer an assistant's questions over the Model Context Protocol, on standard input and output, until the input
    ends.

    Tools: info, symbolize, why_no_answer, locate, variables, names, listing, hot_lines. Answers are short: a list that
    was cut says by how much. The assistant may ask about each FILE (a module or a profile), about files below a
    --source-root, and with --server about the daemon's modules. No other file is opened, no matter what the assistant,
    a module or a symbolic link names; source text is read only below a --source-root and below a TO of --map. Nothing
    is written, and only disassemblers are run. Needs the extra symd-gpu[mcp].
    """
    if find_spec("mcp") is None:
        raise ToolMissing(
            "the Model Context Protocol is spoken by the Python package mcp, which is not installed",
            hint=extra_hint("mcp"),
        )
    from symd.server.mcp.server import serve  # noqa: PLC0415 - 517 ms: the extra may be missing, and is slow to import

    allowed = _allowed(roots, files, server)
    folders = allowed_folders([Path(root) for root in allowed.roots], rules)
    with open_symbolizer(server, limits) as opened_symbolizer:
        symbolizer = with_python_names(opened_symbolizer, folders, limits)

        def opened(file: str) -> AskedModule:
            if daemon_of(file, server) is None:
                _check(file, allowed)
            return AskedModule(symbolizer, add_module(symbolizer, file, server, limits, allowed=allowed))

        def profile(file: str) -> bytes:
            _check(file, allowed)
            return read_input(file, limits, allowed=allowed)

        def sources(module: AskedModule, files: Sequence[str]) -> Mapping[str, SourceText]:
            return source_texts(module.symbolizer, module.digest, files, folders, limits)

        serve(Tools(opened, sources, profile, limits), whole_lines, _allowed_files_text(allowed))


def _allowed(roots: Sequence[Path], files: Sequence[str], server: str | None) -> AllowedFiles:
    try:
        return AllowedFiles(
            roots,
            [_path_of(file) for file in files if daemon_of(file, server) is None],
            _HINT if server is None else _DAEMON_HINT,
        )
    except (OSError, ValueError) as error:
        named = str(getattr(error, "filename", "") or "")
        raise InvalidInput(f"cannot read the file: {os_error_text(error)}", where=named) from error


def _check(file: str, allowed: AllowedFiles) -> None:
    """Raises what is wrong with a file's name: that of standard input, which carries the protocol, and of what is not
    allowed."""
    if file == "-":
        raise InvalidInput("standard input carries the protocol", hint="name a file")
    allowed.check(_path_of(file))


def _path_of(file: str) -> str:
    return uri.parse_uri(file).path if uri.is_uri(file) else file


def _allowed_files_text(allowed: AllowedFiles) -> str:
    """What an assistant is told of the files that it may name."""
    parts = [f"these files: {', '.join(allowed.files)}"] if allowed.files else []
    parts += [f"files below {', '.join(allowed.roots)}"] if allowed.roots else []
    return f"You may name {' and '.join(parts) or 'no file of this machine'}."
