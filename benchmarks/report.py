"""The rows as text, and benchmarks/RESULTS.md."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path

from benchmarks import peers
from benchmarks.grpc_path import Row

RESULTS = Path(__file__).with_name("RESULTS.md")


def verdict(row: Row) -> str:
    if row.ratio >= row.reach if row.faster else row.ratio <= row.reach:
        return "reached"
    return "at least" if (row.ratio >= row.least if row.faster else row.ratio <= row.least) else "**missed**"


def goal(row: Row) -> str:
    sign = "≥" if row.faster else "≤"
    return f"{sign} {row.least:g}, reach {sign} {row.reach:g}"


def line(row: Row) -> str:
    return f"{row.what}: {row.ratio:.2f} ({goal(row)}): {verdict(row)}; {row.detail}"


def write(rows: Sequence[Row], told: Sequence[str], others: Sequence[str], stages: Sequence[str]) -> None:
    table = [f"| {row.what} | {row.ratio:.2f} | {goal(row)} | {verdict(row)} | {row.detail} |" for row in rows]
    versions = ", ".join(f"{name} {version}" for name, version in peers.versions().items())
    text = [
        "# Results",
        "",
        "Written by `make bench`. Every figure is the median ratio of turns taken within one run; see the modules of this",
        "folder for what exactly is done. The object is an AMDGPU code object of 4,000 kernels, 14 MB.",
        "",
        f"Machine: {cpu()}, {os.cpu_count()} CPUs, {platform.system()} {platform.release()}. Load when it ended:",
        f"{os.getloadavg()[0]:.1f}. {versions}.",
        "",
        "Before anything was timed the peers gave the same answers:",
        "",
        *(f"* {entry}" for entry in told),
        "",
        "| what | ratio | goal | verdict | figures |",
        "|---|---|---|---|---|",
        *table,
        "",
        "Other workloads:",
        "",
        *(f"* {entry}" for entry in others),
        "",
        "Where the time of a cold index goes (one process, warm, medians):",
        "",
        *(f"* {entry}" for entry in stages),
    ]
    RESULTS.write_text("\n".join(text) + "\n", encoding="utf-8")


def cpu() -> str:
    for entry in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if entry.startswith("model name"):
            return entry.partition(":")[2].strip()
    return platform.machine()
