"""symd profile."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import InvalidInput, Unsupported
from tests.cli.conftest import ROOT, SYMD, Run, drawn_on, pseudo_terminal
from tests.profiles.modules import AMD, CUBIN, SAMPLES, ZEBIN

MODULES = (
    "-m",
    f"gpu-shade={AMD}",
    "-m",
    f"shade.co={AMD}",
    "-m",
    f"2={AMD}",
    "-m",
    ZEBIN,
    "-m",
    f"0x87654321={CUBIN}",
)


def test_a_profile_is_symbolized_and_the_report_goes_to_stderr(run: Run, tmp_path: Path):
    out = tmp_path / "out.pb.gz"
    outcome = run("profile", *MODULES, SAMPLES / "kernels.pb.gz", out)
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err.splitlines() == [
        "symd: pprof: 8 locations: 5 resolved, 1 had symbols, 2 left as they were: 1 OUTSIDE_TEXT, 1 UNKNOWN_MODULE",
        "symd: 12 of 28 samples (42.9%) have no symbols where they were taken",
        "symd: no module was given for [jit]",
    ]
    assert b"shade.hip" in gzip.decompress(out.read_bytes())


@pytest.mark.parametrize("name", ["kernels.pb.gz", "kernels.otlp", "stalls.csv", "pc_sampling.json", "records.jsonl"])
def test_in_and_out_may_be_one_file_and_twice_is_once(run: Run, tmp_path: Path, name: str):
    path = tmp_path / name
    path.write_bytes((SAMPLES / name).read_bytes())
    path.chmod(0o640)
    assert run("profile", *MODULES, path, path).code == 0
    first = path.read_bytes()
    assert first != (SAMPLES / name).read_bytes()
    outcome = run("profile", *MODULES, path, path)
    assert outcome.code == 0
    assert " 0 resolved" in outcome.err
    assert path.read_bytes() == first
    assert path.stat().st_mode & 0o777 == 0o640
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_standard_input_and_output_are_profiles_too(symd: Run):
    outcome = symd("profile", "-m", ZEBIN, "-", "-", stdin=b"main;[smooth+0x290] 3\n")
    assert outcome.code == 0
    assert outcome.out.startswith("main;smooth (")
    assert outcome.out.endswith("_[i] 3\n")


def test_json_prints_the_whole_report(run: Run, tmp_path: Path):
    outcome = run("profile", "--json", *MODULES, SAMPLES / "records.jsonl", tmp_path / "out")
    [report] = outcome.json
    assert report == {
        "format": "cupti", "unit": "records", "total": 5, "already": 0, "resolved": 3, "approximate": 0,
        "unresolved": {"OUTSIDE_TEXT": 1, "UNKNOWN_MODULE": 1},
        "weight": {"unit": "samples", "total": 52, "left": 1},
        "notes": ["no module was given for the cubin with CRC 99 (0x63)"],
    }  # fmt: skip
    assert outcome.err == ""
    assert run("profile", "--json", SAMPLES / "records.jsonl", "-").code == 2


def test_nothing_resolved_is_exit_code_1_and_leaves_the_profile(run: Run, tmp_path: Path):
    out = tmp_path / "out.folded"
    outcome = run("profile", SAMPLES / "stacks.folded", out)
    assert (
        outcome.code,
        f"no module was given; write symd profile -m FILE {SAMPLES / 'stacks.folded'} {out}," in outcome.err,
    ) == (1, True)
    assert out.read_bytes() == (SAMPLES / "stacks.folded").read_bytes()


def test_an_out_that_is_there_is_not_replaced_by_an_unsymbolized_copy(run: Run, tmp_path: Path):
    out = tmp_path / "out.folded"
    out.write_bytes(b"earlier")
    outcome = run("profile", SAMPLES / "stacks.folded", out)
    assert (outcome.code, out.read_bytes()) == (1, b"earlier")
    assert "was left unchanged" in outcome.err


def test_a_module_is_meant_by_the_name_of_its_file(run: Run, tmp_path: Path):
    source = rocprof(tmp_path, f"file:///elsewhere/{AMD.name}")
    assert run("profile", "-m", AMD, source, tmp_path / "out.json").code == 0
    part = rocprof(tmp_path, f"file:///elsewhere/{AMD.name}#offset=4096&size=64")
    assert run("profile", "-m", AMD, part, tmp_path / "part.json").code == 1
    other = rocprof(tmp_path, "file:///elsewhere/other.co")
    refused = run("profile", "-m", AMD, other, tmp_path / "other.json")
    assert (refused.code, "--module ID=/elsewhere/other.co" in refused.err) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((SAMPLES / "pc_sampling.csv",), "no program counters"),
        ((AMD,), "no reader knows this profile format"),
        (("--format", "perf", SAMPLES / "stalls.csv"), "'perf' is not a profile format"),
        (("-m", "=x", SAMPLES / "stalls.csv"), "write FILE or ID=FILE"),
        (("-m", "x=", SAMPLES / "stalls.csv"), "write FILE or ID=FILE"),
        (("-m", "x=/no/such", SAMPLES / "stalls.csv"), "cannot read the file"),
        (("-m", SAMPLES / "stalls.csv", SAMPLES / "stalls.csv"), "this is a text file"),
        (("--format", "pprof", SAMPLES / "stacks.folded"), "--format is the format of IN, and --to that of OUT"),
        ((AMD,), "it is amdgpu, a module (symd profile -m "),
        ((__file__,), "lines such as [KERNEL+0x40] 12"),
        (("/no/such",), "cannot read the file"),
    ],
)
def test_wrong_calls_say_what_is_wrong_in_one_line(run: Run, tmp_path: Path, arguments: tuple[object, ...], says: str):
    outcome = run("profile", *arguments, tmp_path / "out")
    assert outcome.code == 2
    assert says in outcome.err
    assert outcome.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_an_out_that_cannot_be_written_is_exit_code_3(run: Run, tmp_path: Path):
    outcome = run("profile", *MODULES, SAMPLES / "stalls.csv", tmp_path / "no" / "such")
    assert outcome.code == 3
    assert f"cannot write the file: the folder {tmp_path}/no does not exist (choose another OUT)" in outcome.err


def test_many_notes_are_cut_and_their_letters_are_harmless(run: Run, tmp_path: Path):
    lines = "".join(f"[k{number}\x1b[2J+0x0] 1\n" for number in range(30))
    (tmp_path / "in").write_text(lines.replace("[2J", "2J"))
    outcome = run("profile", tmp_path / "in", tmp_path / "out")
    assert outcome.err.splitlines()[-1] == "symd: and 10 more notes (--json prints all)"
    assert "\x1b" not in outcome.err


def test_readable_kernel_names_are_matched_with_the_installed_demangler(run: Run, tmp_path: Path):
    source = b'Kernel, IP[Address], Active[Events]\n"shade(float*, float const*, int)", 40, 3\n'
    (tmp_path / "in.csv").write_bytes(source)
    outcome = run("profile", "-m", AMD, tmp_path / "in.csv", tmp_path / "out.csv")
    assert outcome.code == 0
    assert b"/src/shade.hip" in (tmp_path / "out.csv").read_bytes()


def rocprof(tmp_path: Path, uri: str) -> Path:
    document = json.loads((SAMPLES / "pc_sampling.json").read_text())
    for item in document["rocprofiler-sdk-tool"][0]["code_objects"]:
        item["uri"] = uri
    path = tmp_path / "in.json"
    path.write_text(json.dumps(document))
    return path


def test_files_that_the_profile_names_are_read_below_allowed_folders_only(run: Run, tmp_path: Path):
    source = rocprof(tmp_path, f"file://{AMD.parent}/../bin/{AMD.name}")
    refused = run("profile", source, tmp_path / "out.json")
    assert refused.code == 1
    assert f"--allow {AMD.parent} reads it" in refused.err
    assert run("profile", "--allow", tmp_path, source, tmp_path / "out.json").code == 1
    assert run("profile", "--allow", AMD.parent, source, tmp_path / "out.json").code == 0


def test_a_link_out_of_the_allowed_folder_is_not_followed(tmp_path: Path):
    from symd.cli.profile import ProfileFiles as Files  # noqa: PLC0415

    (tmp_path / "link.co").symlink_to(AMD)
    files = Files([tmp_path], Limits())
    for uri in (f"file://{tmp_path}/link.co", f"file://{tmp_path}/../{tmp_path.name}x/k.co", "file:///dev/zero"):
        with pytest.raises(InvalidInput, match="--allow"):
            files.read(uri)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(InvalidInput, match="not a regular file"):
        files.read(f"file://{tmp_path}/fifo")
    with pytest.raises(Unsupported, match="running process"):
        files.read("memory://1#offset=1&size=2")
    (tmp_path / "host").write_bytes(b"ab" + AMD.read_bytes() + b"cd")
    cut = files.read(f"file://{tmp_path}/host#offset=0x2&size={AMD.stat().st_size}")
    assert cut == AMD.read_bytes()


def test_a_bar_is_drawn_on_a_terminal_and_nowhere_else(symd: Run, tmp_path: Path):
    arguments = ["profile", "-m", str(ZEBIN), str(SAMPLES / "stalls.csv"), str(tmp_path / "out")]
    assert "\x1b" not in symd(*arguments).err
    leader, follower = pseudo_terminal()
    environment = {**os.environ, "TERM": "xterm", "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([*SYMD, *arguments], stderr=follower, env=environment) as process:
        os.close(follower)
        drawn = drawn_on(leader)
    assert process.returncode == 0
    assert b"\x1b" in drawn
    assert b"looking up addresses" in drawn or b"opening modules" in drawn


def test_the_profile_among_the_commands_gets_lines(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "which-command.md").read_text()
    for source, name in re.findall(r"^ +cp (samples/\S+) (\S+)", text, re.MULTILINE):
        shutil.copy(ROOT / source, name)
    (words,) = re.findall(r"^ +symd (profile -m \S+ .*)$", text, re.MULTILINE)
    outcome = run(*words.split())
    assert outcome.code == 0
    assert " 2 resolved" in outcome.err


@pytest.mark.parametrize("to", ["firefox", "folded", "perfetto", "pprof", "speedscope"])
def test_to_writes_the_format_of_another_tool(run: Run, tmp_path: Path, to: str):
    out = tmp_path / "out"
    outcome = run("profile", "-m", ZEBIN, SAMPLES / "stalls.csv", "--to", to, "-o", out)
    assert outcome.code == 0
    assert outcome.err.startswith("symd: unitrace: 6 rows: 4 resolved")
    assert b"filters.clcpp" in out.read_bytes()
    assert run("profile", "-m", ZEBIN, SAMPLES / "stalls.csv", tmp_path / "second", "--to", to).code == 0
    assert (tmp_path / "second").read_bytes() == out.read_bytes()


def test_to_writes_whatever_could_be_resolved_and_says_what_is_missing(run: Run, tmp_path: Path):
    out = tmp_path / "out.json.gz"
    out.write_bytes(b"earlier")
    outcome = run("profile", SAMPLES / "stacks.folded", "--to", "speedscope", "-o", out, "--json")
    [report] = outcome.json
    assert (outcome.code, report["notes"][-1]) == (1, "folded stacks have no timestamps")
    assert len(json.loads(gzip.decompress(out.read_bytes()))["profiles"][0]["samples"]) == 6


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("--to", "chrome", "-o", "x"),
            "'chrome' is not one of 'firefox', 'folded', 'perfetto', 'pprof', 'speedscope'",
        ),
        ((), "Missing argument 'OUT' (or -o OUT); write, for example: symd profile "),
        (("x", "-o", "y"), "name OUT once"),
        (("x", "--value", "Active"), "--value works only with --to; write symd profile -m FILE"),
        (("x", "--to", "folded", "--value", "Stalls"), "it has Active, ControlStall"),
        (("-", "--to", "folded", "--json"), "OUT cannot be -"),
    ],
)
def test_wrong_calls_of_to_say_what_is_wrong(run: Run, arguments: tuple[str, ...], says: str):
    outcome = run("profile", SAMPLES / "stalls.csv", *arguments)
    assert (outcome.code, says in outcome.err.replace("\n", " ")) == (2, True), outcome.err


def test_the_report_says_how_much_of_the_values_is_left(run: Run, tmp_path: Path):
    """Two of six rows are few; what they weigh is another thing."""
    outcome = run("profile", "-m", ZEBIN, SAMPLES / "stalls.csv", tmp_path / "out.csv")
    assert "symd: 15 of 592 Events (2.5%) have no symbols where they were taken" in outcome.err
    [report] = run("profile", "--json", "-m", ZEBIN, SAMPLES / "stalls.csv", tmp_path / "out.csv").json
    assert report["weight"] == {"unit": "Events", "total": 592, "left": 15}
    (tmp_path / "in.folded").write_text("main;smooth+0x290 1\nmain;other+0x10 99\n")
    outcome = run("profile", "-m", ZEBIN, tmp_path / "in.folded", tmp_path / "out.folded")
    assert "symd: 99 of 100 samples (99.0%) have no symbols where they were taken" in outcome.err
    (tmp_path / "in.folded").write_text("main;smooth+0x290 1\n")
    assert "%" not in run("profile", "-m", ZEBIN, tmp_path / "in.folded", tmp_path / "out.folded").err


@pytest.mark.parametrize("to", ["folded", "speedscope", "pprof", "firefox", "perfetto"])
def test_a_call_without_a_name_is_shown_by_its_place(run: Run, tmp_path: Path, to: str):
    """And by its name where the source is at hand. Triton says nothing of it but the kernel's."""
    triton = ROOT / "samples" / "triton"
    (tmp_path / "in.folded").write_text("main;add+0x190 5\n")
    module = triton / "bin" / "add-gfx942.hsaco"
    words = ["profile", "-m", module, "--to", to, tmp_path / "in.folded", tmp_path / "out"]
    assert run(*words).code == 0
    assert b"/src/triton-samples/helpers.py:14" in (tmp_path / "out").read_bytes()
    assert b"scale" not in (tmp_path / "out").read_bytes()
    assert run(*words, "--map", f"/src/triton-samples={triton}").code == 0
    assert b"scale" in (tmp_path / "out").read_bytes()


