"""The daemon's own memory, as the system counts it (proc(5), /proc/PID/status)."""

from __future__ import annotations

from pathlib import Path

_STATUS = Path("/proc/self/status")


def own_bytes() -> int:
    """Memory that belongs to this process alone: not mapped files, which the system can take back. 0 where nobody says."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon")), 0)
