"""``symd core FILE``: what every warp or wave of a GPU core dump was doing. The text has a summary of the dump, then
each stack with its warps or waves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from symd.api import Symbolizer
from symd.cli.call_files import FilesInAnyOrder
from symd.cli.options import complete_files, demangle_option, example, file_verb
from symd.cli.output import write_json, write_line
from symd.config import Limits
from symd.engine.files.added_module import add_module
from symd.engine.files.input import is_regular_file, say_left_out
from symd.engine.files.module import open_symbolizer
from symd.errors import SymdError
from symd.model.answers import Reason
from symd.model.cores import (
    NOT_LOADED,
    CoreDump,
    CoreFault,
    CoreFrame,
    CoreImage,
    CoreStack,
    CoreValue,
    CoreWave,
    images_with_frames,
)
from symd.model.json.answers import frame_json
from symd.model.texts import counted
from symd.query.demangler import Demangler


def readable_frames(dump: CoreDump, demangler: Demangler) -> CoreDump:
    """The functions of frames, as ``symd symbolize -C`` has them. Kernels and symbols stay what one asks by."""
    calls = [frame for stack in dump.stacks for frame in stack.frames]
    demangler.learn_frames(each for call in calls for each in call.frames)
    stacks = [
        replace(stack, frames=tuple(replace(call, frames=demangler.frames(call.frames)) for call in stack.frames))
        for stack in dump.stacks
    ]
    return replace(dump, stacks=tuple(stacks))


def readable_names(dump: CoreDump, demangler: Demangler) -> CoreDump:
    """Every name that people read: the functions of frames, kernels, and symbols that are where there are no
    frames."""
    names = demangler.names(_symbols(dump))

    def call_named(call: CoreFrame) -> CoreFrame:
        place = call.place
        if place is None:
            return call
        return replace(call, place=place._replace(function=names.get(place.function, place.function)))

    def stack_named(stack: CoreStack) -> CoreStack:
        kernel = None if stack.kernel is None else names.get(stack.kernel, stack.kernel)
        return replace(stack, kernel=kernel, frames=tuple(map(call_named, stack.frames)))

    return readable_frames(replace(dump, stacks=tuple(map(stack_named, dump.stacks))), demangler)


def _symbols(dump: CoreDump) -> Iterator[str]:
    for stack in dump.stacks:
        yield from (stack.kernel,) if stack.kernel else ()
        yield from (call.place.function for call in stack.frames if call.place is not None)


SHOWN_BLOCKS = 8
"""Blocks of a stack that are named."""
_NOUNS = {"cuda-core": ("SM", "warp"), "amdgpu-core": ("XCC", "wave")}
SHOWN_VALUES = 4
"""Values of a variable that are written out."""


def core_lines(dump: CoreDump, files: Mapping[str, str]) -> Iterator[str]:
    """The heading, then stack after stack. ``files`` are the files of modules by their digests."""
    said = ", ".join(f"{name} {value}" for name, value in dump.facts.items() if name in ("driver", "cuda", "generator"))
    yield f"{dump.format}{': ' + said if said else ''}"
    for device in dump.devices:
        named = f": {device.name}" if device.name else ""
        yield f"  device {device.number}{named}{f' ({device.target})' if device.target else ''}"
    shown = _images_of_interest(dump)
    for image in shown:
        by = image.answered_by
        lines = "no lines" if by is None else f"lines from {files.get(by, f'module {by}') if by else 'the dump'}"
        yield f"  code {image.name}{f' ({image.target})' if image.target else ''}, {lines}"
        yield from (f"    note: {note}" for note in image.notes)
    if len(shown) < len(dump.images):
        more = counted(len(dump.images) - len(shown), "more module")
        yield f"  code of {more}, in which no thread had stopped"
    yield from (f"  note: {_with_files(note, files)}" for note in dump.notes)
    if not dump.stacks:
        yield "  no stopped warps or waves"
    for stack in dump.stacks:
        yield ""
        yield from stack_lines(stack, dump)


def _images_of_interest(dump: CoreDump) -> list[CoreImage]:
    """The images that threads had stopped in, and those of which there is something to say. Drivers load a dozen
    images of their own."""
    stopped_in = images_with_frames(dump.stacks)
    return [
        image
        for number, image in enumerate(dump.images)
        if not stopped_in or number in stopped_in or set(image.notes) - {NOT_LOADED}
    ]


def stack_lines(stack: CoreStack, dump: CoreDump) -> Iterator[str]:
    """One stack: who has it and why they stopped, its calls, its variables."""
    launch = f"{stack.kernel or 'unknown kernel'}{f', grid {stack.grid}' if stack.grid is not None else ''}"
    what = _fault(stack.fault) if stack.fault else "active" if stack.active else "waiting"
    yield f"{launch}, device {stack.device}: {what}"
    if stack.waves:
        yield f"  {_count(stack.waves)}: {_who(stack.waves, _NOUNS[dump.format])}"
    yield from (f"  note: {note}" for note in stack.notes)
    for number, frame in enumerate(stack.frames):
        yield from _call(number, frame)
    yield from (f"    {_value(value)}" for value in stack.values)


def _with_files(note: str, files: Mapping[str, str]) -> str:
    for digest, file in files.items():
        note = note.replace(f"module {digest}", file)
    return note


def _fault(fault: CoreFault) -> str:
    """What has no number of a vendor has no name of it either."""
    return f"{fault.name} {fault.meaning}" if fault.number else f"{fault.name}: {fault.meaning}"


def _count(waves: Sequence[CoreWave]) -> str:
    lanes = sum(wave.lanes.bit_count() for wave in waves)
    return f"{lanes} thread{'' if lanes == 1 else 's'}"


def _who(waves: Sequence[CoreWave], noun: tuple[str, str]) -> str:
    """Blocks, each with its warps and lanes; the first that they are."""
    shown = []
    by_block = groupby(
        sorted(waves, key=lambda wave: (wave.block or (), wave.unit, wave.wave)), key=lambda wave: wave.block
    )
    blocks = [(block, list(group)) for block, group in by_block]
    for block, group in blocks[:SHOWN_BLOCKS]:
        named = f"block ({','.join(map(str, block))}) " if block is not None else ""
        parts = (
            f"{noun[0]} {each.unit} {noun[1]} {each.wave} lanes {_ranges(_lane_numbers(each.lanes))}" for each in group
        )
        shown.append(named + ", ".join(parts))
    more = len(blocks) - SHOWN_BLOCKS
    return "; ".join(shown) + (f"; and {counted(more, 'more block')}" if more > 0 else "")


def _ranges(numbers: Sequence[int]) -> str:
    """0-5,8: runs of consecutive numbers."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] + 1 == number:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)


