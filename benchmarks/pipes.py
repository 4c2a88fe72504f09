"""The command as scripts use it: addresses on standard input, beside llvm-symbolizer, each a whole process, in turns.

`python -m benchmarks.pipes OBJECT` prints the rows; `rows` gives them. OBJECT is a linked AMDGPU code object."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks import installed, peers, report
from benchmarks.answers import Text
from benchmarks.grpc_path import Row, timed
from symd.config import Limits
from symd.formats import containers

RANDOM = 200_000
"""Random addresses of the large object, nearly all of them different."""
REPEATED, DISTINCT = 1_000_000, 400
"""Lines about the small module, and the addresses in them: what profiles look like."""
ONES = 2_000
"""Questions that wait for their answers."""
INTEL = Path(__file__).parents[1] / "samples" / "kernels" / "bin" / "raycast" / "driver-l0-igc2-dg2-O0.debug-zebin"


def rows(path: Path, rounds: int) -> Iterator[Row]:
    symd = str(installed.command())
    random = Text(path).addresses(RANDOM, 21)
    yield from _bulk(f"{RANDOM:,} random addresses on standard input", symd, path, random, (3, 8), rounds)
    distinct = _intel_addresses()
    _check(symd, distinct)
    repeated = np.random.default_rng(22).choice(distinct, REPEATED)
    what = f"{REPEATED:,} lines of {DISTINCT} addresses of a small Intel module on standard input"
    yield from _bulk(what, symd, INTEL, repeated, (5, 15), rounds)
    yield from _drop_ins(
        symd, path, np.random.default_rng(24).choice(Text(path).addresses(DISTINCT, 24), REPEATED), rounds
    )
    yield _one_by_one(symd, path, Text(path).addresses(ONES, 23).tolist(), rounds)


def _intel_addresses() -> np.ndarray:
    [code] = [each for each in containers.unpack(INTEL.read_bytes(), Limits()).objects if not each.is_compiler_input]
    places = [(each.address, each.size) for each in code.sections if each.executable and each.size]
    every = np.concatenate([np.arange(0, size, 8, dtype=np.uint64) + np.uint64(start) for start, size in places])
    return every[:: len(every) // DISTINCT][:DISTINCT]


def _check(symd: str, addresses: np.ndarray) -> None:
    """The peer gives the same positions in the small module before anything is timed; it calls functions by their symbols. Raises
    ValueError."""
    asked = "".join(f"{address:#x}\n" for address in addresses.tolist())
    command = [symd, "symbolize", "--as-written", "--json", str(INTEL), "-"]
    text = subprocess.run(command, input=asked, capture_output=True, text=True, check=True).stdout
    mine = [
        [((each["file"] or "").rsplit("/", 1)[-1], each["line"]) for each in json.loads(answer)["frames"]]
        for answer in text.splitlines()
    ]
    theirs = [[place[1:] for place in frames] for frames in peers.llvm(INTEL, addresses.tolist())]
    if len(addresses) != DISTINCT or mine != theirs:
        raise ValueError(f"{INTEL.name}: llvm-symbolizer gives other positions")


def _bulk(
    what: str, symd: str, path: Path, addresses: np.ndarray, goals: tuple[float, float], rounds: int
) -> Iterator[Row]:
    """Text, and JSON; what is written goes nowhere."""
    ways = {
        "text": ([symd, "symbolize", str(path), "-"], [peers.LLVM, f"--obj={path}", "--inlines"], goals),
        "JSON": (
            [symd, "symbolize", "--json", str(path), "-"],
            [peers.LLVM, f"--obj={path}", "--inlines", "--output-style=JSON"],
            (2, 5),
        ),
    }
    with tempfile.TemporaryFile("w+") as asked:
        asked.write("".join(f"{address:#x}\n" for address in addresses.tolist()))
        for form, (mine, theirs, (least, reach)) in ways.items():
            taken: dict[str, list[float]] = {"symd": [], "peer": []}
            for _ in range(rounds):
                taken["symd"].append(_seconds(mine, asked.fileno()))
                taken["peer"].append(_seconds(theirs, asked.fileno()))
            faster = statistics.median(their / my for my, their in zip(taken["symd"], taken["peer"], strict=True))
            said = f"{statistics.median(taken['symd']):.2f} s, llvm-symbolizer {statistics.median(taken['peer']):.2f} s"
            yield Row(f"{what}, {form}, whole process, vs llvm-symbolizer", faster, least, reach, True, said)


def _drop_ins(symd: str, path: Path, addresses: np.ndarray, rounds: int) -> Iterator[Row]:
    """symd under the names of other tools, beside LLVM's tool with the same options."""
    theirs = [peers.LLVM, f"--obj={path}"]
    ways = {
        "llvm-symbolizer": ([symd, "llvm-symbolizer", f"--obj={path}"], theirs),
        "llvm-symbolizer --output-style=JSON": (
            [symd, "llvm-symbolizer", f"--obj={path}", "--output-style=JSON"],
            [*theirs, "--output-style=JSON"],
        ),
        "addr2line -fi": ([symd, "addr2line", "-fie", str(path)], [*theirs, "--output-style=GNU", "--no-demangle"]),
    }
    with tempfile.TemporaryFile("w+") as asked:
        asked.write("".join(f"{address:#x}\n" for address in addresses.tolist()))
        for form, (mine, peer) in ways.items():
            taken = [(_seconds(mine, asked.fileno()), _seconds(peer, asked.fileno())) for _ in range(rounds)]
            faster = statistics.median(their / my for my, their in taken)
            my, their = map(statistics.median, zip(*taken, strict=True))
            what = f"symd {form}, {REPEATED:,} lines of {DISTINCT} addresses, whole process, vs llvm-symbolizer"
            yield Row(what, faster, 1, 3, True, f"{my:.2f} s, llvm-symbolizer {their:.2f} s")


