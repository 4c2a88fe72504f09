"""``symd info FILE...``: the contents of modules, at any depth, and those of profiles. The facts of a kernel, a code
object or a container are one line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from symd.cli.call_files import NAMED_IN_A_CALL, call_text, load_profiles, naming_profile, profile_kind
from symd.cli.code_objects import daemon_of, file_summary
from symd.cli.options import complete_files, example, json_option, limit_option, server_option, shown_anyway
from symd.cli.output import Branch, Style, printable, style_of, value_text, write_json, write_line, write_tree
from symd.config import Limits, server_address
from symd.engine.files.added_module import OpenModule, open_daemon_module
from symd.engine.files.companion_files import debug_file_of, dwo_files_of
from symd.engine.files.input import read_input
from symd.errors import SymdError, UnknownFormat
from symd.formats.containers.amd import amdgpu
from symd.formats.lazy import LazyMapping, PackedMapping, PackedRecords
from symd.model.json import to_json
from symd.model.json.modules import module_pieces
from symd.model.names import Match, NameKind, NameQuery
from symd.model.summaries import ContainerSummary, KernelSummary, ModuleSummary, ObjectSummary, SectionAddresses
from symd.model.texts import counted
from symd.system.messages import complain

if TYPE_CHECKING:
    from symd.profiles.hot import NamedPart, PartSamples, ProfileContents
    from symd.profiles.samples import SampledProfile


_KEPT_TEXTS = 1 << 12


class FactsText:
    """Names and values; of a list of records no more than how many there are, since --json has them. Formats give many
    kernels the same facts, or the same list of arguments: they are written once, as long as not too many different ones
    come."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, str]] = {}
        """What was written by its number (``id``); it stays, so that nothing else gets that."""

    def of(self, facts: Mapping[str, Any]) -> str:
        """The text, ready to be written at the end of a line."""
        values = facts
        if type(facts) is not dict:  # most are one, and to ask what is a mapping takes longer
            if isinstance(facts, PackedMapping):
                return self._of(facts.packed())
            values = facts.value() if isinstance(facts, LazyMapping) else facts
        known = self._known.get(id(values))
        return self._keep(values, self._of(values)) if known is None else known[1]

    def _of(self, values: Mapping[str, Any]) -> str:
        text = ", ".join([f"{name} {self._value(name, value)}" for name, value in values.items()])
        return printable(text).rstrip(" ")

    def _keep(self, value: object, text: str) -> str:
        if len(self._known) >= _KEPT_TEXTS:
            self._known.clear()
        self._known[id(value)] = value, text
        return text

    def _value(self, name: str, value: Any) -> str:
        kind = type(value)
        if kind is int or kind is str:
            return str(value)
        if kind is not list:
            return _other(value)
        known = self._known.get(id(value))
        return self._keep(value, _list(name, value)) if known is None else known[1]


def facts_text(facts: Mapping[str, Any]) -> str:
    """The facts of one thing as text (``FactsText``)."""
    return FactsText().of(facts)


def _list(name: str, values: list[Any]) -> str:
    if not values or not all(isinstance(one, Mapping) for one in values):
        return to_json(values) if values else "none"
    return f"({', '.join(map(_argument, values))})" if name == "arguments" else str(len(values))


def _other(value: Any) -> str:
    if isinstance(value, PackedRecords):
        return str(len(value) or "none")
    if isinstance(value, Mapping) and not any(isinstance(one, (Mapping, list)) for one in value.values()):
        return f"({', '.join([f'{key}: {one}' for key, one in value.items()])})"
    return value if isinstance(value, str) else to_json(value)


def _argument(argument: Mapping[str, Any]) -> str:
    """Address space, type and name as a declaration has them; the size where the format knows no more."""
    known = [argument.get(key) for key in ("address_space", "type", "name")]
    words = [str(word) for word in known if word]
    return " ".join(words) or f"{argument.get('size', '?')} bytes"