def _call(number: int, frame: CoreFrame) -> Iterator[str]:
    said = {"pc": "", "error_pc": "  (raised the error)", "return": ""}[frame.kind]
    reason = "" if frame.reason is Reason.EXACT else f" [{frame.reason.name}]"
    symbol = f" {frame.place.function}+{frame.place.function_offset:#x}" if frame.place and frame.place.function else ""
    first, *others = frame.frames or (None,)
    yield (
        f"  #{number} {frame.address:#018x}{symbol}{reason}{said}"
        if first is None
        else (f"  #{number} {frame.address:#018x} {first}{reason}{said}")
    )
    yield from (f"       (inlined by) {each}" for each in others if each is not None)


def _value(value: CoreValue) -> str:
    shown = ", ".join(value.values[:SHOWN_VALUES])
    if len(value.values) > 1:
        more = ", …" if len(value.values) > SHOWN_VALUES else ""
        shown = f"{shown}{more} (lanes {_ranges(value.lanes)})"
    owner = f" in {value.function}" if value.inlined and value.function else ""
    return f"{value.type} {value.name or '(unnamed)'}{owner} = {shown}"


@click.command(
    "core",
    cls=FilesInAnyOrder,
    epilog=example("symd core core_1760000000_host_4242.nvcudmp\nsymd core --json gpucore.4242 -m kernels.co"),
)
@file_verb
@click.option(
    "-m",
    "--module",
    "modules",
    multiple=True,
    metavar="MODULE",
    shell_complete=complete_files,
    help="A file that contains the same code plus debug data, for code objects that were loaded without debug data.",
)
@click.option(
    "--files/--no-files",
    default=None,
    help="Whether to open files that the dump names; with --server, they are sent to the daemon.  [default: without --server]",
)
@demangle_option
def command(
    file: str,
    server: str | None,
    limits: Limits,
    as_json: bool,
    modules: tuple[str, ...],
    files: bool | None,
    demangle: bool,
) -> None:
    """Show every stopped warp or wave of a GPU core dump: its fault, its PC, its call stack with inlined frames, and
    the variables whose values are in the dump's registers. Lanes, warps and blocks with the same stack are shown
    together.

    Code objects inside the dump are read from it (symd info lists them). If one has no debug data, symd uses a MODULE
    with the same code, or the file that the dump says it was loaded from, if that exists here. With --server, symd
    uses such files only with --files, and sends only those with the same code.
    """
    demangler = Demangler() if demangle else None
    with open_symbolizer(server, limits) as symbolizer:
        digest = add_module(symbolizer, file, server, limits)
        others = [add_module(symbolizer, each, server, limits) for each in modules]
        try:
            dump = symbolizer.core(digest, others)
            uris = [] if files is False else _named_files(dump)
            if server is not None and uris:
                uris = _sent(file, uris, limits, wanted=files is True)
            named = _added(symbolizer, uris, server, limits)
            if named:
                dump = symbolizer.core(digest, [*others, *named])
        except SymdError as error:
            raise error.prefix_where(file) from None
    if demangler is not None:
        dump = (readable_frames if as_json else readable_names)(dump, demangler)
    if as_json:
        write_json(_core_json(dump))
        for stack in dump.stacks:
            write_json(_stack_json(stack))
    else:
        for line in core_lines(dump, dict(zip(others, modules, strict=True))):
            write_line(line)


