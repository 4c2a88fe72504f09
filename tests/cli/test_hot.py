"""symd hot: the values of each profile's places, summed from the file by other means, with the lines that LLVM and nvdisasm say."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from symd.client import Client
from symd.model.answers import Frame, Reason
from symd.model.summaries import ModuleSummary
from symd.profiles.hot import hot
from symd.profiles.samples import Sample, SampledAddress, SampledProfile, ValueType
from tests.cli.conftest import Run
from tests.profiles.messages import Profile
from tests.profiles.modules import (
    AMD,
    CUBIN,
    CUBIN_CRC,
    FILTERS,
    NO_DEBUG,
    PRUNED,
    SAMPLES,
    ZEBIN,
    of_cubin,
    of_kernel,
    of_object,
)
from tests.tools import output, require

MODULES = ("-m", f"2={AMD}", "-m", f"3={PRUNED}", "-m", f"shade.co={AMD}", "-m", ZEBIN, "-m", f"{CUBIN_CRC}={CUBIN}")
Line = tuple[str, int]
NOWHERE: Line = ("", 0)
Leaves = Iterator[tuple[Line, int]]
"""The line of each sample, and its value."""


def in_kernel(name: str, offset: int, folder: Path) -> Line:
    """A line of the zebin, by LLVM; nowhere where there is no such kernel or nothing at that offset."""
    if name not in ("smooth", "denoise"):
        return NOWHERE
    innermost = of_kernel(name, offset, folder)[0]
    return (innermost[1], innermost[2]) if innermost[2] else NOWHERE


def in_object(number: int, address: int, folder: Path) -> Line:
    """A line of one of the two AMD code objects, by LLVM."""
    path = {2: AMD, 3: PRUNED}.get(number)
    if path is None:
        return NOWHERE
    innermost = of_object(path, address, folder)[0]
    return (innermost[1], innermost[2]) if innermost[2] else NOWHERE


def of_stalls(data: bytes, folder: Path) -> Leaves:
    for row in csv.reader(data.decode().splitlines(), skipinitialspace=True):
        if len(row) == 11 and re.fullmatch("[0-9a-f]+", row[1]):
            yield in_kernel(re.sub(r"\[SIMD.*", "", row[0]), int(row[1], 16), folder), sum(map(int, row[2:]))


def of_records(data: bytes, _folder: Path) -> Leaves:
    for record in map(json.loads, data.decode().splitlines()):
        known = record["cubinCrc"] == CUBIN_CRC and record["functionName"] in (
            "_Z7raycastPfi6float3",
            "_Z5probePfPK6float3",
        )
        place = of_cubin(f".text.{record['functionName']}", record["pcOffset"])[0] if known else NOWHERE
        yield place, sum(each["samples"] for each in record["stallReason"])


def of_stacks(data: bytes, folder: Path) -> Leaves:
    for line in data.decode().splitlines():
        stack, _, count = line.rpartition(" ")
        leaf = re.fullmatch(r"\[?(.*?)\+0x([0-9a-f]+)\]?", stack.rpartition(";")[2])
        if leaf is None:
            yield NOWHERE, int(count)
        elif leaf[1] == "shade.co":
            yield in_object(2, int(leaf[2], 16), folder), int(count)
        else:
            yield in_kernel(leaf[1], int(leaf[2], 16), folder), int(count)


def of_pc_sampling(data: bytes, folder: Path) -> Leaves:
    for process in json.loads(data)["rocprofiler-sdk-tool"]:
        for kind in ("pc_sample_host_trap", "pc_sample_stochastic"):
            for record in process["buffer_records"][kind]:
                pc = record["record"]["pc"]
                yield in_object(pc["code_object_id"], pc["code_object_offset"], folder), 1


def of_thread_trace(data: bytes, folder: Path) -> Leaves:
    for _, _, _, source, number, address, _, latency, _, _ in json.loads(data)["code"]:
        kept = re.match(r"(/.*?):(\d+)", source)
        yield ((kept[1], int(kept[2])) if kept else in_object(number, address, folder)), latency


def of_hatchet(data: bytes, _folder: Path) -> Leaves:
    waiting = [*json.loads(data)[:1]]
    while waiting:
        node = waiting.pop()
        waiting += node["children"]
        place = re.match(r"(/.*?):(\d+)@", node["frame"]["name"])
        yield ((place[1], int(place[2])) if place else NOWHERE), node["metrics"].get("count", 0)


def of_pprof(data: bytes, folder: Path) -> Leaves:
    profile = Profile.FromString(gzip.decompress(data))
    locations = {each.id: each for each in profile.location}
    for sample in profile.sample:
        leaf = locations[sample.location_id[0]]
        held = (each for each in profile.mapping if each.memory_start <= leaf.address < each.memory_limit)
        mapping = next(held)  # one location does not say its own
        place = NOWHERE
        if profile.string_table[mapping.filename] == b"shade.co":
            place = in_object(2, leaf.address - mapping.memory_start, folder)
        elif mapping.file_offset:  # the text of one Intel kernel, as samples/profiles/pprof.go maps it
            place = in_kernel("smooth", leaf.address - mapping.memory_start, folder)
        yield place, sample.value[0]


FORMATS: dict[str, Callable[[bytes, Path], Leaves]] = {
    "stalls.csv": of_stalls,
    "records.jsonl": of_records,
    "stacks.folded": of_stacks,
    "pc_sampling.json": of_pc_sampling,
    "code.json": of_thread_trace,
    "proton.hatchet": of_hatchet,
    "kernels.pb.gz": of_pprof,
}


@pytest.mark.parametrize("name", FORMATS)
def test_each_line_has_the_sum_of_the_file(run: Run, tmp_path: Path, name: str) -> None:
    expected: Counter[Line] = Counter()
    for place, value in FORMATS[name]((SAMPLES / name).read_bytes(), tmp_path):
        expected[place] += value
    outcome = run("hot", *MODULES, "--json", "--top", "0", SAMPLES / name)
    rows = [*map(json.loads, outcome.out.splitlines())]
    found: Counter[Line] = Counter()
    for row in rows:
        found[(row["file"], row["line"]) if row["line"] else NOWHERE] += row["value"]
    assert +found == +expected
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    assert [row["value"] for row in rows] == sorted((row["value"] for row in rows), reverse=True)


@pytest.mark.parametrize("by", ["instruction", "function", "kernel", "file"])
@pytest.mark.parametrize("name", FORMATS)
def test_nothing_is_lost_by_whatever_it_is_summed(run: Run, name: str, by: str) -> None:
    totals = {
        sum(
            json.loads(line)["value"]
            for line in run("hot", *MODULES, "--json", "-n", "0", "--by", each, SAMPLES / name).out.splitlines()
        )
        for each in ("line", by)
    }
    assert len(totals) == 1


def test_a_place_is_shown_with_its_share_its_callers_and_its_stall_reasons(run: Run) -> None:
    """458 of the 592 events of stalls.csv are at smooth+0x290, of which 310 wait for the scoreboard and 140 are active."""
    outcome = run("hot", "-m", ZEBIN, "-n", "1", SAMPLES / "stalls.csv")
    head, _, titles, first, rest = outcome.out.splitlines()
    assert head.endswith("stalls.csv: 592 Events in 4 lines; 15 (2.5%) in 2 unresolved places")
    assert titles.split(maxsplit=3) == ["share", "Events", "line", "(or --by instruction|function|kernel|file|stall)"]
    assert first.split() == [
        "77.36%",
        "458",
        "/tmp/symd-opencl/filters.clcpp:13",
        "mean",
        "<",
        "smooth:46",
        "SbidStall",
        "68%,",
        "Active",
        "31%,",
        "PipeStall",
        "1%",
    ]
    assert rest.split() == ["22.64%", "134", "in", "5", "more", "places", "(--top", "0", "shows", "all)"]


def test_an_instruction_is_written_as_every_verb_takes_it(run: Run) -> None:
    outcome = run("hot", *MODULES, "--by", "instruction", "--json", SAMPLES / "stacks.folded")
    first = json.loads(outcome.out.splitlines()[0])
    assert (first["instruction"], first["value"]) == ("smooth+0x290", 140)
    answer = run("symbolize", "--json", ZEBIN, first["instruction"])
    assert json.loads(answer.out)["frames"][0]["line"] == first["line"]


def test_top_ranks_functions_as_reports_of_pprof_and_perf_do(run: Run) -> None:
    call = ("-m", ZEBIN, SAMPLES / "stalls.csv")
    assert run("top", *call) == run("hot", "--by", "function", *call)
    assert run("top", "--by", "kernel", *call) == run("hot", "--by", "kernel", *call)
    assert run("top", "-lines", *call) == run("hot", *call)
    titles = run("top", *call).out.splitlines()[2].split(maxsplit=2)
    assert titles == ["share", "Events", "function (or --by line|instruction|kernel|file|stall)"]


def test_a_kernel_has_the_samples_behind_its_end(run: Run, tmp_path: Path) -> None:
    """The first section of the zebin is smooth's code and what pads it; half of the samples are in that or behind all."""
    profile = tmp_path / "stacks.folded"
    profile.write_text("smooth+0x290 1\nsmooth+0x438 2\nsmooth+0xfffff0 4\nabsent+0x10 8\n[gone.co+0x10] 16\n")
    rows = run("hot", "--by", "kernel", "--json", "-m", ZEBIN, profile).json
    found = [(row["kernel"], row["value"], row["reason"]) for row in rows]
    assert found == [("gone.co", 16, "UNKNOWN_KERNEL"), ("absent", 8, "UNKNOWN_KERNEL"), ("smooth", 7, None)]
    assert "absent (UNKNOWN_KERNEL)" in run("hot", "--by", "kernel", "-m", ZEBIN, profile).out


