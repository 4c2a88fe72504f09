"""``symd variables FILE QUERY``: what is in scope at an address, of what type, and where it lives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

import click

from symd.cli.answer_lines import answer_text
from symd.cli.options import debug_option, example, file_verb, object_option
from symd.cli.output import NO, printable, write_json, write_line
from symd.config import Limits
from symd.engine.files.module import open_module
from symd.model.addresses import parse_query
from symd.model.code import DebugScheme
from symd.model.json.answers import unanswered_json, variable_json, variable_types_json
from symd.model.reasons import ANSWERED, Reason
from symd.model.variables import InScope, Variable, Visible

_ANSWERED = ANSWERED - {Reason.CONTRADICTORY, Reason.DEBUG_DATA_ELSEWHERE}
"""Reasons with which no variables is an answer."""
_DESCRIBES_NONE = frozenset({DebugScheme.NONE, DebugScheme.LINE_ONLY, DebugScheme.SPIRV})
"""Debug data that says nothing of variables, or nothing that is read."""


@click.command(
    "variables", epilog=example("symd variables program.bin vadd+0x1b0\nsymd variables --json program.bin 0x110")
)
@file_verb
@object_option
@debug_option
@click.option("--types", is_flag=True, help="With --json: each variable's type as structure, too.")
@click.argument("query")
def command(
    file: str,
    server: str | None,
    limits: Limits,
    as_json: bool,
    path: str | None,
    debug: str | None,
    types: bool,
    query: str,
) -> int:
    """Show the variables in scope at an address of FILE: innermost scope first, the unit's globals last.

    QUERY is ADDRESS, FUNCTION+OFFSET, (SECTION)+OFFSET or (#INDEX)+OFFSET. A register's bits are given as r29[0:32], the
    last bit excluded; "per lane" means those of lane 0, and each further lane has the bits that follow. Exit code 1:
    no variables are known there, for the reason that is given, such as OUTSIDE_TEXT or AMBIGUOUS. Where the debug data is
    read and nothing is in scope, that is an answer: "no variables" (nothing with --json), exit code 0.
    """
    asked = parse_query(query)
    with open_module(file, server, limits, debug, path) as module:
        found = module.symbolizer.variables(module.digest, asked, path)
        if not found.visible.variables and found.at.reason in _ANSWERED:
            objects = module.symbolizer.module(module.digest).objects
            if any(each.path == found.at.path and each.debug in _DESCRIBES_NONE for each in objects):
                found = replace(found, at=found.at._replace(reason=Reason.NO_DEBUG_INFO))
    if not found.visible.variables and found.at.reason not in _ANSWERED:
        _refuse(query, found, as_json=as_json)
        return NO
    if as_json:
        for variable in found.visible.variables:
            write_json(variable_json(variable) | (variable_types_json(variable, found.visible) if types else {}))
    else:
        for line in text_lines(found):
            write_line(line)
    _complain(found.visible)
    return 0


def _refuse(query: str, found: InScope, *, as_json: bool) -> None:
    if as_json:
        write_json(unanswered_json(query, found.at))
    else:
        click.echo(answer_text(query, found.at), nl=False)
    _complain(found.visible)


def _complain(visible: Visible) -> None:
    for note in visible.notes:
        click.echo(f"symd: {printable(note)}", err=True)


def text_lines(found: InScope) -> Iterator[str]:
    """A heading for each function, its variables in columns below."""
    shown = found.visible.variables
    if not shown:
        yield "no variables"
    lanes = f", SIMD{found.visible.simd_width}" if found.visible.simd_width else ""
    for (kind, function, inlined), group in groupby(shown, _owner):
        variables = list(group)
        title = "globals" if kind == "global" else function or "(unnamed)"
        yield title + (" (inlined)" if inlined else "") + (lanes if kind != "global" else "")
        widths = [max(len(text(one)) for one in variables) for text in (_name, _type)]
        for one in variables:
            where = one.location or "optimized out"
            yield f"  {_name(one):<{widths[0]}}  {_type(one):<{widths[1]}}  {one.kind:<9}  {where}"


def _owner(variable: Variable) -> tuple[str, str | None, bool]:
    return ("global" if variable.kind == "global" else "", variable.function, variable.inlined)


def _name(variable: Variable) -> str:
    return variable.name or "(unnamed)"


def _type(variable: Variable) -> str:
    return variable.type
