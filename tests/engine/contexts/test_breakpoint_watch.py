"""A watch that nobody follows any more looks for no further breakpoints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from symd.engine.engine import Engine
from symd.model.addresses import ByAddress, DeviceAddress, ObjectAddress
from symd.model.breakpoints import Breakpoint, Located, SourceLine
from symd.model.contexts import Context, Load, Segment
from symd.query import breakpoints
from symd.store import Store

MODULE = Path(__file__).parents[3] / "samples/amdgpu/bin/v4-gfx900.co"
BREAKPOINTS = [Breakpoint(str(number), SourceLine("shade.cl", 13)) for number in range(100)]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(Store(tmp_path, durable=False)) as engine:
        yield engine


@pytest.mark.parametrize("asked_before", [1, 150])
def test_a_closed_watch_looks_for_no_further_breakpoint(
    engine: Engine, asked_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a module that was added, and then in its load."""
    digest = engine.add(MODULE.read_bytes()).sha256
    segment = Segment(DeviceAddress(0x10000), 0x1000, ByAddress(ObjectAddress(0x1000)))
    engine.contexts.record(engine.contexts.add(Context()), [Load(digest, 1, (segment,))])
    watch, asked = engine.watch(BREAKPOINTS), []
    locate = breakpoints.locate

    def counted(*arguments: Any, **named: Any) -> Located:
        asked.append(arguments)
        if len(asked) == asked_before:
            watch.close()
        return locate(*arguments, **named)

    monkeypatch.setattr(breakpoints, "locate", counted)
    list(watch)
    assert len(asked) == asked_before
