"""A profile of a module that has the code of several devices: what all of them say is answered, the rest is AMBIGUOUS
in every format and verb. nvdisasm's line tables and LLVM say what the code objects have at an offset."""

from __future__ import annotations

import json
import re
import shlex
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.profiles.modules import ROOT, of_object
from tests.tools import require

FAT = ROOT / "samples" / "cuda" / "bin" / "tonemap.none.fatbin"
"""Both of its code objects are samples of their own too."""
AMD = [ROOT / "samples" / "amdgpu" / "bin" / f"v4-{target}.co" for target in ("gfx900", "gfx1035")]
"""In both, .text is at 0x1800 and the kernel shade at 0x1900, of 180 bytes in the first and 192 in the second."""
SHADE, SIZE = 0x1900, 180
CRC = 77


def chains(cubin: str) -> dict[int, list[str]]:
    """The file and line of each frame at each offset of tonemap, innermost first, by nvdisasm; up to the first jump."""
    text = (ROOT / "tests" / "golden" / "cuda" / "lines.txt").read_text()
    [block] = re.findall(rf"^@ {re.escape(cubin)}\n(.*?)(?=^@ |\Z)", text, re.DOTALL | re.MULTILINE)
    files = dict(re.findall(r"^f (\d+) (.*)$", block, re.MULTILINE))
    rows = {int(at, 16): chain for at, chain in re.findall(r"^([0-9a-f]{4}) (.*)$", block, re.MULTILINE)}
    found = {}
    for offset in range(0, 0x350, 16):
        chain = rows[max(at for at in rows if at <= offset)]
        found[offset] = [f"{files[number]}:{line}" for number, line in re.findall(r"(\d+):(\d+)", chain)]
    return found


def offsets() -> tuple[dict[int, str], list[int]]:
    """Offsets at which both code objects have the same line, not inlined, with that; and those where the innermost lines
    differ."""
    first, second = (chains(f"tonemap.{target}.lines.cubin") for target in ("sm_80", "sm_90a"))
    agreed = {at: own[0] for at, own in first.items() if own == second[at] and len(own) == 1}
    return agreed, [at for at, own in first.items() if own[0] != second[at][0]]


def folded(values: dict[int, int]) -> str:
    return "".join(f"[tonemap+{at:#x}] {value}\n" for at, value in values.items())


def cupti(values: dict[int, int]) -> str:
    return "".join(
        json.dumps(
            {
                "cubinCrc": CRC,
                "functionName": "tonemap",
                "pcOffset": at,
                "stallReason": [{"pcSamplingStallReasonIndex": 1, "samples": value}],
            }
        )
        + "\n"
        for at, value in values.items()
    )


FORMATS = {"folded": (folded, ""), "cupti": (cupti, f"{CRC}=")}


