"""``symd profile IN OUT``: symbolize a profile in place; what was done and what was not, and why, goes to stderr. For
every verb that takes a profile: the modules that the user names for it, and errors under the name that the user gave
it, since readers know bytes alone and say "the profile".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from os.path import realpath
from pathlib import Path
from shlex import quote
from typing import Any

import click

from symd import profiles
from symd.cli.advice import Meant
from symd.cli.call_files import (
    NAMED_IN_A_CALL,
    PAGE,
    FilesInAnyOrder,
    call_with,
    file_kind,
    naming_profile,
    profile_kind,
    typed_words,
    with_word,
)
from symd.cli.options import (
    Verb,
    complete_files,
    example,
    json_option,
    limit_option,
    module_server_option,
    rules_option,
    source_root_option,
)
from symd.cli.other_tools import FLAME_GRAPHS
from symd.cli.output import NO, check_output_is_not_input, progress_bar, say_notes, say_unused_rules, write_json
from symd.cli.unresolved import daemon_hints, resolver_meant, several_objects_notes, unknown_names
from symd.config import Limits
from symd.engine.files.added_module import OpenModule
from symd.engine.files.input import read_input
from symd.engine.files.listing_sources import allowed_folders, unused_rules, with_python_names
from symd.engine.files.module import open_symbolizer
from symd.errors import BadQuery, InvalidInput, SymdError
from symd.formats.containers import compressed_file, identify
from symd.formats.containers.uri import parse_uri
from symd.model.sources import PathRule
from symd.profiles import EXPORTS, Converted, NamedModule, Report, Resolver, profile_format
from symd.profiles.placed import AddressPlaces, PlacedSamples, placed
from symd.profiles.sample_tables.sample_files import named_file, named_modules
from symd.system.atomic_output import write_file_or_stdout
from symd.system.messages import complain


def profile_module_options(verb: Verb) -> Verb:
    """The options that say which modules a profile is about, and where they, its format, and texts of sources are:
    ``modules``, ``name``, ``folders``, ``roots``, ``rules``, ``server`` and ``limits``."""
    options = (
        click.option(
            "-m",
            "--module",
            "modules",
            multiple=True,
            metavar="[ID=]FILE|FOLDER",
            shell_complete=complete_files,
            help="A module that the profile refers to, or a folder of such modules; ID is the profile's name for it (build ID, code object ID, CRC, file name).",
        ),
        click.option("--format", "name", metavar="NAME", help="The profile's format, if its contents do not show it."),
        click.option(
            "--allow",
            "folders",
            multiple=True,
            metavar="DIR",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            help="Read code object files that the profile names, if they are below DIR.",
        ),
        source_root_option,
        rules_option,
        module_server_option,
        limit_option,
    )
    for option in reversed(options):
        verb = option(verb)
    return verb


def shown_profile_options(verb: Verb) -> Verb:
    """The options that name a profile to show on a module's code: ``profile`` and ``identity``."""
    options = (
        click.option(
            "--profile",
            metavar="PROFILE",
            shell_complete=complete_files,
            help="A profile to show on lines and instructions, in any format that symd profile reads.",
        ),
        click.option(
            "--id", "identity", metavar="ID", help="What the profile calls FILE (build ID, code object ID, CRC)."
        ),
    )
    for option in reversed(options):
        verb = option(verb)
    return verb


def samples_on(
    module: OpenModule, profile: str, identity: str | None, limits: Limits, path: str | None = None
) -> PlacedSamples:
    """The samples of a profile on the instructions of a module, which the profile calls ``identity``, or by what is in
    it. ``path`` says which of its code objects ran. What lies elsewhere is said on standard error."""
    named = [NamedModule(module.digest, module.name, name) for name in ((identity, None) if identity else (None,))]
    options = profiles.Options(limits)
    data = read_input(profile, limits)
    with naming_profile(profile):
        ran = {} if path is None else {module.digest: path}
        read, resolver = profiles.samples(data, options), profiles.Resolver(module.symbolizer, named, ran=ran)
        found = placed(read, resolver, options)
        is_matched = resolver.unmatched() is None
        if (meant := resolver_meant(resolver, "--id")) is not None:
            resolver, found = meant, placed(read, meant, options)
    for each in found.other_builds:
        complain(f"{each} (--id {each.wanted} takes it all the same)")
    if found.values or not is_matched:
        _say_what_lies_elsewhere(profile, module, found)
    else:
        _say_that_nothing_is_shown(profile, module.name, found, is_there=bool(resolver.several))
    say_notes([*several_objects_notes(resolver, resolver.several)])
    return found


