"""Folded stacks, the input of flame graphs: one stack a line, root first, frames between semicolons, then a count.

A frame that is an address is written ``MODULE+0xOFFSET`` (an object address in the module of that identity),
``KERNEL+0xOFFSET`` or ``[KERNEL+0xOFFSET]`` (bytes into a kernel), or ``MODULE (file offset 0xOFFSET)``. It becomes as many frames as the code was inlined
through: ``function (file:line)``, inlined ones marked ``_[i]`` as flame graph tools colour them. A decimal number could be
either, decimal for symd or hexadecimal for addr2line: a frame of a known name with one stays, and is counted as MALFORMED."""

from __future__ import annotations

import re

from symd.model.answers import Frame, Reason
from symd.profiles import json_text
from symd.profiles.address_batch import AddressBatch, ResolvedAddress
from symd.profiles.format import Options, Symbolized, Tally
from symd.profiles.mapped import MappedRange, MappingPlacer
from symd.profiles.profile_budget import ProfileBudget
from symd.profiles.resolver import IdentifiedModule, LookupTarget, Resolver
from symd.profiles.samples import shown_name

NAME = "folded"
INLINED = "_[i]"
"""What a frame ends with that was inlined."""
FILE_OFFSET = " (file offset "
"""What stands between a module and the offset of a byte of its file."""
CLAIM_LINES = 64
"""Lines that are looked at to recognise the format."""

_EMPTY_STACK = re.compile(rb"[ \t]*[0-9]+[ \t]*\r?")
"""py-spy writes one for what has no frames."""
_DECIMAL = re.compile(
    r"(?<![^;\n])(\[?)([^;\r\n\[\]]+)\+[0-9]{1,19}(\]?)(?=;|[ \t]+[0-9]+(?:\.[0-9]+)?[ \t]*\r?$)", re.MULTILINE
)
_STACK = re.compile(rb"[^\r\n]*\S[ \t]+[0-9]+(?:\.[0-9]+)?[ \t]*\r?")
_FRAME = re.compile(
    r"(?<![^;\n])"  # at the start of a line or of a frame
    r"(?:\[([^;\r\n\]]+)\+0x([0-9a-fA-F]{1,16})\]|([^;\r\n\[][^;\r\n]*)\+0x([0-9a-fA-F]{1,16})"
    r"|([^;\r\n\[][^;\r\n]*)" + re.escape(FILE_OFFSET) + r"0x([0-9a-fA-F]{1,16})\))"
    r"(?=;|[ \t]+[0-9]+(?:\.[0-9]+)?[ \t]*\r?$)",
    re.MULTILINE,
)


def claims(data: bytes) -> bool:
    """The first lines are stacks with counts, and text."""
    first = data[: 1 << 18].split(b"\n")[: CLAIM_LINES + 1]
    lines = [line for line in first if line.strip() and not _EMPTY_STACK.fullmatch(line)]
    whole = lines if len(data) <= 1 << 18 else lines[:-1]
    return bool(whole) and b"\0" not in data[:4096] and all(_STACK.fullmatch(line) for line in whole[:CLAIM_LINES])


def symbolize(data: bytes, resolver: Resolver, options: Options) -> Symbolized:
    """Replace the frames that are addresses of known modules. Lines are neither merged nor moved."""
    text = json_text.decode(data)
    options.progress("reading stacks", 0, len(text))
    batch = AddressBatch()
    handles: dict[str, int] = {}
    spending = ProfileBudget(options, len(data))
    placer = MappingPlacer(resolver, options.limits)
    for found in _FRAME.finditer(text):
        spending.read()
        if found.group() not in handles:
            handles[found.group()] = _handle(found, resolver, batch, placer)
    answers = batch.ask(resolver, options.progress)
    tally = Tally()
    written = {frame: _frames(answers[handle]) for frame, handle in handles.items()}

    def replaced(found: re.Match[str]) -> str:
        frame = found.group()
        spending.written(len(written[frame]))
        tally.count(answers[handles[frame]].reason, resolved=bool(written[frame]))
        return written[frame] or frame

    changed = _FRAME.sub(replaced, text)
    decimal = _decimal_frames(text, resolver, spending, tally)
    report = tally.report(NAME, "frames", (*_notes(handles, answers), *decimal))
    return Symbolized(json_text.encode(changed) if tally.resolved else data, report)