FOREIGN = {
    "perf.data": (b"PERFILE2" + bytes(96), "it is perf.data of Linux perf"),
    "ncu-rep": (
        b"NVR\0" + bytes(60),
        "a report of Nsight Compute (.ncu-rep), whose format is not read (counts by instruction can be given as folded stacks",
    ),
    "nsys": (b"SQLite format 3\0" + bytes(84) + b"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL", "of Nsight Systems"),
    "ncu csv": (b'"ID","Process ID","Kernel Name","Section Name","Metric Name"\n"0","1","k","s","m"\n', "ncu --csv"),
    "rocprof": (b'"Index","KernelName","gpu-id","queue-id"\n0,"k",1,0\n', "a table of rocprof, which"),
    "rocprofv3": (b'"Kind","Agent_Id","Dispatch_Id","Kernel_Name"\n"K",1,1,"k"\n', "a table of rocprofv3, which"),
    "a stack without a count": (
        b"main;[smooth+0x10] 3\n[smooth+0x290]\n",
        "line 2, '[smooth+0x290]', does not end with",
    ),
    "a tab of commas": (b"smooth+0x10,3\n", "line 1, 'smooth+0x10,3', does not end with a space and a count"),
}


@pytest.mark.parametrize(("data", "says"), FOREIGN.values(), ids=FOREIGN)
def test_a_file_of_another_profiler_is_named(run: Run, tmp_path: Path, data: bytes, says: str):
    (tmp_path / "in").write_bytes(data)
    outcome = run("hot", "-m", ZEBIN, tmp_path / "in")
    assert (outcome.code, says in outcome.err) == (2, True), outcome.err
    assert "no reader knows this profile format" in outcome.err


