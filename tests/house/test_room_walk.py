"""One address to its answer, and a module's bytes to its index, come through few rooms and seldom go back to one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_CLIMBS = {"out": 1, "in": 6}
"""What the walk counts today. Lower a number when the walk becomes shorter; raise none without saying why in docs/design.md."""
ROOMS = {
    "out": {"server", "rpc", "engine", "index"},
    "in": {"engine", "store", "index", "formats", "debuginfo"},
}


@pytest.fixture(scope="module")
def walks():
    command = [sys.executable, ROOT / "tools" / "room_walk.py", "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, cwd=ROOT).stdout)


@pytest.mark.parametrize("journey", ["out", "in"])
def test_a_journey_enters_these_rooms_and_no_others(walks, journey):
    assert set(walks[journey]["rooms"]) == ROOMS[journey]


@pytest.mark.parametrize("journey", ["out", "in"])
def test_a_journey_goes_back_no_more_often_than_it_did(walks, journey):
    climbs = walks[journey]["climbs"]
    assert 0 <= climbs <= MOST_CLIMBS[journey], walks[journey]["crossings"]
    assert climbs == len(walks[journey]["crossings"])
