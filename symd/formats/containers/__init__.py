"""Bytes in, code objects out, however deep they are nested. Adding a format is one new module and one line in FORMATS;
the only function that opens nesting is here."""

from __future__ import annotations

from collections.abc import Iterator

from symd.config import DEFAULT_LIMITS, Limits
from symd.errors import LimitExceeded, Malformed, SymdError, UnknownFormat, Unsupported
from symd.formats.budget import Budget
from symd.formats.containers import spirv
from symd.formats.containers.format import Element, Format, FormatTable, Joining
from symd.model.code import CodeObject
from symd.model.identities import ObjectPath
from symd.model.light_typing import Final, NamedTuple
from symd.model.summaries import ContainerSummary
from symd.model.texts import counted

__all__ = ("FORMATS", "MAX_NOTES", "MAX_TEXT_SIZE", "UnpackedModule", "format_name", "identify", "unpack")

FORMATS: Final = FormatTable(
    "spirv",
    "intel.igc_debug",
    "intel.patch_tokens",
    "intel.neo_elf",
    "intel.zebin",
    "intel.igc_elf",
    "amd.amdgpu_core",
    "amd.amdgpu",
    "nvidia.cuda_core",
    "nvidia.cubin",
    "nvidia.fatbin",
    "offload_bundle",
    "compressed_bundle",
    "offload_binary",
    "amd.kpack",
    "archive",
    "compressed_file",
    "with_dwo",
    "host_elf",
)
"""Asked in this order; the first that claims the bytes reads them, and those behind it are not even imported."""

MAX_TEXT_SIZE: Final = 1 << 44
"""Bytes of text that a code object may have. A section without content in the file says any number; so the text
positions of all code objects of a module (``index.module_tables``) fit 64 bits."""

MAX_NOTES: Final = 1 << 20
"""Characters of notes; further ones are counted. Whoever makes a file says how many of its elements are malformed and
how long their names are, and who asks for a module gets all notes in one message."""


class UnpackedModule(NamedTuple):
    """The outermost format, every code object with its nesting path, notes on what was malformed and left out, and the
    containers in the order in which they were opened."""

    format: str
    objects: tuple[CodeObject, ...]
    notes: tuple[str, ...] = ()
    containers: tuple[ContainerSummary, ...] = ()


def identify(data: bytes) -> Format | None:
    """The format that claims the bytes."""
    return next((module for module in FORMATS if module.claims(data)), None)


def format_name(data: bytes) -> str:
    """What ``unpack`` calls the outermost format, found with the first code object; "unknown" where no reader takes
    it."""
    opening = ContainerUnpacker(data, DEFAULT_LIMITS)
    try:  # noqa: SIM105 - contextlib is slow to import
        next(iter(opening), None)
    except SymdError:
        pass
    return opening.format or "unknown"


def unpack(data: bytes, limits: Limits | None = None, path: str | None = None) -> UnpackedModule:
    """Open a module; with ``path`` only what is on the way to that code object.

    A malformed element of a container becomes a note that names it, and the rest is answered; a module of which nothing
    can be read raises what its first malformed element raised, and one whose parts are sound and hold no code raises
    Unsupported. Raises UnknownFormat, Malformed, LimitExceeded too.
    """
    opening = ContainerUnpacker(data, limits or DEFAULT_LIMITS, path)
    objects = tuple(code for code in opening if path in (None, code.path))
    return UnpackedModule(opening.format, objects, tuple(opening.notes), tuple(opening.containers))


