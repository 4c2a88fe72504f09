"""``symd listing FILE``: source lines beside their instructions, by function and file, or for a range of addresses."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from shlex import quote

import click
import numpy as np

from symd.cli.answer_lines import place_note
from symd.cli.call_files import FilesInAnyOrder
from symd.cli.contexts import CodeAtDevice, code_at_device
from symd.cli.listing_text import NO_PLACE, Printer, SectionPlace, Shares, text_lines
from symd.cli.options import (
    debug_option,
    demangle_option,
    example,
    file_or_device_verb,
    object_option,
    rules_option,
    shown_anyway,
    source_root_option,
)
from symd.cli.output import NO, say_unused_rules, write_line
from symd.cli.profile import samples_on, shown_profile_options
from symd.config import Limits
from symd.engine.files.added_module import OpenModule
from symd.engine.files.listing_sources import allowed_folders, source_texts, unused_rules, with_python_names
from symd.engine.files.module import open_module
from symd.errors import KernelNotFound, NoDebugData, NotFound, SymdError
from symd.model.addresses import (
    ByAddress,
    ObjectAddress,
    Query,
    SectionOffset,
    SectionRange,
    is_number,
    is_place,
    number_of,
    parse_query,
)
from symd.model.answers import Answers, Reason
from symd.model.identities import ObjectPath
from symd.model.json.answers import instruction_lines
from symd.model.line_tables import MOST_AROUND, Around, CodePart, Listing, ListingPart
from symd.model.sources import PathRule, SourceText
from symd.model.texts import counted, plural
from symd.profiles.placed import PlacedSamples
from symd.profiles.samples import Value
from symd.query.demangler import Demangler
from symd.system.messages import complain

_AROUND = 5
"""Instructions in front of a place and behind it that are shown where nobody says how many."""

_JSON_HELP = """\b
With --json, one instruction per line, in code order:
  {"object": "", "kernel": "vadd", "function": "vadd",
   "section": ".text.vadd", "section_index": 1, "section_offset": 432,
   "address": 432, "size": 16, "text": "add (16|M0) ...",
   "bytes": "4000...", "flow": [], "targets": [], "reason": "EXACT",
   "frames": [...], "source": "    return x + y;"}

flow is branch, call or end; targets are offsets from the start of the section;
function is the one that the code belongs to; reason and frames (innermost first) are those of symd symbolize;
source is the line of the innermost frame, or null if it is not found. --profile adds value and
share (from 0 to 1, of the whole profile). A code object that cannot be disassembled is a single line {"object": "", "target": "dg2", "problem": "..."}.
"""


def _address(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    """A number as symd and objdump take it: hexadecimal behind 0x."""
    if text is None:
        return None
    if not is_number(text):
        raise click.BadParameter(f"{text!r} is not an address")
    return min(number_of(text), (1 << 64) - 1)


class _PlacedListing(FilesInAnyOrder):
    """A listing whose PLACE is refused where it can be no place of the module."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Called by click with the words behind the verb."""
        rest = super().parse_args(ctx, args)
        if ctx.resilient_parsing:
            return rest
        place, other = ctx.params.get("place"), ctx.params.get("function") or ctx.params.get("around")
        is_file = place and os.path.exists(place)  # noqa: PTH110 - which is False of a name that is too long
        if place and (other or is_file or re.search(r"\.\w+:[0-9]|\.html?$", place)):
            raise click.UsageError(f"Got unexpected extra argument ({place})", ctx)
        return rest


