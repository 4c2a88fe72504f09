"""Modules in an engine of this process, and what its verbs answer one by one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from symd.config import Limits
from symd.engine.engine import Engine
from symd.model.answers import Answer
from symd.profiles import NamedModule
from symd.profiles.sample_tables.tables import SampleTables
from symd.store import Store
from tests.profiles.modules import ZEBIN

AMD = Path(__file__).parents[3] / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine(Store.temporary(Limits())) as made:
        made.add(AMD.read_bytes(), "shade")
        made.add(ZEBIN.read_bytes(), "filters")
        yield made


@pytest.fixture
def amd(engine: Engine) -> str:
    return next(each.sha256 for each in engine.modules() if each.label == "shade")


@pytest.fixture
def zebin(engine: Engine) -> str:
    return next(each.sha256 for each in engine.modules() if each.label == "filters")


@pytest.fixture
def tables(engine: Engine, amd: str) -> SampleTables:
    return SampleTables(engine, [NamedModule(amd, str(AMD), "build-1")])


def expected(answer: Answer, module: str | None) -> dict[str, Any]:
    """What a row says whose place a verb answers so."""
    frames = [frame._asdict() | {"line": frame.line or None, "column": frame.column or None} for frame in answer.frames]
    for frame in frames:
        del frame["start_line"]  # which tables leave out
    return {"reason": answer.reason.name, "in_module": module, "in_kernel": answer.kernel, "frames": frames}
