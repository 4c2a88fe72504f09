"""A file that gzip or another such program compressed is what was compressed, for every verb that reads a FILE, and within the limits."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import pytest
import zstandard

from tests.cli.conftest import Run

SAMPLES = Path(__file__).parents[2] / "samples"
VADD = SAMPLES / "kernels" / "bin" / "vadd" / "dg2-opt.dbg"
OBJECT = SAMPLES / "amdgpu" / "bin" / "v4-gfx900.co"
SPIRV = next((SAMPLES / "kernels" / "bin").rglob("*.spv"))
VERBS = {
    "info": (VADD, []),
    "lines": (VADD, ["--json"]),
    "symbolize": (VADD, ["vadd+0x1b0"]),
    "locate": (VADD, ["vadd.cl:9"]),
    "variables": (VADD, ["vadd+0x1b0"]),
    "names": (VADD, ["*"]),
    "verify": (VADD, []),
    "check": (SPIRV, []),
    "extract": (VADD, ["OUT"]),
    "slim": (OBJECT, ["OUT"]),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_compressed_file_is_answered_as_what_it_holds(run: Run, verb: str, tmp_path: Path) -> None:
    source, more = VERBS[verb]
    plain, packed = tmp_path / source.name, tmp_path / f"{source.name}.gz"
    plain.write_bytes(source.read_bytes())
    packed.write_bytes(gzip.compress(source.read_bytes()))
    found = []
    for number, path in enumerate((plain, packed)):
        arguments = [str(tmp_path / f"out{number}") if each == "OUT" else each for each in more]
        outcome = run(verb, path, *arguments)
        found.append(
            (
                outcome.code,
                *(text.replace(str(packed), str(plain)).replace("out1", "out0") for text in (outcome.out, outcome.err)),
            )
        )
    assert found[0] == found[1]
    if verb == "slim":
        assert (tmp_path / "out0").read_bytes() == (tmp_path / "out1").read_bytes()


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [(".zst", zstandard.compress), (".xz", lzma.compress), (".bz2", bz2.compress), (".lz4", lz4.frame.compress)],
)
def test_so_may_other_programs_have_compressed_it(
    run: Run, suffix: str, compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    packed = tmp_path / f"vadd.dbg{suffix}"
    packed.write_bytes(compress(VADD.read_bytes()))
    assert run("symbolize", packed, "vadd+0x1b0").out == run("symbolize", VADD, "vadd+0x1b0").out
    elsewhere = tmp_path / "vadd"
    elsewhere.write_bytes(packed.read_bytes())
    assert "content/" in run("info", elsewhere).out


def test_debug_data_apart_may_be_compressed(run: Run, tmp_path: Path) -> None:
    small, debug = tmp_path / "small.co", tmp_path / "small.co.debug"
    assert run("slim", OBJECT, small).code == 0
    wanted = run("symbolize", "--debug", debug, small, "shade+0x40").out
    packed = tmp_path / "debug.gz"
    packed.write_bytes(gzip.compress(debug.read_bytes()))
    assert run("symbolize", "--debug", packed, small, "shade+0x40").out == wanted
    assert "shade" in wanted


def test_what_expands_beyond_the_limits_is_refused(run: Run, tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.gz"
    made = zlib.compressobj(9, wbits=31)
    bomb.write_bytes(b"".join(made.compress(bytes(1 << 20)) for _ in range(64)) + made.flush())
    outcome = run("info", bomb)
    assert outcome.code == 2
    assert "more than 100 bytes for each byte of the file" in outcome.err
    packed = tmp_path / "vadd.gz"
    packed.write_bytes(gzip.compress(VADD.read_bytes()))
    outcome = run("info", "--limit", "expansion=1000", packed)
    assert (outcome.code, "expansion" in outcome.err) == (2, True)


@pytest.mark.parametrize("cut", [2, 10, 40, -1])
def test_a_cut_file_is_malformed(run: Run, tmp_path: Path, cut: int) -> None:
    packed = tmp_path / "vadd.gz"
    packed.write_bytes(gzip.compress(VADD.read_bytes())[:cut])
    outcome = run("info", packed)
    assert outcome.code == 2
    assert outcome.err.startswith(f"symd: {packed}: ")
    assert len(outcome.err.splitlines()) == 1


def test_a_file_that_is_only_called_so_is_read_as_it_is(run: Run, tmp_path: Path) -> None:
    named = tmp_path / "vadd.gz"
    named.write_bytes(VADD.read_bytes())
    assert run("info", named).out == run("info", VADD).out.replace(str(VADD), str(named))
