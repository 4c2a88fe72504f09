"""``symd names FILE PATTERN``: functions, kernels and source files by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shlex import quote

import click

from symd.cli.advice import corrected_call
from symd.cli.info import facts_text
from symd.cli.options import demangle_option, example, file_verb, object_option
from symd.cli.output import write_json, write_line
from symd.config import Limits
from symd.engine.files.added_module import OpenModule
from symd.engine.files.module import did_you_mean, open_module
from symd.errors import NotFound
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.json.answers import named_item_json
from symd.model.names import Match, NamedItem, NameKind, NameQuery
from symd.model.texts import plural
from symd.query.demangler import Demangler
from symd.system.messages import complain

KINDS = tuple(kind.name.lower() for kind in NameKind)


@click.command(
    "names", epilog=example("symd names program.bin 'vadd*'\nsymd names --kind kernel --json program.bin '*'")
)
@file_verb
@object_option
@demangle_option
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="Show only these.  [default: all]")
@click.option("--prefix", is_flag=True, help="Match names that begin with PATTERN.")
@click.option("--exact", is_flag=True, help="Take PATTERN as a name, whatever characters it contains.")
@click.option("--or-part", "or_part", is_flag=True, hidden=True)
@click.argument("patterns", nargs=-1, metavar="[PATTERN]")
def command(
    file: str,
    server: str | None,
    limits: Limits,
    as_json: bool,
    path: str | None,
    demangle: bool,
    kinds: tuple[str, ...],
    prefix: bool,
    exact: bool,
    or_part: bool,
    patterns: tuple[str, ...],
) -> None:
    """Find kernels, functions and source files of FILE by name.

    PATTERN is a whole name, mangled or as it is written in the source, with or without namespaces; for a source file,
    its last components. If it contains "*", "?" or "[...]", it is a pattern. Without PATTERN, all are
    shown. Exit code 1: nothing has that name.
    """
    if prefix and exact:
        raise click.UsageError("--prefix and --exact cannot be used together")
    if len(patterns) > 1:
        raise click.UsageError(
            f"give one PATTERN at a time, in quotes, such as 'vadd*', so that the shell leaves it alone: {' '.join(patterns[:4])}"
        )
    if server is None and not patterns and _is_pattern(file):
        raise click.UsageError(f"there is no file {file!r}; FILE comes first: symd names FILE {quote(file)}")
    pattern = patterns[0] if patterns else "*"
    match = Match.PREFIX if prefix else Match.GLOB if set("*?[") & set(pattern) and not exact else Match.EXACT
    wanted = NameQuery(pattern, match, frozenset(NameKind[kind.upper()] for kind in kinds))
    with open_module(file, server, limits, only=path) as module:
        found = list(module.symbolizer.names(module.digest, wanted, path))
        if not found and or_part and match is Match.EXACT:
            part = replace(wanted, pattern=f"*{pattern}*", match=Match.GLOB)
            if found := list(module.symbolizer.names(module.digest, part, path)):
                complain(f"nothing is named {pattern!r}, but these names contain it")
        if not found:
            like = "" if match is Match.GLOB else _like(module, pattern, path) or _part(module, pattern, wanted, path)
            raise _nothing(pattern, file, like)
    readable = Demangler().names(_mangled(each) for each in found) if demangle else {}
    for each in found:
        shown = readable.get(_mangled(each), each.name)
        if as_json:
            write_json(named_item_json(each, shown))
        else:
            write_line(named_text(each, shown))


def _is_pattern(text: str) -> bool:
    """Whether a text is no file, nor like the name of one."""
    return text != "-" and not Path(text).exists() and not set("./") & set(text.replace(".*", ""))


def _like(module: OpenModule, name: str, path: str | None) -> str:
    in_spirv = module.summary().spirv_hint(name) if path is None else ""
    return in_spirv or did_you_mean(
        module.symbolizer.symbolize_one(module.digest, ByKernel(name, KernelOffset(0)), path)
    )


def _part(module: OpenModule, name: str, wanted: NameQuery, path: str | None) -> str:
    """The call that finds the names of which ``name`` is a part; "" where there are none."""
    pattern = f"*{name}*"
    has_some = any(module.symbolizer.names(module.digest, replace(wanted, pattern=pattern, match=Match.GLOB), path))
    return f"it is a part of names: {corrected_call(name, [pattern])}" if has_some else ""


def _nothing(pattern: str, file: str, like: str) -> NotFound:
    if pattern == "*":
        hint = "symd info FILE says what it holds; a file may have been stripped of its names"
        return NotFound("it has no names of functions, kernels or source files", where=file, hint=hint)
    plain = pattern.strip("/^$").replace(".*", "*").replace(".+", "?*")
    if plain.isidentifier() and plain != pattern:  # an end alone is tied
        plain = f"{'' if '^' in pattern else '*'}{plain}{'' if '$' in pattern else '*'}"
    if plain and plain != pattern and not like:
        called = corrected_call(pattern, [plain])
        like = f"PATTERN is a pattern as shells have it, not a regular expression: {called or quote(plain)}"
    if pattern.isidentifier() and not like:
        like = f"'*' shows all names, and symd variables {quote(file)} PLACE the variables at a place"
    return NotFound(f"nothing is named {pattern!r}", where=file, hint=like or "'*' shows all names")


def _mangled(found: NamedItem) -> str:
    return found.linkage_name or found.name


def named_text(found: NamedItem, name: str) -> str:
    return "  ".join(part for part in (f"{found.kind.name.lower():<8}", name, *_details(found)) if part)


def _details(found: NamedItem) -> list[str]:
    linkage = f"[{found.linkage_name}]" if found.linkage_name else ""
    place = ""
    if found.section_offset is not None:
        section = found.section or f"#{found.section_index}"
        place = (
            f"{found.address or 0:#x} ({section})+{found.section_offset:#x}, {found.size} {plural(found.size, 'byte')}"
        )
    copies = f"inlined {found.inlined_copies} {plural(found.inlined_copies, 'time')}" if found.inlined_copies else ""
    declared = f"declared at {found.declared_file or '(no file)'}:{found.declared_line}" if found.declared_line else ""
    return [linkage, place, copies, declared, f"of {found.path}" if found.path else "", facts_text(found.facts)]
