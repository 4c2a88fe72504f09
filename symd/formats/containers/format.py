"""The three names that the module of each format in this package has, and the table of formats, which imports a module
when its format is first asked for: a process that reads one file needs few of them.

NAME                     the format's name in answers (``info --json``)
claims(data)             a cheap look at the first bytes; never raises
read(element, budget)    the contents: elements to open further, or one code object, which says everything that the
                         rooms below need to know of it: vendor, kind, debug and relocation scheme

Facts and warnings may be read when somebody first looks at them (``LazyMapping``): a question about one address needs
none."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence
from functools import cache

from symd.formats.budget import Budget
from symd.model.code import NO_FACTS, CodeObject
from symd.model.identities import ObjectPath
from symd.model.light_typing import Any, NamedTuple, Protocol, TypeVar, overload


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


_Item = TypeVar("_Item")


class Lazy:
    """What ``read`` returns, called when somebody first looks."""

    __slots__ = ("_known", "_read")

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read
        self._known: Any = None

    def plain(self) -> Any:
        """The dictionary or the tuple itself."""
        if self._known is None:
            self._known = self._read()
        return self._known

    def __len__(self) -> int:
        return len(self.plain())

    def __repr__(self) -> str:
        return repr(self.plain())


class LazyMapping(Lazy, Mapping[str, "Any"]):
    """A mapping that is read when it is first used. Equal to any mapping that holds the same."""

    __slots__ = ()

    def __getitem__(self, name: str) -> Any:
        return self.plain()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.plain())


class PackedRecords:
    """A list of records inside of facts that is unpacked whenever somebody looks, and not kept; how many there are is
    known."""

    __slots__ = ("_count",)

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def plain(self) -> list[dict[str, Any]]:
        """The records themselves."""
        raise NotImplementedError


class PackedMapping(LazyMapping):
    """A mapping of which some values may be ``PackedRecords`` in what ``read`` returns."""

    __slots__ = ()

    def packed(self) -> dict[str, Any]:
        """What was read. ``read``, and whatever it knows, is forgotten."""
        known: dict[str, Any] = super().plain()
        self._read = _nothing
        return known

    def plain(self) -> dict[str, Any]:
        return {name: _unpacked(value) for name, value in self.packed().items()}

    def __getitem__(self, name: str) -> Any:
        return _unpacked(self.packed()[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.packed())

    def __len__(self) -> int:
        return len(self.packed())

    def items(self) -> ItemsView[str, Any]:
        return self.plain().items()


def _unpacked(value: Any) -> Any:
    return value.plain() if isinstance(value, PackedRecords) else value


def _nothing() -> dict[str, Any]:
    return {}


class LazySequence(Lazy, Sequence["_Item"]):
    """A sequence that is read when the first of its items is asked for. Equal to any sequence that holds the same."""

    __slots__ = ()

    @overload
    def __getitem__(self, at: int) -> _Item: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[_Item]: ...
    def __getitem__(self, at: int | slice) -> _Item | Sequence[_Item]:
        found: _Item | Sequence[_Item] = self.plain()[at]
        return found

    def __iter__(self) -> Iterator[_Item]:
        return iter(self.plain())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and bool(self.plain() == tuple(other))

    def __hash__(self) -> int:
        return hash(self.plain())
