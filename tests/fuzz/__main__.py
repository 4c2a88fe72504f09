"""`python -m tests.fuzz [--seconds N] [--seed N] [--only files|wire] [--out FOLDER]`, or with `--replay FILE` one input again.
Exit code 1 when something was found; the inputs are then in the folder."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.fuzz import watchdog
from tests.fuzz.questions import ask_everything
from tests.fuzz.watchdog import Defect
from tests.fuzz.wire import WireFuzzer
from tests.soak.daemon import serving


def files(seed: int, seconds: float, out: Path, children: int) -> list[Defect]:
    report = watchdog.run(seed, seconds, out, children)
    counts = ", ".join(f"{count} {what}" for what, count in report.outcomes.most_common())
    print(f"files: {counts}; the slowest was input {report.slowest[1]} with {report.slowest[0]:.1f} s", flush=True)
    return report.defects


def wire(seed: int, seconds: float, out: Path) -> list[Defect]:
    with tempfile.TemporaryDirectory(prefix="symd-fuzz-") as folder, serving(Path(folder)) as daemon:
        fuzzer = WireFuzzer(daemon, seed, out)
        fuzzer.run(seconds)
        report = fuzzer.end()
    print("wire: " + ", ".join(f"{count} {status}" for status, count in report.statuses.most_common()), flush=True)
    return report.defects


def told(defects: list[Defect]) -> int:
    """One of each place in full, and how many there are."""
    places: dict[str, list[Defect]] = {}
    for defect in defects:
        places.setdefault(defect.place, []).append(defect)
    for alike in places.values():
        print(f"\n{len(alike)} like this:\n{alike[0]}")
    return 1 if defects else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzz")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--children", type=int, default=2, help="processes that try files")
    parser.add_argument("--only", choices=("files", "wire"))
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--replay", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    if chosen.replay:
        print("taken" if ask_everything(chosen.replay.read_bytes()) else "refused")
        return 0
    print(f"seed {chosen.seed}; what is found goes to {chosen.out}", flush=True)
    share = 1.0 if chosen.only else 0.5
    found: list[Defect] = []
    if chosen.only != "wire":
        found += files(chosen.seed, chosen.seconds * share, chosen.out, chosen.children)
    if chosen.only != "files":
        found += wire(chosen.seed, chosen.seconds * share, chosen.out)
    return told(found)


if __name__ == "__main__":
    raise SystemExit(main())