def _say_what_lies_elsewhere(profile: str, module: OpenModule, found: PlacedSamples) -> None:
    """Say how many samples lie in no kernel of FILE, and why."""
    total = found.weight(found.totals())
    inside = found.in_kernels(module.digest, module.summary())
    reasons = [(reason.name, found.weight(row)) for reason, row in found.left.items()]
    own = sum(found.weight(row) for place, row in found.values.items() if place.digest == module.digest)
    here = sum(map(found.weight, found.values.values()))
    parts = [*reasons, ("in other modules", here - own), ("in code outside of its kernels", own - inside)]
    shown = ", ".join(f"{value:,} {name}" for name, value in parts if value)
    if shown:
        share = 100 * (total - inside) / total if total else 0
        complain(
            f"{total - inside:,} of {total:,} {found.unit} ({share:.1f} %) of {profile} have no place in a kernel of {module.name}: {shown}"
        )


def _say_that_nothing_is_shown(profile: str, file: str, found: PlacedSamples, *, is_there: bool) -> None:
    """Say that no sample has a place in FILE, and why. ``is_there``: some lie in one of several code objects of it."""
    reasons = ", ".join(reason.name for reason in found.left)
    there = f"has one place in {file}: {reasons}"
    nowhere = f"lies in {file}: {reasons} (--id says what the profile calls it)"
    why = (there if is_there else nowhere) if reasons else "is read"
    complain(f"none of the samples of {profile} {why}")


@contextmanager
def profile_resolver(
    server: str | None,
    limits: Limits,
    modules: Sequence[str],
    files: ProfileFiles,
    roots: Sequence[Path],
    rules: Sequence[PathRule],
) -> Iterator[profiles.Resolver]:
    """What looks a profile's addresses up in the ``modules`` that the user names, in those of a daemon, and in
    ``files`` that the profile names."""
    with open_symbolizer(server, limits) as symbolizer:
        named = named_modules(modules, symbolizer, server, limits)
        if server is not None and not named:
            symbolizer.missing(["0" * 64])  # a daemon that does not answer is no daemon without modules
        sources = with_python_names(symbolizer, allowed_folders(roots, rules), limits)
        yield profiles.Resolver(sources, named, read_uri=files.read)


def say_nothing_resolved(modules: Sequence[str], resolver: Resolver, names: Sequence[str] = ()) -> None:
    """Say how the modules of a profile are named in which nothing could be resolved with these ``-m``; ``names`` are
    what the profile calls its own."""
    files = [each for each in modules if Path(each).is_file()]  # ID=FILE has no file of that name
    wanted = resolver.wanted()
    if not modules and 1 < len(wanted) <= NAMED_IN_A_CALL:
        named = [part for each in wanted for part in ("-m", f"{each}=FILE")]
        complain(
            f"no module was given; write {call_with(named)}, where each FILE is the module that ran under that name"
        )
    elif not modules and len(resolver.unknown) > 1:
        complain(f"no module was given; write {call_with(['-m', 'FOLDER'])}, where FOLDER holds the modules that ran")
    elif not modules:
        complain(f"no module was given; write {call_with(['-m', 'FILE'])}, where FILE is the module that ran")
    elif len(files) == 1 and not resolver.differing:
        name = quote(names[0]) if len(names) == 1 else "NAME"
        complain(f"if {files[0]} is what the profile calls {name}, write -m {name}={quote(files[0])}")


def check_no_module(data: bytes, source: str, target: str | None = None) -> None:
    """Raises InvalidInput where what should be a profile is a module; ``target`` is the argument behind it, which
    may be the profile."""
    if compressed_file.claims(data):  # expanding it tells what is inside
        return
    if profiles.identify(data) is None and (found := identify(data)) is not None:
        if target is not None and Path(target).is_file():
            hint = f"modules go after -m: symd profile -m {quote(source)} {quote(target)} OUT"
            raise InvalidInput(f"it is {found.NAME}, a module, not a profile", where=source, hint=hint)
        hint = f"symd profile -m {quote(source)} IN OUT, or symd hot -m {quote(source)} IN; IN is what a profiler wrote"
        raise InvalidInput(
            f"no reader knows this profile format: it is {found.NAME}, a module", where=source, hint=hint
        )


