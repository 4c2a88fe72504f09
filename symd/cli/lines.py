"""Line tables: ``symd lines FILE`` prints them, in table order, and ``symd locate FILE PLACE`` says where a breakpoint
for a source line, a function, a kernel or an address can go."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import Any, Final

import click
import numpy as np

from symd.cli.advice import corrected_call
from symd.cli.contexts import places_loaded
from symd.cli.options import (
    debug_option,
    demangle_option,
    every_option,
    example,
    file_verb,
    needed_without_context,
    object_option,
    rules_option,
    target_option,
)
from symd.cli.output import NO, printable, say_unused_rules, write_json, write_line
from symd.config import Limits
from symd.engine.files.added_module import OpenModule
from symd.engine.files.listing_sources import unused_rules
from symd.engine.files.module import kernel_names, open_module
from symd.errors import BadQuery, NoDebugData
from symd.model.addresses import BySection, SectionOffset
from symd.model.breakpoints import (
    Breakpoint,
    BreakpointLocation,
    FunctionName,
    Located,
    LocationSpec,
    Refusal,
    SourceLine,
    parse_place,
)
from symd.model.code import DebugScheme
from symd.model.compile_advice import compile_advice
from symd.model.debug_info import RowFlag
from symd.model.json.answers import located_json, row_chunks, row_lines
from symd.model.line_tables import LineLevel, LineTable
from symd.model.names import Match, NameKind, NameQuery
from symd.model.sources import PathRule
from symd.query.demangler import Demangler
from symd.system.messages import alike, complain


@click.command(
    "lines",
    epilog=example(
        "symd lines program.bin\nsymd lines --json program.bin | jq 'select(.is_stmt)'\nsymd lines --kernel vadd program.bin\n"
        "symd lines --level ptx saxpy.cubin"
    ),
)
@file_verb
@object_option
@debug_option
@click.option(
    "--kernel",
    metavar="NAME",
    help="Show only the rows of this kernel; NAME can be anything that symd symbolize accepts.",
)
@click.option(
    "--level",
    type=click.Choice([level.value for level in LineLevel]),
    default=LineLevel.SOURCE.value,
    show_default=True,
    help="Show lines of the source, or of the PTX that an NVIDIA code object was compiled from, with their text.",
)
def command(
    file: str,
    server: str | None,
    limits: Limits,
    as_json: bool,
    path: str | None,
    debug: str | None,
    kernel: str | None,
    level: str,
) -> None:
    """Print the decoded line table of FILE, one row per line.

    FILE can be "-" for standard input, or file://PATH#offset=N&size=N for a part of a file. Exit code 1: FILE has no
    line table, or no kernel has that name.
    """
    chosen = LineLevel(level)
    with open_module(file, server, limits, debug, path) as module:
        tables = module.symbolizer.lines(module.digest, path, chosen)
        if kernel is not None:
            names = kernel_names(module.symbolizer, module.digest, kernel, path)
            tables = (table.of_kernels(names) for table in tables)
        tables = (table for table in tables if len(table))
        number = -1
        for number, table in enumerate(tables):
            if number and not as_json:
                write_line()
            for piece in row_lines(table) if as_json else text_rows(table, debug_of(module, table)):
                sys.stdout.write(piece)
        if number < 0:
            raise _nothing(module, path, chosen, kernel)


def _nothing(module: OpenModule, path: str | None, level: LineLevel, kernel: str | None) -> NoDebugData:
    if kernel is not None and level is LineLevel.SOURCE:
        hint = "symd lines without --kernel shows what there is"
        return NoDebugData(f"no row of a line table lies in kernel {kernel}", where=module.name, hint=hint)
    if level is LineLevel.PTX:
        return NoDebugData(
            "no PTX lines",
            where=module.name,
            hint="only code objects of NVIDIA's compilers have them, built with -lineinfo or -G",
        )
    summary = module.summary()
    if not summary.objects:
        return NoDebugData("there is no code object in it", where=module.name, hint="; ".join(summary.notes))
    objects = [item for item in summary.objects if path in (None, item.path)]
    kinds = ", ".join(sorted({item.debug for item in objects}) or ["none"])
    if objects and all(item.debug != "none" and not summary.unread(item.path) for item in objects):
        return NoDebugData(
            f"no row of a line table is about its code (debug data: {kinds})",
            where=module.name,
            hint="symd info shows what code there is",
        )
    return NoDebugData(
        f"no line table (debug data: {kinds})",
        where=module.name,
        hint=f"{'; '.join(compile_advice(summary.objects, path))}; symd info shows why",
    )


def debug_of(module: OpenModule, table: LineTable) -> str:
    """Which debug data a table is from."""
    return next((item.debug for item in module.summary().objects if item.path == table.path), "")


def text_rows(table: LineTable, debug: str = "") -> Iterator[str]:
    """The rows as a table, with a heading wherever another section or kernel begins; ``debug`` names the debug data."""
    strings = [printable(text.replace("\t", " ")) for text in table.strings]
    last: tuple[int, int] | None = None
    for rows in row_chunks(table):
        piece = []
        for section, offset, kernel, _, file, line, column, flags, text in rows:
            if (section, kernel) != last:
                piece.append("\n" if last else "")
                last = section, kernel
                piece.append(_heading(table, section, strings[kernel], debug))
            address = table.text_sections[section].address + offset
            position = f"{line}:{column}" if column else f"{line}"
            words = f"{address:#012x}  {position:<10}  {_flag_words(flags):<20}  {strings[file]}  {strings[text]}"
            piece.append(f"{words.rstrip()}\n")
        yield "".join(piece)


def _heading(table: LineTable, number: int, kernel: str, debug: str) -> str:
    section = table.text_sections[number].section
    parts = [table.path, table.target or "", debug, section or "", f"kernel {kernel}" if kernel else ""]
    title = printable("  ".join(part for part in parts if part)) or "module"
    text = "  text" if table.text is not None else ""
    return f"{title}\n{'address':<12}  {'line:col':<10}  {'flags':<20}  file{text}\n"


def _flag_words(flags: int) -> str:
    if flags & RowFlag.END_SEQUENCE:
        return "end_sequence"
    return " ".join(word for flag, word in _SHOWN if flags & flag)


_SHOWN = ((RowFlag.IS_STMT, "is_stmt"), (RowFlag.PROLOGUE_END, "prologue_end"))


_SOURCE: Final = re.compile(r"[^:]*\.[A-Za-z]\w*", re.ASCII)
_NUMBER_FIRST: Final = re.compile(r"([0-9]+):(.*[^0-9:].*)", re.ASCII)
_HEADER: Final = re.compile(r".*\.(h|hh|hpp|hxx|cuh|inc|inl)", re.DOTALL)
_COMPARED: Final = 10_000
"""The most names that one is compared with."""
_SHOWN_FILES: Final = 3
"""Sources that are named where one of them may be meant."""
_SHOWN_ROWS: Final = 4
"""Addresses that are shown of a line that is refused."""
_OF_FILE: Final = (Refusal.NO_CODE_AT_LINE, Refusal.PAST_END, Refusal.CONTRADICTORY)
"""Refusals whose candidate is the file that was found."""


@click.command(
    "locate",
    epilog=example(
        "symd locate program.bin vadd.cl:8\nsymd locate program.bin vadd.cl:8:5 vadd kernel:vadd vadd+0x40\n"
        "symd locate --all --map /build=/home/me program.bin src/vadd.cl:8"
    ),
)
@file_verb
@object_option
@debug_option
@rules_option
@demangle_option
@every_option
@target_option
@click.option(
    "--context",
    is_eager=True,  # what else is given is looked at with regard to it
    metavar="CONTEXT",
    help="Ask what is loaded in this context of a daemon (see symd daemon contexts); omit FILE.",
)
@click.argument("places", nargs=-1, metavar="PLACE...", callback=needed_without_context)
def locate_command(
    file: str,
    server: str | None,
    limits: Limits,
    as_json: bool,
    path: str | None,
    debug: str | None,
    rules: tuple[PathRule, ...],
    demangle: bool,
    every_address: bool,
    targets: tuple[str, ...],
    context: str | None,
    places: tuple[str, ...],
) -> int:
    """Turn places into addresses for breakpoints. PLACE is SOURCE:LINE or SOURCE:LINE:COLUMN, the name of a function,
    kernel:NAME, or an address as symd symbolize takes it (vadd+0x40, 0x1654, (.text)+0x40).

    SOURCE is a path or its last components. A line yields one address per function or inlined copy that contains it.
    If it has no code, the next line with code is used; for a column, the next column of the line that has code, or
    the whole line if there is none. A function gets the address where its code begins, after the prologue, and the
    start of each inlined copy. A copy in several address ranges gets the start of each, because the debug data does not
    say which of them is entered first. Exit code 1: a place has no address; the reason is printed. With --context,
    the modules that are loaded there are asked, and places have their device addresses.
    """
    if context is not None:
        if path is not None or debug is not None:
            raise click.UsageError("--object and --debug cannot be used with --context")
        asked = [Breakpoint(each, parse_place(each), every_address, None, rules, targets) for each in (file, *places)]
        return _locate_loaded(context, server, asked, Demangler() if demangle else None, as_json=as_json)
    places = _joined(places)
    wanted = [parse_place(text) for text in places]
    with open_module(file, server, limits, debug, path) as module:
        wanted = [_with_the_source(each, text, module, path) for each, text in zip(wanted, places, strict=True)]
        answers = [
            module.symbolizer.locate(
                module.digest, each, path, every_address=every_address, rules=rules, targets=targets
            )
            for each in wanted
        ]
        nowhere = {each.refusal for each in answers if not each.candidates and not as_json}
        missing = Refusal.NO_SUCH_FILE in nowhere
        hint = _about_files(module, file) if missing else ""
        if Refusal.NO_SUCH_FUNCTION in nowhere:
            hint = hint or _about_functions(module, path, answers) or f"symd names {quote(file)} '*' shows all names"
        unused = unused_rules(rules, _source_files(module, path)) if missing else []
        written = [[] if as_json else [*_written_for(each, module, path)] for each in answers]
    names = readable(answers, Demangler() if demangle else None)
    for text, answer, rows in zip(places, answers, written, strict=True):
        write_answer(text, answer, names, as_json=as_json)
        for row in rows:
            write_line(f"  {row}")
    if hint or (hint := "" if as_json else _whole_call(answers)):
        complain(hint)
    say_unused_rules(file, unused)
    return NO if any(answer.refusal for answer in answers) else 0


def _locate_loaded(
    context: str, server: str | None, asked: Sequence[Breakpoint], demangler: Demangler | None, *, as_json: bool
) -> int:
    """Write where places are in what is loaded in a context; the exit code."""
    found = places_loaded(context, server, asked)
    for text, digest, answer in found:
        names = readable([answer], demangler)
        write_answer(text, answer, names, as_json=as_json, first={"module": f"modules/{digest}"})
    with_places = {text for text, _, answer in found if answer.locations}
    return 0 if with_places.issuperset(each.id for each in asked) else NO


def _joined(words: Sequence[str]) -> tuple[str, ...]:
    """The places that words name: a source and a number, in either order, are one."""
    turned = [_NUMBER_FIRST.sub(r"\2:\1", word) for word in words]
    if len(words) == len(("SOURCE", "LINE")) and (source := next(filter(_SOURCE.fullmatch, words), "")):
        number = next((word for word in words if word.isdecimal()), "")
        return (f"{source}:{number}",) if number else tuple(turned)
    return tuple(turned)


def _with_the_source(wanted: LocationSpec, text: str, module: OpenModule, path: str | None) -> LocationSpec:
    """The place, a decimal number alone being a line of the module's source, its headers aside. Raises BadQuery, which
    says what to write, where there are several sources."""
    every = sorted(set(_source_files(module, path))) if text.isdecimal() else []
    files = [each for each in every if not _HEADER.fullmatch(each)] or every
    if len(files) > 1:
        lines = [quote(f"{Path(each).name}:{text}") for each in files[:_SHOWN_FILES]]
        calls = " or ".join(f"symd locate {quote(module.name)} {line}" for line in lines)
        raise BadQuery(f"{text} may be a line of {len(files)} source files", hint=f"write {calls}")
    return SourceLine(files[0], int(text)) if files else wanted


def _written_for(answer: Located, module: OpenModule, path: str | None) -> Iterator[str]:
    """The code that the line table has for a line that is refused, and in what doubt each address is; and the call that
    shows what is written there."""
    line = answer.requested
    if not isinstance(line, SourceLine) or answer.refusal not in _OF_FILE or not answer.candidates:
        return
    shown = 0
    for table in module.symbolizer.lines(module.digest, path):
        named = [number for number, name in enumerate(table.strings) if name == answer.candidates[0]]
        is_row = np.isin(table.file, named) & (table.line == line.line) & (table.flags & RowFlag.END_SEQUENCE == 0)
        for row in np.flatnonzero(is_row)[: _SHOWN_ROWS - shown].tolist():
            text, offset = table.text_sections[table.text_section[row]], int(table.offset[row])
            place = BySection(text.section_index, SectionOffset(offset))
            found = module.symbolizer.symbolize_one(module.digest, place, table.path)
            begins = "" if table.flags[row] & RowFlag.IS_STMT else ", where no statement begins"
            yield f"uncertain address: {text.address + offset:#x} ({text.section})+{offset:#x}{begins} [{found.reason.name}]"
            shown += 1
    if shown:
        yield f"symd symbolize --as-written {quote(module.name)} ADDRESS shows what the debug data says; symd info {quote(module.name)} shows why it is doubted"


def _about_files(module: OpenModule, file: str) -> str:
    """What to do where a module has no source file of a name."""
    objects = module.summary().objects
    if not objects:
        return f"there is no code object in {file}" + "".join(f"; {note}" for note in module.summary().notes)
    if all(each.debug == DebugScheme.NONE for each in objects):
        return f"{file} has no debug data, and so no source files: {'; '.join(compile_advice(objects))}"
    return f"symd names --kind file {quote(file)} '*' shows the source files"


def _about_functions(module: OpenModule, path: str | None, answers: Sequence[Located]) -> str:
    """The functions that may be meant by the first name that no function has, those that are only inlined too."""
    named = (each.requested for each in answers if each.refusal is Refusal.NO_SUCH_FUNCTION and not each.candidates)
    wanted = next((each.name for each in named if isinstance(each, FunctionName)), "")
    if not wanted:
        return ""
    functions = NameQuery("*", Match.GLOB, frozenset({NameKind.FUNCTION}))
    names = {each.name for each in module.symbolizer.names(module.digest, functions, path) if each.name}
    like = alike(wanted, sorted(names)[:_COMPARED])
    return f"did you mean {' or '.join(like)}? Write {corrected_call(wanted, like)}" if like else ""


def _whole_call(answers: Sequence[Located]) -> str:
    """The call with the function that the first misspelled name may mean, or with the last line of a file that has
    code."""
    for each in answers:
        if each.refusal is Refusal.NO_SUCH_FUNCTION and each.candidates and isinstance(each.requested, FunctionName):
            return f"write {corrected_call(each.requested.name, each.candidates)}"
        if each.refusal is Refusal.PAST_END and each.last_line and isinstance(each.requested, SourceLine):
            place = f"{each.requested.file}:{each.requested.line}"
            return f"write {corrected_call(place, [f'{each.requested.file}:{each.last_line}'])}"
    return ""


def _source_files(module: OpenModule, path: str | None) -> Iterator[str]:
    wanted = NameQuery("*", Match.GLOB, frozenset({NameKind.FILE}))
    return (each.name for each in module.symbolizer.names(module.digest, wanted, path))


def readable(answers: Sequence[Located], demangler: Demangler | None) -> dict[str, str]:
    """What to show for the functions and kernels of answers, where that is not their name."""
    if demangler is None:
        return {}
    locations = [location for answer in answers for location in answer.locations]
    return demangler.names([name for each in locations for name in (each.function, each.kernel) if name])


def write_answer(
    requested: str,
    answer: Located,
    names: dict[str, str],
    *,
    as_json: bool,
    first: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """The answer to one place: an address a line, or the refusal. In JSON ``first`` is before it; in text its
    ``module`` does, where there is one."""
    if as_json:
        for fields in located_json(requested, answer, names):
            write_json({**first, **fields})
        return
    for text in answer_text(requested, answer, names):
        write_line(f"{first['module']}: {text}" if first else text)


def answer_text(requested: str, answer: Located, names: dict[str, str]) -> Iterator[str]:
    if answer.refusal is not None:
        yield f"{requested}: {_refused(answer)} [{answer.refusal.name}]"
        is_misspelt = answer.refusal in (Refusal.NO_SUCH_FILE, Refusal.NO_SUCH_FUNCTION)
        for candidate in _alternatives(answer):
            yield f"  did you mean {candidate}?" if is_misspelt else f"  could be {candidate}"
    for location in answer.locations:
        slid = f" (slid: {_missed(answer, location)})" if location.slid else ""
        yield f"{requested}: {_address(location, names)}: {_frame(location, names, slid)}"


def _missed(answer: Located, location: BreakpointLocation) -> str:
    """What of the place that was asked for has no code."""
    wanted = answer.requested
    same_line = isinstance(wanted, SourceLine) and wanted.column and location.line == wanted.line
    return "no code at this column" if same_line else "no code on the line itself"


def _refused(answer: Located) -> str:
    found = answer.candidates[0] if answer.candidates else ""
    last = f"; the last line with one is {answer.last_line}" if answer.last_line else ""
    return {
        Refusal.NO_SUCH_FILE: "no such source file",
        Refusal.AMBIGUOUS_FILE: "several source files are meant",
        Refusal.NO_CODE_AT_LINE: f"no statement on this line of {found}",
        Refusal.CONTRADICTORY: "the debug data contradicts itself at every statement on this line",
        Refusal.PAST_END: f"no statement on or after this line of {found}{last}"
        if found
        else "past the end of the function",
        Refusal.NO_SUCH_FUNCTION: "no function of this name has code here",
        Refusal.NO_SUCH_SECTION: "no such text section",
        Refusal.OUTSIDE_TEXT: "no text section holds this",
        Refusal.OTHER_TARGET: "no code object is for this target",
    }[answer.refusal or Refusal.NO_SUCH_FILE]


def _alternatives(answer: Located) -> Sequence[str]:
    return () if answer.refusal in _OF_FILE else answer.candidates


def _address(location: BreakpointLocation, names: Mapping[str, str]) -> str:
    kernel = f" in {names.get(location.kernel, location.kernel)}" if location.kernel else ""
    of = f" of {location.path}" if location.path and location.path != location.kernel else ""
    device = "".join(f" on the device at {address:#x}" for address in location.device_addresses)
    return f"{location.address:#x} ({location.section or f'#{location.section_index}'})+{location.section_offset:#x}{kernel}{of}{device}"


def _frame(location: BreakpointLocation, names: dict[str, str], slid: str) -> str:
    function = names.get(location.function or "", location.function) or "(unnamed)"
    line, column = location.line or "?", f":{location.column}" if location.column else ""
    position = f"{location.file or '?'}:{line}{column}"
    marks = " (inlined)" * location.inlined + slid
    marks += " (possible entry: the copy has several address ranges)" * location.possible_entry
    return f"{function} at {position}{marks}"
