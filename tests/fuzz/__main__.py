"""`python -m tests.fuzz [--seconds N] [--seed N] [--only NAME ...] [--plain | --grown] [--out FOLDER]`, or with `--replay TARGET FILE`
one input again. NAME is a target, the beginning of several, `everything.` and the kind of its seeds, `wire` or `through`. Exit code 1 when something was found; the inputs are then below
the folder, and `counts.json` there counts all that were ever tried."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz import counts, through, watchdog
from tests.fuzz.target import Refused
from tests.fuzz.targets import TARGETS, is_of_kind, target_of
from tests.fuzz.trial import State
from tests.fuzz.watchdog import ChildException
from tests.fuzz.wire import WireFuzzer
from tests.soak.daemon import serving

_THROUGH_SHARES = 9
"""Files through a daemon get so many more shares of the time than a target: they are slow, and say the most."""


def wire(seed: int, seconds: float, out: Path, count: Callable[[Mapping[str, State]], object]) -> list[ChildException]:
    with tempfile.TemporaryDirectory(prefix="symd-fuzz-") as folder, serving(Path(folder)) as daemon:
        fuzzer = WireFuzzer(daemon, seed, out)
        fuzzer.run(seconds)
        report = fuzzer.end()
    print("wire: " + ", ".join(f"{count} {status}" for status, count in report.statuses.most_common()), flush=True)
    answered, found = report.statuses["OK"], len(report.defects)
    refused = report.statuses.total() - answered - found
    count({"wire": State(answered, refused, found)})
    return report.defects


DAEMONS = {"wire": wire, "through": through.run}
"""Those that are no functions of bytes: requests to a daemon, and files through one."""


def told(defects: list[ChildException]) -> int:
    """One of each place in full, and how many there are."""
    places: dict[str, list[ChildException]] = {}
    for defect in defects:
        places.setdefault(defect.place, []).append(defect)
    for alike in places.values():
        print(f"\n{len(alike)} like this:\n{alike[0]}")
    return 1 if defects else 0


def named(chosen: Sequence[str]) -> list[str]:
    """The targets that are called so, or begin so where none is; of one that counts by kind those of the kinds that are named. Raises
    KeyError for a kind without seeds."""
    of_kinds = [name for name in chosen if is_of_kind(name) and target_of(name)]
    every = (*TARGETS, *DAEMONS, *of_kinds)
    return [name for name in every if name in chosen or name.startswith(tuple(set(chosen).difference(every)))]


def replayed(name: str, path: str) -> int:
    try:
        TARGETS[name].run(Path(path).read_bytes())
    except Refused as refused:
        print(f"refused: {refused.__cause__}")
    else:
        print("answered")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzz")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--children", type=int, default=2, help="processes that try inputs")
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[""])
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--plain", action="store_true", help="inputs that seed and number make again, not guided ones")
    ways.add_argument(
        "--grown",
        action="store_true",
        help="inputs made of what guided runs kept below the folder: without their bookkeeping several times as many a second",
    )
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--replay", nargs=2, metavar=("TARGET", "FILE"))
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is ended
    if chosen.replay:
        return replayed(*chosen.replay)
    unguided = chosen.plain or find_spec("atheris") is None
    how = "grown" if chosen.grown else "" if unguided else "guided"
    names = named(chosen.only)
    print(f"seed {chosen.seed}; what is found goes to {chosen.out}; {how or 'plain'}", flush=True)
    share = chosen.seconds / (len(names) + _THROUGH_SHARES * ("through" in names))
    targets = [name for name in names if name not in DAEMONS]

    def count(name: str, state: State) -> None:
        counts.added(chosen.out / "counts.json", {name: state})

    long = share * chosen.children
    report = watchdog.run(targets, chosen.seed, long, chosen.out, children=chosen.children, how=how, done=count)
    defects = report.defects
    for name in [name for name in names if name in DAEMONS]:
        long = share * (1 + _THROUGH_SHARES * (name == "through"))
        defects += DAEMONS[name](chosen.seed, long, chosen.out, partial(counts.added, chosen.out / "counts.json"))
    print(counts.printed(counts.added(chosen.out / "counts.json", {})))
    return told(defects)


if __name__ == "__main__":
    raise SystemExit(main())
