"""What the samples hold, as inputs of the readers: whole files, containers and code objects inside them, debug sections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

from symd.config import Limits
from symd.errors import SymdError
from symd.formats import containers
from symd.formats.budget import Budget
from symd.formats.containers.format import Element, Format
from symd.model.code import CodeObject, DebugScheme
from tests.fuzz.mutations import SAMPLES, samples
from tests.fuzz.small_files import PATCH_TOKENS
from tests.hostile.wrappers import WRAPPERS

LARGEST = 1 << 16
"""Bytes of a seed where smaller ones say as much: the fewer, the more inputs a second."""
ALIKE = 12
"""Seeds of one kind."""


def spread(found: Iterable[bytes], count: int = ALIKE, largest: int = LARGEST) -> list[bytes]:
    """So many of them, from the smallest to the largest, none twice; the smallest alone where all are too large."""
    sorted_ = sorted(set(found), key=lambda data: (len(data), data))
    fit = [data for data in sorted_ if len(data) <= largest] or sorted_[:1]
    step = max(1, len(fit) // count)
    return fit[::step][:count]


@cache
def files() -> tuple[bytes, ...]:
    """Whole samples of which none is large."""
    return tuple(sorted({data for data in samples() if len(data) <= LARGEST}, key=lambda data: (len(data), data)))


@cache
def elements() -> tuple[tuple[Format, bytes], ...]:
    """Every sample and what is inside it, however deep, with its format."""
    return tuple(each for data in samples() for each in _inside(data))


def _inside(data: bytes) -> Iterator[tuple[Format, bytes]]:
    form = containers.identify(data)
    if form is None:
        return
    yield form, data
    try:
        found = form.read(Element("", data), Budget(Limits())).elements
    except SymdError:
        return
    for each in found:
        yield from _inside(bytes(each.data))


def of_format(form: Format) -> Callable[[], Sequence[bytes]]:
    """What this format's reader claims."""
    return cache(lambda: spread(data for each, data in elements() if each is form) or _generated(form))


def _generated(form: Format) -> list[bytes]:
    """For a format of which there is no sample: a container around a small one, or a program binary's header."""
    small = images()[0]
    made = [wrap(small) for wrap in WRAPPERS.values()] + [PATCH_TOKENS]
    return [data for data in made if containers.identify(data) is form]


@cache
def images() -> tuple[bytes, ...]:
    """ELF images of every kind."""
    by_kind: dict[object, list[bytes]] = {}
    for form, data in elements():
        if data[:4] == b"\x7fELF":
            by_kind.setdefault((form, data[16:20]), []).append(data)
    return tuple(data for alike in by_kind.values() for data in spread(alike))


@cache
def debug_code() -> tuple[CodeObject, ...]:
    """Code objects with DWARF, a few of each vendor and version, small ones."""
    by_kind: dict[object, dict[bytes, CodeObject]] = {}
    for form, data in elements():
        if data[:4] != b"\x7fELF" or len(data) > 4 * LARGEST:
            continue
        code = _code_object(form, data)
        if code is not None and code.debug not in (DebugScheme.NONE, DebugScheme.SPIRV):
            by_kind.setdefault((code.vendor, code.debug, code.relocation), {})[code.data] = code
    return tuple(alike[data] for alike in by_kind.values() for data in spread(alike, largest=4 * LARGEST))


def _code_object(form: Format, data: bytes) -> CodeObject | None:
    try:
        return form.read(Element("", data), Budget(Limits())).code_object
    except SymdError:
        return None


def profiles() -> tuple[bytes, ...]:
    """The sample profiles, as they are and expanded."""
    return tuple(path.read_bytes() for path in sorted((SAMPLES / "profiles").glob("*.*")) if path.suffix not in _OTHER)


_OTHER = {".md", ".py", ".go"}
