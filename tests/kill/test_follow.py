"""The watch over killed daemons in short; `make kill` is the long run."""

from __future__ import annotations

from tests.kill.follow import run


def test_a_watch_is_told_every_load_and_unload_once_while_its_daemon_is_killed() -> None:
    assert run(loads=40, kills=3) == []
