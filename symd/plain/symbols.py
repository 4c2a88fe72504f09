"""What symbols say of a function: whether others begin inside it, and where a kernel begins.

Sources: System V ABI, chapter 4, "Symbol Table"; LLVM's AMDGPU usage guide, "Symbols"."""

from __future__ import annotations

from struct import Struct

from symd.model.plain_answers import NotPlain
from symd.plain.image import SHT_SYMTAB

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from symd.plain.image import Image

STT_OBJECT, STT_FUNC, SHN_UNDEF = 1, 2, 0
_SYMBOL = Struct("<IBBHQQ")
_MOST_STRINGS = 16
"""Places of a table of strings where one ends."""


def is_one_symbols(image: Image, first: int, last: int) -> bool:
    """Whether no symbol begins or ends inside the addresses ``first`` to ``last``."""
    for _, (offset, size), _ in image.symbol_tables:
        numbers = memoryview(image.bytes_at(offset, size)).cast("Q").tolist()
        values, sizes = numbers[1 :: _SYMBOL.size // 8], numbers[2 :: _SYMBOL.size // 8]
        if any(first < value < last for value in values):
            return False
        if any(value < first < value + size < last for value, size in zip(values, sizes, strict=True)):
            return False
    return True


def kernel_address(image: Image, kernel: str) -> int:
    """Where the kernel of that name begins. Raises NotPlain unless one function with a size and one descriptor have the name."""
    chosen = [each for each in image.symbol_tables if each[0] == SHT_SYMTAB and each[1][1]]
    if not chosen or not kernel.isascii():
        raise NotPlain
    _, table, strings = chosen[0]
    symbols, texts = image.bytes_at(*table), image.bytes_at(*strings)
    functions = _named(symbols, texts, kernel.encode())
    descriptors = _named(symbols, texts, f"{kernel}.kd".encode())
    if len(functions) != 1 or len(descriptors) != 1:
        raise NotPlain
    (kind, section, value, size), (descriptor, place, _, _) = functions[0], descriptors[0]
    if kind != STT_FUNC or not size or section != image.text_number or descriptor != STT_OBJECT or place == SHN_UNDEF:
        raise NotPlain
    return value


def _named(symbols: bytes, strings: bytes, name: bytes) -> list[tuple[int, int, int, int]]:
    """The type, section, value and size of all symbols of that name."""
    wanted, at = [], -1
    while (at := strings.find(name + b"\0", at + 1)) >= 0:
        wanted.append(at)
        if len(wanted) > _MOST_STRINGS:
            raise NotPlain
    numbers = memoryview(symbols).cast("I")[:: _SYMBOL.size // 4]
    found = [_SYMBOL.unpack_from(symbols, number * _SYMBOL.size) for number, at in enumerate(numbers) if at in wanted]
    return [(info & 15, section, value, size) for _, info, _, section, value, size in found]