@pytest.mark.parametrize("verb", ["hot", "profile"])
def test_another_table_is_no_table_of_unitrace(run: Run, tmp_path: Path, verb: str):
    (tmp_path / "in.csv").write_text("Kernel,Calls\nsmooth,3\n")
    out = [tmp_path / "out"] if verb == "profile" else []
    outcome = run(verb, "--format", "unitrace", "-m", ZEBIN, tmp_path / "in.csv", *out)
    assert (outcome.code, "in.csv: has no heading of unitrace's stall sampling" in outcome.err) == (2, True)


@pytest.mark.parametrize(
    ("ending", "begins"),
    [
        ("speedscope.json", b'{"$schema": "https://www.speedscope.app/'),
        ("folded", b"smooth"),
        ("collapsed", b"smooth"),
        ("firefox.json", b'{"meta"'),
        ("pftrace", b"\n"),
        ("pprof", b"\n"),
        ("pb.gz", b"\x1f\x8b"),
    ],
)
def test_the_name_of_out_says_its_format(run: Run, tmp_path: Path, ending: str, begins: bytes) -> None:
    """As its extension is registered with the viewer that opens it; the same bytes as with --to."""
    source, out, asked = tmp_path / "in.csv", tmp_path / f"out.{ending}", tmp_path / f"asked.{ending}"
    shutil.copy(SAMPLES / "stalls.csv", source)
    outcome = run("profile", "-m", ZEBIN, source, out)
    assert outcome.code == 0
    written = out.read_bytes()
    [to] = re.findall(rf"{out} is written as (\w+), as its name says", outcome.err)
    assert run("profile", "-m", ZEBIN, source, "--to", to, "-o", asked).code == 0
    assert written == asked.read_bytes()
    assert written.startswith(begins) or (to == "folded" and b";" in written)
    assert source.read_bytes() == (SAMPLES / "stalls.csv").read_bytes()


@pytest.mark.parametrize(
    ("name", "out"), [("kernels.pb.gz", "out.pb.gz"), ("stalls.csv", "out.csv"), ("kernels.otlp", "out.pb.gz")]
)
def test_a_name_of_the_same_format_converts_nothing(run: Run, tmp_path: Path, name: str, out: str) -> None:
    """OTLP is a message of protocol buffers as well."""
    outcome = run("profile", *MODULES, SAMPLES / name, tmp_path / out)
    assert outcome.code == 0
    assert "is written as" not in outcome.err
    assert (tmp_path / out).read_bytes()[:2] == (SAMPLES / name).read_bytes()[:2]


def test_a_profile_that_is_replaced_keeps_its_format(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "in.pb.gz"
    path.write_bytes(b"main;[smooth+0x290] 3\n")
    assert run("profile", "-m", ZEBIN, path, path).code == 0
    assert path.read_bytes().startswith(b"main;smooth")
