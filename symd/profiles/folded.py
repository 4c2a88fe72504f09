"""Folded stacks, the input of flame graphs: one stack a line, root first, frames between semicolons, then a count. As
samples they have one value each, without times or units; samples are written with one line for each distinct stack.

A frame that is an address is written ``MODULE+0xOFFSET`` (an object address in the module of that identity),
``KERNEL+0xOFFSET`` or ``[KERNEL+0xOFFSET]`` (bytes into a kernel), or ``MODULE (file offset 0xOFFSET)``. It becomes one
frame for each level of inlining: ``function (file:line)``, inlined ones marked ``_[i]`` as flame graph tools color
them. A decimal number could be either, decimal for symd or hexadecimal for addr2line: a frame of a known name with one
stays, and is counted as MALFORMED.
"""

from __future__ import annotations

import re
from shlex import quote

from symd.errors import Malformed
from symd.model.answers import Frame, Reason
from symd.profiles import json_text
from symd.profiles.addresses import AddressBatch, AddressOrigin, AddressOrigins, MappedRange, ResolvedAddress
from symd.profiles.profile_format import Exported, Options, ProfileBudget, Symbolized, Tally, weighed_columns
from symd.profiles.resolver import IdentifiedModule, LookupTarget, Resolver
from symd.profiles.samples import (
    FILE_OFFSET,
    INLINED,
    AddressTable,
    Sample,
    SampledAddress,
    SampledModule,
    SampledProfile,
    Value,
    ValueType,
    frame_of_text,
    frame_text,
    shown_frames,
)

NAME = "folded"
CLAIM_LINES = 64
"""Lines that are looked at to recognize the format."""
_NAMED = 3
"""The most files with a kernel of the same name that are named."""

_EMPTY_STACK = re.compile(rb"[ \t]*[0-9]+[ \t]*\r?")
"""A count without a stack, which py-spy writes for samples without frames."""
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


def unlike(data: bytes) -> str:
    """What keeps text that is nearly folded stacks from being some: its first line without a count; "" for anything
    else."""
    if b"\0" in data[:4096]:
        return ""
    lines = [line.strip() for line in data[: 1 << 16].split(b"\n")[:CLAIM_LINES]]
    bad = next((number for number, line in enumerate(lines) if line and not _STACK.fullmatch(line)), None)
    if bad is None or (not re.search(rb"\+0[xX][0-9a-fA-F]", lines[bad]) and b";" not in lines[bad]):
        return ""
    shown = lines[bad][:60].decode("utf-8", "replace")
    return f": line {bad + 1}, {shown!r}, does not end with a space and a count, as folded stacks do"


def symbolize(data: bytes, resolver: Resolver, options: Options) -> Symbolized:
    """Replace the frames that are addresses of known modules. Lines are neither merged nor moved."""
    text = json_text.decode(data)
    options.progress("reading stacks", 0, len(text))
    batch = AddressBatch()
    handles: dict[str, int] = {}
    spending = ProfileBudget(options, len(data))
    origins = AddressOrigins(resolver, options.limits, _origin)
    for found in _FRAME.finditer(text):
        spending.read()
        if found.group() not in handles:
            handles[found.group()] = _handle(found, resolver, batch, origins)
    answers = batch.ask(resolver, options.progress)
    tally = Tally()
    texts = {frame: _frames_text(answers[handle]) for frame, handle in handles.items()}

    def replaced(found: re.Match[str]) -> str:
        frame = found.group()
        spending.written(len(texts[frame]))
        tally.count(answers[handles[frame]].reason, resolved=bool(texts[frame]))
        return texts[frame] or frame

    changed = _FRAME.sub(replaced, text)
    decimal = _decimal_frames(text, resolver, spending, tally)
    report = tally.report(NAME, "frames", (*_notes(handles, answers, resolver), *decimal))
    return Symbolized(json_text.encode(changed) if tally.resolved else data, report)


def _decimal_frames(text: str, resolver: Resolver, spending: ProfileBudget, tally: Tally) -> tuple[str, ...]:
    """Count the frames of known names with an offset that may be decimal or hexadecimal, and say so of each."""
    known: dict[str, bool] = {}
    frames: dict[str, None] = {}
    for found in _DECIMAL.finditer(text):
        spending.read()
        name = found[2]
        if name not in known:
            known[name] = _module_or_kernel(name, resolver) not in (Reason.UNKNOWN_KERNEL, Reason.UNKNOWN_MODULE)
        if known[name] and bool(found[1]) == bool(found[3]):
            tally.count(Reason.MALFORMED, resolved=False)
            frames[found.group()] = None
    return tuple(
        f"{frame}: an offset is hexadecimal and begins with 0x{_if_decimal(frame.rpartition('+')[2].rstrip(']'))}"
        for frame in frames
    )


