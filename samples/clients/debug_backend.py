"""A debugger's backend at work: where can a breakpoint for this line go, what stack stands there, what is in scope, and which
instructions does the line own? Everything is asked of a running daemon.

    symd serve --source-root samples --map /tmp/symd-opencl=kernels &
    python samples/clients/debug_backend.py samples/kernels/bin/raycast/dg2-opt.zebin raycast.cl:6
"""

from __future__ import annotations

import argparse
import signal
from collections.abc import Iterator
from pathlib import Path

from symd import Client
from symd.model.addresses import BySection
from symd.model.answers import Reason
from symd.model.breakpoints import BreakpointLocation, parse_place
from symd.model.line_tables import ListingPart


class Backend:
    """One module of a daemon, and the questions that a debugger asks of it."""

    def __init__(self, symd: Client, module: Path) -> None:
        self.symd = symd
        self.digest = symd.add(module.read_bytes(), module.name).sha256

    def breakpoints(self, line: str) -> tuple[BreakpointLocation, ...]:
        """One place for each function and inlined copy that has the line; or of a function, kernel or address."""
        located = self.symd.locate(self.digest, parse_place(line))
        if located.refusal is not None:
            raise SystemExit(f"{line}: {located.refusal.name} {', '.join(located.candidates)}".rstrip())
        return located.locations

    def stopped_at(self, location: BreakpointLocation) -> BySection:
        """The address as a query that only it can mean."""
        return BySection(location.section or location.section_index, location.section_offset)

    def stack(self, location: BreakpointLocation) -> Iterator[str]:
        answer = self.symd.symbolize_one(self.digest, self.stopped_at(location), location.path)
        for depth, frame in enumerate(answer.frames):
            where = f"{frame.file}:{frame.line}" if frame.file else "no line"
            yield f"#{depth} {frame.function} at {where}{' (inlined)' if frame.inlined else ''}"

    def variables(self, location: BreakpointLocation) -> Iterator[str]:
        """By name, innermost scope first, with what lives where."""
        found = self.symd.variables(self.digest, self.stopped_at(location), location.path)
        for variable in found.visible.variables:
            yield f"{variable.type} {variable.name} = {variable.location or 'optimized out'}"

    def source(self, location: BreakpointLocation) -> str:
        (found,) = self.symd.sources(self.digest, [location.file])
        if found.text is None:
            return f"({found.problem})"
        lines = found.text.splitlines()
        return lines[location.line - 1].strip() if location.line <= len(lines) else "(the file is shorter)"

    def instructions(self, location: BreakpointLocation) -> Iterator[str]:
        """Those of the line, in the function or inlined copy that the place is in."""
        stack = self.symd.symbolize_one(self.digest, self.stopped_at(location), location.path).frames
        part = ListingPart(location.path, location.kernel)
        for listing in self.symd.listing(self.digest, part):
            for answer, text in zip(listing.answers, listing.text, strict=True):
                same = answer.section_index == location.section_index and answer.reason is Reason.EXACT
                if same and answer.frames[0].line == location.line and answer.frames[1:] == stack[1:]:
                    mark = "=>" if answer.section_offset == location.section_offset else "  "
                    yield f"{mark} {answer.address:#08x}  {text}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module", type=Path)
    parser.add_argument("line", help="FILE:LINE")
    parser.add_argument("--server", help="the daemon's address")
    arguments = parser.parse_args()
    with Client(arguments.server) as symd:
        backend = Backend(symd, arguments.module)
        for number, location in enumerate(backend.breakpoints(arguments.line), 1):
            slid = " (the next line that has code)" if location.slid else ""
            print(
                f"breakpoint {number}: {location.kernel} {location.address:#x}, {location.file}:{location.line}{slid}"
            )
            print(f"  {backend.source(location)}")
            for title, lines in (("stack", backend.stack), ("variables", backend.variables)):
                print(f"  {title}")
                for line in lines(location):
                    print(f"    {line}")
            print("  instructions")
            for line in backend.instructions(location):
                print(f"    {line}")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # who reads no further, as head, ends this without a traceback
    main()
