"""``symd symbolize --style``: llvm-symbolizer's way to write answers, with those of its options that say how."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import numpy as np

from symd.cli.options import complete_files
from symd.model.addresses import ByAddress, ObjectAddress, Query
from symd.model.written_answers import encoded

if TYPE_CHECKING:
    from symd.cli.session import Ask
    from symd.cli.symbolizer_styles import StyleOptions
    from symd.model.answers import Answer, Answers
    from symd.model.columns import U64
    from symd.model.written_answers import Column

_ADDRESS = re.compile(r"(0[xX])?(?(1)[0-9a-fA-F]+|[0-9]+)")
"""A query that is a number, as ``model.query_syntax`` reads it."""
STYLES = ("llvm", "gnu", "json")


class Styled(NamedTuple):
    """What ``--style`` and its options say."""

    style: str
    options: StyleOptions
    adjust: int
    module: str

    def asking(self, ask: Ask) -> Ask:
        """``ask`` for addresses from which --adjust-vma is taken off; names come as they were written, as from LLVM's tool."""
        from symd.cli.llvm_symbolizer import CommandLine, demangler, readable  # noqa: PLC0415 - few ask for it

        names = demangler(CommandLine(options=self.options))
        return lambda queries: readable(list(ask(self._adjusted(queries))), names)

    def _adjusted(self, queries: Sequence[Query] | U64) -> Sequence[Query] | U64:
        if not self.adjust:
            return queries
        if not isinstance(queries, Sequence):
            return queries - np.uint64(self.adjust % (1 << 64))  # which goes round at 64 bits
        return [
            ByAddress(ObjectAddress((query.address - self.adjust) % (1 << 64)))
            if isinstance(query, ByAddress)
            else query
            for query in queries
        ]

    def query(self, text: str) -> str:
        """How a query is written: each style says what of it."""
        return text

    def answers(self, queries: Sequence[bytes], answers: Answers) -> list[Column]:
        """What is written for each query."""
        return [encoded(map(self.answer, map(bytes.decode, queries), answers))]

    def refusal(self, query: str, error: str) -> str:  # noqa: ARG002 - LLVM's tool says nothing of it
        """What is written for a query that cannot be read."""
        return self.answer(query, None)

    def answer(self, text: str, answer: Answer | None) -> str:
        """The answer to a query, which may have none because it cannot be read."""
        from symd.cli.symbolizer_styles import Asked, gnu_text, llvm_json, llvm_text, written_frames  # noqa: PLC0415 - few ask for it

        write = {"llvm": llvm_text, "gnu": gnu_text, "json": llvm_json}[self.style]
        number = _ADDRESS.fullmatch(text.strip())
        asked = (
            Asked(self.module, int(number[0], 16 if number[1] else 10))
            if number
            else Asked(self.module, 0, text.strip())
        )
        return write(asked, written_frames(answer, self.options) if answer else [], self.options)


def _number(_context: click.Context, _parameter: click.Parameter, text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no number") from None


def style_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """FILE as an argument or as --obj, and the options of ``Styled``, as ``styled``: None without --style."""

    @click.argument("file", required=False, shell_complete=complete_files)
    @click.option(
        "-e",
        "--obj",
        "--exe",
        "obj",
        metavar="FILE",
        shell_complete=complete_files,
        help="FILE, in llvm-symbolizer's and addr2line's way.",
    )
    @click.option("--style", type=click.Choice(STYLES), help="Write as llvm-symbolizer does, with its --output-style.")
    @click.option("-s", "--basenames", is_flag=True, help="With --style: leave folders out of file names.")
    @click.option("-p", "--pretty-print", "pretty", is_flag=True, help="With --style: one line a frame.")
    @click.option("-a", "--addresses", is_flag=True, help="With --style: show each address.")
    @click.option(
        "--adjust-vma",
        "adjust",
        default="0",
        callback=_number,
        metavar="N",
        help="With --style: take N off each address.",
    )
    @click.option(
        "--print-source-context-lines",
        "context_lines",
        type=click.IntRange(0, 10_000),
        default=0,
        metavar="N",
        help="With --style: show N lines of source.",
    )
    @wraps(verb)
    def wrapped(file: str | None, obj: str | None, style: str | None, queries: tuple[str, ...], **given: Any) -> Any:
        name, rest = _named(file, obj, queries)
        kept = {key: given.pop(key) for key in ("basenames", "pretty", "addresses", "adjust", "context_lines")}
        if style is None:
            if any(kept.values()):
                raise click.UsageError("these options go with --style")
            return verb(file=name, queries=rest, styled=None, **given)
        if given["as_json"]:
            raise click.UsageError("--json is symd's own; LLVM's is --style json")
        from symd.cli.symbolizer_styles import StyleOptions  # noqa: PLC0415 - few ask for it

        options = StyleOptions(
            addresses=kept["addresses"],
            basenames=kept["basenames"],
            pretty=kept["pretty"],
            context_lines=kept["context_lines"],
        )
        return verb(file=name, queries=rest, styled=Styled(style, options, kept["adjust"], name), **given)

    return wrapped


def _named(file: str | None, obj: str | None, queries: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    if obj is not None:
        return obj, queries if file is None else (file, *queries)
    if file is None:
        raise click.UsageError("Missing argument 'FILE'.")
    return file, queries