@click.command(
    "listing",
    cls=_PlacedListing,
    epilog=f"{_JSON_HELP}\n"
    + example(
        "symd listing program.bin\n"
        "symd listing program.bin vadd\n"
        "symd listing --by-address program.bin vadd\n"
        "symd listing --function vadd --source-root ~/src program.bin\n"
        "symd listing --around vadd+0x1b0 --before 2 --after 2 program.bin\n"
        "symd listing --profile stalls.csv program.bin\n"
        "symd listing --context 3f2a --around 0xffff8000ffbf0368\n"
        "symd listing --map /build/src=src --json program.bin | jq 'select(.frames[0].line == 8).text'"
    ),
)
@file_or_device_verb
@click.argument("place", required=False)
@object_option
@debug_option
@click.option(
    "--function",
    "--kernel",
    "function",
    metavar="NAME",
    help="Show only this kernel or other function, named as in symd symbolize.",
)
@click.option("--around", metavar="QUERY", help="Show only the code around this QUERY (see symd symbolize).")
@click.option(
    "--before", type=click.IntRange(0, MOST_AROUND), help="How many instructions to show before it.  [default: 5]"
)
@click.option(
    "--after", type=click.IntRange(0, MOST_AROUND), help="How many instructions to show after it.  [default: 5]"
)
@click.option(
    "--start-address",
    "start",
    callback=_address,
    metavar="ADDRESS",
    help="Show only the code from this object address on, in address order.",
)
@click.option(
    "--stop-address",
    "stop",
    callback=_address,
    metavar="ADDRESS",
    help="Show only instructions in front of this object address.",
)
@click.option("--by-address", is_flag=True, help="Show instructions in address order, not by source line.")
@click.option("--target", metavar="DEVICE", help="The device, if the code does not name one: dg2, gfx90a, sm_90, ...")
@shown_profile_options
@source_root_option
@rules_option
@demangle_option
@shown_anyway(
    "-c", "-d", "-S", "-l", "-g", "-i", "--disassemble", "--source", "--line-numbers", "--inlines", "--print-line-info"
)
def command(
    file: str | None,
    server: str | None,
    limits: Limits,
    as_json: bool,
    path: str | None,
    debug: str | None,
    place: str | None,
    function: str | None,
    around: str | None,
    before: int | None,
    after: int | None,
    start: int | None,
    stop: int | None,
    by_address: bool,
    target: str | None,
    profile: str | None,
    identity: str | None,
    roots: tuple[Path, ...],
    rules: tuple[PathRule, ...],
    demangle: bool,
    context: str | None,
    time: int | None,
) -> int:
    """Show each function of FILE: its source lines with their instructions, then the instructions without a line.
    PLACE is a function or kernel to show alone (as with --function NAME), or a place in the code to show with its
    surroundings (as with --around QUERY).

    Each instruction is shown once, below the line it comes from; if that line was inlined, a note names the function
    it was inlined into. Instructions are shown by source line, or in address order with --by-address or --around;
    => marks the place that --around names. With --context, --around takes a device address, ADDRESS or ADDRESS@TIME,
    and instructions are shown at device addresses (in JSON also device_address and module). Disassembly needs the
    vendor's tool, on this machine or the daemon's; symd doctor says what to install. With --profile, each line begins
    with its share of the profile; symd hot lists the hottest lines. Exit code 1: some code objects could not be
    disassembled, for example because time ran out; the last line on standard error says how many.
    """
    allowed = allowed_folders(roots, rules)
    if place is not None:
        function, around = (None, place) if is_place(place) else (place, None)
    with ExitStack() as stack:
        addresses, others = [each for each in (file, around) if each], (function, path, debug, start, stop)
        at_device = None if context is None else _code_at(context, server, time, addresses, others)
        code = None if at_device is None else stack.enter_context(at_device)
        if code:
            path, around = code.found.answer.path, str(code.in_module())
        file = code.module.name if code else str(file)
        within = _within(function, around, before, after)
        is_range = start is not None or stop is not None
        if is_range and within is not None:
            raise click.UsageError("--start-address and --stop-address cannot be used with --function or --around")
        part = ListingPart(None if path is None else ObjectPath(path), within, target)
        opened = code.module if code else stack.enter_context(open_module(file, server, limits, debug, path))
        module = replace(opened, symbolizer=with_python_names(opened.symbolizer, allowed, limits))
        samples = None if profile is None else samples_on(module, profile, identity, limits, path)
        total = 0 if samples is None else samples.weight(samples.totals())
        at = None if around is None or as_json else _section_place(module, around, path)
        if around is not None and not as_json:
            _say_where(module, parse_query(around), path)
        if is_range or (by_address and at is None):
            at = NO_PLACE
        found = -1
        problems: list[str] = []
        unused = list(rules)
        for found, whole in enumerate(_listings(module, _range_part(module, part, start, stop))):
            listing = whole if stop is None else _code_before(whole, stop)
            listing = code.on_device(listing) if code else listing
            problems += [listing.problem] if listing.problem else []
            sources = source_texts(
                module.symbolizer, module.digest, list(dict.fromkeys(_files(listing))), allowed, limits
            )
            unused = unused_rules(unused, sources)
            shares = None if samples is None else _shares(samples, total, module.digest, listing)
            if as_json:
                weights = None if shares is None else [(each, shares.of(at)) for at, each in enumerate(shares.weights)]
                sys.stdout.writelines(instruction_lines(listing, sources, weights))
            else:
                _print(listing, sources, shares, at, Demangler() if demangle else None, first=found == 0)
        if found < 0:
            raise NoDebugData("there is nothing to list", where=module.name)
    say_unused_rules(file, unused)
    return _completeness(file, found + 1, problems)


def _code_at(
    context: str, server: str | None, time: int | None, addresses: Sequence[str], others: Sequence[object]
) -> AbstractContextManager[CodeAtDevice]:
    """The code at the one device address of ``addresses``. Raises UsageError where there are several, or others that
    say which code is meant."""
    if len(addresses) != 1 or any(each is not None for each in others):
        raise click.UsageError(
            "--context goes with one device address, as --around ADDRESS, and without FILE or others"
        )
    return code_at_device(context, server, time, addresses[0])


