"""msgpack from untrusted files, and the metadata note of an AMDGPU code object, where thousands of kernels may differ
in their names alone: what they say is unpacked once.

Sources: the msgpack specification; LLVM's AMDGPU usage guide, "Code Object V3 Metadata".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar

import msgpack

from symd.errors import Malformed

_Arguments = TypeVar("_Arguments", bound=Sized)
_Facts = TypeVar("_Facts")
_KERNELS = "amdhsa.kernels"
_ARGUMENTS, _NAME, _SYMBOL = ".args", ".name", ".symbol"
_NOTHING = b"\xc0"
_MAP, _LIST = (0x80, 0xDE), (0x90, 0xDC)
"""The high nibble of the first byte of a short one, and the first of the two bytes with which longer ones begin."""
_SHORT_STRING, _STRING_8, _STRING_16 = 0xA0, 0xD9, 0xDA
"""The first byte of a string of up to 31 bytes, without its size; and of one whose size is a byte, or two."""
_NO_STRING = b"\xa0"
_NAME_KEY, _SYMBOL_KEY = b"\xa5.name", b"\xa7.symbol"
_NO_KERNEL = _NAME_KEY, _SYMBOL_KEY
"""What is in front of the names of a kernel before there is one: no map begins so, and both keys are searched for."""
MAX_COST = 16 << 20
"""Encoded bytes and arguments of all that is kept, which may take ten times as much: the 410,000 kernels of XLA's
library for ROCm are 3,500 without their names, and a third of this."""
_ARGUMENT_COST = 64
"""Bytes that an argument takes of which nothing is said."""
_NOT_KEPT: Any = object()


class NoteReader(Generic[_Arguments, _Facts]):
    """Reads metadata notes, which errors call ``what``: ``make_facts`` is given what the map of a kernel says, and what
    ``make_arguments`` made of its arguments. Many kernels differ in their names alone, those of several code objects
    too: what was made of one serves all that are like it, so that nobody may change it."""

    def __init__(
        self,
        make_facts: Callable[[dict[Any, Any], _Arguments], _Facts],
        make_arguments: Callable[[object], _Arguments],
        what: str,
    ) -> None:
        self._make_facts, self._make_arguments, self._what = make_facts, make_arguments, what
        self._alike: dict[tuple[bytes, bytes, bytes], _Facts | None] = {}
        self._arguments: dict[bytes, _Arguments] = {}
        self._cost = 0
        self._latest = _NO_KERNEL

    def read(self, data: bytes) -> dict[Any, Any] | None:
        """A note; None where it is no map. In the place of its kernels are the symbol of each, a string in what
        compilers write, and its facts; what is no map among them is left out. Raises Malformed."""
        if not _begins(data, 0, _MAP):
            unpacked(data, self._what)
            return None
        with _readable(self._what):
            reader = _reader(data)
            tree: dict[Any, Any] = {}
            for _ in range(reader.read_map_header()):
                key = _checked_key(_value(_skipped(data, reader)))
                if key == _KERNELS:
                    tree[key] = [self._kernel(each) for each in _kernels(data, reader)]
                else:
                    tree[key] = _value(_skipped(data, reader))
            if reader.tell() < len(data):
                raise msgpack.ExtraData(tree, data[reader.tell() :])
            return tree

    def _kernel(self, kernel: bytes) -> tuple[object, _Facts]:
        """The symbol and the facts of a kernel by its whole map. Raises Malformed.

        No value in msgpack is the beginning of another. Where three parts with empty strings between them are a map
        whose ``.name`` and ``.symbol`` are these strings, as ``_facts_between`` checks, they are with any others."""
        before, between = self._latest  # mostly the next kernel begins in the same way, and these know their hashes
        if not kernel.startswith(before):
            before = kernel[: kernel.rfind(_NAME_KEY) + len(_NAME_KEY)]
        name, at = _string(kernel, len(before))
        if not kernel.startswith(between, at):
            between = kernel[at : kernel.find(_SYMBOL_KEY, at) + len(_SYMBOL_KEY)]
        symbol, end = _string(kernel, at + len(between))
        if name and symbol:
            parts = before, between, kernel[end:]
            facts = self._alike.get(parts, _NOT_KEPT)
            if facts is _NOT_KEPT:
                facts = self._facts_between(parts)
            if facts is not None:
                self._latest = before, between
                return symbol, facts
        self._latest = _NO_KERNEL
        said, encoded, _ = self._map(kernel)
        return said.get(_SYMBOL) or said.get(_NAME), self._make_facts(said, self._made_of(encoded))

    def _facts_between(self, parts: tuple[bytes, bytes, bytes]) -> _Facts | None:
        """The facts of kernels whose maps are these parts with name and symbol between; None where other values stand
        there."""
        before, between, behind = parts
        name_at, symbol_at = len(before), len(before) + len(_NO_STRING) + len(between)
        facts: _Facts | None = None
        cost = symbol_at + len(behind)
        with suppress(Malformed):  # whoever reads the whole map says it, if it is damaged
            said, encoded, places = self._map(_NO_STRING.join(parts))
            if places == [(_NAME, name_at), (_SYMBOL, symbol_at)]:
                arguments = self._made_of(encoded)
                facts = self._make_facts(said, arguments)
                cost += _ARGUMENT_COST * len(arguments)
        if self._makes_room(cost):
            self._alike[parts] = facts
        return facts

    def _map(self, data: bytes) -> tuple[dict[Any, Any], bytes, list[tuple[str, int]]]:
        """What a kernel's map says but the arguments, these as they are in the note, and where its names are, in their
        order. Of arguments that are said twice the last count alone. Raises Malformed."""
        said, arguments, places = dict[Any, Any](), _NOTHING, []
        with _readable(self._what):
            _reader(data).skip()
            reader = _reader(data)
            for _ in range(reader.read_map_header()):
                key = _checked_key(reader.unpack())
                if key == _ARGUMENTS:
                    arguments = _skipped(data, reader)
                    continue
                if key in (_NAME, _SYMBOL):
                    places.append((key, reader.tell()))
                said[key] = reader.unpack()
        return said, arguments, places

    def _made_of(self, encoded: bytes) -> _Arguments:
        made = self._arguments.get(encoded)
        if made is None:
            made = self._make_arguments(unpacked(encoded, self._what))
            if self._makes_room(len(encoded) + _ARGUMENT_COST * len(made)):
                self._arguments[encoded] = made
        return made

    def _makes_room(self, cost: int) -> bool:
        """Whether something more is kept. All else is forgotten where together it would be too much."""
        if cost > MAX_COST:
            return False
        self._cost += cost
        if self._cost > MAX_COST:
            self._alike.clear()
            self._arguments.clear()
            self._cost = cost
        return True


def _kernels(data: bytes, reader: msgpack.Unpacker) -> Iterator[bytes]:
    if not _begins(data, reader.tell(), _LIST):
        _value(_skipped(data, reader))  # which may be refused
        return
    count, end = reader.read_array_header(), reader.tell()
    for _ in range(count):
        reader.skip()
        begin, end = end, reader.tell()
        if _begins(data, begin, _MAP):
            yield data[begin:end]
        else:
            _value(data[begin:end])


def _checked_key(key: object) -> object:
    """The key of a map, which msgpack has not seen as one. Raises ValueError."""
    if not isinstance(key, (str, bytes)):
        raise ValueError(f"{type(key).__name__} is not allowed for map key")  # noqa: TRY004 - as msgpack says it
    return key


def _string(data: bytes, at: int) -> tuple[str, int]:
    """The string of less than 64 KiB at ``at``, and where it ends; an empty one where there is none."""
    head = data[at] if at < len(data) else 0
    if head & 0xE0 == _SHORT_STRING:
        begin, size = at + 1, head & 0x1F
    elif head in (_STRING_8, _STRING_16):
        begin = at + (2 if head == _STRING_8 else 3)
        size = int.from_bytes(data[at + 1 : begin], "big")
    else:
        return "", at
    try:
        return data[begin : begin + size].decode(), begin + size
    except UnicodeDecodeError:
        return "", at


def _skipped(data: bytes, reader: msgpack.Unpacker) -> bytes:
    """The next value, as it is in ``data``: nothing is made of it, where msgpack allocates as many elements as a list
    says that it has."""
    at = reader.tell()
    reader.skip()
    return data[at : reader.tell()]


def _begins(data: bytes, at: int, heads: tuple[int, int]) -> bool:
    """Whether a map or a list begins at ``at``."""
    head = data[at] if at < len(data) else 0
    return head & 0xF0 == heads[0] or head in (heads[1], heads[1] + 1)


def unpacked(data: bytes, what: str) -> Any:
    """The one value that ``data`` is. Raises Malformed, which names it as ``what``."""
    with _readable(what):
        _reader(data).skip()  # walked before anything is made of it, for the reason of _skipped
        return _value(data)


def _value(data: bytes) -> Any:
    return msgpack.unpackb(data, ext_hook=extension)


@contextmanager
def _readable(what: str) -> Iterator[None]:
    try:
        yield
    except msgpack.OutOfData:
        raise Malformed(f"{what} is cut off") from None
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise Malformed(f"{what} is not msgpack that can be read: {str(error) or type(error).__name__}") from error


def extension(kind: int, data: bytes) -> tuple[int, bytes]:
    """The value of an extension type, but of timestamps, which msgpack reads itself. Its own hook refuses the other
    types below 0, which the specification has for itself."""
    return kind, data


def _reader(data: bytes) -> msgpack.Unpacker:
    """Reads ``data`` a value at a time, or skips one without making anything of it."""
    reader = msgpack.Unpacker(ext_hook=extension, max_buffer_size=max(len(data), 1))
    reader.feed(data)
    return reader
