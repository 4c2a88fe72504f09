"""A watch that follows a daemon which is killed again and again while it is told of loads and unloads: every event comes once, in the order of the
log, unloads included, with what went of a breakpoint. `python -m tests.kill.follow [--loads N] [--kills N]`: exit code 1, with what was wrong,
unless nothing was."""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from symd import Client
from symd.errors import Unavailable
from symd.model.addresses import ByKernel, DeviceAddress, KernelOffset
from symd.model.breakpoints import Breakpoint, KernelName
from symd.model.contexts import Context, Load, Segment, Unload
from symd.model.watches import LoadBegan, LoadEnded, PlacesGone, Resolved, WatchEvent
from tests.daemon.processes import kill, serving

MODULE = (Path(__file__).parents[2] / "samples/kernels/bin/vadd/skl-O0.dbg").read_bytes()
BREAKPOINT = Breakpoint("kernel", KernelName("vadd"))
KINDS = (LoadBegan, Resolved, LoadEnded, PlacesGone)
LONG = 120.0
"""Seconds after which an event that does not come is given up."""
PAUSE = 0.05
"""Seconds between two attempts."""
APART = 0x10000
"""Bytes between the places of two loads."""


@dataclass
class Followed:
    """What the follower dealt with: (kind, number of the load), and how often it began."""

    events: list[tuple[str, int]] = field(default_factory=list)
    began: int = 0


def follow(address: str, token: str, count: int, followed: Followed) -> None:
    """Take ``count`` events of loads, over as many daemons as that takes. Events of one happening count when its last came, which has the
    token."""
    end = time.monotonic() + LONG
    while len(followed.events) < count and time.monotonic() < end:
        group: list[tuple[str, int]] = []
        followed.began += 1
        with suppress(Unavailable), Client(address, timeout=LONG) as client:
            watch = client.watch([BREAKPOINT], resume_token=token)
            timer = threading.Timer(end - time.monotonic(), watch.close)
            timer.start()
            with watch:
                for event in watch:
                    if isinstance(event, KINDS):
                        group.append(_named(event))
                    if event.resume_token:
                        followed.events += group
                        token, group = event.resume_token, []
                    if len(followed.events) >= count:
                        break
            timer.cancel()
        time.sleep(PAUSE)


def _named(event: WatchEvent) -> tuple[str, int]:
    """The kind of an event, and the number of its load, which is its key."""
    match event:
        case LoadBegan(loaded) | LoadEnded(loaded):
            return type(event).__name__, int(loaded.load.key)
        case Resolved(_, _, answer, loaded) | PlacesGone(_, _, answer, loaded) if loaded is not None:
            (address,) = answer.locations[0].device_addresses
            assert address // APART == int(loaded.load.key), event
            return type(event).__name__, int(loaded.load.key)
    return type(event).__name__, -1  # the module's own answer, without a load


def run(loads: int, kills: int) -> list[str]:
    """What was wrong, of ``loads`` that are told one by one, each with its unload, of a daemon that is killed so often meanwhile."""
    followed, folder, told = Followed(), Path(tempfile.mkdtemp(prefix="symd-follow-")), [0]
    expected = [(kind.__name__, number) for number in range(1, loads + 1) for kind in KINDS]
    address = f"unix:{folder}/symd.sock"
    with serving(folder) as daemon, daemon.client() as client:
        digest = client.add(MODULE).sha256
        name = client.contexts.add(Context("host", 7))
        with client.watch(only_new=True) as watch:
            token = next(watch).resume_token
        kill(daemon.process)
    threads = [
        threading.Thread(target=follow, args=(address, token, len(expected), followed), daemon=True),
        threading.Thread(target=_tell, args=(address, name, digest, loads, told), daemon=True),
    ]
    for thread in threads:
        thread.start()
    for number in range(kills + 1):
        with serving(folder) as daemon:
            if number == kills:
                for thread in threads:
                    thread.join(LONG)
                break
            while told[0] < (number + 1) * loads // (kills + 1):
                time.sleep(0.001)
            kill(daemon.process)  # whatever the other threads have just asked
    return _problems(followed.events, expected)


def _tell(address: str, name: str, digest: str, loads: int, told: list[int]) -> None:
    """Tell of each load and unload until a daemon has taken it: telling an event twice is telling it once."""
    with Client(address, timeout=LONG) as client:
        while told[0] < loads:
            number = told[0] + 1
            segment = Segment(DeviceAddress(number * APART), 0x1000, ByKernel("vadd", KernelOffset(0)))
            try:
                client.contexts.record(name, [Load(digest, 10 * number, (segment,), key=str(number))])
                client.contexts.record(name, [Unload(str(number), 10 * number + 5)])
            except Unavailable:
                time.sleep(PAUSE)
            else:
                told[0] = number


def _problems(events: list[tuple[str, int]], expected: list[tuple[str, int]]) -> list[str]:
    problems = [f"{len(events)} events instead of {len(expected)}"] if len(events) != len(expected) else []
    if len(set(events)) != len(events):
        problems.append(f"{len(events) - len(set(events))} events came twice")
    first = next((at for at, pair in enumerate(zip(events, expected, strict=False)) if pair[0] != pair[1]), None)
    if first is not None:
        problems.append(f"event {first} is {events[first]}, not {expected[first]}")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.kill.follow")
    parser.add_argument("--loads", type=int, default=400)
    parser.add_argument("--kills", type=int, default=20)
    chosen = parser.parse_args()
    problems = run(chosen.loads, chosen.kills)
    print(f"{chosen.loads} loads and unloads, {chosen.kills} kills, {len(problems)} problems")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