def _if_decimal(offset: str) -> str:
    """What an offset without 0x is in hexadecimal, to go behind what is said of it."""
    return f" ({offset} is {int(offset):#x}, if it was decimal)"


def _handle(
    found: re.Match[str], resolver: Resolver, batch: AddressBatch, origins: AddressOrigins[tuple[str, int]]
) -> int:
    """The handle in ``batch`` of the address of a frame."""
    bracketed, offset, bare, bare_offset, file, file_offset = found.groups()
    if file is not None:
        place = int(file_offset, 16)
        return batch.add(origins.target((file, place)), place)
    target = resolver.kernel(bracketed) if bracketed is not None else _module_or_kernel(bare, resolver)
    return batch.add(target, int(offset or bare_offset, 16))


def _origin(key: tuple[str, int]) -> AddressOrigin:
    """A byte of a module's file, by a mapping of that byte alone."""
    name, offset = key
    return AddressOrigin((name,), range=MappedRange(offset, offset + 1, offset))


def _module_or_kernel(name: str, resolver: Resolver) -> LookupTarget | Reason:
    """What a name without brackets means, a module or a kernel; AMBIGUOUS when there is one of each."""
    module, kernel = resolver.identified(name), resolver.kernel(name)
    if not isinstance(module, IdentifiedModule):
        return module if module is Reason.AMBIGUOUS else resolver.kernel_or_file(name)
    return LookupTarget(module.digest, path=module.path) if kernel is Reason.UNKNOWN_KERNEL else Reason.AMBIGUOUS


def _frames_text(answer: ResolvedAddress) -> str:
    """The text of an answer, root first. It ends in ")", "]" or a line number, so it never looks like an address."""
    return ";".join(frame_text(frame) for frame in reversed(answer.frames))


def _notes(handles: dict[str, int], answers: list[ResolvedAddress], resolver: Resolver) -> tuple[str, ...]:
    why = {
        Reason.UNKNOWN_KERNEL: "names no known module or kernel",
        Reason.UNKNOWN_MODULE: "names no known module",
        Reason.AMBIGUOUS: "names several known modules, kernels or code objects",
    }
    found: dict[tuple[str, Reason], None] = {}
    for frame, handle in handles.items():
        if answers[handle].reason in why:
            name = frame.partition(FILE_OFFSET)[0] if FILE_OFFSET in frame else frame.rpartition("+0x")[0]
            found[name.removeprefix("["), answers[handle].reason] = None
    return tuple(f"{name} {why[reason]}{_meant(name, reason, resolver)}" for name, reason in found)


def _meant(name: str, reason: Reason, resolver: Resolver) -> str:
    """What a name may mean that is no one module's or kernel's, to go behind what is said of it."""
    if reason is Reason.AMBIGUOUS:
        return _which_ran(name, resolver)
    return resolver.did_you_mean(name) if reason is Reason.UNKNOWN_KERNEL else ""


def _which_ran(name: str, resolver: Resolver) -> str:
    """How one of the files with a kernel is chosen, to go behind what is said of it; "" where no more than one has
    it."""
    files = resolver.files_with(name)
    shown = [f"-m {quote(each)}" for each in files[:_NAMED]]
    more = f" (and {len(files) - _NAMED} more)" if len(files) > _NAMED else ""
    return f": give the one that ran, {' or '.join(shown)}{more}" if len(files) > 1 else ""


MOST_DIGITS = 18
"""The most digits of a count, so that it has 64 bits."""
_LINE = re.compile(r"([^\r\n]*?)[ \t]+([0-9]+(?:\.[0-9]+)?)[ \t]*\r?$", re.MULTILINE)
_ADDRESS = re.compile(r"\[?[^;\[\]]+\+0x([0-9a-fA-F]{1,16})\]?")
_IN_FILE = re.compile(r"([^;\[]+)" + re.escape(FILE_OFFSET) + r"0x([0-9a-fA-F]{1,16})\)")


