"""The three names that the module of each format in this package has, and the table of formats, which imports a module
when its format is first asked for: a process that reads one file needs few of them.

NAME                     the format's name in answers (``info --json``)
claims(data)             a cheap look at the first bytes; never raises
read(element, budget)    the contents: elements to open further, or one code object, which says everything that the
                         rooms below need to know of it: vendor, kind, debug and relocation scheme

Facts and warnings may be read when somebody first looks at them (``LazyMapping``): a question about one address needs
none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

from symd.formats.budget import Budget
from symd.model.code import NO_FACTS, CodeObject
from symd.model.identities import ObjectPath
from symd.model.light_typing import Any, NamedTuple, Protocol


class Element(NamedTuple):
    """Bytes to open: the module itself, or what a container holds. ``content`` are the bytes, or makes them when the
    element is opened: what many elements expand to need not be in memory together. ``name`` is its element of the
    nesting path ("" for the module itself); ``kernel``, ``target`` and ``bias`` (what was added to its addresses when
    it was loaded) are what the container around it knows and the bytes may not say. ``path`` is its nesting path,
    ``stored`` the size of the module: who opens it says so. ``outline``: kernels and functions may be read when
    somebody looks, and raise what reading them raises then; what SPIR-V says of kernels is left out."""

    name: str
    content: bytes | Callable[[], bytes]
    kernel: str | None = None
    target: str | None = None
    bias: int = 0
    path: ObjectPath = ObjectPath("")
    stored: int = 0
    outline: bool = False

    @property
    def data(self) -> bytes:
        """The bytes. Raises what making them raises."""
        return self.content() if callable(self.content) else self.content


Joining = Callable[[CodeObject, str, Budget], CodeObject]
"""What joins a code object, at a path, to its debug data that lies apart. Raises what reading that raises."""


class Contents(NamedTuple):
    """What a format module found: ``elements`` of a container, or the one ``code_object``. ``notes`` are warnings that
    somebody who reads the answer should see, such as a damaged element that was left out. ``facts``, JSON-ready, are
    about the container itself."""

    elements: tuple[Element, ...] = ()
    code_object: CodeObject | None = None
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Any] = NO_FACTS
    joining: Joining | None = None
    """Set by a format that holds one file alone, which is opened as if it were the module, beside files with debug data
    of code objects inside it."""
    format: str | None = None
    """Overrides the module's NAME where one module reads several dialects."""


class Format(Protocol):
    """What a module that reads a format has; the table above says more of each name."""

    NAME: str

    def claims(self, data: bytes) -> bool: ...
    def read(self, element: Element, budget: Budget) -> Contents: ...


class FormatTable:
    """Formats that are asked one after another whether they claim some bytes, each imported when it is asked.
    ``names`` are modules of this package, in the order in which they are asked."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[Format]:
        return map(_reader, self._names)


@cache
def _reader(name: str) -> Format:
    """Asked for each of a module's code objects, which may be many."""
    found: Format = __import__(f"{__package__}.{name}", fromlist=["read"])  # importlib is slow to import
    return found


def read_by(name: str) -> Callable[[Element, Budget], Contents]:
    """``read`` of a format whose claim many files are asked for, and whose reader is slow to import: it is another
    module of this package, imported with the first file that it reads."""

    def read(element: Element, budget: Budget) -> Contents:
        return _reader(name).read(element, budget)

    return read
