"""The process in which Intel's disassembler library runs. It is started by its path, and writes what it decoded to a
pipe; when the library crashes, what was written before has arrived. Once the library is loaded it gives up all files
and most system calls, where the kernel lets it: of symd it imports what that takes, and none of its packages' own
initialization.

Arguments: symd's folder, the libraries to try, in order, and the descriptor of the pipe. The file ``input`` holds the
texts: u32 generation, u32 length, bytes. The answer has, for each text, one line for each instruction,
``OFFSET SIZE TEXT``, and then ``= LIBRARY`` or ``! STATUS MESSAGE``.

Source: iga.h and kv.hpp of Debian's libiga64-dev (the functions kv_create, kv_get_inst_size, kv_get_inst_syntax,
kv_delete), the same in both library generations.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TextIO

_HEAD: Final = struct.Struct("<II")
IGA_UNSUPPORTED_PLATFORM: Final = 10
_INSTRUCTION_TEXT_BYTES: Final = 1 << 14
_ALIGNMENT: Final = 8


def main(confinement: Any, libraries: Sequence[str], descriptor: int) -> int:
    """Decode the file ``input`` of the working directory; exit status 3 when no library can be loaded."""
    problems: list[str] = []
    loaded = [*_loaded(libraries, problems)]
    if not loaded:
        sys.stderr.write("\n".join(problems))
        return 3
    data = Path("input").read_bytes()
    with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as answer:
        if confinement.available():
            confinement.confine(())
        for generation, text in _texts(data):
            _decode(loaded, generation, text, answer)
            answer.flush()
    return 0


def name_packages(package: str) -> None:
    """Have symd's modules found in its folder, without its packages' own initialization."""
    packages = (
        ("symd", package),
        ("symd.system", f"{package}/system"),
        ("symd.system.process", f"{package}/system/process"),
    )
    for name, folder in packages:
        module = sys.modules[name] = ModuleType(name)
        module.__path__ = [folder]


def _loaded(libraries: Sequence[str], problems: list[str]) -> Iterator[tuple[str, Any]]:
    for name in libraries:
        try:
            library = ctypes.CDLL(name)
            library.kv_create.restype = ctypes.c_void_p
            library.kv_get_inst_syntax.restype = ctypes.c_size_t
        except (OSError, AttributeError) as error:
            problems.append(str(error))
            continue
        yield Path(name).name, library


def _texts(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        generation, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        yield generation, data[at : at + length]
        at += length


def _decode(loaded: Sequence[tuple[str, Any]], generation: int, text: bytes, answer: TextIO) -> None:
    """Decode with the first library that knows the generation. It gets whole units of 8 bytes, with room behind: given
    less than one instruction, it reads past the end."""
    whole = len(text) // _ALIGNMENT * _ALIGNMENT
    padded = text[:whole] + bytes(2 * _ALIGNMENT)
    message = ctypes.create_string_buffer(1 << 12)
    status = ctypes.c_int32(IGA_UNSUPPORTED_PLATFORM)
    for name, library in loaded:
        view = library.kv_create(
            ctypes.c_uint32(generation),
            padded,
            ctypes.c_size_t(whole),
            ctypes.byref(status),
            message,
            ctypes.c_size_t(len(message)),
            ctypes.c_uint32(0),
        )
        if view:  # also where some instruction cannot be decoded: it is shown as illegal
            _write(library, ctypes.c_void_p(view), (whole, len(text)), answer)
            library.kv_delete(ctypes.c_void_p(view))
            print(f"= {name}", file=answer)
            return
        if status.value != IGA_UNSUPPORTED_PLATFORM:
            break
    print(f"! {status.value} {_line(message)}", file=answer)


def _write(library: Any, view: ctypes.c_void_p, lengths: tuple[int, int], answer: TextIO) -> None:
    """Every instruction of what the library was given; where it stops before the end, the rest of the text in pieces of
    8 bytes that are not decoded."""
    given, length = lengths
    at = 0
    syntax = ctypes.create_string_buffer(_INSTRUCTION_TEXT_BYTES)
    while at < length:
        size = library.kv_get_inst_size(view, ctypes.c_int32(at)) if at < given else 0
        if size <= 0 or at + size > given:
            size = min(_ALIGNMENT, length - at)
            print(at, size, "(not decoded)", file=answer)
        else:
            syntax[0] = b"\0"
            library.kv_get_inst_syntax(
                view,
                ctypes.c_int32(at),
                syntax,
                ctypes.c_size_t(_INSTRUCTION_TEXT_BYTES),
                ctypes.c_uint32(0),
                None,
                None,
            )
            print(at, size, _line(syntax), file=answer)
        at += size


def _line(buffer: ctypes.Array[ctypes.c_char]) -> str:
    """The text of a buffer as one line, without what follows its end."""
    text = buffer.value.decode("utf-8", "backslashreplace")
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    return text.rstrip()


if __name__ == "__main__":
    name_packages(sys.argv[1])
    from symd.system.process import confinement

    sys.exit(main(confinement, sys.argv[2:-1], int(sys.argv[-1])))
