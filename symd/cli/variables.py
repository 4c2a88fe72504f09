"""``symd variables FILE QUERY``: what is in scope at an address, of what type, and where it lives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from shlex import join, quote
from typing import NamedTuple

import click

from symd.cli.advice import corrected_call
from symd.cli.answer_lines import answer_text, place_note
from symd.cli.call_files import instead_of_a_query
from symd.cli.contexts import CodeAtDevice, code_at_device
from symd.cli.options import (
    debug_option,
    demangle_option,
    example,
    file_or_device_verb,
    needed_without_context,
    object_option,
    shown_anyway,
)
from symd.cli.output import NO, write_json, write_line
from symd.config import Limits
from symd.engine.files import hints_name
from symd.engine.files.added_module import OpenModule
from symd.engine.files.module import open_module
from symd.errors import BadQuery
from symd.model.addresses import ByAddress, ByDevice, ByKernel, BySection, Query, SectionOffset, parse_query
from symd.model.code import DebugScheme
from symd.model.compile_advice import compile_advice
from symd.model.frame_text import frame_text
from symd.model.json.answers import unanswered_json, variable_json, variable_types_json
from symd.model.reasons import ANSWERED, Reason
from symd.model.summaries import ObjectSummary
from symd.model.variables import InScope, Variable, Visible
from symd.query.demangler import Demangler
from symd.system.messages import complain

_ANSWERED = ANSWERED - {Reason.CONTRADICTORY, Reason.DEBUG_DATA_ELSEWHERE}
"""Reasons with which no variables is an answer."""
_NVIDIA_VARIABLES = "-G, which turns optimization off (nvcc, ptxas, NVRTC)"
_DESCRIBES_NONE = frozenset({DebugScheme.NONE, DebugScheme.LINE_ONLY, DebugScheme.SPIRV})
"""Debug data that says nothing of variables, or nothing that is read."""
_SHOWN_RANGES = 4
"""Ranges of one variable that the text has."""


@click.command(
    "variables",
    epilog=example(
        "symd variables program.bin vadd+0x1b0\n"
        "symd variables --json program.bin 0x110\n"
        "symd variables --context 3f2a 0xffff8000ffbf0368"
    ),
)
@file_or_device_verb
@object_option
@debug_option
@demangle_option
@shown_anyway("-f", "--functions", "-i", "--inlines")
@click.option("--types", is_flag=True, help="With --json: also show the structure of each variable's type.")
@click.argument("query", metavar="QUERY", required=False, callback=needed_without_context)
def command(
    file: str | None,
    server: str | None,
    limits: Limits,
    as_json: bool,
    path: str | None,
    debug: str | None,
    demangle: bool,
    types: bool,
    context: str | None,
    time: int | None,
    query: str | None,
) -> int:
    """Show the variables in scope at an address of FILE, frame by frame: innermost scope first, the unit's globals
    last.

    QUERY is ADDRESS, FUNCTION, FUNCTION+OFFSET, (SECTION)+OFFSET or (#INDEX)+OFFSET. r29[0:32] means bits 0 to 31 of
    register r29; "per lane" means that these are the bits of lane 0, and each following lane has the bits that
    follow. Places in the code, such as those where a variable is live or the block that distinguishes two variables of
    the same name, are written like QUERY. Exit code 1: no variables are known there, for a reason such as OUTSIDE_TEXT
    or AMBIGUOUS. If the debug data is readable and nothing is in scope, the answer is "no variables" (nothing with
    --json), with exit code 0. With --context, the one QUERY is a device address, ADDRESS or ADDRESS@TIME.
    """
    if context is not None:
        if path is not None or debug is not None:
            raise click.UsageError("--object and --debug cannot be used with --context")
        if file is None or query is not None:
            raise click.UsageError("give one device address, and no FILE: --context takes its place")
        with code_at_device(context, server, time, file) as code:
            question = _Question(file, code.asked, f"{join(code.server)} {code.module.name}", code)
            found, objects = (
                (InScope(code.found.answer), ())
                if code.place is None
                else _in_scope(code.module, code.place, code.found.answer.path)
            )
        return _show(question, found, objects, demangle=demangle, types=types, as_json=as_json)

    file, query = str(file), str(query)
    asked = _asked(file, query)
    with open_module(file, server, limits, debug, path) as module:
        found, objects = _in_scope(module, asked, path)
        elsewhere = "" if as_json else place_note(module, asked, found.at, path)
    status = _show(
        _Question(query, asked, quote(file)), found, objects, demangle=demangle, types=types, as_json=as_json
    )
    if elsewhere and not status:
        complain(elsewhere)
    return status


def _in_scope(module: OpenModule, asked: Query, path: str | None) -> tuple[InScope, Sequence[ObjectSummary]]:
    """What is in scope at a place, and the code objects of the module where nothing is."""
    found = module.symbolizer.variables(module.digest, asked, path)
    objects = () if found.visible.variables else module.summary().objects
    described = not any(each.path == found.at.path and each.debug in _DESCRIBES_NONE for each in objects)
    if found.at.reason in _ANSWERED and not described:
        found = replace(found, at=found.at._replace(reason=Reason.NO_DEBUG_INFO))
    return found, objects


class _Question(NamedTuple):
    """What was asked: ``text`` is as typed, ``query`` as understood; ``file`` is what to type for the module, and
    ``code`` what is at the device address that was asked about."""

    text: str
    query: Query | ByDevice
    file: str
    code: CodeAtDevice | None = None


def _show(
    question: _Question,
    found: InScope,
    objects: Sequence[ObjectSummary],
    *,
    demangle: bool,
    types: bool,
    as_json: bool,
) -> int:
    """Print the answer; the exit code."""
    if demangle:
        found = _readable(found)
    if not found.visible.variables and found.at.reason not in _ANSWERED:
        _refuse(question, found, objects, as_json=as_json)
        return NO
    if as_json:
        of_device = question.code.json() if question.code else {}
        for variable in found.visible.variables:
            more = variable_types_json(variable, found.visible) if types else {}
            write_json(variable_json(variable) | more | of_device)
    else:
        if question.code:
            write_line(f"{question.text}: in {question.code.module.name}")
        for line in text_lines(found, question.query):
            write_line(line)
    _complain(found.visible)
    return 0


def _asked(file: str, text: str) -> Query:
    """Raises BadQuery, whose hint is the call that is meant where the query is a file."""
    try:
        with hints_name(file):
            return parse_query(text)
    except BadQuery as error:
        error.hint = instead_of_a_query(file, [text]) or error.hint
        raise


def _refuse(question: _Question, found: InScope, objects: Sequence[ObjectSummary], *, as_json: bool) -> None:
    query, file, code = question.text, question.file, question.code
    if as_json:
        write_json(unanswered_json(query, found.at) | (code.json() if code else {}))
        _complain(found.visible)
    else:
        click.echo(code.text(query, found.at) if code else answer_text(query, found.at), nl=False)
        _complain(found.visible)
        if next_step := code.hint if code and code.found.module is None else _next_step(file, found):
            complain(next_step)
        item = next((each for each in objects if each.path == found.at.path), None)
        if item is not None and item.debug == DebugScheme.SPIRV:
            complain(f"symd grab {file} --simulate dg2 -o OUT builds it for a device; then ask about OUT")
        if item is not None and item.debug == DebugScheme.LINE_ONLY:
            is_nvidia = (item.target or "").startswith("sm_")
            complain(f"to have variables, compile with {_NVIDIA_VARIABLES if is_nvidia else '-g'}")
        elif found.at.reason is Reason.NO_DEBUG_INFO:
            complain(f"there is no debug info: {'; '.join(compile_advice(objects, found.at.path))}")
        if found.at.reason is Reason.UNKNOWN_KERNEL and found.at.candidates:
            asked = parse_query(query)
            if isinstance(asked, ByKernel):
                like = [each.function for each in found.at.candidates if each.function]
                complain(f"write {corrected_call(asked.kernel, like)}")
        elif found.at.reason is Reason.UNKNOWN_KERNEL:
            complain(
                f"QUERY is a place in the code, not a variable; symd variables {file} PLACE shows all variables at one,"
                f" and symd names {file} '*' the functions"
            )


def _next_step(shown: str, found: InScope) -> str:
    """What to type where the code, and not the debug data, is why there are no variables; "" elsewhere."""
    first = next(iter(found.at.candidates), None)
    if found.at.reason is Reason.CONTRADICTORY:
        return f"symd info {shown} shows where the debug data contradicts itself"
    if found.at.reason in (Reason.OUTSIDE_TEXT, Reason.GAP):
        return f"symd info {shown} shows where its code lies"
    if found.at.reason is Reason.AMBIGUOUS and first is not None and first.section and not first.path:
        return f"write symd variables {shown} {quote(f'({first.section})+{first.section_offset:#x}')} for the first"
    return ""


def _complain(visible: Visible) -> None:
    for note in visible.notes:
        complain(note)


def text_lines(found: InScope, query: Query | ByDevice) -> Iterator[str]:
    """A heading for each frame, its variables in columns below; those of no certain frame and the globals last. Places
    in the code are written as the query is, so that each is a query too."""
    shown, frames = found.visible.variables, found.at.frames
    if not shown:
        yield "no variables here; code with line tables only has none anywhere: compile with -g (nvcc: -G)"
        return
    lanes = f", SIMD{found.visible.simd_width}" if found.visible.simd_width else ""
    here = found.at.section_offset or 0
    places = _Places(query, here)
    for number, frame in enumerate(frames):
        name = (frame.function or frame.linkage_name or "(unnamed)") + (" (inlined)" if frame.inlined else "")
        yield f"#{number} {frame_text(name, None, *frame[2:5])}{lanes}"
        yield from _rows([each for each in shown if each.frame == number], places)
    nobodys = [each for each in shown if each.frame is None and each.kind != "global"]
    for (function, inlined), group in groupby(nobodys, lambda each: (each.function, each.inlined)):
        yield f"{function or '(unnamed)'}{' (inlined)' if inlined else ''}, its frame is not certain{lanes}"
        yield from _rows([*group], places)
    globals_ = [each for each in shown if each.kind == "global"]
    if globals_:
        yield "globals"
        yield from _rows(globals_, places)


def _rows(variables: Sequence[Variable], places: _Places) -> Iterator[str]:
    """One line for each variable; those of one name in one function are told apart by their blocks."""
    names = Counter(each.name for each in variables)
    widths = [max((len(text(one)) for one in variables), default=0) for text in (_name, _type)]
    for one in variables:
        where = one.location or _elsewhere(one, places)
        block = f"  [block {_ranges(one.block, places)}]" if one.block and names[one.name] > 1 else ""
        yield f"  {_name(one):<{widths[0]}}  {_type(one):<{widths[1]}}  {one.kind:<9}  {where}{block}{_doubt(one)}"


def _doubt(variable: Variable) -> str:
    return next((f"  [doubtful: {each.doubt.text}]" for each in variable.locations if each.doubt), "")


def _elsewhere(variable: Variable, places: _Places) -> str:
    if not variable.live or any(start <= places.here < end for start, end in variable.live):
        return "optimized out"
    return f"not here; live at {_ranges(variable.live, places)}"


def _ranges(ranges: Sequence[tuple[int, int]], places: _Places) -> str:
    """Ranges of code, those that touch as one."""
    joined: list[tuple[int, int]] = []
    for start, end in ranges:
        begin = joined.pop()[0] if joined and joined[-1][1] == start else start
        joined.append((begin, end))
    shown = [f"{places.text(start)}..{places.text(end)}" for start, end in joined[:_SHOWN_RANGES]]
    return ", ".join(shown) + (", ..." if len(joined) > _SHOWN_RANGES else "")


class _Places(NamedTuple):
    """Writes section offsets as ``query`` is written, which asks for the one that is ``here``."""

    query: Query | ByDevice
    here: int

    def text(self, offset: int) -> str:
        """An address, or an offset behind a function or a section."""
        away = offset - self.here
        match self.query:
            case ByAddress(address=address) | ByDevice(address=address):
                return f"{address + away:#x}"
            case ByKernel(kernel, start):
                return f"{kernel}{start + away:+#x}"
            case BySection():
                return str(replace(self.query, offset=SectionOffset(offset)))


def _name(variable: Variable) -> str:
    return variable.name or "(unnamed)"


def _type(variable: Variable) -> str:
    return variable.type


def _readable(found: InScope) -> InScope:
    """The frames, and the functions of their variables, by the names that were written."""
    at = Demangler().answers([found.at])[0]
    named = (
        each if each.frame is None else replace(each, function=at.frames[each.frame].function)
        for each in found.visible.variables
    )
    return InScope(at, replace(found.visible, variables=tuple(named)))