def _named_files(dump: CoreDump) -> list[str]:
    """URIs of the files that code without lines was loaded from; a file that is not here is left out."""
    names = [image.name for image in dump.images if image.answered_by is None and image.name.startswith("file://")]
    return [name for name in dict.fromkeys(names) if is_regular_file(name)]


def _added(symbolizer: Symbolizer, uris: Sequence[str], server: str | None, limits: Limits) -> dict[str, str]:
    """The modules of the files, with their URIs; a file that is no module is left out."""
    found = {}
    for uri in uris:
        with suppress(SymdError):
            found[add_module(symbolizer, uri, server, limits)] = uri
    return found


def _sent(file: str, uris: Sequence[str], limits: Limits, *, wanted: bool) -> list[str]:
    """The files of this machine that a daemon gets: those with code of the dump, which is looked up here, where they
    are ``wanted``. A dump comes from elsewhere, and may name any file."""
    sent = _with_its_code(file, uris, limits) if wanted and Path(file).is_file() else []
    hint = "-m FILE sends one" if wanted else "--files sends those with the same code"
    say_left_out(file, [uri for uri in uris if uri not in sent], hint)
    return sent


def _with_its_code(file: str, uris: Sequence[str], limits: Limits) -> list[str]:
    with open_symbolizer(None, limits) as here:
        digest = add_module(here, file, None, limits)
        found = _added(here, uris, None, limits)
        answering = {image.answered_by for image in here.core(digest, list(found)).images}
    return [uri for digest, uri in found.items() if digest in answering]


def _core_json(dump: CoreDump) -> dict[str, Any]:
    """Everything but the stacks."""
    return {
        "record": "core",
        "format": dump.format,
        "facts": dict(dump.facts),
        "devices": [each._asdict() for each in dump.devices],
        "images": [_image_json(image) for image in dump.images],
        "stacks": len(dump.stacks),
        "notes": list(dump.notes),
    }


def _image_json(image: CoreImage) -> dict[str, Any]:
    return {
        "name": image.name,
        "target": image.target,
        "text": [list(pair) for pair in image.text],
        "bias": image.bias,
        "object": image.path,
        "answered_by": image.answered_by,
        "answered_object": image.answered_path if image.answered_by is not None else None,
        "notes": list(image.notes),
    }


def _stack_json(stack: CoreStack) -> dict[str, Any]:
    """One stack; frames are innermost first, those of ``frames`` within each too. Lanes are lists of numbers."""
    return {
        "record": "stack",
        "device": stack.device,
        "grid": stack.grid,
        "kernel": stack.kernel,
        "fault": None if stack.fault is None else stack.fault._asdict(),
        "active": stack.active,
        "pc": stack.pc,
        "error_pc": stack.error_pc,
        "calls": [_call_json(frame) for frame in stack.frames],
        "waves": [_wave_json(wave) for wave in stack.waves],
        "variables": [_value_json(value) for value in stack.values],
        "notes": list(stack.notes),
    }


def _call_json(frame: CoreFrame) -> dict[str, Any]:
    place = frame.place
    return {
        "kind": frame.kind,
        "address": frame.address,
        "image": None if place is None else place.image,
        "symbol": None if place is None else place.function or None,
        "offset": None if place is None else place.function_offset,
        "reason": frame.reason.name,
        "frames": [frame_json(each) for each in frame.frames],
    }


def _wave_json(wave: CoreWave) -> dict[str, Any]:
    return {
        "unit": wave.unit,
        "wave": wave.wave,
        "block": None if wave.block is None else list(wave.block),
        "thread": None if wave.thread is None else list(wave.thread),
        "lanes": _lane_numbers(wave.lanes),
    }


def _lane_numbers(mask: int) -> list[int]:
    """The bits that are set, lowest first."""
    return [lane for lane in range(mask.bit_length()) if mask >> lane & 1]


def _value_json(value: CoreValue) -> dict[str, Any]:
    return {
        "name": value.name or None,
        "type": value.type,
        "function": value.function,
        "inlined": value.inlined,
        "location": value.location,
        "lanes": list(value.lanes),
        "values": list(value.values),
    }
