"""`python -m tests.fuzz.child SEED FIRST STEP MIB`: ask everything of inputs FIRST, FIRST+STEP, ... until killed, with MIB
more of address space than the program itself takes. Each number is printed before the input is tried, and after it what
came of it; whoever reads knows which input a crash or a hang belongs to."""

from __future__ import annotations

import json
import resource
import sys
import traceback
from pathlib import Path

from symd.config import MIB
from tests.fuzz.mutations import mutated, samples
from tests.fuzz.questions import ask_everything


def tried(data: bytes) -> dict[str, str]:
    """What came of it: ``outcome`` is "taken", "refused", or "defect" with its ``trace``."""
    try:
        return {"outcome": "taken" if ask_everything(data) else "refused"}
    except Exception:  # noqa: BLE001 - whatever it is, it is the find
        return {"outcome": "defect", "trace": traceback.format_exc()}


def bound_memory(mebibytes: int) -> None:
    taken = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmSize"))
    most = (int(taken.split()[1]) << 10) + mebibytes * MIB
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main(seed: str, first: str, step: str, mebibytes: str) -> None:
    samples()
    bound_memory(int(mebibytes))
    number = int(first)
    while True:
        print(json.dumps({"number": number}), flush=True)
        print(json.dumps({"number": number, **tried(mutated(int(seed), number))}), flush=True)
        number += int(step)


if __name__ == "__main__":
    main(*sys.argv[1:])
