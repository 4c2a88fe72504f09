"""Which lines of symd an input reaches, and so which seeds reach what others do not. The fewer bytes a seed has, the more inputs a second, and the
more of a change meets what decides. `python -m tests.fuzz.reach` writes `reach.json`, the seeds of `everything` that are chosen so."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.fuzz import everything, nested
from tests.fuzz.kinds import by_kind
from tests.fuzz.trace import Line, adding, reach


def reached(run: Callable[[bytes], object], data: bytes) -> frozenset[Line]:
    """The lines that ``run`` reaches with an input, also where it raises."""
    return reach(run, data, Exception).lines


def reaching(run: Callable[[bytes], object], inputs: Iterable[bytes]) -> list[bytes]:
    """Of inputs the smallest, and those that reach a line which no smaller one reaches."""
    by_size = sorted(inputs, key=lambda each: (len(each), each))
    return adding((data, reached(run, data)) for data in by_size)


def main() -> None:
    found: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        lives = everything.Lives(Path(folder), a_life=sys.maxsize)
        for name, alike in sorted(by_kind(nested.files()).items()):
            reached(lives, alike[0])  # what is imported and made once is not its own
            found[name] = [everything.name_of(data) for data in reaching(lives, alike)]
            print(f"{name}: {len(found[name])} of {len(alike)}", flush=True)
        lives.close()
    everything.CHOSEN.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
