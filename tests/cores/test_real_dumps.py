"""Dumps that a GPU wrote, against what cuda-gdb 13.0 said of them (samples/cores/cuda-gdb, samples/cores/README.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from symd.config import Limits
from symd.engine.engine import Engine
from symd.model.cores import CoreDump, CoreStack
from symd.store import Store

CORES = Path(__file__).parents[2] / "samples" / "cores"
NAMES = ("orbit", "plugin")


class WorkQueue(NamedTuple):
    sm: int
    warp: int
    lane: int


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine(Store.temporary(Limits())) as engine:
        yield engine


def core(engine: Engine, name: str) -> CoreDump:
    return engine.core(engine.add((CORES / "bin" / f"{name}.nvcudmp.gz").read_bytes()).sha256)


def stacks(dump: CoreDump) -> dict[WorkQueue, CoreStack]:
    return {
        WorkQueue(wave.unit, wave.wave, lane): stack
        for stack in dump.stacks
        for wave in stack.waves
        for lane in range(32)
        if wave.lanes >> lane & 1
    }


def answers(name: str) -> Iterator[tuple[WorkQueue, str, str]]:
    """The lane in focus (lane -1: the warp), cuda-gdb's command, and what it printed."""
    focus = WorkQueue(-1, -1, -1)
    for part in (CORES / "cuda-gdb" / f"{name}.txt").read_text().split("(cuda-gdb) ")[1:]:
        command, printed = part.split("\n", 1)
        found = re.fullmatch(r"cuda device 0 sm (\d+) warp (\d+)(?: lane (\d+))?", command)
        if found:
            focus = WorkQueue(int(found[1]), int(found[2]), int(found[3] or -1))
        else:
            yield focus, command, printed


def frames(printed: str) -> list[tuple[str, int]]:
    """File and line of each frame; ("", 0) where cuda-gdb has none."""
    found = (re.search(r" at (\S+):(\d+)$", line) for line in printed.splitlines() if line.startswith("#"))
    return [(each[1].rpartition("/")[2], int(each[2])) if each else ("", 0) for each in found]


def values(printed: str) -> dict[str, str]:
    return dict(re.findall(r"^(\w+) = (\S+)$", printed, flags=re.MULTILINE))


@pytest.mark.parametrize("name", NAMES)
def test_every_lane_is_where_cuda_gdb_has_it(engine: Engine, name: str) -> None:
    ours, compared = stacks(core(engine, name)), 0
    for focus, command, printed in answers(name):
        if command != "info cuda lanes":
            continue
        for lane, state, pc, thread in re.findall(
            r"^\W*(\d+) +(active|divergent) +(0x\w+) +\((\S+)\)", printed, re.MULTILINE
        ):
            stack = ours.pop(focus._replace(lane=int(lane)))
            assert (stack.pc, stack.active) == (int(pc, 16), state == "active")
            first = next(wave for wave in stack.waves if (wave.unit, wave.wave) == focus[:2])
            lowest = (first.lanes & -first.lanes).bit_length() - 1
            assert int(thread.split(",")[0]) - int(lane) == first.thread[0] - lowest if first.thread else False
            compared += 1
    assert ours == {}
    assert compared in (64, 96)


@pytest.mark.parametrize("name", NAMES)
def test_lines_and_error_pcs(engine: Engine, name: str) -> None:
    """cuda-gdb has no lines of the first of two modules whose functions are called alike; and it gives a warp's error PC for the
    lanes that were not executing too."""
    ours, compared = stacks(core(engine, name)), 0
    for focus, command, printed in answers(name):
        if command == "bt" and frames(printed) != [("", 0)]:
            lines = [
                [((each.file or "").rpartition("/")[2], each.line) for each in frame.frames]
                for frame in ours[focus].frames
            ]
            assert lines == [[each] for each in frames(printed)]
            compared += 1
        elif command == "print/x $errorpc" and ours[focus].active:
            assert ours[focus].error_pc == (int(printed, 16) if printed.startswith("0x") else None)
    assert compared == {"orbit": 4, "plugin": 2}[name]


def test_values(engine: Engine) -> None:
    """Of variables that both have; cuda-gdb also shows registers that other values are in by then."""
    ours, compared = stacks(core(engine, "orbit")), set()
    for focus, command, printed in answers("orbit"):
        if command in ("info args", "info locals"):
            theirs = values(printed)
            for each in ours[focus].values:
                mine = each.values[each.lanes.index(focus.lane)] if len(each.values) > 1 else each.values[0]
                if each.name in theirs:
                    assert mine == theirs[each.name]
                    compared.add(each.name)
    assert compared == {"body", "dx", "x", "thread", "even", "weight", "pulls", "bodies", "next", "steps"}


def test_kernels_and_errors(engine: Engine) -> None:
    orbit, plugin = core(engine, "orbit"), core(engine, "plugin")
    assert [(stack.kernel, stack.grid, stack.fault and stack.fault.number) for stack in orbit.stacks] == [
        ("_Z5orbitPfPK4BodyPKii", 1, 14),
        ("_Z5orbitPfPK4BodyPKii", 1, None),
    ]
    assert [(stack.kernel, stack.grid, stack.fault and stack.fault.number) for stack in plugin.stacks] == [
        ("filter", 3, 14),
        ("idle", 2, None),
    ]
    assert (orbit.facts["driver"], orbit.facts["cuda"], orbit.devices[0].target) == ("580.159", "13.0", "sm_90")
    assert (orbit.notes, plugin.notes) == ((), ())


def test_what_cuda_gdb_leaves_out(engine: Engine) -> None:
    """The launch that waits is of the first of two modules whose functions are called alike. It was compiled with -G."""
    waiting = core(engine, "plugin").stacks[1]
    assert [(each.function, each.line) for each in waiting.frames[0].frames] == [("idle", 20)]
    assert {each.name: each.values for each in waiting.values} == {"turns": ("2546",), "flag": ("0x7f2b63e00000",)}
