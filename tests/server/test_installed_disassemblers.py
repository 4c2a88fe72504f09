"""What is installed is looked for now and then, not for every client that asks what the daemon takes."""

from __future__ import annotations

import os

import pytest

from symd.server import service_context
from symd.server.service_context import REMEMBERED_SECONDS, InstalledDisassemblers


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_path_is_walked_once_in_a_while(monkeypatch, tmp_path):
    clock, nvdisasm = Clock(), tmp_path / "nvdisasm"
    monkeypatch.setattr(service_context, "time", clock)
    monkeypatch.setenv("SYMD_TOOLS", "")
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    tools = InstalledDisassemblers()
    before = tools.by_name()["nvdisasm"]
    nvdisasm.write_text("#!/bin/sh\n")
    nvdisasm.chmod(0o755)
    assert tools.by_name()["nvdisasm"] is before
    clock.now += REMEMBERED_SECONDS + 1
    assert tools.by_name()["nvdisasm"]


@pytest.mark.parametrize("asked", [1, 50])
def test_a_client_that_asks_again_and_again_costs_no_walk(monkeypatch, asked):
    walks = []
    monkeypatch.setattr(
        service_context,
        "DISASSEMBLERS",
        [type("Fake", (), {"NAME": "fake", "installed": lambda: walks.append(1)})],
    )
    tools = InstalledDisassemblers()
    for _ in range(asked):
        tools.by_name()
    assert walks == [1]