def _within(function: str | None, around: str | None, before: int | None, after: int | None) -> CodePart | None:
    if around is None:
        if before is not None or after is not None:
            raise click.UsageError("--before and --after are for --around QUERY")
        return function
    if function is not None:
        raise click.UsageError("--function and --around cannot be used together")
    return Around(parse_query(around), _AROUND if before is None else before, _AROUND if after is None else after)


def _range_part(module: OpenModule, part: ListingPart, start: int | None, stop: int | None) -> ListingPart:
    """The part of a listing from ``start`` on, up to ``stop`` or to the end of the section; ``part`` itself
    without ``start``. Raises NotFound where no code is there, or several code objects have that address."""
    if start is None:
        return part
    path = part.path
    (answer,) = module.symbolizer.symbolize(module.digest, [ByAddress(ObjectAddress(start))], path)
    if answer.section_index is None or answer.section_offset is None:
        hint = "--object PATH says which code object is meant" if answer.reason is Reason.AMBIGUOUS else ""
        raise NotFound(f"there is no code at {start:#x}", where=module.name, hint=hint)
    end = 1 << 63 if stop is None else answer.section_offset + max(stop - start, 0)
    within = SectionRange(answer.section_index, SectionOffset(answer.section_offset), SectionOffset(end))
    return replace(part, path=answer.path, within=within)


def _code_before(listing: Listing, stop: int) -> Listing:
    """The instructions of a listing that begin in front of an object address."""
    answers = listing.answers
    begins = np.array([each.address or 0 for each in answers.text_sections], np.uint64)
    rows = np.flatnonzero(begins[answers.text_section.astype(np.int64) - 1] + answers.offset < np.uint64(stop))
    kept = rows.tolist()
    columns = (answers.location[rows], answers.text_section[rows], answers.offset[rows])
    return replace(
        listing,
        answers=Answers(*columns, answers.locations, answers.text_sections),
        size=listing.size[rows],
        text=[listing.text[row] for row in kept],
        code=[listing.code[row] for row in kept] if listing.code else (),
        flow=[listing.flow[row] for row in kept] if listing.flow else (),
        targets=[listing.targets[row] for row in kept] if listing.targets else (),
    )


def _section_place(module: OpenModule, around: str, path: str | None) -> SectionPlace | None:
    """Where the place is that code is listed around; None where several sections may be meant."""
    (answer,) = module.symbolizer.symbolize(module.digest, [parse_query(around)], path)
    if answer.section_index is None or answer.section_offset is None:
        return None
    return answer.section_index, answer.section_offset


def _say_where(module: OpenModule, query: Query, path: str | None) -> None:
    """Say of a place that counts from a kernel whether it lies behind the kernel's end."""
    (answer,) = module.symbolizer.symbolize(module.digest, [query], path)
    if note := place_note(module, query, answer, path):
        complain(note)


def _listings(module: OpenModule, part: ListingPart) -> Iterator[Listing]:
    """The module's listings; what its code did to a disassembler is told with the name that the user gave it."""
    try:
        yield from module.symbolizer.listing(module.digest, part)
    except SymdError as error:
        error.where = error.where.replace(f"modules/{module.digest}", module.name)
        if isinstance(error, KernelNotFound) and not error.hint.startswith("did you mean"):
            file, name = quote(module.name), part.within if isinstance(part.within, str) else "NAME"
            error.hint = (
                f"symd names {file} '*' lists them; symd locate {file} {quote(name)} finds one that is only inlined"
            )
        raise


def _completeness(file: str, count: int, problems: list[str]) -> int:
    """Say of how many of ``count`` code objects there are no instructions; the exit code."""
    if not problems:
        return 0
    left_out = f"{len(problems)} of {counted(count, 'code object')} {plural(len(problems), 'is', 'are')} not listed"
    complain(f"{file}: {left_out}: {problems[0]}")
    return NO


def _files(listing: Listing) -> Iterator[str]:
    locations = listing.answers.locations
    for number in dict.fromkeys(listing.answers.location.tolist()):
        file = locations.strings[locations.file[number]]
        if file:
            yield file


def _shares(samples: PlacedSamples, total: Value, digest: str, listing: Listing) -> Shares:
    weights: Sequence[Value] = () if listing.problem else samples.on_instructions(digest, listing)
    return Shares(weights, total)


def _print(
    listing: Listing,
    sources: dict[str, SourceText],
    shares: Shares | None,
    around: SectionPlace | None,
    demangler: Demangler | None,
    *,
    first: bool,
) -> None:
    if not first:
        write_line()
    printer = Printer(sys.stdout)
    names = demangler.names(_functions(listing)) if demangler else {}
    for style, line in text_lines(listing, sources, names, shares, around):
        printer.write(style, line)
    printer.flush()


def _functions(listing: Listing) -> list[str]:
    locations = listing.answers.locations
    numbers = {*locations.function.tolist(), *locations.kernel.tolist()}
    return sorted({locations.strings[number] for number in numbers} - {""})
