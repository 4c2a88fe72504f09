"""What a user may write, with the types that a checker should find (``test_types.py`` has it checked; it is not run)."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import numpy as np

import symd
from symd.model.breakpoints import Located
from symd.model.cores import CoreDump
from symd.model.names import NamedItem
from symd.model.variables import InScope


def hot_lines(path: Path, addresses: list[int]) -> dict[str, int]:
    counts: dict[str, int] = {}
    with symd.open(path) as module:
        assert_type(module, symd.Module)
        for answer in module.symbolize(addresses):
            assert_type(answer, symd.Answer)
            for frame in answer.frames:
                assert_type(frame, symd.Frame)
                counts[f"{frame.file}:{frame.line}"] = counts.get(f"{frame.file}:{frame.line}", 0) + 1
    return counts


def every_question(module: symd.Module) -> None:
    assert_type(module.symbolize("vadd+0x10"), symd.Answer)
    assert_type(module.symbolize(16), symd.Answer)
    assert_type(module.symbolize(np.uint64(16)), symd.Answer)
    assert_type(module.symbolize(symd.ByAddress(symd.ObjectAddress(16))), symd.Answer)
    assert_type(module.symbolize(["vadd+0x10", 16]), symd.Answers)
    assert_type(module.symbolize(np.arange(16), kernel="vadd"), symd.Answers)
    assert_type(module.symbolize(range(16), kernel="vadd"), symd.Answers)
    assert_type(module.lines(kernel="vadd"), list[symd.LineTable])
    assert_type(module.listing("vadd"), list[symd.Listing])
    assert_type(module.locate("vadd.cl:8"), Located)
    assert_type(module.names("v*"), list[NamedItem])
    assert_type(module.variables("vadd+0x10"), InScope)
    assert_type(module.variables(["vadd+0x10"]), list[InScope])
    assert_type(module.core(), CoreDump)
    assert_type(module.summary, symd.ModuleSummary)
    assert_type(module.symbolize("vadd+0x10").reason, symd.Reason)
    assert_type(module.sha256, str)


def through_a_daemon(data: bytes) -> symd.Answer:
    with symd.Client(timeout=5.0) as client:
        module = client.add(data)
        assert_type(client.symbolize(module, ["vadd+0x10"]), symd.Answers)
        return client.symbolize_one(module, "vadd+0x10")


async def without_waiting(data: bytes) -> symd.Answer:
    async with symd.AsyncClient() as client:
        module = await client.add(data)
        async for record in client.modules():
            assert_type(record.label, str)
        return await client.symbolize_one(module, "vadd+0x10")


def mistaken(path: str) -> str | None:
    try:
        symd.open(path)
    except symd.SymdError as error:
        return error.hint
    return None