class ProfileFiles:
    """Code objects that a profile names by URI; read only below the folders that the user allowed."""

    def __init__(self, folders: Sequence[Path], limits: Limits) -> None:
        self._folders = [folder.resolve() for folder in folders]
        self._limits = limits
        self.paths: list[str] = []
        """The paths that were read."""

    def read(self, uri: str) -> bytes:
        """The bytes of a code object. Raises BadQuery, Unsupported (memory://) and InvalidInput."""
        named = parse_uri(uri)
        try:
            path = Path(named.path).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise BadQuery("the path cannot be followed", where=uri) from error
        if not any(path.is_relative_to(folder) for folder in self._folders):
            raise InvalidInput(
                "the profile names this file",
                where=uri,
                hint=f"--allow {path.parent} reads it, or give --module ID={path}",
            )
        if not path.is_file():
            raise InvalidInput("there is no such file, or it is not a regular file", where=uri)
        self.paths.append(str(path))
        return named.cut(read_input(str(path), self._limits))


class _ProfileToOut(FilesInAnyOrder):
    """A verb that writes the profile to OUT, which the call must name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Called by click with the words behind the verb."""
        rest = super().parse_args(ctx, args)
        given = ctx.params
        if given.get("to") and not (given.get("target") or given.get("output")):
            given["output"] = _out_of(given["source"], given["to"])
        if not ctx.resilient_parsing and (wrong := _wrong_call(ctx)) is not None:
            raise wrong
        return rest


def _out_of(source: str, to: str, *, is_shown: bool = True) -> str | None:
    """Where a profile goes that is converted without an OUT: text to standard output, where it is to be shown, else
    into a new file of the working directory; None where there is a file of that name."""
    if to == "folded" and is_shown:
        return "-"
    name = Path("profile" if source == "-" else source).name.partition(".")[0]
    out = Path(name + _ending(to))
    return None if out.is_symlink() or out.exists() else str(out)


_PICTURES = (".svg", ".png", *PAGE)
"""What the names of pictures end with, and of the pages that some tools write them as."""


def _wrong_call(context: click.Context) -> click.UsageError | None:
    """The error of a call that names no OUT, or IN's format where OUT's is meant."""
    given, words = context.params, list(typed_words(context))
    source, name = given["source"], given.get("name")
    has_out = given.get("target") is not None or given.get("output") is not None
    target = str(given.get("output") or given.get("target") or "OUT")
    if target.endswith(PAGE) and not given.get("to"):
        module = next((named_file(each)[1] for each in given.get("modules") or ()), "FILE")
        page = ["view", module, "--profile", source, "-o", target]
        return Meant(f"{target} is named as a page, which symd view writes", context, page)
    if target.endswith(_PICTURES):
        to = given.get("to") or "speedscope"
        name = target.rpartition(".")[0] + _ending(to)
        meant = with_word(words, target, name) or ["profile", source, "--to", to, "-o", name]
        kind = "page" if target.endswith(PAGE) else "picture"
        return Meant(f"{target} is named as a {kind}; {FLAME_GRAPHS}", context, meant)
    out = [] if has_out else ["-"] if given.get("to") == "folded" else ["-o", target]
    if name in EXPORTS and not given.get("to") and profile_kind(source) != name:
        meant = [each.replace("--format", "--to", 1) if each.startswith("--format") else each for each in words]
        out = [] if has_out else ["-o", _out_of(source, name, is_shown=False) or target]
        return Meant("--format is the format of IN, and --to that of OUT", context, [*meant, *out])
    if has_out or file_kind(source) == "module":
        return None
    return Meant("Missing argument 'OUT' (or -o OUT)", context, [*words, *out], "write, for example:")


