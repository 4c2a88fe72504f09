"""A module described, without its bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from symd.model.code import NO_FACTS, CodeKind, CodeObject
from symd.model.identities import Digest, ObjectPath
from symd.model.light_typing import Any, NamedTuple


class KernelSummary(NamedTuple):
    """A kernel described. ``offset``: bytes from the section's first byte; ``size``: bytes of text, 0 where it has none
    or the file does not say; ``section`` is None where the format has no sections; ``facts`` is what the format says of
    it, JSON-ready."""

    name: str
    section: str | None
    section_index: int
    offset: int
    size: int
    facts: Mapping[str, Any] = NO_FACTS


make_kernel_summary: Callable[[tuple[Any, ...]], KernelSummary] = partial(tuple.__new__, KernelSummary)
"""Makes one of its fields, in half of the time: a library has hundreds of thousands."""


class ObjectSummary(NamedTuple):
    """A code object described, without its bytes. ``notes`` are warnings a reader should see."""

    path: ObjectPath
    format: str
    target: str | None
    size: int
    sha256: Digest
    debug: str
    kernels: tuple[KernelSummary, ...] = ()
    facts: Mapping[str, Any] = NO_FACTS
    notes: Sequence[str] = ()

    @property
    def kind(self) -> CodeKind:
        """Where machine code names its device, SPIR-V names its version: "spirv1.2"."""
        return CodeKind.SPIRV if (self.target or "").startswith("spirv") else CodeKind.MACHINE

    @property
    def is_compiler_input(self) -> bool:
        """Whether this is SPIR-V inside a container: where there is machine code beside it, that was made from it."""
        return self.kind is CodeKind.SPIRV and self.path != ""

    def has_kernel(self, name: str) -> bool:
        return any(kernel.name == name for kernel in self.kernels)


def code_summary(code: CodeObject, digest: Digest, notes: Sequence[str] = ()) -> ObjectSummary:
    """A code object described, whose bytes have that digest; ``notes`` are behind its own. Facts and warnings that
    nobody looked at yet stay so."""
    kernels = code.kernels
    sections = {number: code.section_name(number) for number in {kernel.section_index for kernel in kernels}}
    return ObjectSummary(
        code.path,
        code.format,
        code.target,
        len(code.data),
        digest,
        code.debug.value,
        tuple(
            [
                make_kernel_summary((name, sections[number], number, offset, size, facts))
                for name, number, offset, size, facts in kernels
            ]
        ),
        code.facts,
        (*code.warnings, *notes) if notes else code.warnings,
    )


SectionAddresses = Mapping[str, Mapping[int, int]]
"""The addresses of a module's text sections by the paths of their code objects and their numbers there; one that is
missing has the address 0."""


def section_addresses(code: CodeObject) -> dict[int, int]:
    """The addresses of the sections that the kernels of a code object are in, but for those at 0."""
    numbers = {kernel.section_index for kernel in code.kernels}
    return {each.index: each.address for each in code.sections if each.index in numbers and each.address}


UNREAD = "debug data cannot be read: "
"""How the note begins that says why."""
NO_SECTIONS = "the section table cannot be used"
"""How the note of a code object begins whose debug data cannot be found, as of a file that was cut off: the table
is at its end."""


class ContainerSummary(NamedTuple):
    """A container that was opened on the way to the code objects: its nesting ``path`` ("" for the module itself), its
    ``size`` in bytes, and what it says of itself, such as the ``entries`` of a fat binary, those without code
    included."""

    path: ObjectPath
    format: str
    size: int
    facts: Mapping[str, Any] = NO_FACTS


class ModuleSummary(NamedTuple):
    """A module described. ``sha256`` is its name; ``format`` is the outermost container's."""

    sha256: Digest
    size: int
    format: str
    objects: tuple[ObjectSummary, ...] = ()
    notes: tuple[str, ...] = ()
    containers: tuple[ContainerSummary, ...] = ()

    def spirv_hint(self, kernel: str) -> str:
        """Which SPIR-V inside the module has a kernel of that name, for somebody who asked without ``--object``; ""
        where none has."""
        path = self.spirv_with(kernel)
        return in_spirv(path) if path else ""

    def spirv_with(self, kernel: str) -> str:
        """The path of the first SPIR-V inside the module that has a kernel of that name; "" where none has."""
        found = (each.path for each in self.objects if each.is_compiler_input and each.has_kernel(kernel))
        return next(found, "")

    def unread(self, path: str | None) -> str:
        """Why the debug data of the code object at ``path`` cannot be read or found, or, without it, why the module has
        no code object; "" where neither is so."""
        if path is None:
            return "" if self.objects else "; ".join(self.notes)
        notes = (note for each in self.objects if each.path == path for note in each.notes)
        return next((note for note in notes if note.startswith((UNREAD, NO_SECTIONS))), "")

    def described(self) -> Sequence[ObjectSummary]:
        """The code objects, as a file that was opened in part describes them too."""
        return self.objects


def in_spirv(path: str) -> str:
    """The hint for a name that only the SPIR-V at ``path`` has."""
    return f"its SPIR-V has it: --object {path}"


_LARGE_INTEGER = 1


def large_integer(value: int) -> tuple[int, bytes]:
    """What msgpack has for an integer that takes more than 64 bits: an extension, with its type and its bytes, which
    are little-endian two's complement."""
    return _LARGE_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


def _from_extension(kind: int, data: bytes) -> int:
    if kind != _LARGE_INTEGER:
        raise ValueError(f"extension type {kind} is not known")
    return int.from_bytes(data, "little", signed=True)


UNPACKING: Mapping[str, Any] = {
    "ext_hook": _from_extension,
    "unicode_errors": "surrogatepass",
    "strict_map_key": False,
}
"""The options with which msgpack unpacks facts, with any integer and any text."""


class ModuleRecord(NamedTuple):
    """A line of the module catalogue. ``label`` is what the one who brought it called it; ``create_time`` is seconds
    since the epoch; ``failure`` is the remembered reason why it cannot be read ("" when it can, or was not tried)."""

    sha256: Digest
    size: int
    format: str
    label: str
    create_time: float
    failure: str = ""
