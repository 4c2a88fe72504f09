"""What the daemon says where the system gives it no thread."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from symd.system.process.resources import thread_limits


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Limits of this process, by kind; those that are not set are without end."""
    known: dict[int, int] = {}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (known.get(kind, resource.RLIM_INFINITY),) * 2)
    return known


@pytest.fixture
def cgroup(tmp_path: Path) -> Path:
    """The cgroup of this process, below one with a limit."""
    (tmp_path / "own").write_text("0::/system.slice/symd.service\n")
    inner = tmp_path / "system.slice" / "symd.server"
    inner.mkdir(parents=True)
    (inner / "pids.max").write_text("max\n")
    (inner.parent / "pids.max").write_text("64\n")
    return tmp_path


def test_the_limit_that_is_reached_is_named(cgroup: Path, limits: dict[int, int]) -> None:
    limits[resource.RLIMIT_NPROC] = 500
    (cgroup / "system.slice" / "pids.current").write_text("64\n")
    assert thread_limits(cgroup, cgroup / "own") == (
        "its cgroup may have 64 threads (pids.max; TasksMax= in a systemd unit, --pids-limit of a container)"
    )


def test_all_that_may_be_it_are_named_where_none_is_reached(cgroup: Path, limits: dict[int, int]) -> None:
    limits |= {resource.RLIMIT_NPROC: 500, resource.RLIMIT_AS: 1 << 30}
    (cgroup / "system.slice" / "pids.current").write_text("3\n")
    said = thread_limits(cgroup, cgroup / "own")
    assert [part in said for part in ("64 threads", "500 processes", "1073741824 bytes")] == [True] * 3


def test_a_system_without_limits_of_its_own(tmp_path: Path, limits: dict[int, int]) -> None:
    assert not limits
    assert "kernel.threads-max" in thread_limits(tmp_path, tmp_path / "nothing")