class ContainerUnpacker:
    """One code object of a module after the other, as ``unpack`` has them, each made when it is asked for and kept
    nowhere; ``format``, ``notes`` and ``containers`` are complete at the end. With ``path`` only what is on the way to
    that code object is opened. To be gone through once."""

    def __init__(self, data: bytes, limits: Limits, path: str | None = None, *, outline: bool = False) -> None:
        """An ``outline`` leaves out SPIR-V inside of containers, and kernels and functions may be read when somebody
        looks."""
        self.format = ""
        self.notes: list[str] = []
        self.containers: list[ContainerSummary] = []
        self.data, self._path, self._outline = data, path, outline
        self._budget = Budget(limits, len(data))
        self._failures: list[SymdError] = []
        self._found = False
        self._without_code = 0
        self._notes_left, self._unsaid = MAX_NOTES, 0
        self._joining: Joining | None = None

    def __iter__(self) -> Iterator[CodeObject]:
        yield from self._open(Element("", self.data), (), 0)
        if self._unsaid:
            self.notes.append(f"{counted(self._unsaid, 'further note')} not shown, beyond {MAX_NOTES:,} characters")
        if not self._found and self._failures:
            raise self._failures[0]
        if self._without_code and not self._found and not self.notes and self._path is None:
            inside = "the only file" if self._without_code == 1 else f"none of the {self._without_code:,} files"
            carries = "carries no" if self._without_code == 1 else "carries"
            raise Unsupported(
                f"{inside} inside the {self.format} {carries} device code that symd reads",
                hint="object files have device code if they were compiled as HIP, CUDA or SYCL, or with offloading",
            )

    def _open(self, element: Element, path: tuple[str, ...], depth: int) -> Iterator[CodeObject]:
        """Open one element and what is inside it."""
        place = "/".join(path)
        self._budget.check_depth(depth, place or "the module")
        data = element.data
        element = element._replace(content=data, path=ObjectPath(place), stored=len(self.data), outline=self._outline)
        module = identify(data)
        if module is None:
            from symd.formats.containers.recognized import recognized  # noqa: PLC0415 - 5 ms: what is read needs no word for what is not

            known = recognized(data)
            if known is not None:
                raise UnknownFormat(f"this is {known[0]}", where=place, hint=known[1])
            head = data[:8].hex(" ") or "none, it is empty"
            raise UnknownFormat(f"no reader knows this format; first bytes: {head}", where=place)
        contents = module.read(element, self._budget)
        if contents.joining is not None and not path:
            self._joining = contents.joining
            yield from self._open(contents.elements[0], path, depth + 1)
            return
        form = contents.format or module.NAME
        self.format = self.format or form
        for note in contents.notes:
            self._note(f"{place}: {note}" if place else note)
        self._budget.count_elements(place)
        children = _uniquely_named(contents.elements)
        if contents.code_object is not None:
            made = [self._checked(contents.code_object, place)]
            del contents, element, data  # while a generator waits, what it has names for stays in memory
            self._found = True
            yield made.pop()
        else:
            self.containers.append(ContainerSummary(ObjectPath(place), form, len(data), contents.facts))
            self._without_code += bool(path) and not children
        for name, child in children:
            if self._on_the_way((*path, name)) and not (
                self._outline and isinstance(child.content, bytes) and spirv.claims(child.content)
            ):
                yield from self._child(child, (*path, name), depth + 1)

    def _checked(self, code: CodeObject, place: str) -> CodeObject:
        text = sum([section.size for section in code.sections if section.executable])
        if text > MAX_TEXT_SIZE:
            raise Malformed(
                f"its text takes {text} bytes, more than {MAX_TEXT_SIZE} that any GPU could hold", where=place
            )
        return code if self._joining is None else self._joining(code, place, self._budget)

    def _on_the_way(self, path: tuple[str, ...]) -> bool:
        if self._path is None:
            return True
        place = "/".join(path)
        return self._path == place or self._path.startswith(f"{place}/")

    def _child(self, element: Element, path: tuple[str, ...], depth: int) -> Iterator[CodeObject]:
        try:
            yield from self._open(element, path, depth)
        except LimitExceeded:
            raise
        except SymdError as error:
            failure = error if error.where.startswith("/".join(path)) else error.prefix_where("/".join(path))
            self._failures.append(failure)
            self._note(f"left out: {failure}")

    def _note(self, note: str) -> None:
        if self._unsaid or len(note) > self._notes_left:
            self._unsaid += 1
        else:
            self._notes_left -= len(note)
            self.notes.append(note)


def _uniquely_named(elements: tuple[Element, ...]) -> list[tuple[str, Element]]:
    """Elements with path elements that are unique among siblings: a repeated name gets #2, #3, ..."""
    seen: dict[str, int] = {}
    result = []
    for element in elements:
        name = element.name or "element"
        seen[name] = seen.get(name, 0) + 1
        result.append((name if seen[name] == 1 else f"{name}#{seen[name]}", element))
    return result
