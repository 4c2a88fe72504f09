"""A debugger's question: a GPU thread has stopped at this offset of this kernel; where is that?

python samples/clients/single_address.py samples/kernels/bin/raycast/dg2-opt.dbg raycast 0x400
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from symd import Client
from symd.errors import SymdError
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.answers import Answer, Reason


def describe(answer: Answer) -> str:
    """The stack as a debugger shows it, innermost frame first."""
    lines = [] if answer.reason is Reason.EXACT else [answer.reason.name]
    for depth, frame in enumerate(answer.frames):
        where = f"{frame.file}:{frame.line}" if frame.file else "no line"
        lines.append(f"#{depth}  {frame.function or '(no name)'} at {where}{'  (inlined)' if frame.inlined else ''}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module", type=Path)
    parser.add_argument("kernel")
    parser.add_argument("offset", type=lambda text: int(text, 0))
    parser.add_argument("--server", help="the daemon's address")
    arguments = parser.parse_args()
    with Client(arguments.server) as symd:
        module = symd.add(arguments.module.read_bytes(), arguments.module.name)
        query = ByKernel(arguments.kernel, KernelOffset(arguments.offset))
        print(describe(symd.symbolize(module.sha256, [query])[0]))


def run() -> int:
    """What fails says why; ``error.reason`` is ErrorInfo's, by which programs tell failures apart."""
    try:
        main()
    except SymdError as error:
        print(f"{error.reason}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # who reads no further, as head, ends this without a traceback
    raise SystemExit(run())
