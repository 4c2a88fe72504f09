"""`python -m tests.hostile.child MIB FILE...`: index each file with MIB more of address space than the program itself takes,
and print its name and what came of it, or MemoryError."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from symd.config import MIB, Limits
from symd.errors import SymdError
from symd.index.module import build_index

LIMITS = Limits(expansion=16 * MIB, object_count=2000)


def outcome(data: bytes) -> str:
    try:
        build_index(data, LIMITS)
    except SymdError as error:
        return f"{type(error).__name__} {error.metadata.get('limit', '')}".rstrip()
    except MemoryError:
        return "MemoryError"
    return "answered"


def main(mebibytes: str, *paths: str) -> None:
    taken = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmSize"))
    most = (int(taken.split()[1]) << 10) + int(mebibytes) * MIB
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    for path in paths:
        print(f"{Path(path).name}\t{outcome(Path(path).read_bytes())}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