@click.command(
    "profile",
    cls=_ProfileToOut,
    epilog=example(
        "symd profile --module kernels.zebin stalls.csv stalls.lines.csv\n"
        "symd profile --module kernels.zebin stalls.csv --to speedscope -o stalls.speedscope.json\n"
        "symd profile --module 3=kernels.co --module 0x1f2e3d4c=saxpy.cubin in.json out.json\n"
        "symd profile --server unix:/run/symd/symd.sock --module build-id=modules/9b74c989... cpu.pb.gz cpu.pb.gz"
    ),
)
@click.argument("source", metavar="IN", shell_complete=complete_files)
@click.argument("target", metavar="[OUT]", required=False, shell_complete=complete_files)
@click.option(
    "--to",
    metavar="FORMAT",
    type=click.Choice(sorted(EXPORTS)),
    help="Convert to another tool's format instead: firefox, folded, perfetto, pprof or speedscope.",
)
@click.option("-o", "--output", metavar="OUT", shell_complete=complete_files, help="The same as OUT.")
@click.option("--value", metavar="NAME", help="With --to: write only this value (Active, samples, ...).")
@profile_module_options
@json_option
def command(
    source: str,
    target: str | None,
    to: str | None,
    output: str | None,
    value: str | None,
    modules: tuple[str, ...],
    name: str | None,
    folders: tuple[Path, ...],
    roots: tuple[Path, ...],
    rules: tuple[PathRule, ...],
    server: str | None,
    limits: Limits,
    as_json: bool,
) -> int:
    """Write profile IN to OUT with source lines added, and print a report to stderr.

    Formats: pprof, OTLP profiles (binary and JSON), unitrace's EU stall CSV, rocprofv3's PC sampling JSON and its
    thread trace's code.json, CUPTI PC sampling records as JSON lines, Proton's hatchet JSON, Perfetto traces, and
    folded stacks; any of them can be gzipped. Existing symbols and unknown fields are kept. What cannot be resolved is
    kept too, and counted by reason. IN and OUT can be "-", or the same file, which is then replaced; OUT cannot be any
    other input. Exit code 1: IN has addresses, but none could be resolved; an existing OUT is left unchanged.

    With --to, OUT is a new profile for another tool, with the same values and one frame per inlined call. It is written
    even if nothing could be resolved, and gzipped if its name ends in .gz. Without OUT, folded stacks go to
    standard output, and other formats to a new file named after IN. Without --to, an OUT whose name ends in
    .speedscope.json, .firefox.json, .folded, .collapsed, .pftrace, .perfetto-trace, .pprof or .pb.gz is written in that
    format.
    """
    if target is None and output is None and Path(source).is_file():
        check_no_module(read_input(source, limits, expand=False), source)
    is_named_here = (
        target is None and output not in (None, "-") and output not in typed_words(click.get_current_context())
    )
    target = _named_out(target, output)
    if as_json and target == "-":
        raise click.UsageError("--json prints the report to standard output, so OUT cannot be - as well")
    check_output_is_not_input((target,), (named_file(each)[1] for each in modules))
    data = read_input(source, limits, expand=False)  # profiles stay as they are
    by_name = None if to is not None else _other_format(data, name, source, target, limits)
    to = _format_to_write(to, value, target, source, by_name)
    if name is None:
        check_no_module(data, source, target)
    files = ProfileFiles(folders, limits)
    with profile_resolver(server, limits, modules, files, roots, rules) as resolver, progress_bar() as progress:
        options = profiles.Options(limits, progress)
        with naming_profile(source):
            done = _written(data, resolver, to, options, name, value)
            is_matched = resolver.unmatched() is None
            if (meant := resolver_meant(resolver)) is not None:
                resolver = meant  # noqa: PLW2901 - the modules stay open
                done = _written(data, resolver, to, options, name, value)
            if done.report.unresolved and not done.report.resolved and server is not None:
                with suppress(SymdError):
                    read = profiles.samples(data, options, name)
                    hints = daemon_hints(resolver, unknown_names(read, AddressPlaces(read, resolver, options)))
                    done = replace(done, notes=(*done.notes, *hints))
            done = replace(done, notes=(*done.notes, *several_objects_notes(resolver, resolver.differing)))
            unused = unused_rules(rules, resolver.source_files()) if rules else []
    nothing = bool(done.report.unresolved) and not (done.report.resolved or done.report.already)
    if nothing and to is None and target != "-" and Path(target).exists():
        complain(f"{target} was left unchanged: nothing could be resolved")
    else:
        check_output_is_not_input((target,), files.paths)
        zipped = to is not None and target.endswith(".gz")
        written = profile_format.compress(done.data) if zipped else done.data
        write_file_or_stdout(target, written, hint="choose another OUT")
        if is_named_here:
            complain(f"written to {target}")
    if nothing and server is None and not as_json and is_matched:
        say_nothing_resolved(modules, resolver)
    _report(replace(done.report, notes=(*done.report.notes, *done.notes)), as_json)
    say_unused_rules(source, unused)
    return NO if nothing else 0


