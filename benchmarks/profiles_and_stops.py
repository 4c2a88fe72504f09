"""What the clients of a daemon ask for in one go: a whole profile, a million device addresses, and all that a debugger shows at one stop.

`python -m benchmarks.profiles_and_stops OBJECT` prints the rows; OBJECT is a linked AMDGPU code object of at least 1,500 kernels.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.grpc_path import ALIGNMENT, MANY, Row, Work, running, started, timed
from symd import Client
from symd.model.addresses import ByDevice, ByKernel, DeviceAddress, KernelOffset
from symd.model.arguments import ColumnQuestion
from symd.model.columns import U64
from symd.model.contexts import Context, Load, Origin, Segment
from symd.model.identities import Digest
from symd.model.line_tables import Around, ListingPart
from symd.rpc.wire.queries import write_column
from symd.v1.symbol_service_pb2 import SymbolizeRequest

SAMPLES = Path(__file__).parents[1] / "samples"
STOPPED = SAMPLES / "kernels" / "bin" / "raycast" / "dg2-opt.zebin"
"""Where a stop is shown: a module of which there is the source."""
KERNELS = 1_500
"""Kernels of the profile, at most: the short form's object has fewer."""
PLACES = 65_536
"""Distinct places of a large profile."""
FEW_PLACES = 200
BASE = 0x7F00_0000_0000
STOPS = 60
"""Places in the kernel, at most."""


def rows(path: Path, rounds: int) -> Iterator[Row]:
    """Millions of answers a second, megabytes of the messages that bring them, and milliseconds of a stop."""
    with running(path) as (work, _):
        whole = profile(work)
        name = f"a profile of a million samples over {len(whole.origins):,} kernels, {PLACES:,} places, in one message"
        yield from asked_again(work, name, whole, rounds)
        context = loaded(work.client, work.module.sha256)
        for places in (FEW_PLACES, PLACES):
            asked = ColumnQuestion(device_addresses(work, places), (Origin(context=context),))
            yield from asked_again(work, f"a million device addresses at {places:,} places", asked, rounds)
    yield from one_stop()


def asked_again(work: Work, what: str, question: ColumnQuestion, rounds: int) -> Iterator[Row]:
    """The speed of a question that is asked several times, and the size of its answers."""
    client = work.client
    seconds = [
        timed(lambda: client.symbolize_origins(question.values, question.origins, question.origin))
        for _ in range(rounds + 1)
    ]
    rate = MANY / statistics.median(seconds[1:]) / 1e6
    told = f"at best {MANY / min(seconds) / 1e6:.1f}, the first {MANY / seconds[0] / 1e6:.1f}"
    yield Row(f"{what}, decoded: M answers/s", rate, 12, 20, True, told)
    yield Row(f"{what}: MB that come back", megabytes(work, question), 4, 2, False, f"{MANY:,} answers")


def profile(work: Work) -> ColumnQuestion:
    """Offsets in many kernels, and the number of each one's kernel."""
    kernels = [kernel for kernel in work.module.objects[0].kernels if kernel.size][:KERNELS]
    dice = np.random.default_rng(5)
    kernel_of = dice.integers(0, len(kernels), PLACES).astype(np.uint32)
    words = np.array([kernel.size // ALIGNMENT for kernel in kernels])[kernel_of]
    offset_of = (dice.random(PLACES) * words).astype(np.uint64) * np.uint64(ALIGNMENT)
    place = dice.integers(0, PLACES, MANY)
    offsets, number = offset_of[place], kernel_of[place]
    return ColumnQuestion(offsets, tuple(Origin(work.module.sha256, kernel=kernel.name) for kernel in kernels), number)


def loaded(client: Client, digest: str) -> str:
    """A context that has the module where a device would have it."""
    context = client.contexts.add(Context("benchmark", os.getpid(), attributes={"start": str(time.time_ns())}))
    client.contexts.record(context, [Load(Digest(digest), 1, load_base=BASE)])
    return context


def device_addresses(work: Work, places: int) -> U64:
    """A million addresses at so many distinct places."""
    dice = np.random.default_rng(places)
    slots = dice.choice(work.size // ALIGNMENT, places, replace=False).astype(np.uint64)
    distinct = np.uint64(BASE + work.start) + slots * np.uint64(ALIGNMENT)
    return distinct[dice.integers(0, places, MANY)]


def megabytes(work: Work, question: ColumnQuestion) -> float:
    """What the daemon sends back, as messages."""
    request = SymbolizeRequest()
    write_column(request.packed_queries, question)
    calls = work.client._calls  # noqa: SLF001 - the client tells no sizes
    return calls.unary(calls.stubs.symbols.Symbolize, request).ByteSize() / 1e6


def one_stop() -> Iterator[Row]:
    """Stack, variables of all frames, instructions around where it stands, and the source: in three messages, by device address."""
    serve = ("-m", "symd", "serve", "--source-root", str(SAMPLES), "--map", "/tmp/symd-opencl=kernels")  # noqa: S108 - what the sample says
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        listen = ("--address", f"unix:{folder}/symd", "--store", f"{folder}/store")
        client = stack.enter_context(Client(stack.enter_context(started(*serve, *listen)).split()[-1]))
        module = client.add(STOPPED.read_bytes())
        kernel = module.objects[0].kernels[0]
        client.contexts.record(
            context := client.contexts.add(Context("benchmark", os.getpid())),
            [
                Load(
                    module.sha256,
                    1,
                    (Segment(DeviceAddress(BASE), kernel.size, ByKernel(kernel.name, KernelOffset(0))),),
                )
            ],
        )
        known = client.symbolize(
            module.sha256, [ByKernel(kernel.name, KernelOffset(at)) for at in range(0, kernel.size, 16)]
        )
        places = [number * 16 for number, answer in enumerate(known) if answer.frames and answer.frames[0].file][:STOPS]
        seconds = [timed(partial(stop, client, context, at)) for at in places]
    taken = sorted(each * 1e3 for each in seconds[STOPS // 6 :])
    yield Row("one stop of a debugger, three messages: ms, p50", statistics.median(taken), 10, 5, False,
              f"the first {seconds[0] * 1e3:.0f} ms, fastest {taken[0]:.1f}, slowest {taken[-1]:.1f}")  # fmt: skip


def stop(client: Client, context: str, offset: int) -> None:
    """What is shown where a thread stands ``offset`` bytes into the kernel; two more frames of its stack are places before."""
    stack = [ByDevice(context, DeviceAddress(BASE + max(offset - back, 0))) for back in (0, 16, 32)]
    shown = client.variables("", stack, with_ranges=True)
    (listing,) = client.listing("", ListingPart(within=Around(stack[0], 4, 4)))
    (source,) = client.sources(shown[0].module or "", [shown[0].at.frames[0].file or ""])
    assert listing.text, listing
    assert source.text, source


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, metavar="OBJECT")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    for row in rows(arguments.path, arguments.rounds):
        print(row.what, round(row.ratio, 2), row.detail, sep="; ")


if __name__ == "__main__":
    main()