def _decimal_frames(text: str, resolver: Resolver, spending: ProfileBudget, tally: Tally) -> tuple[str, ...]:
    """Count the frames of known names with an offset that may be decimal or hexadecimal, and say so of each."""
    known: dict[str, bool] = {}
    frames: dict[str, None] = {}
    for found in _DECIMAL.finditer(text):
        spending.read()
        name = found[2]
        if name not in known:
            known[name] = _bare(name, resolver) not in (Reason.UNKNOWN_KERNEL, Reason.UNKNOWN_MODULE)
        if known[name] and bool(found[1]) == bool(found[3]):
            tally.count(Reason.MALFORMED, resolved=False)
            frames[found.group()] = None
    return tuple(f"{frame}: an offset is hexadecimal and begins with 0x" for frame in frames)


def _handle(found: re.Match[str], resolver: Resolver, batch: AddressBatch, placer: MappingPlacer) -> int:
    bracketed, offset, bare, bare_offset, file, file_offset = found.groups()
    if file is not None:
        return _in_file(file, int(file_offset, 16), resolver, batch, placer)
    target = resolver.kernel(bracketed) if bracketed is not None else _bare(bare, resolver)
    if isinstance(target, Reason):
        return batch.refuse(target)
    return batch.add(batch.target(target), int(offset or bare_offset, 16))


def _in_file(name: str, offset: int, resolver: Resolver, batch: AddressBatch, placer: MappingPlacer) -> int:
    """A byte of a module's file, as one byte of it that is mapped where it is counted."""
    found = resolver.identified(name)
    if isinstance(found, Reason):
        return batch.refuse(found)
    placed = placer.place(MappedRange(offset, offset + 1, offset), found)
    if isinstance(placed, Reason):
        return batch.refuse(placed)
    return batch.add(batch.target(placed.target), offset + placed.bias)


def _bare(name: str, resolver: Resolver) -> LookupTarget | Reason:
    """A module or a kernel; AMBIGUOUS when there is one of each."""
    module, kernel = resolver.identified(name), resolver.kernel(name)
    if not isinstance(module, IdentifiedModule):
        return module if module is Reason.AMBIGUOUS else kernel
    return LookupTarget(module.digest, path=module.path) if kernel is Reason.UNKNOWN_KERNEL else Reason.AMBIGUOUS


def _frames(answer: ResolvedAddress) -> str:
    """Root first. What is written ends in ")", "]" or the number of a line: it never looks like an address again."""
    return ";".join(frame_text(frame) for frame in reversed(answer.frames))


def frame_text(frame: Frame) -> str:
    """``function (file:line)``, marked where it was inlined, on one line and without the signs that part frames."""
    position = f"{frame.file}:{frame.line}" if frame.file else "no line"
    name = shown_name(frame)
    text = f"{name if name == position else f'{name} ({position})'}{INLINED if frame.inlined else ''}"
    return " ".join(text.replace(";", ",").split())


def _notes(handles: dict[str, int], answers: list[ResolvedAddress]) -> tuple[str, ...]:
    why = {
        Reason.UNKNOWN_KERNEL: "names no known module or kernel",
        Reason.UNKNOWN_MODULE: "names no known module",
        Reason.AMBIGUOUS: "names several",
    }
    found: dict[tuple[str, Reason], None] = {}
    for frame, handle in handles.items():
        if answers[handle].reason in why:
            name = frame.partition(FILE_OFFSET)[0] if FILE_OFFSET in frame else frame.rpartition("+0x")[0]
            found[name.removeprefix("["), answers[handle].reason] = None
    return tuple(f"{name} {why[reason]}" for name, reason in found)