def _seconds(command: Sequence[str], asked: int) -> float:
    os.lseek(asked, 0, os.SEEK_SET)
    return timed(lambda: subprocess.run(command, stdin=asked, stdout=subprocess.DEVNULL, check=True))


def _one_by_one(symd: str, path: Path, addresses: Sequence[int], rounds: int) -> Row:
    """Each question waits for the answer to the one before; both programs are open, and have answered all of them once."""
    mine_command = [symd, "symbolize", "--json", str(path), "-"]
    their_command = [peers.LLVM, f"--obj={path}", "--inlines", "--output-style=JSON"]
    with _dialogue(mine_command) as mine, _dialogue(their_command) as theirs:
        for other in (mine, theirs):
            _ask(other, addresses)
        taken: list[tuple[float, float]] = []
        for number in range(rounds):
            asked = np.random.default_rng(number).permutation(addresses).tolist()
            taken.append((timed(lambda: _ask(mine, asked)), timed(lambda: _ask(theirs, asked))))  # noqa: B023 - called at once
        for other in (mine, theirs):
            other.stdin.close()
            other.wait()
    ratio = statistics.median(my / their for my, their in taken)
    my, their = (statistics.median(each) / len(addresses) * 1e6 for each in zip(*taken, strict=True))
    return Row("one question at a time on a pipe, one line of JSON an answer, round trip, vs llvm-symbolizer", ratio, 2, 1, False,
               f"{my:.0f} us, llvm-symbolizer {their:.0f} us")  # fmt: skip


def _dialogue(command: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _ask(program: subprocess.Popen[bytes], addresses: Sequence[int]) -> None:
    for address in addresses:
        program.stdin.write(b"0x%x\n" % address)
        program.stdin.flush()
        if not program.stdout.readline():
            raise ValueError(f"{program.args} ended")


if __name__ == "__main__":
    report.main(__doc__, rows)
