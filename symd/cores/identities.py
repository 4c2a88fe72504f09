"""Whether two code objects have the same code: one in a dump, which may lack debug data, and one that somebody kept."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from symd.config import DEFAULT_LIMITS
from symd.cores.stopped import CodeIdentity, TextPlace
from symd.errors import SymdError
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.elf.constants import PF_X, PT_LOAD
from symd.model.code import CodeKind, CodeObject, DebugScheme, Vendor


def identity_of(code: CodeObject, *, relocated: bool = False) -> CodeIdentity | None:
    """What the code is known by; None for SPIR-V, which no device executes."""
    if code.kind is not CodeKind.MACHINE:
        return None
    pieces = _segments(code) if code.vendor is Vendor.AMD and code.linked else _sections(code)
    texts = tuple(
        TextPlace(each.index, each.name, each.address, each.size) for each in code.sections if each.executable
    )
    return CodeIdentity(code.target, tuple(sorted(pieces)), texts, code.debug is not DebugScheme.NONE, relocated)


def _sections(code: CodeObject) -> Iterator[tuple[str, int, str]]:
    for each in code.sections:
        if each.executable:
            yield each.name, each.size, sha256(each.data).hexdigest()


def _segments(code: CodeObject) -> Iterator[tuple[str, int, str]]:
    """AMD's loaded images have no sections: segments are what both forms have."""
    try:
        image = elf.parse(code.data, Budget(DEFAULT_LIMITS, len(code.data)), section_table=False)
    except SymdError:
        return
    for segment in image.segments:
        if segment.type == PT_LOAD and segment.flags & PF_X:
            yield f"{segment.address:#x}", segment.file_size, sha256(image.stored(segment)).hexdigest()


def is_same(one: CodeIdentity, other: CodeIdentity) -> bool:
    """Whether all pieces of the code have the same names, sizes and bytes; where a loader changed the bytes, names and
    sizes, of those pieces that it loaded."""
    if one.relocated or other.relocated:
        mine, theirs = ({(name, size) for name, size, _ in each.known_by} for each in (one, other))
        return bool(mine and theirs) and ((one.relocated and mine <= theirs) or (other.relocated and theirs <= mine))
    return bool(one.known_by) and one.known_by == other.known_by


def counterpart(one: CodeIdentity, other: CodeIdentity, section: int, offset: int) -> tuple[int, int] | None:
    """The place in ``other``, which is the same, of a section of ``one`` and an offset in it; None where it has none."""
    text = next((each for each in one.texts if each.section == section), None)
    if text is None:
        return None
    for each in other.texts:
        if (each.name, each.size, each.address) == (text.name, text.size, text.address):
            return each.section, offset
    for each in other.texts:
        if (each.name, each.size) == (text.name, text.size):
            return each.section, offset
    address = text.address + offset
    holding = (each for each in other.texts if each.address <= address < each.address + each.size)
    return next(((each.section, address - each.address) for each in holding), None)
