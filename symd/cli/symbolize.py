"""``symd symbolize FILE QUERY... | -``: addresses to frames; a session on standard input answers as it is asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING

import click

from symd.cli.advice import corrected_call
from symd.cli.answer_lines import AnswerLines, TextLines
from symd.cli.call_files import call_text, instead_of_a_query, typed_words
from symd.cli.drop_ins import Styled, style_options
from symd.cli.options import (
    context_options,
    debug_option,
    demangle_option,
    example,
    json_option,
    limit_option,
    object_option,
    rules_option,
    server_option,
    shown_anyway,
    source_root_option,
)
from symd.cli.question_lines import arriving_pieces
from symd.cli.session import Ask, AskedKernels, Session, is_read_by_a_person
from symd.config import Limits
from symd.engine.files import gc_frozen, hints_name
from symd.engine.files.input import module_digest
from symd.engine.files.opened_file import OpenedFile
from symd.errors import BadQuery
from symd.model.addresses import Query, is_number, parse_query
from symd.model.answers import Answer
from symd.model.frame_text import frame_text
from symd.query.demangler import Demangler
from symd.system.messages import complain

if TYPE_CHECKING:
    from pathlib import Path

    from symd.engine.files.added_module import OpenModule
    from symd.model.columns import U64
    from symd.model.sources import PathRule

_NO_QUERY = "no addresses given: they follow FILE, or come on standard input, one a line (see symd symbolize --help)"


@click.command(
    "symbolize",
    epilog=example(
        "symd symbolize program.bin vadd+0x1b0 '(.text.vadd)+432' '(#3)+0x20' 0x110\n"
        "cut -f1 samples.tsv | symd symbolize --json program.bin -\n"
        "symd symbolize --context 3f2a 0xffff8000ffbf0368@81234567890"
    ),
)
@server_option
@limit_option
@json_option
@object_option
@debug_option
@demangle_option
@source_root_option
@rules_option
@click.option(
    "--store",
    metavar="FOLDER",
    help='Answer from the index of FILE in this store, if it has one, without a daemon; "default" is the store of the daemon that runs here.',
)
@click.option("--as-written", is_flag=True, help="Show what the debug data says, even where it contradicts itself.")
@context_options
@shown_anyway("-f", "--functions", "-i", "--inlines", "--inlining")
@style_options
@click.argument("queries", nargs=-1, metavar="[QUERY... | -]")
def command(
    file: str,
    server: str | None,
    limits: Limits,
    as_json: bool,
    path: str | None,
    debug: str | None,
    demangle: bool,
    roots: tuple[Path, ...],
    rules: tuple[PathRule, ...],
    store: str | None,
    as_written: bool,
    context: str | None,
    time: int | None,
    queries: tuple[str, ...],
    styled: Styled | None,
) -> int:
    """Turn addresses of FILE into source frames, innermost first.

    QUERY is ADDRESS, FUNCTION, FUNCTION+OFFSET, (SECTION)+OFFSET or (#INDEX)+OFFSET. FUNCTION is a kernel or another
    function with code of its own, mangled or demangled. Numbers are decimal, or hexadecimal if they begin with 0x
    (addr2line takes all numbers as hexadecimal). With "-" or without a query, queries are read from standard input, one
    per line, and each is answered as it arrives. FILE can be "-" for standard input, or file://PATH#offset=N&size=N for
    a part of a file. With --context, a QUERY is a device address, ADDRESS or ADDRESS@TIME, and is answered as of that
    time. Exit code 1: something that a query names does not exist. An address without a line is still an answer, with a
    reason such as OUTSIDE_TEXT or AMBIGUOUS.
    """
    if context is not None:
        if path is not None or debug is not None or store is not None or as_written or styled:
            raise click.UsageError("--object, --debug, --store, --as-written and --style cannot be used with --context")
        from symd.cli.contexts import answer_device_addresses  # noqa: PLC0415 - 50 ms: NumPy is slow to import, and few ask it

        return answer_device_addresses(
            context, server, time, (file, *queries), Demangler() if demangle else None, as_json=as_json
        )

    from_input = queries in ((), ("-",))
    if from_input and file == "-":
        raise click.UsageError("the file and the queries cannot both come from standard input")
    if from_input and _is_query(file):
        raise BadQuery(f"{file!r} is an address", hint=f"FILE comes first: symd symbolize FILE {file}")
    asked = [] if from_input else _queries(file, queries)
    if store is not None and (server is not None or debug is not None):
        raise click.UsageError("--store is for a FILE that is read here, without --server and --debug")

    with _asked_module(file, server, limits, debug, store, (roots, rules)) as module:
        ask = partial(module.symbolize, path=path, as_written=as_written or styled is not None)
        demangler = Demangler() if demangle and not styled else None
        lines = styled or _lines(demangler, as_json=as_json)
        session = Session(styled.asking(ask) if styled else ask, lines, demangler)
        if asked:
            with gc_frozen():  # the process ends after the answer; a session goes on and collects
                session.answer(queries, asked)
        else:
            _follow_input(session, is_asked_for=bool(queries))
        if not as_json and not styled:
            session.say_what_was_meant(file, module.kernels, path)
            if asked:
                as_read = None if as_written else partial(module.symbolize, path=path, as_written=True)
                _say_whole_calls(file, session, as_read)
    return session.finish()


def _say_whole_calls(file: str, session: Session, ask_as_written: Ask | None) -> None:
    """Say the call with the function that may be meant, and the one that shows what is not believed."""
    if session.misspelled is not None:
        complain(f"write {corrected_call(*session.misspelled)}")
    if session.contradictory and ask_as_written is not None and is_read_by_a_person():
        complain(_doubted(file, session.contradictory, ask_as_written))


def _doubted(file: str, query: str, ask_as_written: Ask) -> str:
    """What the debug data says of a CONTRADICTORY place, why that is not believed, and the call that shows it."""
    (written,) = ask_as_written([parse_query(query)])
    says = next((frame_text(frame.function or "(unnamed)", None, *frame[2:5]) for frame in written.frames), "nothing")
    called = call_text(["symbolize", "--as-written", *typed_words(click.get_current_context())[1:]])
    return f"the debug data says {says} at {query}, but contradicts itself there: symd info {quote(file)} shows how, and {called} shows what it says"


def _follow_input(session: Session, *, is_asked_for: bool) -> None:
    """Answer what comes on standard input; who did not ask for that with "-" is told that it is read."""
    if not is_asked_for and sys.stdin.isatty():
        complain("reading queries from the terminal, one per line; press Ctrl-D to end")
    any_came = session.follow(arriving_pieces(sys.stdin.fileno()))
    if not is_asked_for and not any_came:
        complain(_NO_QUERY)


def _queries(file: str, texts: Sequence[str]) -> list[Query]:
    """The queries. Raises BadQuery, whose hint is the call in the right order where FILE is behind them."""
    try:
        with hints_name(file):
            return [parse_query(text) for text in texts]
    except BadQuery as error:
        if hint := instead_of_a_query(file, texts):
            raise BadQuery(error.message, hint=hint) from None
        if _is_query(file):
            raise BadQuery(error.message, hint="FILE comes first: symd symbolize FILE QUERY...") from None
        raise


def _is_query(file: str) -> bool:
    """Whether a query is in the place of FILE."""
    return is_number(file.rpartition("+")[2]) and not os.path.exists(file)  # noqa: PTH110 - pathlib is slow to load


class _OpenedModule:
    """A module in an engine of this process or in a daemon, asked as a ``OpenedFile`` is."""

    def __init__(self, module: OpenModule) -> None:
        self._module = module

    def symbolize(
        self, queries: Sequence[Query] | U64, path: str | None = None, *, as_written: bool = False
    ) -> Sequence[Answer]:
        return self._module.symbolizer.symbolize(self._module.digest, queries, path, as_written=as_written)

    def kernels(self) -> AskedKernels:
        return self._module.summary()


@contextmanager
def _asked_module(
    file: str,
    server: str | None,
    limits: Limits,
    debug: str | None,
    store: str | None,
    sources: tuple[Sequence[Path], Sequence[PathRule]],
) -> Iterator[OpenedFile | _OpenedModule]:
    """What answers: a ``OpenedFile``, which decodes no more than the queries need, if one file that is here is asked;
    else an engine that joins ``debug`` to the file, or the daemon at ``server``."""
    if server is None and debug is None and module_digest(file) is None:
        with hints_name(file):
            yield OpenedFile(file, limits, store, sources)
        return

    from symd.engine.files.module import open_module, with_source_names  # noqa: PLC0415 - 120 ms: the engine is slow to import and not needed for one file

    with open_module(file, server, limits, debug) as module:
        yield _OpenedModule(with_source_names(module, sources, limits))


def _lines(demangler: Demangler | None, *, as_json: bool) -> AnswerLines:
    names = demangler.names if demangler else None
    if not as_json:
        return TextLines(names)
    from symd.model.json.answers import JsonLines  # noqa: PLC0415 - 22 ms: text needs none of it

    return JsonLines(names)
