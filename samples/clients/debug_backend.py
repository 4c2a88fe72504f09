"""A debugger's back end at work. A program loads its module into device memory; a breakpoint waits for that, others are added while it runs, and each is
removed when its stops have been shown: the stack with its variables, the instructions, the source, and where a step over ends. Everything is asked of a
running daemon, by device address.

    symd serve --source-root samples --map /tmp/symd-opencl=kernels &
    python samples/clients/debug_backend.py samples/kernels/bin/raycast/dg2-opt.zebin raycast.cl:6 raycast.cl:16

No device is at hand: the load is told as a driver would report it, and a thread stops at every place of a breakpoint.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from stepping import Stepping

from symd import Client
from symd.errors import SymdError, ToolMissing
from symd.model.addresses import ByDevice, ByKernel, DeviceAddress, KernelOffset
from symd.model.breakpoints import Breakpoint, BreakpointLocation, parse_place
from symd.model.contexts import Context, Load, Segment, Unload
from symd.model.line_tables import Around, ListingPart
from symd.model.variables import InScope
from symd.model.watches import ChangeAcknowledged, LoadBegan, LoadEnded, PlacesGone, Resolved, Watch, WatchEvent

BASE = 0x1_0000_0000
"""Where the first kernel is loaded; each further one 16 MiB behind the one before."""


class Program:
    """What runs: one process with one device, and the module that it loads there."""

    def __init__(self, symd: Client, module: Path) -> None:
        self.symd, self.file = symd, module
        started = {"start": str(time.time_ns())}
        self.context = symd.contexts.add(Context(host="sample", process=os.getpid(), attributes=started))
        self.digest = ""

    def load(self) -> Iterator[tuple[str, int]]:
        """Load the module: each kernel, and its device address."""
        module = self.symd.add(self.file.read_bytes(), self.file.name)
        self.digest = module.sha256
        kernels = dict.fromkeys(kernel.name for code in module.objects for kernel in code.kernels)
        placed = [(name, DeviceAddress(BASE + (number << 24))) for number, name in enumerate(kernels)]
        segments = tuple(Segment(address, 0, ByKernel(name, KernelOffset(0))) for name, address in placed)
        self.symd.contexts.record(self.context, [Load(module.sha256, 1, segments, key="module")])
        yield from placed

    def unload(self) -> None:
        self.symd.contexts.record(self.context, [Unload("module", 2)])


class Debugger:
    """Breakpoints in a program, and what is shown at a stop."""

    def __init__(self, symd: Client, program: Program, watch: Watch) -> None:
        self.symd, self.program, self.watch = symd, program, watch

    def set(self, line: str) -> list[BreakpointLocation]:
        """Set a breakpoint: where it is in what is loaded."""
        self.watch.add(Breakpoint(line, parse_place(line)))
        return self.places(lambda event: isinstance(event, ChangeAcknowledged))

    def loaded(self) -> list[BreakpointLocation]:
        """Wait for the load: where the breakpoint that waited is. An event with a token is the last of what happened."""
        begun = False

        def is_last(event: WatchEvent) -> bool:
            nonlocal begun
            begun = begun or isinstance(event, LoadBegan)
            return begun and bool(event.resume_token)

        return self.places(is_last)

    def places(self, is_last: Callable[[WatchEvent], bool]) -> list[BreakpointLocation]:
        found: list[BreakpointLocation] = []
        for event in self.watch:
            if isinstance(event, Resolved) and event.loaded is not None:
                found.extend(event.answer.locations)
            if isinstance(event, ChangeAcknowledged) and event.failure is not None:
                raise event.failure
            if is_last(event):
                break
        return found

    def clear(self, line: str) -> None:
        """Remove a breakpoint. Nothing is told of it afterwards."""
        self.watch.remove(line)
        self.places(lambda event: isinstance(event, ChangeAcknowledged) and line in event.removed)

    def ended(self) -> Iterator[str]:
        """Breakpoints that went with the module."""
        for event in self.watch:
            if isinstance(event, PlacesGone):
                yield event.id
            if isinstance(event, LoadEnded | PlacesGone) and event.resume_token:
                return

    def show(self, pc: DeviceAddress) -> None:
        """A stop takes three messages; where a step ends is one for each row that it passes."""
        here = ByDevice(self.program.context, pc)
        (stop,) = self.symd.variables("", [here], with_ranges=True)
        top = stop.at.frames[0]
        print(f"  {self.source(stop, top.file or '', top.line)}\n  stack")
        for depth, frame in enumerate(stop.at.frames):
            where = f"{frame.file}:{frame.line}" if frame.file else "no line"
            print(f"    #{depth} {frame.function} at {where}{' (inlined)' if frame.inlined else ''}")
            for each in stop.visible.variables:
                if each.frame == depth:
                    where = each.location or ("not here" if each.live else "optimized out")
                    print(f"      {each.type} {each.name} = {where}")
        print("  instructions")
        try:
            (listing,) = self.symd.listing("", ListingPart(within=Around(here, 2, 2)))
        except ToolMissing as error:  # the message says what to install
            print(f"    (none: {error})")
        else:
            for answer, text in zip(listing.answers, listing.text, strict=True):
                address = (listing.section_device_address or 0) + (answer.section_offset or 0)
                print(f"    {'=>' if address == pc else '  '} {address:#x}  {text}")
        stepped = Stepping(self.symd, stop.module or "", stop.at).over("line")
        if stepped is None:
            print("  step over: out of the function")
        else:
            address = pc + (stepped.section_offset or 0) - (stop.at.section_offset or 0)
            print(f"  step over: {address:#x}, {stepped.frames[0].file}:{stepped.frames[0].line}")

    def source(self, stop: InScope, file: str, line: int) -> str:
        (found,) = self.symd.sources(stop.module or "", [file])
        if found.text is None:
            return "(source not found; start the daemon with --source-root DIR, and --map FROM=TO)"
        lines = found.text.splitlines()
        return lines[line - 1].strip() if 0 < line <= len(lines) else "(the file is shorter)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module", type=Path)
    parser.add_argument("lines", nargs="+", metavar="FILE:LINE")
    parser.add_argument("--server", help="the daemon's address")
    arguments = parser.parse_args()
    with Client(arguments.server) as symd:
        program = Program(symd, arguments.module)
        with symd.watch(contexts=[program.context]) as watch:
            debugger = Debugger(symd, program, watch)
            for number, line in enumerate(arguments.lines):
                places = debugger.set(line)
                if not number:
                    for kernel, address in program.load():
                        print(f"loaded {kernel} at {address:#x}")
                    places = debugger.loaded()
                if not places:
                    refused = symd.locate(program.digest, parse_place(line))
                    why = refused.refusal.name if refused.refusal is not None else "NOT_LOADED"
                    raise SystemExit(f"{line}: {why} {', '.join(refused.candidates)}".rstrip())
                for place in places:
                    slid = " (the next line that has code)" if place.slid else ""
                    for pc in place.device_addresses:
                        print(f"breakpoint {line}: {place.kernel} {pc:#x}, {place.file}:{place.line}{slid}")
                        debugger.show(pc)
                if line != arguments.lines[-1]:
                    debugger.clear(line)
            program.unload()
            print(f"unloaded, and with it the breakpoint {', '.join(debugger.ended())}")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # who reads no further, as head, ends this without a traceback
    try:
        main()
    except OSError as error:  # no module, for one
        raise SystemExit(f"debug_backend.py: {error.filename}: {error.strerror}") from None
    except SymdError as error:  # no daemon, for one: the message says what to do
        raise SystemExit(f"debug_backend.py: {error}") from None
