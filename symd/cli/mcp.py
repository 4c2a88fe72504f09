"""``symd mcp``: the questions as tools of the Model Context Protocol, on standard input and output."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click

from symd.cli.input import read_input
from symd.cli.listing_sources import allowed_folders, source_texts
from symd.cli.mcp_lines import whole_lines
from symd.cli.module import add_module, open_symbolizer
from symd.cli.options import example, limit_option, rules_option, server_option, source_root_option
from symd.config import Limits
from symd.errors import InvalidInput, ToolMissing, extra_hint
from symd.mcp.tools import AskedModule, Tools
from symd.model.sources import PathRule, SourceText


@click.command(
    "mcp",
    epilog=example("symd mcp --server unix:/run/symd/symd.sock --source-root ~/src\nclaude mcp add symd -- symd mcp"),
)
@server_option
@source_root_option
@rules_option
@limit_option
def command(server: str | None, roots: tuple[Path, ...], rules: tuple[PathRule, ...], limits: Limits) -> None:
    """Answer an assistant's questions over the Model Context Protocol, on standard input and output, until the input ends.

    Tools: info, symbolize, why_no_answer, locate, variables, names, listing, hot_lines. Every answer is short: lists are cut, and say by
    how much. Modules are read as files by your own rights; nothing is written, and nothing is run but the disassemblers. Needs the extra
    symd[mcp].
    """
    if find_spec("mcp") is None:
        raise ToolMissing(
            "the Model Context Protocol is spoken by the Python package mcp, which is not installed",
            hint=extra_hint("mcp"),
        )
    from symd.mcp.server import serve  # noqa: PLC0415 - the extra may be missing, and is slow to import

    allowed = allowed_folders(roots, rules)
    with open_symbolizer(server, limits) as symbolizer:

        def opened(file: str) -> AskedModule:
            _check_regular(file)
            return AskedModule(symbolizer, add_module(symbolizer, file, server, limits))

        def profile(file: str) -> bytes:
            _check_regular(file)
            return read_input(file, limits)

        def sources(module: AskedModule, files: Sequence[str]) -> Mapping[str, SourceText]:
            return source_texts(module.symbolizer, module.digest, files, allowed, limits)

        serve(Tools(opened, sources, profile, limits), whole_lines)


def _check_regular(file: str) -> None:
    """Raises InvalidInput for what no file of an assistant's is: standard input, which carries the protocol, and a pipe or a device, which may never end."""
    if file == "-":
        raise InvalidInput("standard input carries the protocol", hint="name a file")
    path = unquote(urlsplit(file).path) if file.lower().startswith("file:") else file
    with suppress(OSError, ValueError):  # what cannot be looked at cannot be read, either
        mode = os.stat(path).st_mode  # noqa: PTH116 - a path with a NUL is no Path
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise InvalidInput("it is no file but a pipe or a device", where=file[:200], hint="name a file")
