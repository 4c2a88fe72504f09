"""Walks two journeys through the house and says which rooms they enter, and how often a call goes back to one.

OUT is one address to its answer: a daemon in this process serves gRPC on a Unix socket over a store with one sample
module, a client asks ``symbolize_one`` twice, and the second call is followed where the daemon answers it. The client's
own thread is not followed. IN is a module's bytes to a stored index: ``Engine.add`` of the same sample in this process
with a store that is empty; the same was done once before with another store, so that nothing is imported any more.

What is measured is the ``symd`` that Python imports, with the sample that lies in the same checkout.

A room is the first name below ``symd``: ``symd.formats.elf`` lies in ``formats``,
the generated ``symd.v1`` is ``v1``. The words that every room shares are none, and a walk passes through them unseen:
``model``, ``errors``, ``config``, ``system``, ``api`` and the budgets (``formats.budget``), and what stands in ``symd/__init__.py`` and
``symd/__main__.py``.

A call is what ``sys.setprofile`` reports as one, where the function is written in a file of the package: functions that
dataclasses and named tuples generate, messages of protobuf and all that is written in C are not seen. To go on with a
generator is a call of it by whoever takes the next item. The caller is the nearest function of a room on the stack,
whatever of other libraries lies between. Comprehensions and lambdas are part of the function that they stand in.

A climb is a call from one room to another that the journey has entered before. The call that enters a room first is
none; the same call again is one, as it is in a loop. Returns are no calls. What counts is the room that calls and the
function that is called: a function that the same room calls many times, from one place or from several, is one climb,
and the first call is the one that is shown. Figures of two trees compare only as far as their rooms are the same: a
room that is divided in two has calls between its halves, which were inside before. ``--join`` takes such halves for one
room again, so that an older tree and a newer one are measured alike.

    python tools/room_walk.py           the rooms and the climbs as text
    python tools/room_walk.py --join elf=containers --join spirv=containers --join dwarf=debuginfo
    python tools/room_walk.py --json    {"out": {"rooms": [...], "climbs": N, "crossings": [[caller, callee], ...]},
                                         "in": ...}
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, get_args, get_type_hints

import symd
from symd.client import Client
from symd.config import Limits
from symd.engine.engine import Engine
from symd.server.config import Config
from symd.store import Store

PACKAGE = Path(symd.__file__).resolve().parent
SAMPLE = PACKAGE.parent / "samples/kernels/bin/vadd/dg2-opt.zebin"
ADDRESS = 0x40
"""Lies in the sample's only kernel."""
SHARED = frozenset({"model", "errors", "config", "system", "api", "formats.budget"})
"""The words of all rooms."""
_NAMELESS = re.compile(r"(\.<locals>\.<\w+>)+$")
"""How the name of a comprehension or lambda ends."""


@dataclass(frozen=True, slots=True)
class Call:
    """Who calls whom, each as ``module:function``. No caller: it is called from outside the rooms."""

    caller: str | None
    callee: str


@dataclass(frozen=True, slots=True)
class Walk:
    """What a journey came through."""

    rooms: tuple[str, ...]
    """In the order in which they were entered first."""
    crossings: tuple[Call, ...]
    """The climbs, in the order in which they were made first."""