def read_samples(data: bytes, spending: ProfileBudget) -> SampledProfile:
    """The samples of every line that has a stack and a count. Frames that follow one another, the later ones marked as
    inlined, are one address."""
    found = SampledProfile((ValueType("samples", "count"),))
    addresses = AddressTable(found.addresses)
    modules: dict[SampledModule, int] = {}
    for line in json_text.decode(data).split("\n"):
        matched = _LINE.fullmatch(line)
        if not matched:
            continue
        stack, count = matched.groups()
        parts = [part for part in stack.split(";") if part]
        spending.read(1 + len(parts))
        if len(count) > MOST_DIGITS:
            raise Malformed(f"a count has {len(count)} digits", where=json_text.WHERE)
        value: Value = float(count) if "." in count else int(count)
        numbers = [addresses.number(one) for one in _addresses(parts, modules)]
        found.samples.append(Sample(tuple(reversed(numbers)), (value,)))
    found.modules = list(modules)
    found.notes.append("folded stacks have no timestamps")
    return found


def _addresses(parts: list[str], modules: dict[SampledModule, int]) -> list[SampledAddress]:
    """The addresses of one stack, root first; ``modules`` takes a mapping of one byte for each that is told by its
    place in a file."""
    found: list[SampledAddress] = []
    for part in parts:
        frame = frame_of_text(part)
        if frame is not None and frame.inlined and found and found[-1].frames:
            found[-1] = found[-1]._replace(frames=(frame, *found[-1].frames))
        elif frame is not None:
            found.append(SampledAddress(part, (frame._replace(inlined=False),)))
        elif in_file := _IN_FILE.fullmatch(part):
            place = int(in_file[2], 16)
            mapped = SampledModule(in_file[1], start=place, limit=place + 1, offset=place)
            found.append(SampledAddress(part, (), place, modules.setdefault(mapped, len(modules))))
        else:
            at = _ADDRESS.fullmatch(part)
            plain = Frame(part.removesuffix(INLINED), None, None, 0, 0, inlined=False)
            found.append(SampledAddress(part, () if at else (plain,), int(at[1], 16) if at else None))
    return found


def export(profile: SampledProfile, spending: ProfileBudget) -> Exported:
    """The sum of the values where they have one unit, such as stall reasons, else the value type alone that is shown
    first: a line has room for one value. Stacks whose values are 0 are left out."""
    texts = [_written_address(profile, number) for number in range(len(profile.addresses))]
    stacks: dict[tuple[int, ...], Value] = {}
    columns = weighed_columns(profile)
    for sample in profile.samples:
        stacks[sample.stack] = stacks.get(sample.stack, 0) + sum(sample.values[at] for at in columns)
    sums: dict[str, Value] = {}
    for stack, value in stacks.items():
        if value:
            line = ";".join(texts[number] for number in reversed(stack)) or "(no stack)"
            spending.written(len(line))
            sums[line] = sums.get(line, 0) + value
    lines = [f"{line} {_written_value(value)}\n" for line, value in sums.items() if value]
    notes = list(_left_out(profile))
    return Exported("".join(lines).encode("utf-8", "backslashreplace"), tuple(notes))


def _written_address(profile: SampledProfile, number: int) -> str:
    """Frames root first; a name that the profile gives without a place stays as it is."""
    address = profile.addresses[number]
    plain = [frame for frame in address.frames if frame.file is None and not frame.inlined]
    if not address.frames or (len(plain) == len(address.frames) == 1):
        return " ".join((shown_frames(address)[0].function or address.label).replace(";", ",").split())
    return ";".join(frame_text(frame) for frame in reversed(address.frames))


def _written_value(value: Value) -> str:
    return str(int(value)) if isinstance(value, int) or value.is_integer() else f"{value:.9f}".rstrip("0")


def _left_out(profile: SampledProfile) -> list[str]:
    columns = weighed_columns(profile)
    written = [profile.value_types[at].name for at in columns]
    left = [one.name for at, one in enumerate(profile.value_types) if at not in columns]
    notes = []
    if left:
        notes.append(f"folded stacks have one value: {written[0]}, not {', '.join(left)} (--value chooses another)")
    elif len(written) > 1:
        notes.append(f"folded stacks have one value: the sum of {', '.join(written)} (--value chooses one of them)")
    if any(sample.time is not None for sample in profile.samples):
        notes.append("folded stacks have no times")
    return notes