def _written(
    data: bytes,
    resolver: profiles.Resolver,
    to: str | None,
    options: profiles.Options,
    name: str | None,
    value: str | None,
) -> Converted:
    """The profile with source lines, or converted ``to`` another format."""
    if to is not None:
        return profiles.convert(data, resolver, to, options, name, value)
    kept = profiles.symbolize(data, resolver, options, name)
    return Converted(kept.data, kept.report)


def _named_out(target: str | None, output: str | None) -> str:
    """OUT, which is the second argument or that of -o. Raises ``UsageError`` where it is both."""
    if target is not None and output is not None:
        raise click.UsageError("name OUT once: as the second argument, or with -o")
    return str(target or output)


_ENDINGS = {
    ".speedscope.json": "speedscope",
    ".firefox.json": "firefox",
    ".folded": "folded",
    ".collapsed": "folded",
    ".pftrace": "perfetto",
    ".perfetto-trace": "perfetto",
    ".pprof": "pprof",
    ".pb": "pprof",
}
"""The formats to write that files are named after."""


def _ending(to: str) -> str:
    """What the names of files of a format that is written end with."""
    return next(ending for ending, written in _ENDINGS.items() if written == to)


def _format_named(target: str) -> str | None:
    """The format to write whose files have names like ``target``."""
    name = target.lower().removesuffix(".gz")
    return next((to for ending, to in _ENDINGS.items() if name.endswith(ending)), None)


def _format_to_write(to: str | None, value: str | None, target: str, source: str, by_name: str | None) -> str | None:
    """What --to says, or else the name of OUT; None where IN keeps its format. Raises ``UsageError`` where --value has
    nothing to choose for."""
    if by_name is not None:
        complain(f"{target} is written as {by_name}, as its name says")
    found = to or by_name
    if value is not None and found is None:
        context = click.get_current_context()
        raise Meant("--value works only with --to", context, [*typed_words(context), "--to", "pprof"])
    if found is not None:
        check_output_is_not_input((target,), (source,))
    return found


def _other_format(data: bytes, name: str | None, source: str, target: str, limits: Limits) -> str | None:
    """The format that the name of OUT asks for, where IN is in another one, and is not to be replaced. ``.pb`` is also
    what other messages of protocol buffers are called, such as OTLP's."""
    to = _format_named(target)
    if to is None or (source != "-" and realpath(source) == realpath(target)):
        return None
    if name is None:
        found = profiles.identify(profile_format.expand(data, limits) if profile_format.compressed(data) else data)
        name = None if found is None else found.NAME
    is_protobuf = name in ("otlp", "perfetto") and to == "pprof" and not target.lower().endswith(".pprof")
    return None if name in (None, to) or is_protobuf else to


def _report(report: Report, as_json: bool) -> None:
    if as_json:
        write_json(report_json(report))
        return
    approximate = f" ({report.approximate} approximate)" if report.approximate else ""
    left = sum(report.unresolved.values())
    reasons = ", ".join(f"{count} {reason.name}" for reason, count in report.unresolved.items())
    unit = report.unit.removesuffix("s") if report.total == 1 else report.unit
    complain(
        f"{report.format}: {report.total} {unit}: {report.resolved} resolved{approximate}, {report.already} had "
        f"symbols, {left} left as they were{f': {reasons}' if left else ''}"
    )
    if report.weight is not None and report.weight.left:
        weight = report.weight
        share = 100 * weight.left / weight.total if weight.total else 0
        complain(
            f"{weight.left:,} of {weight.total:,} {weight.unit} ({share:.1f}%) have no symbols where they were taken"
        )
    say_notes(report.notes)


def report_json(report: Report) -> dict[str, Any]:
    """The report as an object; ``unresolved`` maps reasons to counts."""
    return {
        "format": report.format,
        "unit": report.unit,
        "total": report.total,
        "already": report.already,
        "resolved": report.resolved,
        "approximate": report.approximate,
        "unresolved": {reason.name: count for reason, count in report.unresolved.items()},
        "weight": None if report.weight is None else report.weight._asdict(),
        "notes": list(report.notes),
    }
