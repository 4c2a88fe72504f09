"""``symd hot PROFILE``: the lines, instructions, functions, kernels or files that a profile's values fall on, the
hottest first."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import click

from symd import profiles
from symd.cli.advice import Meant, corrected_call
from symd.cli.call_files import FilesInAnyOrder, call_with, naming_profile, typed_words, with_word
from symd.cli.options import (
    complete_files,
    demangle_option,
    example,
    json_option,
    shown_anyway,
)
from symd.cli.output import (
    NO,
    printable,
    progress_bar,
    say_notes,
    say_unused_rules,
    value_text,
    write_json,
    write_line,
)
from symd.cli.profile import (
    ProfileFiles,
    check_no_module,
    profile_module_options,
    profile_resolver,
    say_nothing_resolved,
)
from symd.cli.unresolved import (
    daemon_hints,
    profile_notes,
    resolver_meant,
    several_objects_notes,
    unknown_names,
    unresolved_notes,
)
from symd.config import Limits
from symd.engine.files.input import read_input
from symd.engine.files.listing_sources import unused_rules
from symd.errors import KernelNotFound
from symd.model.answers import Frame, Reason
from symd.model.sources import PathRule
from symd.model.texts import counted, plural
from symd.profiles.hot import BY, HotProfile, HotRow, hot, sample_kernels
from symd.profiles.placed import AddressPlaces, InstructionPlace
from symd.profiles.resolver import SIMD_WIDTH, Resolver
from symd.profiles.samples import SampledProfile, Value, shown_name
from symd.query.demangler import Demangler
from symd.query.function_names import SymbolsByWord
from symd.query.function_spellings import spellings
from symd.system.messages import alike

SHOWN = 20
"""Places that are printed where nobody says how many."""
_DECIMAL = re.compile(r"\+[0-9]+\]?$")
_ONE_DASH = re.compile(r"(-kernel(s?)(?:[-_]name)?)(=.*)?", re.DOTALL)
"""Options of other tools that are read as -k and a name."""
_NOWHERE = {
    Reason.UNKNOWN_KERNEL: "in an unknown kernel or module",
    Reason.OUTSIDE_TEXT: "outside the code of its kernel or module",
    Reason.AMBIGUOUS: "in what may be one of several kernels, modules or code objects",
    Reason.GAP: "in code of no function",
}
"""Where samples lie that are in an unknown module, or in no function of it."""
_SHOWN_REASONS = 3
"""Columns of a place, such as stall reasons, that are printed with it."""
_NAMED_KERNELS = 3
"""Kernels, and modules without a file, that are named where no one kernel has the name that is asked for."""
_PROFILE = "the profile"
"""Where an error is that is of the profile, which is named instead."""


class _OneKernel(NamedTuple):
    """The kernel whose samples alone are counted, and the weight of those that the profile has elsewhere."""

    name: str
    elsewhere: Value


def _kernel_name(context: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    """The name of a kernel. Raises Meant where an option or the path of a file follows, as it does where sums are asked
    for, and where -kernel is read as -k ernel; a program may be named as its kernel is."""
    words = typed_words(context)
    if f"-k{name}" in words and (found := _ONE_DASH.fullmatch(f"-k{name}")):
        is_sum = not found[3] and (found[2] or words[-1] == found[0])
        meant = with_word(words, found[1], "--by=kernel" if is_sum else "--kernel")
        raise Meant(f"No such option {found[1]!r}", context, meant)
    if name is not None and not name.strip():
        raise click.BadParameter("the name of a kernel is empty", context, parameter)
    is_path = name is not None and ("/" in name or "." in name) and os.path.isfile(name)  # noqa: PTH113 - which is False of a name that is too long
    if name is not None and (is_path or name.startswith("-")):
        option = next((each for each in parameter.opts if each in words), parameter.opts[0])
        by = "function" if option == "--function" else "kernel"
        raise Meant(f"{option} takes the name of a kernel", context, with_word(words, option, f"--by={by}"))
    return name


@click.command(
    "hot",
    cls=FilesInAnyOrder,
    epilog=example(
        "symd hot --module kernels.zebin stalls.csv\n"
        "symd hot -m kernels.zebin --by instruction stalls.csv\n"
        "symd hot -m kernels.zebin --by kernel --json stalls.csv\n"
        "symd hot -m kernels.zebin --kernel smooth stalls.csv\n"
        "symd hot --by stall stalls.csv"
    ),
)
@click.argument("source", metavar="PROFILE", shell_complete=complete_files)
@click.option("--by", type=click.Choice(BY), default="line", show_default=True, help="What to group values by.")
@click.option(
    "-n", "--top", type=click.IntRange(0), default=SHOWN, show_default=True, help="Show this many places; 0 shows all."
)
@click.option("--value", metavar="NAME", help="Count only this value (Active, samples, ...).")
@click.option(
    "-k",
    "--kernel",
    "--function",
    "kernel",
    metavar="NAME",
    callback=_kernel_name,
    help="Count only the samples in this kernel; shares are then parts of these.",
)
@profile_module_options
@demangle_option
@json_option
@shown_anyway("-top", "-text", "--text", "-lines", "--lines")
def command(
    source: str,
    modules: tuple[str, ...],
    by: str,
    top: int,
    value: str | None,
    kernel: str | None,
    name: str | None,
    folders: tuple[Path, ...],
    roots: tuple[Path, ...],
    rules: tuple[PathRule, ...],
    server: str | None,
    limits: Limits,
    demangle: bool,
    as_json: bool,
) -> int:
    """Show the hottest places in PROFILE, hottest first.

    PROFILE can be anything that symd profile reads, symbolized or not; "-" is standard input. A sample counts for
    the innermost frame where it was taken; the frames that it was inlined into follow. Samples outside all modules
    are shown on a line of their own, so the shares of --top 0 add up to 100%. If a profile counts stall reasons,
    each place's largest ones are shown with their shares. symd top is symd hot --by function. Exit code 1: PROFILE
    has samples, but none in a known module (without -m, --by kernel also sums by the names that PROFILE gives its
    kernels), or none in the kernel that --kernel names.
    """
    data = read_input(source, limits, expand=False)
    if name is None:
        check_no_module(data, source)
    files = ProfileFiles(folders, limits)
    with profile_resolver(server, limits, modules, files, roots, rules) as resolver, progress_bar() as progress:
        options = profiles.Options(limits, progress)
        with naming_profile(source):
            profile = profiles.samples(data, options, name)
            places = AddressPlaces(profile, resolver, options)
            is_matched = resolver.unmatched() is None
            if (meant := resolver_meant(resolver)) is not None:
                resolver = meant  # noqa: PLW2901 - the modules stay open
                places = AddressPlaces(profile, resolver, options)
            found, profile, one = _summed(profile, places, resolver, by, value, kernel, demangle=demangle)
            own = places if one is None else places.only({sample.stack[0] for sample in profile.samples})
            notes = [] if by == "stall" else [*unresolved_notes(profile, own, resolver, found)]
            if by != "stall" and one is None and _is_unclear(profile, places):
                notes += profile_notes(data, resolver, options, name)
            notes += several_objects_notes(resolver, resolver.differing)
            is_unresolved = bool(found.rows) and all(row.place.reason is not None for row in found.rows)
            nothing = any(row.place.reason is not None for row in found.rows) and not _is_any_known(profile, places)
            unknown = unknown_names(profile, own) if nothing or server is not None else []
            if server is not None:
                notes += daemon_hints(resolver, unknown)
    rows = _readable(found.rows[: top or None]) if demangle else found.rows[: top or None]
    if as_json:
        for row in rows:
            write_json(row_json(row, found))
    else:
        for line in text_lines(source, found, rows, one):
            write_line(line)
    if server is None and is_matched and (nothing or (is_unresolved and not modules)):
        say_nothing_resolved(modules, resolver, unknown)
    say_notes(notes)
    if files_of := _source_files(found):
        say_unused_rules(source, unused_rules(rules, files_of))
    has_kernels = by == "kernel" and not modules and server is None and any(row.place.kernel for row in found.rows)
    return NO if nothing and not has_kernels else 0


def _summed(
    profile: SampledProfile,
    places: AddressPlaces,
    resolver: Resolver,
    by: str,
    value: str | None,
    kernel: str | None,
    *,
    demangle: bool,
) -> tuple[HotProfile, SampledProfile, _OneKernel | None]:
    """The sum of a profile, or of what it has in one kernel, and the samples that are counted in it. Raises
    KernelNotFound where no kernel with samples has the name, or several have."""
    found = hot(profile, places, resolver.summary, by, value)
    if kernel is None:
        return found, profile, None
    kernels = sample_kernels(profile, places, resolver.summary)
    counts = Counter(each for each in kernels if each)
    meant = [kernel] if kernel in counts else SymbolsByWord(counts).meant_by(SIMD_WIDTH.sub("", kernel))
    if len(meant) != 1:
        has_unknown = any(each is None for each in kernels) and bool(resolver.unknown)
        raise _no_kernel(kernel, meant, counts, resolver.wanted() if has_unknown else [], demangle=demangle)
    alone = [sample for sample, each in zip(profile.samples, kernels, strict=True) if each == meant[0]]
    profile = replace(profile, samples=alone)
    in_it = hot(profile, places, resolver.summary, by, value)
    return in_it, profile, _OneKernel(_shown_names(meant, demangle=demangle)[0], found.total - in_it.total)


def _no_kernel(
    name: str, meant: Sequence[str], counts: Counter[str], unknown: Sequence[str], *, demangle: bool
) -> KernelNotFound:
    """Why no one kernel of those in ``counts`` has the name; ``unknown`` are modules that were not given, which may
    have it."""
    if meant:
        shown = _shown_names(meant[:_NAMED_KERNELS], demangle=demangle)
        said = f"{len(meant)} kernels with samples are called {name!r}"
        return KernelNotFound(said, where=_PROFILE, hint=_did_you_mean(name, shown))
    spelled = {text: each for each in sorted(counts) for text in spellings(each)}
    near = _shown_names([*dict.fromkeys(spelled[each] for each in alike(name, [*spelled]))], demangle=demangle)
    there = ", ".join(_shown_names([each for each, _ in counts.most_common(_NAMED_KERNELS)], demangle=demangle))
    hints = [_did_you_mean(name, near)] if near else []
    if unknown:
        of = " or ".join(unknown[:_NAMED_KERNELS])
        hints.append(f"no module was given for {of}; write {call_with(['-m', 'FILE'])}")
    elif there and not near:
        hints.append(f"it has samples in {there}")
    known = "are known to be " if unknown else ""
    return KernelNotFound(f"no samples {known}in a kernel {name!r}", where=_PROFILE, hint="; ".join(hints))


def _did_you_mean(name: str, meant: Sequence[str]) -> str:
    called = corrected_call(name, meant)
    return f"did you mean {' or '.join(meant)}?{f' Write {called}' if called else ''}"


def _shown_names(names: Sequence[str], *, demangle: bool) -> list[str]:
    """The names of kernels, with ``demangle`` as they are written in the source."""
    plain = Demangler().names(names) if demangle else {}
    return [plain.get(each, each) for each in names]


def _source_files(found: HotProfile) -> set[str]:
    """The files of all places and of what they were inlined into; none where places are kernels."""
    callers = {frame.file for row in found.rows for frame in row.callers}
    return {file for file in ({row.place.file for row in found.rows} | callers) if file}


def _readable(rows: Sequence[HotRow]) -> Sequence[HotRow]:
    """The rows with C++ names as they are written in the source; instructions stay as every verb takes them."""
    names = {name for row in rows for name in (row.place.function, row.place.kernel) if name}
    names |= {shown_name(frame) for row in rows for frame in row.callers}
    found = Demangler().names(sorted(names))
    return [
        row._replace(
            place=row.place._replace(
                function=found.get(row.place.function or "", row.place.function),
                kernel=found.get(row.place.kernel or "", row.place.kernel),
            ),
            callers=tuple(
                frame._replace(function=found.get(shown_name(frame), frame.function)) for frame in row.callers
            ),
        )
        for row in rows
    ]


def _is_any_known(profile: SampledProfile, places: AddressPlaces) -> bool:
    """Whether any address of the profile lies in a module that is known, or has a source file already."""
    return any(isinstance(place, InstructionPlace) or places.frames(at) for at, place in places.places.items()) or any(
        frame.file for each in profile.addresses for frame in each.frames
    )


def _is_unclear(profile: SampledProfile, places: AddressPlaces) -> bool:
    """Whether a report of the profile has something to explain: an address that lies nowhere, or what is nearly one."""
    return any(isinstance(place, Reason) for place in places.places.values()) or any(
        _DECIMAL.search(each.label or each.frames[0].function or "")
        for each in profile.addresses
        if each.address is None and (each.label or each.frames)
    )


def row_json(row: HotRow, found: HotProfile) -> dict[str, Any]:
    """A place as an object; ``share`` is its part of the profile, from 0 to 1, ``caller_share`` the part of the place
    that is ``inlined_into`` what is named, None where nothing is, and ``values`` are by the names of their columns."""
    place = row.place
    return {
        "share": row.weight / found.total if found.total else 0.0,
        "value": row.weight,
        "unit": found.columns.unit,
        "file": place.file,
        "line": place.line or None,
        "function": place.function,
        "kernel": place.kernel,
        "instruction": place.instruction,
        "stall": place.stall,
        "inlined_into": [
            {"function": frame.function or frame.linkage_name, "file": frame.file, "line": frame.line}
            for frame in row.callers
        ],
        "caller_share": row.caller_weight / row.weight if row.callers and row.weight else None,
        "other_callers": row.other_callers,
        "values": {kind.name: value for kind, value in zip(found.columns.columns, row.values, strict=True)},
        "reason": None if place.reason is None else place.reason.name,
    }


def text_lines(source: str, found: HotProfile, rows: Sequence[HotRow], one: _OneKernel | None = None) -> Iterator[str]:
    """What the profile holds, or ``one`` kernel of it, then a line for each place: share, value, place, and what it
    waited for."""
    places = sum(row.place.reason is None for row in found.rows)
    of = f" in {counted(places, 'stall reason' if found.by == 'stall' else found.by)}"
    if places < len(found.rows):
        lost = sum(row.weight for row in found.rows if row.place.reason is not None)
        part = f"{value_text(lost)} ({100 * lost / found.total if found.total else 0:.1f}%)"
        where = counted(len(found.rows) - places, "unresolved place")
        of = f"{of}; {part} in {where}" if places else ", none resolved"
    name = "standard input" if source == "-" else source
    held = f"{value_text(found.total)} {found.columns.unit}{of}"
    if one is not None:
        name, held = f"{name}, kernel {one.name}", f"{held}; {value_text(one.elsewhere)} elsewhere in the profile"
    yield printable(f"{name}: {held}")
    if not rows:
        return
    yield ""
    width = max(len(found.columns.unit), *(len(value_text(row.weight)) for row in rows))
    yield f"{'share':>7}  {found.columns.unit:>{width}}  {found.by} (or --by {'|'.join(_other_sums(found))})"
    shown = [_place_text(row, found.by) for row in rows]
    longest = min(max(map(len, shown)), 100)
    for row, text in zip(rows, shown, strict=True):
        share = 100 * row.weight / found.total if found.total else 0.0
        reasons = _reasons(row, found)
        place = f"{text:<{longest}}  {reasons}" if reasons else text
        yield printable(f"{share:>6.2f}%  {value_text(row.weight):>{width}}  {place}")
    left = found.rows[len(rows) :]
    if left:
        rest = sum(row.weight for row in left)
        share = 100 * rest / found.total if found.total else 0.0
        yield f"{share:>6.2f}%  {value_text(rest):>{width}}  in {len(left):,} more {plural(len(left), 'place')} (--top 0 shows all)"


def _other_sums(found: HotProfile) -> Iterator[str]:
    """What else the profile can be summed by."""
    has_stalls = found.columns.is_summable and len(found.columns.columns) > 1
    return (by for by in BY if by != found.by and (by != "stall" or has_stalls))


def _place_text(row: HotRow, by: str) -> str:
    place = row.place
    if place.reason is not None:
        named = place.kernel or place.instruction
        return f"{named or _NOWHERE.get(place.reason, 'in an unknown module')} ({place.reason.name})"
    if by == "stall":
        return str(place.stall)
    if by == "file":
        return place.file or "(no file)"
    if by == "kernel":
        return place.kernel or "(unnamed)"
    line = f"{place.file}:{place.line}" if place.file and place.line else f"{place.file or ''} (no line)".lstrip()
    words = [place.instruction] if place.instruction else []
    words += (
        [place.function or "(unnamed)", place.file or "(no file)"] if by == "function" else [line, place.function or ""]
    )
    text = " ".join([*words, *(f"< {_caller(frame)}" for frame in row.callers)])
    if not row.other_callers:
        return text
    share = 100 * row.caller_weight / row.weight if row.weight else 0.0
    how = "" if row.callers else " not inlined"
    return f"{text} ({share:.0f}%{how}), and {counted(row.other_callers, 'other caller')}"


def _caller(frame: Frame) -> str:
    """A frame that the place was inlined into, at its call."""
    return f"{shown_name(frame)}:{frame.line}" if frame.line else shown_name(frame)


def _reasons(row: HotRow, found: HotProfile) -> str:
    if found.by == "stall" or not found.columns.is_summable or len(found.columns.columns) < 2 or not row.weight:
        return ""
    parts = sorted(zip(row.values, found.columns.columns, strict=True), key=lambda part: -part[0])
    shown = (f"{kind.name} {100 * value / row.weight:.0f}%" for value, kind in parts[:_SHOWN_REASONS] if value)
    return ", ".join(shown)
