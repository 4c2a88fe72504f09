"""`python -m tests.soak [--seconds N] [--clients N] [--seed N]`: exit code 1, with what was wrong, unless nothing was."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.soak.run import soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.soak")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="symd-soak-") as folder:
        outcome = soak(Path(folder), chosen.seconds, chosen.seed, chosen.clients)
    for name, count in sorted(outcome.done.items()):
        print(f"{count:8} {name}")
    print(f"{outcome.killed} clients killed; {outcome.catalogued} modules whole after the daemon was")
    for usage in outcome.usages:
        print(usage)
    for problem in outcome.problems:
        print(problem)
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