@click.command(
    "info", epilog=example("symd info program.bin\nsymd info kernel.co kernel.cubin\nsymd info --json libkernels.so")
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", shell_complete=complete_files)
@server_option
@limit_option
@json_option
@shown_anyway("-a", "--all", "-l", "--list-elf", "-lelf", "-W", "--wide")
def command(files: tuple[str, ...], server: str | None, limits: Limits, as_json: bool) -> int:
    """Show what is inside each FILE: containers, code objects, targets, kernels and their debug data. For a profile,
    show its values and modules, how many samples have no line yet, and the command that finds these lines.

    FILE can be "-" for standard input, or file://PATH#offset=N&size=N for a part of a file. If one of several files
    cannot be read, the others are shown, and the exit code is that of the worst error.
    """
    if len(files) == 1:
        _show(files[0], server, limits, as_json=as_json)
        return 0
    code = 0
    for file in files:
        try:
            _show(file, server, limits, as_json=as_json)
        except SymdError as error:
            complain(str(error))
            code = max(code, error.exit_code)
    return code


def _show(file: str, server: str | None, limits: Limits, *, as_json: bool) -> None:
    if server is None:
        try:
            summary, addresses = file_summary(file, limits, object_digests=as_json)
        except UnknownFormat:
            kind = profile_kind(file)
            if kind is None:
                raise
            _show_profile(file, kind, limits, as_json=as_json)
            return
    else:
        with open_daemon_module(file, server, limits) as module:
            summary, addresses = module.summary(), _addresses_of(module)
    is_added = server is not None and daemon_of(file, server) is None
    daemon = server_address(server) if is_added else ""
    if as_json:
        sys.stdout.writelines(module_pieces(file, summary, addresses))
        write_line()
        if daemon:
            complain(f"{file}: the daemon at {daemon} has it as modules/{summary.sha256}")
    else:
        origin = [("daemon", f"at {daemon}, which has it as modules/{summary.sha256}")] if daemon else []
        write_tree(_tree(file, summary, addresses, [*origin, *_debug_files(file, summary, limits)]))


def _debug_files(file: str, summary: ModuleSummary, limits: Limits) -> list[tuple[str, str]]:
    """Which files beside it a code object is described with, whose debug data is apart; [] where it is whole."""
    path = Path(file)
    if summary.format != amdgpu.NAME or not path.is_file() or path.stat().st_size == summary.size:
        return []
    data = read_input(file, limits)
    debug = debug_file_of(data, file, limits)
    apart = dwo_files_of(data, file, limits) if debug is None else [debug]
    if not apart:
        return []
    text = f"from {', '.join(apart)}, read with it: {file} itself has {len(data)} of the {summary.size} bytes"
    return [("debug", text)]


def _addresses_of(module: OpenModule) -> SectionAddresses:
    """The addresses of the sections of a daemon's module that have kernels."""
    found: dict[str, dict[int, int]] = {}
    for each in module.symbolizer.names(module.digest, NameQuery("*", Match.GLOB, frozenset({NameKind.KERNEL}))):
        if each.section_index is not None and (begin := (each.address or 0) - (each.section_offset or 0)) > 0:
            found.setdefault(each.path, {})[each.section_index] = begin
    return found


def _tree(file: str, module: ModuleSummary, addresses: SectionAddresses, origin: Sequence[tuple[str, str]]) -> Branch:
    """``origin`` are lines on where the module is, and where parts of it are from, each behind its name."""
    return Branch(((file, "bold"), f"{module.format}, {module.size} bytes"), _of_module(module, addresses, origin))


def _of_module(
    module: ModuleSummary, addresses: SectionAddresses, origin: Sequence[tuple[str, str]]
) -> Iterator[Branch]:
    yield Branch((("sha256", "dim"), module.sha256))
    yield from (Branch(((name, "dim"), text)) for name, text in origin)
    yield from _notes(module.notes)
    for container in module.containers:
        yield from _of_container(container)
    texts, style = FactsText(), style_of(sys.stdout)
    yield from (_object(item, addresses.get(item.path, {}), texts, style) for item in module.objects)


def _of_container(container: ContainerSummary) -> Iterator[Branch]:
    """What the module itself says is under its own line."""
    said = _container_facts(container)
    if container.path:
        about = f"{container.format}, {container.size} bytes"
        yield Branch(("container", (container.path, "cyan"), about), said)
    else:
        yield from said


def _container_facts(container: ContainerSummary) -> Iterator[Branch]:
    plain = {name: value for name, value in container.facts.items() if name != "entries"}
    if plain:
        yield Branch((facts_text(plain),))
    for entry in container.facts.get("entries", ()):
        yield Branch(("entry", facts_text(_said(entry)) if isinstance(entry, Mapping) else str(entry)))


def _said(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry without what it leaves empty."""
    return {name: value for name, value in entry.items() if value not in ("", None, False)}


def _object(item: ObjectSummary, addresses: Mapping[int, int], texts: FactsText, style: Style) -> Branch:
    target = f" for {item.target}" if item.target else ""
    about = f"{item.format}{target}, {item.size} bytes, debug {item.debug}"
    return Branch(((item.path or "(the file itself)", "cyan"), about), _of_object(item, addresses, texts, style))


def _of_object(
    item: ObjectSummary, addresses: Mapping[int, int], texts: FactsText, style: Style
) -> Iterator[Branch | tuple[str, str]]:
    if item.facts:
        yield Branch((texts.of(item.facts),))
    yield from _notes(item.notes)
    yield from (_kernel(kernel, addresses, texts, style) for kernel in item.kernels)


def _kernel(kernel: KernelSummary, addresses: Mapping[int, int], texts: FactsText, style: Style) -> tuple[str, str]:
    name, section, number, offset, size = kernel[:5]
    begin = addresses.get(number, 0)
    at = f" at {begin + offset:#x}" if begin else ""
    place = printable(f"{section or f'#{number}'}+{offset:#x}{at}, {size} bytes")
    return f"kernel  {style(printable(name), 'green')}  {place}", texts.of(kernel.facts) if kernel.facts else ""


def _notes(notes: Sequence[str]) -> Iterator[Branch]:
    return (Branch((("note", "yellow"), note)) for note in notes)


def _show_profile(file: str, kind: str, limits: Limits, *, as_json: bool) -> None:
    """Print what is in the profile ``file`` of the format ``kind``. Raises what reading it raises."""
    profiles = load_profiles()
    data = read_input(file, limits, expand=False)
    with naming_profile(file):
        profile = profiles.samples(data, profiles.Options(limits), kind)
    found = profiles.contents(profile)
    if as_json:
        write_json(_profile_json(file, kind, profile, found))
    else:
        write_tree(_profile_tree(file, kind, profile, found))


def _next_call(file: str, found: ProfileContents) -> str:
    """The call that shows the profile's hottest lines; FILE stands for each module that it needs."""
    wanted = list(dict.fromkeys(found.wanted()))
    named = ["FOLDER"] if len(wanted) > NAMED_IN_A_CALL else [f"{each}=FILE" for each in wanted]
    if found.is_kernel_wanted():
        named.append("FILE")
    return call_text(["hot", *(part for each in named for part in ("-m", each)), file])


def _profile_json(file: str, kind: str, profile: SampledProfile, found: ProfileContents) -> dict[str, Any]:
    return {
        "file": file,
        "format": kind,
        "samples": len(profile.samples),
        "unit": found.columns.unit,
        "total": found.total,
        "value_types": [
            {"name": each.name, "unit": each.unit, "total": total}
            for each, total in zip(profile.value_types, profile.totals(), strict=True)
        ],
        "modules": [
            {
                "module": part.name or part.identity or None,
                "build_id": part.build_id or None,
                "value": each.value,
                "without_line": each.without_line,
            }
            for part, each in found.modules.items()
        ],
        "kernels": [
            {"kernel": part.name or None, "value": each.value, "without_line": each.without_line}
            for part, each in found.kernels.items()
        ],
        "notes": profile.notes,
        "next": _next_call(file, found),
    }


def _profile_tree(file: str, kind: str, profile: SampledProfile, found: ProfileContents) -> Branch:
    return Branch(
        ((file, "bold"), f"{kind} profile, {counted(len(profile.samples), 'sample')}"),
        _of_profile(file, profile, found),
    )


def _of_profile(file: str, profile: SampledProfile, found: ProfileContents) -> Iterator[Branch]:
    for each, total in zip(profile.value_types, profile.totals(), strict=True):
        yield Branch(("value", (each.name, "cyan"), f"{value_text(total)} {each.unit}".rstrip()))
    yield from _profile_parts("module", found.modules, found.columns.unit)
    yield from _profile_parts("kernel", found.kernels, found.columns.unit)
    yield from (Branch((("note", "yellow"), note)) for note in profile.notes)
    yield Branch(("next", _next_call(file, found)))


def _profile_parts(noun: str, parts: Mapping[NamedPart, PartSamples], unit: str) -> Iterator[Branch]:
    for part, each in parts.items():
        build_id = f"build ID {part.build_id}" if part.build_id else ""
        name = part.name or part.identity or ("(unnamed)" if part.build_id else "(no module)")
        left = f", {value_text(each.without_line)} without a line" if each.without_line else ""
        yield Branch((noun, (name, "green"), *filter(None, [build_id]), f"{value_text(each.value)} {unit}{left}"))
