"""``symd variables FILE QUERY``: what is in scope at an address, of what type, and where it lives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby
from typing import Any

import click

from symd.cli.answers import answer_text, candidate_json
from symd.cli.options import debug_option, example, file_verb, object_option
from symd.cli.output import printable, write_json, write_line
from symd.cli.subject import opened
from symd.config import Limits
from symd.debuginfo.variables import TypeInfo, Variable, Visible
from symd.model.answers import Reason
from symd.model.variables import InScope
from symd.query.syntax import parse_query

NO = 1
_ANSWERED = frozenset({Reason.EXACT, Reason.APPROXIMATE, Reason.NO_LINE})
"""Reasons with which no variables is an answer."""


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

    QUERY is ADDRESS, KERNEL+OFFSET, (SECTION)+OFFSET or (#INDEX)+OFFSET. A register's bits are given as r29[0:32], the
    last bit excluded; "per lane" means those of lane 0, and each further lane has the bits that follow. Exit code 1:
    there is no answer; the reason is given.
    """
    asked = parse_query(query)
    with opened(file, server, limits, debug) as subject:
        found = subject.symbolizer.variables(subject.digest, asked, path)
    if not found.visible.variables and found.at.reason not in _ANSWERED:
        _refuse(query, found, as_json=as_json)
        return NO
    if as_json:
        for variable in found.visible.variables:
            write_json(variable_json(variable) | (_structure(variable, found.visible) if types else {}))
    else:
        for line in text_lines(found):
            write_line(line)
    _complain(found.visible)
    return 0


def _refuse(query: str, found: InScope, *, as_json: bool) -> None:
    if as_json:
        candidates = [candidate_json(candidate) for candidate in found.at.candidates]
        write_json({"query": query, "reason": found.at.reason.name, "candidates": candidates})
    else:
        click.echo(answer_text(query, found.at), nl=False)
    _complain(found.visible)


def _complain(visible: Visible) -> None:
    for note in visible.notes:
        click.echo(f"symd: {printable(note)}", err=True)


def variable_json(variable: Variable) -> dict[str, Any]:
    return {
        "name": variable.name or None,
        "type": variable.type,
        "kind": variable.kind,
        "function": variable.function,
        "inlined": variable.inlined,
        "optimized_out": variable.optimized_out,
        "location": variable.location,
        "live": [list(pair) for pair in variable.live],
    }


def _structure(variable: Variable, visible: Visible) -> dict[str, Any]:
    """The types that the variable's type is made of, numbered from its own, which is 0."""
    if variable.type_number is None:
        return {"types": []}
    order = [variable.type_number]
    numbers: dict[int | None, int | None] = {variable.type_number: 0}
    for number in order:
        for other in _mentioned(visible.types[number]):
            if other not in numbers:
                numbers[other] = len(order)
                order.append(other)
    return {"types": [_type_json(visible.types[number], numbers) for number in order]}


def _mentioned(info: TypeInfo) -> Iterator[int]:
    for number in (info.target, *info.parameters, *(member.type for member in info.members)):
        if number is not None:
            yield number


def _type_json(info: TypeInfo, numbers: dict[int | None, int | None]) -> dict[str, Any]:
    members = [asdict(member) | {"type": numbers.get(member.type)} for member in info.members]
    return {
        "text": info.text,
        "kind": info.kind,
        "size": info.size,
        "encoding": info.encoding,
        "target": numbers.get(info.target),
        "counts": list(info.counts),
        "members": members,
        "parameters": [numbers.get(number) for number in info.parameters],
        "enumerators": dict(info.enumerators),
        "address_space": info.address_space,
    }


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
