"""``symd core FILE``: what every warp or wave of a GPU core dump was doing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from symd.api import Symbolizer
from symd.cli.core_text import core_lines, readable_frames, readable_names
from symd.cli.options import complete_files, demangle_option, example, file_verb
from symd.cli.output import write_json, write_line
from symd.config import Limits
from symd.engine.files.input import is_regular_file, say_left_out
from symd.engine.files.module import add_module, open_symbolizer
from symd.errors import SymdError
from symd.model.cores import CoreDump
from symd.model.json.cores import core_json, stack_json
from symd.query.demangler import Demangler


@click.command(
    "core", epilog=example("symd core core_1760000000_host_4242.nvcudmp\nsymd core --json gpucore.4242 -m kernels.co")
)
@file_verb
@click.option(
    "-m",
    "--module",
    "modules",
    multiple=True,
    metavar="MODULE",
    shell_complete=complete_files,
    help="A file that has the same code with debug data, where what was loaded has none.",
)
@click.option(
    "--files/--no-files",
    default=None,
    help="Whether to open files that the dump names; with --server they are sent to it.  [default: without --server]",
)
@demangle_option
def command(
    file: str,
    server: str | None,
    limits: Limits,
    as_json: bool,
    modules: tuple[str, ...],
    files: bool | None,
    demangle: bool,
) -> None:
    """Show every stopped warp or wave of a GPU core dump: its fault, its PC, its call stack with inlined frames, and the
    variables that the dump's registers give a value for. Lanes, warps and blocks with the same stack are put together.

    The code objects inside the dump answer themselves (symd info lists them); those without debug data are answered by a
    MODULE that has the same code, or by the file that the dump says they were loaded from, where that is here. With
    --server these files stay here unless --files is given; then those with the same code are sent.
    """
    demangler = Demangler() if demangle else None
    with open_symbolizer(server, limits) as symbolizer:
        digest = add_module(symbolizer, file, server, limits)
        others = [add_module(symbolizer, each, server, limits) for each in modules]
        try:
            dump = symbolizer.core(digest, others)
            uris = [] if files is False else _named_files(dump)
            if server is not None and uris:
                uris = _sent(file, uris, limits, wanted=files is True)
            named = _added(symbolizer, uris, server, limits)
            if named:
                dump = symbolizer.core(digest, [*others, *named])
        except SymdError as error:
            raise error.prefix_where(file) from None
    if demangler is not None:
        dump = (readable_frames if as_json else readable_names)(dump, demangler)
    if as_json:
        write_json(core_json(dump))
        for stack in dump.stacks:
            write_json(stack_json(stack))
    else:
        for line in core_lines(dump, dict(zip(others, modules, strict=True))):
            write_line(line)


def _named_files(dump: CoreDump) -> list[str]:
    """URIs of the files that code without lines was loaded from; a file that is not here is left out."""
    names = [image.name for image in dump.images if image.answered_by is None and image.name.startswith("file://")]
    return [name for name in dict.fromkeys(names) if is_regular_file(name)]


def _added(symbolizer: Symbolizer, uris: Sequence[str], server: str | None, limits: Limits) -> dict[str, str]:
    """The modules of the files, with their URIs; a file that is no module is left out."""
    found = {}
    for uri in uris:
        with suppress(SymdError):
            found[add_module(symbolizer, uri, server, limits)] = uri
    return found


def _sent(file: str, uris: Sequence[str], limits: Limits, *, wanted: bool) -> list[str]:
    """The files of this machine that a daemon gets: those with code of the dump, which is looked up here, where they are ``wanted``. A
    dump comes from elsewhere, and may name any file."""
    sent = _with_its_code(file, uris, limits) if wanted and Path(file).is_file() else []
    hint = "-m FILE sends one" if wanted else "--files sends those with the same code"
    say_left_out(file, [uri for uri in uris if uri not in sent], hint)
    return sent


def _with_its_code(file: str, uris: Sequence[str], limits: Limits) -> list[str]:
    with open_symbolizer(None, limits) as here:
        digest = add_module(here, file, None, limits)
        found = _added(here, uris, None, limits)
        answering = {image.answered_by for image in here.core(digest, list(found)).images}
    return [uri for digest, uri in found.items() if digest in answering]