def test_kernels_that_a_profile_names_are_summed_without_their_modules(run: Run, tmp_path: Path) -> None:
    sums = Counter[str]()
    for row in csv.reader((SAMPLES / "stalls.csv").read_text().splitlines(), skipinitialspace=True):
        if len(row) == 11 and re.fullmatch("[0-9a-f]+", row[1]):
            sums[row[0]] += sum(map(int, row[2:]))
    done = run("hot", "--by", "kernel", "--json", SAMPLES / "stalls.csv")
    assert (done.code, {row["kernel"]: row["value"] for row in done.json}) == (0, sums)
    assert "no module was given; write symd hot -m FILE --by kernel --json" in done.err
    assert run("hot", "--json", SAMPLES / "stalls.csv").code == 1
    unnamed = Profile(string_table=[b"", b"samples", b"count"], sample_type=[{"type": 1, "unit": 2}])
    unnamed.location.add(id=1, address=0x1978)
    unnamed.sample.add(location_id=[1], value=[3])
    nameless = tmp_path / "nameless.pb"
    nameless.write_bytes(unnamed.SerializeToString())
    assert run("hot", "--by", "kernel", nameless).code == 1


@pytest.mark.parametrize("by", ["line", "instruction", "function", "kernel", "file", "stall"])
@pytest.mark.parametrize("kernel", ["smooth", "denoise"])
def test_one_kernel_has_the_samples_that_the_file_says_of_it(run: Run, kernel: str, by: str) -> None:
    total = of_it = 0
    for row in csv.reader((SAMPLES / "stalls.csv").read_text().splitlines(), skipinitialspace=True):
        if len(row) == 11 and re.fullmatch("[0-9a-f]+", row[1]):
            total += (value := sum(map(int, row[2:])))
            of_it += value * (re.sub(r"\[SIMD.*", "", row[0]) == kernel)
    call = ("hot", "-m", ZEBIN, "--kernel", kernel, "--by", by, SAMPLES / "stalls.csv")
    rows = run(*call, "--json", "-n", "0").json
    assert sum(row["value"] for row in rows) == of_it
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    head = run(*call).out.splitlines()[0]
    assert f"stalls.csv, kernel {kernel}: {of_it} Events in " in head
    assert head.endswith(f"; {total - of_it} elsewhere in the profile")


