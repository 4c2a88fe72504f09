"""A module that the daemon has never seen: from the bytes in the client's hands to the first answer, beside its whole index made in a
process of its own, in turns.

`python -m benchmarks.upload OBJECT` prints the row; OBJECT is a linked AMDGPU code object.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks import report
from benchmarks.answers import Text
from benchmarks.cold import child
from benchmarks.grpc_path import Row, started
from symd import Client
from symd.config import Limits
from symd.index import Index
from symd.index.module import build_index
from symd.model.addresses import ByAddress, ObjectAddress
from symd.model.answers import Answer
from symd.query.symbolize import symbolize_column


class Taken(NamedTuple):
    """Seconds until the module is added, and until the first question is answered."""

    added: float
    answered: float


def row(path: Path, rounds: int) -> Row:
    """The same bytes with a few more behind them, which no reader looks at, are another module each time."""
    data = path.read_bytes()
    addresses = Text(path).addresses(rounds + 1, 21)
    expected = symbolize_column(Index(build_index(data, Limits())), addresses)
    mine, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        serve = ("-m", "symd", "serve", "--address", f"unix:{folder}/s", "--store", f"{folder}/store")
        with started(*serve) as served, Client(served.split()[-1]) as client:
            for number, address in enumerate(addresses.tolist()):
                answer, taken = _added_and_asked(client, data + number.to_bytes(4, "little"), address)
                assert answer == expected[number], (answer, expected[number])
                if number:  # the first finds the daemon's own code cold
                    mine.append(taken)
                    theirs.append(child("index", path)["seconds"])
    ratio = statistics.median(my.answered / their for my, their in zip(mine, theirs, strict=True))
    answered, added = (statistics.median(getattr(each, part) for each in mine) * 1e3 for part in ("answered", "added"))
    detail = f"{answered:.0f} ms, {added:.0f} of them until the module is added; index {statistics.median(theirs) * 1e3:.0f} ms"
    what = f"a module of {len(data) / 1e6:.0f} MB over the socket until its first answer, vs its index in-process"
    return Row(what, ratio, 1.5, 1.2, False, detail)


def _added_and_asked(client: Client, data: bytes, address: int) -> tuple[Answer, Taken]:
    begun = time.perf_counter()
    digest = client.add(data).sha256
    added = time.perf_counter()
    answer = client.symbolize_one(digest, ByAddress(ObjectAddress(address)))
    return answer, Taken(added - begun, time.perf_counter() - begun)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("object", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args(arguments)
    print(report.line(row(chosen.object, chosen.rounds)))


if __name__ == "__main__":
    main(sys.argv[1:])
