"""The kills and the watch over killed daemons in short; `make kill` is the long run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kill.follow import run
from tests.kill.run import Expected, _differences

ROOT = Path(__file__).parents[2]
A, B = "aa" * 32, "bb" * 32


def test_what_was_acknowledged_is_there_after_each_of_ten_kills() -> None:
    command = [sys.executable, "-m", "tests.kill", "--kills", "10", "--seed", "7"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "10 kills" in done.stdout


KNOWN = Expected({A: "a"}, {"1": A}, {0: {("load", A, 1)}})


@pytest.mark.parametrize(
    ("actual", "begun", "right"),
    [
        (KNOWN, (), True),
        (Expected({}, {}, KNOWN.events), (), False),
        (Expected({A: "b"}, {"1": A}, KNOWN.events), (), False),
        (Expected({A: "b"}, {"1": A}, KNOWN.events), ("relabel", A, "b"), True),
        (Expected({A: "a"}, {}, KNOWN.events), (), False),
        (Expected({A: "a"}, {}, KNOWN.events), ("unalias", "1"), True),
        (Expected({A: "a"}, {}, KNOWN.events), ("remove", A), False),
        (Expected({}, {}, KNOWN.events), ("remove", A), True),
        (Expected({}, {}, KNOWN.events), ("add", B, "b"), True),
        (Expected({A: "a", B: ""}, {"1": A}, KNOWN.events), ("add", B, "b"), True),
        (Expected({A: "a", B: ""}, {"1": A}, KNOWN.events), (), False),
        (Expected({A: "a"}, {"1": A}, {}), (), False),
        (Expected({A: "a"}, {"1": A}, {}), ("forget", 0), True),
        (Expected({A: "a"}, {"1": A}, {0: {("load", A, 1), ("load", B, 2)}}), (), False),
        (Expected({A: "a"}, {"1": A}, {0: {("load", A, 1), ("load", B, 2)}}), ("load", 0, B, 2), True),
    ],
)
def test_what_may_and_may_not_be_after_a_kill(actual: Expected, begun: tuple[str, ...], right: bool) -> None:
    assert (_differences(KNOWN, actual, begun) == []) == right


def test_a_watch_is_told_every_load_and_unload_once_while_its_daemon_is_killed() -> None:
    assert run(loads=40, kills=3) == []
