"""Level Zero: load a SPIR-V module with the real driver through a running daemon, and print for each kernel every source
line with the addresses it owns.

    symd serve &
    python samples/clients/ze_debug_info.py samples/kernels/bin/vadd/opt.spv samples/kernels/vadd.cl --simulate dg2
"""

from __future__ import annotations

import argparse
import signal
from pathlib import Path

from line_report import line_report

from symd import Client
from symd.model.grabs import GrabRequest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("spirv", type=Path)
    parser.add_argument("source", type=Path, help="the text the module was built from")
    parser.add_argument("--server", help="the daemon's address")
    parser.add_argument("--simulate", help="a product, to do without hardware")
    arguments = parser.parse_args()
    request = GrabRequest(
        api="level-zero", kind="spirv", data=arguments.spirv.read_bytes(), simulate=arguments.simulate
    )
    with Client(arguments.server) as symd:
        module, grabbed = symd.grab(request)
        print(f"{grabbed.driver}, {grabbed.device}: {', '.join(grabbed.kernels)}")
        print(line_report(symd.lines(module.sha256), arguments.source.read_text().splitlines()))


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # who reads no further, as head, ends this without a traceback
    main()
