"""`python -m tests.kill [--kills N] [--seed N] [--seconds N] [--workers]`: exit code 1, with what was wrong, unless nothing was."""

from __future__ import annotations

import argparse
import logging
import time

from tests.kill.run import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.kill")
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--workers", action="store_true", help="read modules in processes of their own")
    chosen = parser.parse_args()
    logging.getLogger("symd.store").setLevel(logging.ERROR)  # what is evicted is counted
    outcome = run(chosen.kills, chosen.seed, chosen.seconds, workers=chosen.workers)
    for what, counts in (("done", outcome.done), ("interrupted", outcome.interrupted)):
        print(f"{what}: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    print(
        f"seed {chosen.seed}: {outcome.kills} kills, {outcome.evicted} modules evicted, {len(outcome.problems)} problems"
    )
    for problem in outcome.problems:
        print(problem)
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