def calls_said(text: str) -> Iterator[list[str]]:
    """The words of the calls in a note on several code objects."""
    [extract, other] = re.findall(r"; write (symd extract .*) and then the one that ran: (symd .*) \(or ", text)[0]
    yield from (shlex.split(each)[1:] for each in (extract, other))


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_has_the_line_that_all_have_and_is_ambiguous_elsewhere(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """As hot, top and profile say it; the calls that they name answer all of it."""
    written, identity = FORMATS[kind]
    agreed, differing = offsets()
    assert min(len(agreed), len(differing)) > 2
    values = {at: at + 1 for at in (*agreed, *differing)}
    profile = tmp_path / "a.profile"
    profile.write_text(written(values))
    monkeypatch.chdir(tmp_path)
    for verb in ("hot", "top"):
        found = run(verb, "--json", "-m", f"{identity}{FAT}", profile)
        left = {row["reason"]: row["value"] for row in found.json if row["reason"]}
        assert left == {"AMBIGUOUS": sum(values[at] for at in differing)}
        if verb == "hot":
            lines = {line: sum(values[at] for at in agreed if agreed[at] == line) for line in agreed.values()}
            assert {f"{row['file']}:{row['line']}": row["value"] for row in found.json if row["line"]} == lines
        assert f"the profile does not say which of 2 code objects in {FAT} ran; write symd extract " in found.err
        extract, again = calls_said(found.err)
        assert run(*extract).code == 0
        one = run(*again)
        assert one.code == 0
        assert not [row for row in one.json if row["reason"]]
    report = run("profile", "--json", "-m", f"{identity}{FAT}", profile, tmp_path / "out").json[0]
    assert (report["resolved"], report["unresolved"]) == (len(agreed), {"AMBIGUOUS": len(differing)})
    assert any("which of 2 code objects" in note for note in report["notes"])


def test_an_instruction_that_all_have_is_a_place_of_the_kernel(run: Run, tmp_path: Path) -> None:
    agreed, _ = offsets()
    profile = tmp_path / "a.folded"
    profile.write_text(folded(dict.fromkeys(agreed, 1)))
    rows = run("hot", "--json", "--by", "instruction", "-m", FAT, profile).json
    assert {row["instruction"] for row in rows} == {f"tonemap+{at:#x}" for at in agreed}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Both AMD code objects in an offload bundle."""
    names = [f"hipv4-amdgcn-amd-amdhsa--{path.stem.removeprefix('v4-')}".encode() for path in AMD]
    at, images = 4096, [path.read_bytes() for path in AMD]
    table = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(images))
    for name, image in zip(names, images, strict=True):
        table += struct.pack("<QQQ", at, len(image), len(name)) + name
        at += len(image)
    path = tmp_path / "both.bundle"
    path.write_bytes(table.ljust(4096, b"\0") + b"".join(images))
    return path


def amd_offsets(folder: Path) -> tuple[list[int], list[int]]:
    """Offsets in shade at which LLVM finds the same frames, with their columns, in both, and the others."""
    every = range(0, SIZE, 4)
    same = [at for at in every if of_object(AMD[0], SHADE + at, folder) == of_object(AMD[1], SHADE + at, folder)]
    return same, [at for at in every if at not in same]


def pc_sampling(places: list[int]) -> str:
    """rocprofv3's JSON of one code object in memory that is gone, with a sample at each of these offsets in shade."""
    loaded = {"code_object_id": 2, "uri": "memory://1#offset=0x1&size=9", "load_base": 1 << 40, "load_size": 1 << 16}
    samples = [
        {"inst_index": 0, "record": {"timestamp": at, "pc": {"code_object_id": 2, "code_object_offset": SHADE + at}}}
        for at in places
    ]
    process = {
        "metadata": {"pid": 1},
        "strings": {"pc_sample_comments": [""]},
        "code_objects": [loaded | {"load_delta": 1 << 40}],
        "buffer_records": {"pc_sample_host_trap": samples, "pc_sample_stochastic": []},
    }
    return json.dumps({"rocprofiler-sdk-tool": [process]})


def test_code_objects_that_are_asked_by_address_are_one_rule(run: Run, tmp_path: Path, bundle: Path) -> None:
    same, differing = amd_offsets(tmp_path)
    assert min(len(same), len(differing)) > 2
    profile = tmp_path / "a.json"
    profile.write_text(pc_sampling([*same, *differing]))
    rows = run("hot", "--json", "-m", f"2={bundle}", profile).json
    assert {row["reason"]: row["value"] for row in rows if row["reason"]} == {"AMBIGUOUS": len(differing)}
    assert sum(row["value"] for row in rows if row["line"]) == len(same)


def test_what_only_one_code_object_has_is_its_own(run: Run, tmp_path: Path, bundle: Path) -> None:
    """Whatever else is asked: .text ends at 0x1a20 in one, and 0xe0 bytes later in the other."""
    _, differing = amd_offsets(tmp_path)
    profile = tmp_path / "a.json"
    profile.write_text(pc_sampling([differing[0], 0x1A40 - SHADE]))
    rows = run("hot", "--json", "-m", f"2={bundle}", profile).json
    assert {row["reason"] for row in rows} == {"AMBIGUOUS", "GAP"}


def test_a_code_object_in_memory_is_called_by_its_number(run: Run, tmp_path: Path) -> None:
    profile = tmp_path / "a.json"
    profile.write_text(pc_sampling([0x100000]))
    outcome = run("hot", "-m", f"2={AMD[0]}", profile)
    assert f"code object 2+{SHADE + 0x100000:#x} lies outside the code of code object 2" in outcome.err


def test_a_listing_has_shares_for_the_code_object_that_is_named_alone(run: Run, tmp_path: Path, bundle: Path) -> None:
    """No instruction of any has one before, also where all have the same line."""
    require("llvm-objdump")
    same, differing = amd_offsets(tmp_path)
    profile = tmp_path / "a.folded"
    profile.write_text("".join(f"[shade+{at:#x}] 1\n" for at in (*same, *differing)))
    outcome = run("listing", "--json", "--profile", profile, bundle)
    assert {row["value"] for row in outcome.json} == {0}
    assert "has one place in" in outcome.err
    path = "hipv4-amdgcn-amd-amdhsa--gfx900"
    said = re.search(r"which of 2 code objects in .* ran; write the one that ran: symd (.*) \(or ", outcome.err)
    assert said is not None
    words = shlex.split(said[1])
    assert words[:3] == ["listing", "--object", path]
    named = run(*words)
    assert {row["object"] for row in named.json if row["value"]} == {path}
    assert sum(row["value"] for row in named.json) == len(same) + len(differing)
    assert "code objects" not in named.err


def test_a_page_says_that_no_code_object_has_the_samples(run: Run, tmp_path: Path, bundle: Path) -> None:
    require("llvm-objdump")
    _, differing = amd_offsets(tmp_path)
    profile, page = tmp_path / "a.folded", tmp_path / "page.html"
    profile.write_text(f"[shade+{differing[0]:#x}] 1\n")
    outcome = run("view", "--variables", "0", "--profile", profile, "-o", page, bundle)
    assert "OUTSIDE_TEXT" not in outcome.err
    assert f"which of 2 code objects in {bundle} ran" in outcome.err
