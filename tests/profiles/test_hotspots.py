"""The sample client that finds the hottest lines of a profile, checked against LLVM line by line."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from importlib import util
from pathlib import Path

from symd.model.answers import Reason
from tests.agreement import llvm, ours
from tests.profiles.modules import ROOT

CLIENT = ROOT / "samples" / "clients" / "profile_hotspots.py"
FOLDER = ROOT / "samples" / "kernels" / "bin" / "tonemap"
SAMPLES = 20_000


def client():
    spec = util.spec_from_file_location("profile_hotspots", CLIENT)
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tables(text):
    """Title -> [(share, file:line)]."""
    blocks = [block.splitlines() for block in text.strip().split("\n\n")[1:]]
    return {block[0]: [tuple(line.split(maxsplit=1)) for line in block[1:]] for block in blocks}


def expected(counts):
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))[:10]
    return [(f"{weight / SAMPLES:.3%}", name) for name, weight in rows]


def answered_otherwise(offsets):
    """The frames where the debug data contradicts itself, which LLVM does not see."""
    answers = ours.answers(ours.index((FOLDER / "dg2-opt.dbg").read_bytes()), "tonemap", offsets)
    otherwise = (Reason.INFERRED, Reason.CONTRADICTORY)
    found = {
        offset: ours.frames(each) for offset, each in zip(offsets, answers, strict=True) if each.reason in otherwise
    }
    assert 0 < len(found) < len(offsets) // 10
    return found


def test_the_ten_hottest_lines_are_those_that_llvm_finds(tmp_path):
    command = [sys.executable, CLIENT, FOLDER / "dg2-opt.dbg", "--samples", str(SAMPLES)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=120)
    found = tables(done.stdout)
    size = 0xD00  # of .text, by readelf
    offsets = Counter(client().sampled(SAMPLES, size).tolist())
    elf = (FOLDER / "dg2-opt-patch.tonemap.elf").read_bytes()
    frames = dict(zip(offsets, llvm.frames(elf, list(offsets), tmp_path), strict=True))
    frames |= answered_otherwise(list(offsets))
    inner, user = Counter(), Counter()
    for offset, weight in offsets.items():
        for counts, (_, file, line, _) in ((inner, frames[offset][0]), (user, frames[offset][-1])):
            counts[f"{Path(file).name}:{line}" if file else "(no line)"] += weight
    assert found["innermost line"] == expected(inner)
    assert found["user line"] == expected(user)
    assert [name for _, name in found["innermost line"]] != [name for _, name in found["user line"]]
    assert len(found["innermost line"]) == 10
