"""Takes the driver's own modules out of a dump that a GPU wrote: the cubins in which no function of NAME... has code. All else stays,
byte for byte, at another place in the file. Run from the root: ``python -m samples.cores.cut IN OUT.gz NAME...``."""

from __future__ import annotations

import gzip
import struct
import sys
from pathlib import Path

SECTION = "<IIQQQQIIQQ"
IMAGES = (0x8000_0006, 0x8000_0007)
"""The types of sections with a cubin, as it was loaded from and relocated."""


def without_other_code(dump: bytes, names: list[str]) -> bytes:
    """The dump with the images of the modules that have these functions, and no other."""
    (table,) = struct.unpack_from("<Q", dump, 40)
    (count,) = struct.unpack_from("<H", dump, 60)
    wanted = [f".text.{name}\0".encode() for name in names]
    made, headers = bytearray(dump[:64]), []
    for number in range(count):
        name, kind, flags, address, offset, size, *rest = struct.unpack_from(SECTION, dump, table + 64 * number)
        content = dump[offset : offset + size] if kind else b""
        if kind in IMAGES and not any(each in content for each in wanted):
            name, kind, flags, address, content, rest = 0, 0, 0, 0, b"", [0, 0, 0, 0]
        made += bytes(-len(made) % 8)
        headers.append(struct.pack(SECTION, name, kind, flags, address, len(made), len(content), *rest))
        made += content
    made += bytes(-len(made) % 8)
    struct.pack_into("<Q", made, 40, len(made))
    return bytes(made) + b"".join(headers)


if __name__ == "__main__":
    source, target, *functions = sys.argv[1:]
    Path(target).write_bytes(gzip.compress(without_other_code(Path(source).read_bytes(), functions), 9, mtime=0))