def test_a_kernel_that_has_no_samples_is_answered_with_those_that_have(run: Run) -> None:
    call = ("hot", "-m", ZEBIN, SAMPLES / "stalls.csv", "-k")
    said = run(*call, "smoth")
    assert (said.code, "(did you mean smooth? Write symd hot -m" in said.err) == (1, True)
    assert "no samples in a kernel 'zzzz' (it has samples in smooth, denoise, main::" in run(*call, "zzzz").err


def test_a_file_may_be_named_as_a_kernel_is(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = ("hot", "-m", ZEBIN, SAMPLES / "stalls.csv", "-k", "smooth")
    expected = run(*call)
    monkeypatch.chdir(tmp_path)
    Path("smooth").write_bytes(b"\x7fELF")
    assert run(*call) == expected


def test_a_kernel_is_named_as_the_source_has_it(run: Run) -> None:
    call = ("hot", "-m", f"{CUBIN_CRC}={CUBIN}", "--json", SAMPLES / "records.jsonl", "--kernel")
    mangled = run(*call, "_Z7raycastPfi6float3")
    assert (mangled.code, mangled.json != []) == (0, True)
    assert run(*call, "raycast") == run(*call, "raycast(float*, int, float3)") == mangled


NAMED = {
    "_ZN12_GLOBAL__N_14copyEPf": (2, ("(anonymous namespace)::copy", "copy", "copy(float *)")),
    "_Z3addIfEvPT_": (4, ("add<float>", "void add<float>(float*)")),
    "_Z3addIiEvPT_": (8, ("add<int>", "_Z3addIiEvPT_")),
    "_Z7raycastPfi6float3": (16, ("raycast(float*,int,float3)", "raycast( float *, int, float3 )", "raycast")),
    "main::{lambda(int)#1}": (32, ("main::{lambda(int)#1}",)),
}
"""Kernels as the Itanium ABI writes them, their samples, and how a source does."""


@pytest.fixture
def named(tmp_path: Path) -> Path:
    """A profile of the kernels, each with its samples."""
    profile = tmp_path / "named.folded"
    profile.write_text("".join(f"[{name}+0x10] {count}\n" for name, (count, _) in NAMED.items()))
    return profile


@pytest.mark.parametrize(("kernel", "asked"), [(kernel, each) for kernel, (_, own) in NAMED.items() for each in own])
def test_a_kernel_has_the_names_that_it_has_everywhere(run: Run, named: Path, kernel: str, asked: str) -> None:
    head = run("hot", named, "--kernel", asked).out.splitlines()[0]
    assert f"{named}, kernel {kernel}: {NAMED[kernel][0]} samples, none resolved;" in head


def test_a_name_that_several_kernels_have_is_answered_with_these(run: Run, named: Path) -> None:
    said = run("hot", named, "-k", "add")
    assert (said.code, said.out) == (1, "")
    assert said.err == (
        f"symd: {named}: 2 kernels with samples are called 'add' (did you mean _Z3addIfEvPT_ or _Z3addIiEvPT_?"
        f" Write symd hot {named} -k _Z3addIfEvPT_ or symd hot {named} -k _Z3addIiEvPT_)\n"
    )


def test_the_kernel_of_a_heading_is_readable_when_asked(run: Run, named: Path) -> None:
    require("c++filt")
    head = run("hot", "-C", "-k", "raycast", named).out.splitlines()[0]
    assert f"{named}, kernel raycast(float*, int, float3): 16 samples" in head
    said = run("hot", "-C", "-k", "add", named).err
    assert "did you mean void add<float>(float*) or void add<int>(int*)? Write symd hot -C -k 'void add<float>" in said
    assert "did you mean raycast(float*, int, float3)? Write" in run("hot", "-C", "-k", "raycst", named).err


def test_an_empty_name_is_no_kernel(run: Run, named: Path) -> None:
    for empty in ("", " "):
        said = run("hot", "-k", empty, named)
        assert (said.code, "the name of a kernel is empty" in said.err) == (2, True)


def test_a_kernel_may_be_in_a_module_that_was_not_given(run: Run) -> None:
    for name, missing in (("kernels.pb.gz", "shade.co or f77ae1e9"), ("stacks.folded", "shade.co;")):
        profile = SAMPLES / name
        said = run("hot", "-k", "shade", profile)
        assert (said.code, said.out) == (1, "")
        assert said.err.startswith(
            f"symd: {profile}: no samples are known to be in a kernel 'shade' (no module was given for {missing}"
        )
        assert said.err.endswith(f"; write symd hot -m FILE -k shade {profile})\n")
    given = run("hot", "-m", AMD, "-k", "shade", SAMPLES / "stacks.folded")
    assert (given.code, ", kernel _Z5shadePfPKfi: 9 samples in " in given.out) == (0, True), given


def test_a_kernel_that_no_module_has_is_named_without_its_width(run: Run) -> None:
    """stalls.csv has denoise[SIMD16 {64; 1; 1} {16; 1; 1}]."""
    said = run("hot", "-k", "denoise", SAMPLES / "stalls.csv")
    assert "stalls.csv, kernel denoise: 6 Events, none resolved" in said.out
    assert "write symd hot -m FILE -k denoise " in said.err


def test_notes_are_of_the_kernel_alone(run: Run, tmp_path: Path) -> None:
    profile = tmp_path / "a.folded"
    profile.write_text("[smooth+0x99990] 5\n[smooth+0x291] 2\n[denoise+0x10] 3\n")
    notes = {kernel: run("hot", "-m", ZEBIN, "-k", kernel, profile).err for kernel in ("smooth", "denoise")}
    assert "[smooth+0x99990] is past the end of smooth" in notes["smooth"]
    assert "1 of 1 addresses are not at an instruction boundary" in notes["smooth"]
    assert notes["denoise"] == ""


def test_what_has_no_caller_has_no_share_of_one(run: Run) -> None:
    for by in ("line", "instruction", "function", "file", "kernel", "stall"):
        rows = run("hot", "--json", "-n", "0", "--by", by, "-m", ZEBIN, SAMPLES / "stalls.csv").json
        assert all((row["caller_share"] is None) == (row["inlined_into"] == []) for row in rows)
        assert any(row["inlined_into"] for row in rows) == (by in ("line", "instruction"))


def test_the_help_says_that_a_kernel_without_samples_is_an_exit_code(run: Run) -> None:
    said = " ".join(run("hot", "--help").out.split())
    assert re.search(r"Exit code 1: [^.]*none in the kernel that --kernel names\.", said)


def test_the_places_that_are_shown_and_left_are_those_of_the_heading(run: Run, tmp_path: Path) -> None:
    for text, lost in (("smooth+0x290 9\nsmooth+0x0 8\nx+0x1 7\n", "29.2"), ("smooth+0x290 9\nx+0x1 7\n", "43.8")):
        (tmp_path / "s.folded").write_text(text)
        lines = run("hot", "-n", "1", "-m", ZEBIN, tmp_path / "s.folded").out.splitlines()
        there = re.search(r" in (\d+) lines?; 7 \(([\d.]+)%\) in (\d+) unresolved places?$", lines[0])
        left = re.search(r" in (\d+) more places? \(--top 0", lines[-1])
        assert there
        assert left
        assert there[2] == lost  # 7 of 24, and 7 of 16
        assert int(there[1]) + int(there[3]) == 1 + int(left[1]) == text.count("\n")


def test_a_folder_has_all_modules_of_a_profile(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "build"
    (folder / "gpu").mkdir(parents=True)
    (folder / "notes.txt").write_text("no module\n")
    for source, name in ((AMD, "gpu/shade.co"), (ZEBIN, "kernels.zebin")):
        (folder / name).write_bytes(Path(source).read_bytes())
    profile = SAMPLES / "kernels.pb.gz"
    assert run("hot", "-m", folder, profile) == run(
        "hot", "-m", folder / "gpu" / "shade.co", "-m", folder / "kernels.zebin", profile
    )
    (tmp_path / "empty").mkdir()
    none = run("hot", "-m", tmp_path / "empty", profile)
    assert (none.code, "there is no module in this folder" in none.err) == (2, True)


def test_every_module_of_a_call_is_in_the_one_that_is_meant(run: Run) -> None:
    profile = SAMPLES / "kernels.pb.gz"
    meant = f"symd hot -m {AMD} -m {ZEBIN} {profile}"
    assert meant in run("symbolize", AMD, ZEBIN, profile).err
    assert meant in run(AMD, ZEBIN, profile).err
    assert f"symd profile -m {AMD} -m {ZEBIN} {profile} out" in run("symbolize", AMD, ZEBIN, profile, "-o", "out").err


def test_without_a_module_it_says_what_to_type(run: Run) -> None:
    outcome = run("hot", SAMPLES / "stalls.csv")
    assert outcome.code == 1
    assert "100.00%" in outcome.out
    called = f"symd: no module was given; write symd hot -m FILE {SAMPLES / 'stalls.csv'}, where FILE is the module that ran\n"
    assert called in outcome.err
    named = run("hot", SAMPLES / "kernels.pb.gz")  # whose modules have names
    assert "samples, none resolved" in named.out
    digest = hashlib.sha256(ZEBIN.read_bytes()).hexdigest()  # build.py names the mapping so
    called = f"write symd hot -m shade.co=FILE -m {digest}=FILE {SAMPLES / 'kernels.pb.gz'}, where each FILE is the module that ran"
    assert called in named.err
    assert "no module was given for gpu-shade or shade.co; write -m shade.co=FILE\n" in named.err
    assert "no module was given; write" not in run("hot", *MODULES, SAMPLES / "stacks.folded").err


@pytest.mark.parametrize("verb", ["hot", "profile"])
def test_a_folder_matches_as_its_only_fitting_file_does(run: Run, tmp_path: Path, verb: str) -> None:
    """Files of other vendors in it are not taken for shade.co; of two of AMD's neither is."""
    folder, profile = tmp_path / "ran", tmp_path / "only_amd.folded"
    folder.mkdir()
    for each in (AMD, ZEBIN, CUBIN):
        (folder / each.name).write_bytes(each.read_bytes())
    profile.write_text("shade.co+0x1950 9\n")
    out = [tmp_path / "out"] if verb == "profile" else []
    alone, within = (run(verb, "-m", each, profile, *out) for each in (folder / AMD.name, folder))
    assert (within.code, within.out) == (alone.code, alone.out) == (0, alone.out)
    assert f"{folder / AMD.name} is assumed to be shade.co, because no other file fits (-m shade.co=" in within.err
    (folder / "another.co").write_bytes(PRUNED.read_bytes())
    assert "is assumed to be" not in run(verb, "-m", folder, profile, *out).err


def test_a_module_of_another_vendor_is_not_taken_for_a_file(run: Run, tmp_path: Path) -> None:
    profile = tmp_path / "shade.folded"
    profile.write_text("shade.co+0x100 9\n")
    assert "is assumed to be" not in run("hot", "-m", CUBIN, profile).err


@pytest.mark.parametrize("verb", ["hot", "profile"])
def test_a_file_that_may_be_several_modules_is_named_by_the_user(run: Run, tmp_path: Path, verb: str) -> None:
    """The samples lie in the code objects 1, 2 and 3."""
    outcome = run(verb, "-m", AMD, SAMPLES / "pc_sampling.json", *([tmp_path / "out"] if verb == "profile" else []))
    assert f"if it is one of these, write -m 2={AMD} or -m 3={AMD} or -m 1={AMD}" in outcome.err
    assert "NAME=" not in outcome.err


def test_a_value_that_is_not_there_names_those_that_are(run: Run) -> None:
    outcome = run("hot", "--value", "Stalled", "-m", ZEBIN, SAMPLES / "stalls.csv")
    assert outcome.code == 2
    assert "the profile has no values 'Stalled'" in outcome.err
    assert "SbidStall" in outcome.err


def test_a_value_that_is_not_there_is_answered_with_whole_calls(run: Run) -> None:
    profile = SAMPLES / "kernels.pb.gz"
    said = run("hot", profile, "--value", "none").err
    assert f"it has samples, gpu: write symd hot {profile} --value samples or symd hot {profile} --value gpu)" in said


def test_one_value_counts_alone(run: Run) -> None:
    outcome = run("hot", "--value", "SbidStall", "-m", ZEBIN, "--json", "-n", "1", SAMPLES / "stalls.csv")
    row = json.loads(outcome.out)
    assert (row["value"], row["unit"]) == (310, "SbidStall")


def test_a_module_in_place_of_a_profile_is_told(run: Run) -> None:
    outcome = run("hot", ZEBIN)
    assert outcome.code == 2
    assert f"symd hot -m {ZEBIN}" in outcome.err


def test_a_profile_without_samples_is_no_failure(run: Run, tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text('[{"frame": {"name": "ROOT", "type": "function"}, "metrics": {}, "children": []}, {"CUDA": {}}]')
    outcome = run("hot", empty)
    assert outcome.code == 0
    assert outcome.out.splitlines()[0].endswith("in 0 lines")


def test_callers_are_those_of_most_of_the_weight() -> None:
    """Of a line that is inlined at two places."""
    frames = [
        (Frame("f", None, "a.c", 3, 0, inlined=True), Frame("k", None, "a.c", line, 0, inlined=False))
        for line in (7, 9)
    ]
    addresses = [SampledAddress("", each, number) for number, each in enumerate(frames)]
    profile = SampledProfile(
        (ValueType("samples", "count"),), addresses, samples=[Sample((0,), (2,)), Sample((1,), (5,)), Sample((), (1,))]
    )

    def summary(_digest: str) -> ModuleSummary:
        raise AssertionError

    found = hot(profile, None, summary)
    first, last = found.rows
    assert (first.weight, [each.line for each in first.callers], first.other_callers) == (7, [9], 1)
    assert first.caller_weight == 5
    assert (last.weight, last.place.reason) == (1, Reason.UNKNOWN_MODULE)


def test_the_other_callers_of_a_line_are_counted_and_the_largest_has_its_share(run: Run, tmp_path: Path) -> None:
    """``mean`` is inlined at three lines, as the frames of the profile say, and called at one place."""
    callers = {7: 2, 9: 5, 11: 1}
    profile = tmp_path / "a.folded"
    profile.write_text("".join(f"k (a.c:{line});mean (a.c:3)_[i] {count}\n" for line, count in callers.items()))
    assert run("hot", profile).out.splitlines()[-1].endswith("a.c:3 mean < k:9 (62%), and 2 other callers")
    (row,) = run("hot", "--json", profile).json
    assert (row["inlined_into"][0]["line"], row["other_callers"]) == (9, 2)
    assert (row["value"], row["caller_share"]) == (sum(callers.values()), max(callers.values()) / sum(callers.values()))
    with profile.open("a") as file:
        file.write("mean (a.c:3) 12\n")
    assert run("hot", profile).out.splitlines()[-1].endswith("a.c:3 mean (60% not inlined), and 3 other callers")
    (row,) = run("hot", "--json", profile).json
    assert (row["inlined_into"], row["caller_share"]) == ([], None)
    profile.write_text("k (a.c:7);mean (a.c:3)_[i] 1\n")
    assert run("hot", profile).out.splitlines()[-1].endswith("a.c:3 mean < k:7")
    assert run("hot", "--json", profile).json[0]["caller_share"] == 1


@pytest.mark.parametrize("by", ["line", "function", "file"])
def test_code_of_no_function_has_its_reason(run: Run, tmp_path: Path, by: str) -> None:
    """Between two kernels, as their symbols say."""
    module = AMD.with_name("v4-gfx900.co")
    symbols = output(require("readelf"), "-sW", module)
    extents = {
        name: (int(at, 16), int(size)) for at, size, name in re.findall(r"(\w+) +(\d+) FUNC .* (\w+)\n", symbols)
    }
    begin, size = extents["shade"]
    assert begin + size <= begin + 0xC0 < extents["clear"][0]
    profile = tmp_path / "a.folded"
    profile.write_text("[shade+0xc0] 2\n[shade+0x40] 3\n")
    rows = run("hot", "--json", "--by", by, "-m", module, profile).json
    assert [(row["value"], row["reason"]) for row in rows] == [(3, None), (2, "GAP")]
    assert "in code of no function (GAP)" in run("hot", "--by", by, "-m", module, profile).out
    rows = run("hot", "--json", "--by", "instruction", "-m", module, profile).json
    assert [(row["instruction"], row["reason"]) for row in rows] == [("shade+0x40", None), ("shade+0xc0", "GAP")]


SAID = {
    "a name that is nearly a kernel's": (
        "[smoth+0x10] 5",
        "smoth names no known module or kernel; did you mean smooth?",
    ),
    "a decimal offset": (
        "smooth+640 2",
        "smooth+640: an offset is hexadecimal and begins with 0x (640 is 0x280, if it was decimal)",
    ),
    "an offset past the end": ("[smooth+0x99990] 5", "[smooth+0x99990] is past the end of smooth, which is "),
}


@pytest.mark.parametrize(("line", "says"), SAID.values(), ids=SAID)
def test_what_has_no_place_is_explained_as_the_report_of_a_profile_does(
    run: Run, tmp_path: Path, line: str, says: str
) -> None:
    profile = tmp_path / "a.folded"
    profile.write_text(f"{line}\n[smooth+0x290] 3\n")
    outcome = run("hot", "-m", ZEBIN, profile)
    assert outcome.code == 0
    assert f"symd: {says}" in outcome.err


def test_a_row_says_of_samples_without_a_place_what_is_true_of_them(run: Run, tmp_path: Path) -> None:
    profile = tmp_path / "a.folded"
    profile.write_text("[smooth+0x99990] 5\n[smoth+0x10] 4\n")
    outcome = run("hot", "-m", ZEBIN, profile)
    assert "outside the code of its kernel or module (OUTSIDE_TEXT)" in outcome.out
    assert "in an unknown kernel or module (UNKNOWN_KERNEL)" in outcome.out
    twice = run("hot", "-m", ZEBIN, "-m", FILTERS / "igc2-dg2-opt-zebin.smooth.elf", SAMPLES / "stacks.folded")
    assert "in what may be one of several kernels, modules or code objects (AMBIGUOUS)" in twice.out


def test_files_with_the_same_kernel_are_named(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("objs").mkdir()
    for name in ("a", "b"):
        shutil.copy(FILTERS / "igc2-dg2-opt-zebin.smooth.elf", f"objs/{name}.elf")
        with Path(f"objs/{name}.elf").open("ab") as file:  # what is behind an ELF file is not read
            file.write(name.encode())
    Path("p.folded").write_text("[smooth+0x290] 5\n")
    says = "smooth names several known modules, kernels or code objects: give the one that ran, -m objs/a.elf or -m objs/b.elf\n"
    for call in (("hot", "-m", "objs", "p.folded"), ("profile", "-m", "objs", "p.folded", "-")):
        done = run(*call)
        assert (done.code, says in done.err) == (1, True), done.err
        assert run(*call[:2], "objs/b.elf", *call[3:]).code == 0


def test_samples_in_code_without_debug_data_say_what_to_compile_with(run: Run, tmp_path: Path) -> None:
    profile = tmp_path / "a.folded"
    profile.write_text("[shade+0x10] 4\n[smooth+0x290] 3\n")
    outcome = run("hot", "-m", NO_DEBUG, "-m", ZEBIN, profile)
    assert "(no line) shade" in outcome.out
    assert "4 of 7 samples lie in code whose debug data is not here (NO_DEBUG_INFO): compile with -g" in outcome.err


@pytest.mark.parametrize("verb", ["hot", "profile"])
def test_a_daemon_that_does_not_answer_is_said(run: Run, tmp_path: Path, verb: str) -> None:
    out = [tmp_path / "out"] if verb == "profile" else []
    outcome = run(verb, "--server", f"unix:{tmp_path}/nix", SAMPLES / "stacks.folded", *out)
    assert outcome.code == 3
    assert "no daemon is running: no such socket" in outcome.err


def test_a_module_that_the_daemon_has_is_named(run: Run, server: str, tmp_path: Path) -> None:
    data = ZEBIN.read_bytes()
    with Client(server) as client:
        client.add(data)
    outcome = run("hot", "--server", server, SAMPLES / "stalls.csv")
    name = f"modules/{hashlib.sha256(data).hexdigest()}"
    report = run("profile", "--server", server, SAMPLES / "stalls.csv", tmp_path / "out")
    for each in (outcome, report):
        assert each.err.count("the daemon has a module with") == 1  # however many of its kernels the profile has
        assert f"smooth: add -m {name}" in each.err
    assert run("hot", "--server", server, "-m", name, SAMPLES / "stalls.csv").code == 0


def test_names_are_readable_when_asked(run: Run) -> None:
    require("c++filt")
    arguments = ("-m", f"shade.co={AMD}", "-m", f"{CUBIN_CRC}={CUBIN}", "--by", "kernel", SAMPLES / "records.jsonl")
    assert "_Z7raycastPfi6float3" in run("hot", *arguments).out
    readable = run("hot", "-C", *arguments).out
    assert "raycast(float*, int, float3)" in readable
    assert "_Z7raycast" not in readable


@pytest.mark.parametrize(
    ("module", "place", "target"), [(AMD, "shade+0x12", "gfx90a"), (CUBIN, "_Z7raycastPfi6float3+0x18", "sm_90")]
)
def test_offsets_that_begin_no_instruction_are_told(
    run: Run, tmp_path: Path, module: Path, place: str, target: str
) -> None:
    profile = tmp_path / "a.folded"
    name, _, offset = place.partition("+")
    profile.write_text(f"[{name}+0x10] 5\n[{name}+{offset}] 3\n")
    assert (
        f"1 of 2 addresses are not at an instruction boundary of {target}: the module"
        in run("hot", "-m", module, profile).err
    )
    profile.write_text(f"[{name}+0x10] 5\n")
    assert "are not at an instruction boundary" not in run("hot", "-m", module, profile).err


def test_the_samples_begin_instructions(run: Run) -> None:
    for name in FORMATS:
        assert "are not at an instruction boundary" not in run("hot", *MODULES, SAMPLES / name).err


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        (
            "a.csv",
            b"kernel,offset,samples\nshade,16,4\n",
            "it is a table with a column of addresses (counts by instruction can be given as folded stacks, lines such as [KERNEL+0x40] 12; symd batch -m FILE",
        ),
        (
            "a.csv",
            b'"PC";"count"\n6520;4\n',
            "it is a table with a column of addresses (counts by instruction can be given",
        ),
        ("a.parquet", b"PAR1\0\0\0\0PAR1", "it is a Parquet file (symd batch -m FILE IN.parquet OUT.parquet"),
        ("a.csv", b"name,count\nshade,4\n", "no reader knows this profile format (known formats:"),
        (
            "a.pb.gz",
            gzip.compress(bytes(range(256)), mtime=0)[:99],
            "gzip data ends too early (the file is cut off: copy it",
        ),
    ],
)
def test_what_is_no_profile_is_told_where_it_goes(run: Run, tmp_path: Path, name: str, data: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(data)
    outcome = run("hot", "-m", AMD, tmp_path / name)
    assert outcome.code == 2
    assert says in outcome.err


def test_a_profile_of_which_nothing_is_resolved_says_so(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.folded").write_text("main;[nowhere+0x10] 20000\n")
    assert (
        run("hot", "-m", ZEBIN, tmp_path / "in.folded").out.splitlines()[0].endswith(": 20,000 samples, none resolved")
    )


def test_values_are_summed_by_stall_reason(run: Run) -> None:
    lines = (SAMPLES / "stalls.csv").read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if "IP[Address]" in line)
    header = [each.strip() for each in lines[first].split(",")]
    sums = Counter[str]()
    for row in csv.reader(lines[first + 1 :], skipinitialspace=True):
        if len(row) != len(header):
            break
        for name, value in zip(header[2:], row[2:], strict=True):
            sums[name.partition("[")[0]] += int(value)
    found = run("hot", "--by", "stall", "--json", SAMPLES / "stalls.csv")
    assert {row["stall"]: row["value"] for row in found.json} == {name: value for name, value in sums.items() if value}
    assert sum(row["share"] for row in found.json) == pytest.approx(1)
    text = run("hot", "--by", "stall", SAMPLES / "stalls.csv").out.splitlines()
    assert text[0].endswith(f": {sums.total()} Events in {sum(map(bool, sums.values()))} stall reasons")
    name, value = sums.most_common(1)[0]
    assert text[3] == f"{100 * value / sums.total():>6.2f}%  {value:>6}  {name}"


def test_a_profile_without_stall_reasons_is_told_so(run: Run) -> None:
    said = run("hot", "--by", "stall", SAMPLES / "kernels.pb.gz")
    assert (said.code, said.out) == (2, "")
    assert "the profile has no stall reasons (--by line, instruction, function, kernel or file" in said.err


def test_the_only_file_is_the_only_module_of_folded_stacks(run: Run, tmp_path: Path) -> None:
    stacks = tmp_path / "stacks.folded"
    stacks.write_text("render;draw;shade.co+0x1950 9\nrender;cpu only 3\n")
    line = of_object(AMD, 0x1950, tmp_path)[0]
    found = run("hot", "-m", AMD, stacks)
    assert (found.code, f" {line[1]}:{line[2]} " in found.out) == (0, True), found
    assert found.err == (
        f"symd: {AMD} is assumed to be shade.co, because that is the only module in the profile without a file (-m shade.co={AMD} confirms it)\n"
    )
    assert run("profile", "-m", AMD, stacks, "-").out.count(f"({line[1]}:{line[2]})") == 1


def test_a_name_that_is_no_file_s_is_not_guessed_to_be_one(run: Run, tmp_path: Path) -> None:
    stacks = tmp_path / "stacks.folded"
    stacks.write_text("render;draw;shade.cold+0x1950 9\nrender;cpu only 3\n")
    found = run("hot", "-m", AMD, stacks)
    assert (found.code, "UNKNOWN_KERNEL" in found.out, "is assumed to be" in found.err) == (1, True, False), found