class Recorder:
    """Keeps the calls into rooms that any followed thread makes while it is on."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._on = False

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow this thread and those that are started inside."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    @contextmanager
    def on(self) -> Iterator[None]:
        self._on = True
        try:
            yield
        finally:
            self._on = False

    def _note(self, frame: FrameType, event: str, _argument: Any) -> None:
        if not self._on or event != "call":
            return
        callee = function_of(frame)
        if callee is not None:
            self.calls.append(Call(caller_of(frame), callee))


def function_of(frame: FrameType) -> str | None:
    """The function as ``module:function``; None when it is in no room."""
    module = module_in_room(frame.f_code.co_filename)
    return module and f"{module}:{_NAMELESS.sub('', frame.f_code.co_qualname)}"


def caller_of(frame: FrameType) -> str | None:
    """The nearest function of a room that waits for ``frame``."""
    below = frame.f_back
    while below is not None:
        function = function_of(below)
        if function is not None:
            return function
        below = below.f_back
    return None


@cache
def module_in_room(filename: str) -> str | None:
    """The dotted name of the module in a file; None when it is in no room."""
    path = Path(filename)
    if not path.is_relative_to(PACKAGE):
        return None
    names = path.relative_to(PACKAGE).with_suffix("").parts
    if SHARED & {names[0], ".".join(names)} or names[0].startswith("__"):
        return None
    return ".".join(("symd", *names)).removesuffix(".__init__")


def room_of(function: str, joined: Mapping[str, str]) -> str:
    room = function.partition(":")[0].split(".")[1]
    return joined.get(room, room)


def walk(calls: Iterable[Call], joined: Mapping[str, str]) -> Walk:
    """The rooms and the climbs of a journey that made these calls; rooms in ``joined`` are part of another."""
    rooms: dict[str, None] = {}
    crossings: dict[tuple[str, str], Call] = {}
    for call in calls:
        room = room_of(call.callee, joined)
        before = call.caller and room_of(call.caller, joined)
        if before is not None and before != room and room in rooms:
            crossings.setdefault((before, call.callee), call)
        rooms.setdefault(room)
    return Walk(tuple(rooms), tuple(crossings.values()))


def journey_out(data: bytes) -> list[Call]:
    """One address through an RPC to its answer."""
    recorder = Recorder()

    def ask(address: str, digest: str) -> None:
        sys.setprofile(None)  # only the daemon's side is walked
        query = by_address(ADDRESS)
        with Client(address) as client:
            client.symbolize_one(digest, query)
            with recorder.on():
                answer = client.symbolize_one(digest, query)
        if not answer.frames:
            raise SystemExit(f"{SAMPLE}: no frames at {ADDRESS:#x}, so the walk is cut short")

    with tempfile.TemporaryDirectory() as folder, Engine(Store(Path(folder) / "store"), Limits()) as engine:
        digest = engine.add(data).sha256
        with recorder.following():
            with_daemon(engine, Path(folder), lambda address: ask(address, digest))
    return recorder.calls


def by_address(address: int) -> Any:
    """The query for an address: of the kinds that the client's verb takes, which say where they are defined."""
    kinds = get_args(get_type_hints(Client.symbolize_one)["query"])
    kind = next(kind for kind in kinds if kind.__name__ == "ByAddress")
    return kind(address)


def with_daemon(engine: Engine, folder: Path, ask: Callable[[str], None]) -> None:
    """Serve ``engine`` in this thread while ``ask``, given the address, runs in another one. Nothing else knows how
    a daemon is started."""
    from symd.server.lifecycle import serve  # noqa: PLC0415 - see the docstring

    main = threading.main_thread().ident
    assert main is not None  # noqa: S101 - it runs

    def ask_and_stop(address: str) -> None:
        try:
            ask(address)
        finally:
            signal.pthread_kill(main, signal.SIGTERM)

    config = Config(store=folder / "store", address=f"unix:{folder}/socket", grace=1.0)
    asked: list[Future[None]] = []
    with ThreadPoolExecutor(1) as pool:
        serve(config, engine, ready=lambda address: asked.append(pool.submit(ask_and_stop, address)))
    for each in asked:
        each.result()


def journey_in(data: bytes) -> list[Call]:
    """A module's bytes to a stored index."""
    add(data, Recorder())
    recorder = Recorder()
    add(data, recorder)
    return recorder.calls


def add(data: bytes, recorder: Recorder) -> None:
    """Add a module to a store of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Engine(Store(Path(folder)), Limits()) as engine,
        recorder.following(),
        recorder.on(),
    ):
        engine.add(data)


def as_json(walked: Walk) -> dict[str, Any]:
    return {
        "rooms": list(walked.rooms),
        "climbs": len(walked.crossings),
        "crossings": [[call.caller, call.callee] for call in walked.crossings],
    }


def as_text(name: str, walked: Walk) -> str:
    lines = [
        f"{name}: {len(walked.rooms)} rooms, {len(walked.crossings)} climbs",
        f"  {', '.join(walked.rooms)}",
        *(f"    {call.caller} -> {call.callee}" for call in walked.crossings),
    ]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description="Which rooms two journeys enter, and how often a call goes back to one."
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--join", action="append", default=[], metavar="ROOM=OTHER", help="take ROOM for part of OTHER")
    chosen = parser.parse_args(arguments)
    joined = dict(pair.split("=", 1) for pair in chosen.join)
    data = SAMPLE.read_bytes()
    walks = {"out": walk(journey_out(data), joined), "in": walk(journey_in(data), joined)}
    if chosen.json:
        print(json.dumps({name: as_json(walked) for name, walked in walks.items()}))
    else:
        print("\n\n".join(as_text(name.upper(), walked) for name, walked in walks.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
