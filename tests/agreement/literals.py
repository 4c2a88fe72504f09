"""Lines of instructions that put a literal into a register: optimizers move these, out of loops and to where the first of several uses is, and leave them one line.

    python -m tests.agreement.literals COUNT

compiles so many random programs, in which each literal stands in several lines, with each compiler that is here, and counts such instructions by whether the literal stands in their line."""

from __future__ import annotations

import random
import re
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import symd
from tests.agreement.generated import AMD, HEADS, INTEL, Command, compiled, compilers
from tests.agreement.source_text import POSITIONED

_LITERALS = ("2.25f", "3.5f", "5.25f", "6.5f", "7.25f", "9.5f", "11.25f", "13.5f")
"""None of them is one that an instruction of AMD's has without a literal."""
_MOVES = {
    AMD: re.compile(r"[vs]_mov_b32\S*\s+\S+, 0x([0-9a-f]+)"),
    INTEL: re.compile(r"mov \(.*>:\w+\s+(?:0x([0-9A-Fa-f]+)|([\d.]+)):\w+"),
}


def program(vendor: str, seed: int) -> str:
    """Statements in functions that are inlined, in branches and in loops, no two in one line."""
    dice = random.Random(f"{vendor}/{seed}")
    lines = list(HEADS[vendor])

    def statement() -> str:
        one, other = dice.sample(_LITERALS, 2)
        return dice.choice(
            [f"x = x * {one} + {other};", f"x = x > {one} ? {other} : x;", f"x = y * x + {one};", f"out[i] = {one};"]
        )

    memory = "global " if vendor == INTEL else ""
    for function in range(3):
        head = f"INLINE float f{function}({memory}float *out, int i, float x, float y, int n) {{"
        lines += [head, *(f"    {statement()}" for _ in range(dice.randint(2, 5))), "    return x;", "}"]
    lines += [
        f"KERNEL void k({memory}float *out, const {memory}float *in, int n) {{",
        "    int i = AT;",
        "    float x = in[i], y = in[i + n];",
    ]
    for number in range(12):
        around = dice.choice(["", f"if (x > in[{number}])", f"for (int j = 0; j < in[i + {number}]; j++)"])
        call = f"x = f{dice.randrange(3)}(out, i + {number}, x, y, n);"
        body = [statement() for _ in range(dice.randint(1, 3))] + [call] * dice.randrange(2)
        lines += [f"    {around} {{", *(f"        {each}" for each in body), "    }"]
    return "\n".join([*lines, "    out[i] = x;", "}", ""])


def moves(vendor: str, told: str, command: Command, seed: int, folder: Path) -> Iterator[str]:
    """For each instruction that moves a literal of several lines: whether this stands in its "line" or the line is "another", where symd stands for the line (EXACT, INFERRED), else the reason."""
    text = program(vendor, seed)
    uses = {
        _bits(each): {number for number, line in enumerate(text.splitlines(), 1) if re.search(rf"(?<!\d){each}", line)}
        for each in _LITERALS
    }
    source, binary = compiled(vendor, command, text, folder)
    module = source.with_suffix(".gpu")
    module.write_bytes(binary)
    with symd.open(module) as opened:
        for listing in opened.listing(target=told.rpartition(", ")[2] if vendor == INTEL else None):
            assert not listing.problem, listing.problem
            for instruction, answer in zip(listing.text, listing.answers, strict=True):
                moved = _MOVES[vendor].search(instruction)
                lines = uses.get(int(moved[1], 16) if moved[1] else _bits(moved[2]), set()) if moved else set()
                if len(lines) > 1:
                    is_use = bool(answer.frames) and answer.frames[0].line in lines
                    yield ("line" if is_use else "another") if answer.reason in POSITIONED else answer.reason.name


def _bits(literal: str) -> int:
    return int(struct.unpack("<I", struct.pack("<f", float(literal.removesuffix("f"))))[0])


def main(count: str) -> None:
    for vendor, told, command in compilers():
        if vendor in _MOVES:
            with TemporaryDirectory() as folder:
                every = (moves(vendor, told, command, seed, Path(folder)) for seed in range(int(count)))
                print(f"{told:<20} {dict(Counter(chain.from_iterable(every)))}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
