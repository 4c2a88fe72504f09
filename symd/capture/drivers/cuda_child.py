"""The process that loads CUDA's driver library and prints the version of CUDA that it has, as the library writes it:
13000 for 13.0. It is started by its path and imports nothing of symd. Exit status 1: the last line on standard error
says what is in the way.

Argument: the library.

Source: cuda.h (cuDriverGetVersion, which needs no device and no cuInit)."""

from __future__ import annotations

import ctypes
import sys


def main(library: str) -> str | None:
    """Print the version; None, or what is in the way."""
    version = ctypes.c_int()
    try:
        code = ctypes.CDLL(library).cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError) as error:
        return str(error)
    if code:
        return f"cuDriverGetVersion failed with {code}"
    print(version.value)  # noqa: T201 - its answer
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
