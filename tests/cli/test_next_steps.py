"""What newcomers do wrong is told what to do instead."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shlex
from pathlib import Path

import pytest

import symd as symd_library
from symd.cli.start import direct_questions
from symd.errors import InvalidInput, StoreUnavailable
from symd.store import Store
from symd.store.files import disk_error, make_folder
from symd.system.private_files import folder_hint
from tests.cli.conftest import ROOT, Run
from tests.cli.test_run import NOTHING_SEEN

SHADE = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
SOURCE = ROOT / "samples" / "kernels" / "vadd.cl"
PPROF = ROOT / "samples" / "profiles" / "kernels.pb.gz"
STALLS = ROOT / "samples" / "profiles" / "stalls.csv"
PAGES = ROOT / "samples" / "amdgpu" / "bin" / "v2-scale-pages.co"

HINTS = {
    "a module for a profile": (
        ("profile", SHADE),
        f"a module (symd profile -m {SHADE} IN OUT, or symd hot -m {SHADE} IN; IN is what",
    ),
    "a module for samples": (
        ("batch", "-m", SHADE, SHADE, "{folder}/out"),
        f"this is a module (amdgpu), and no samples (symd batch -m {SHADE} IN.parquet OUT.parquet",
    ),
    "no samples": (("batch", "{folder}/a", "{folder}/b"), "/a: cannot read the file: no such file or directory\n"),
    "a profile for a module": (
        ("view", PPROF),
        (
            f"(it is a profile (pprof): symd hot -m FOLDER {PPROF} prints its hottest lines, symd view FILE --profile {PPROF} shows"
            f" the code, symd profile -m FOLDER {PPROF} OUT writes it with source lines)"
        ),
    ),
    "a text profile for a module": (("symbolize", STALLS, "0x10"), "(it is a profile (unitrace): symd hot -m FILE"),
    "a negative address": (("symbolize", SHADE, "-0x10"), "addresses are not negative"),
    "another": (("symbolize", SHADE, "-16"), "addresses are not negative"),
    "one behind dashes": (("symbolize", SHADE, "--", "-0x10"), "addresses are not negative"),
    "a kernel for the browser's page": (
        ("view", SHADE, "--kernel", "shade"),
        "--kernel needs -o; in the browser, choose a kernel on the page",
    ),
    "an extract without a folder": (("extract", SHADE), f"; write, for example: symd extract {SHADE} objects/ (see"),
    "a source without a line": (
        ("locate", SHADE, "shade.cl"),
        "not a source line (write FILE:LINE, such as vadd.cl:8)",
    ),
    "no line": (("locate", SHADE, "shade.cl:0"), "not a source line (write FILE:LINE, such as vadd.cl:8)"),
    "a file without a name": (("info", ""), "'': the name of the file is empty (a variable of the shell may be unset)"),
    "no store to check": (
        ("store", "check", "--store", "{folder}/nix"),
        "/nix: there is no store (a store is made by its",
    ),
    "no store to copy": (("store", "copy", "{folder}/nix", "{folder}/to"), "`symd status` says where that of a daemon"),
    "a URL that lacks a slash": (
        ("serve", "--store", "s3:/symd/modules", "--catalogue", "postgresql://h/d"),
        "s3:/symd/modules lacks a slash: write s3://symd/modules (see symd serve",
    ),
    "one of a store to check": (
        ("store", "check", "--store", "file:/symd"),
        "write file:///symd (see symd store check",
    ),
    "one of a store to copy to": (("store", "copy", "{folder}", "s3:/symd/modules"), "write s3://symd/modules (see"),
    "no daemon to watch": (("watch", "--server", "none"), "leave --server out for the one that runs here"),
    "the version": (("version",), "no verb 'version'; write symd --version (see"),
    "a file to forget": (
        ("rm", SHADE),
        f"this is a file; a module is named by its SHA-256: symd rm {hashlib.sha256(SHADE.read_bytes()).hexdigest()})",
    ),
}


@pytest.mark.parametrize(("call", "says"), HINTS.values(), ids=HINTS)
def test_what_to_do_next_is_said(run: Run, tmp_path: Path, call: tuple[object, ...], says: str) -> None:
    done = run(*(str(each).format(folder=tmp_path) for each in call))
    assert (done.code, says in done.err) == (2, True), done.err


LINKED = ROOT / "samples" / "amdgpu" / "bin" / "v5-gfx90a.co"
ANSWERS = {
    "an offset as a disassembler prints it": (
        ("symbolize", LINKED, "0x48"),
        "0x48 lies outside the text; did you mean '(.text)+0x48' or _Z5shadePfPKfi+0x48",
    ),
    "the same in decimal": (("symbolize", LINKED, "72"), "did you mean '(.text)+0x48' or"),
}


@pytest.mark.parametrize(("call", "says"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_without_a_line_says_what_to_do(run: Run, call: tuple[object, ...], says: str) -> None:
    done = run(*call)
    assert (done.code, says in done.err) == (0, True), done.err


@pytest.mark.parametrize("verb", ["profile", "record"])
def test_a_program_to_sample_is_told_what_collects_its_modules(symd: Run, verb: str) -> None:
    done = symd(verb, "--", "./app")
    assert (done.code, "symd does not sample a program: symd run -- ./app collects" in done.err) == (2, True), done.err


@pytest.mark.parametrize("is_person", [True, False])
def test_a_person_is_told_what_to_compile_with(run: Run, monkeypatch: pytest.MonkeyPatch, is_person: bool) -> None:
    monkeypatch.setattr("symd.cli.session.is_read_by_a_person", lambda: is_person)
    done = run("symbolize", LINKED.with_name("v4-gfx900-nodebug.co"), "0x1900")
    assert done.out == "0x1900: shade [NO_DEBUG_INFO]\n"
    assert (
        "symd: there is no debug info: compile with -g, or with -gline-tables-only for lines alone (hipcc" in done.err
    ) == is_person


@pytest.mark.parametrize(("query", "is_told"), [("shade+80", True), ("shade+8", False), ("shade+170", False)])
def test_a_person_is_told_of_a_decimal_offset_that_could_be_hexadecimal(
    run: Run, monkeypatch: pytest.MonkeyPatch, query: str, is_told: bool
) -> None:
    """shade has 180 bytes: 0x80 is one of its offsets and 0x170 is not; 8 is both."""
    assert run("symbolize", SHADE, query).err == ""
    monkeypatch.setattr("symd.cli.session.is_read_by_a_person", lambda: True)
    told = f"symd: {query} is decimal; {query.replace('+', '+0x')} is another place\n"
    assert run("symbolize", SHADE, query).err == (told if is_told else "")


def test_a_decimal_offset_is_no_plain_question_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["k.co", "shade+80"]
    assert direct_questions(words) == ("k.co", [("shade+80", "shade", 80)])
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert direct_questions(words) is None
    assert direct_questions(["k.co", "shade+0x80"]) is not None


def test_an_address_beyond_every_kernel_is_no_offset_in_one(run: Run) -> None:
    assert "did you mean" not in run("symbolize", LINKED, "0xfffffff").err


def test_a_place_that_is_proposed_has_an_answer(run: Run) -> None:
    done = run("symbolize", LINKED, "0x48")
    meant = re.findall(r"'([^']+)'|(_Z\S+)\+", done.err)
    assert meant
    assert "shade" in run("symbolize", LINKED, meant[0][0]).out


def test_a_file_that_is_not_there_is_pythons_error_too() -> None:
    with pytest.raises(FileNotFoundError, match="cannot read the file") as caught:
        symd_library.open("nosuch.co")
    assert isinstance(caught.value, InvalidInput)


def test_a_short_option_that_is_none_stays_one(run: Run) -> None:
    assert run("info", "-Q", SHADE).err.startswith("symd: No such option '-Q'; without it: symd info")


@pytest.mark.parametrize("name", ["-dash.co", "--dash.co"])
def test_a_file_that_looks_like_an_option_is_told_how_it_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "the file is named" not in run("info", name).err
    Path(name).write_bytes(SHADE.read_bytes())
    done = run("info", name)
    assert (done.code, f"; the file is named ./{name} (see symd info --help)" in done.err) == (2, True), done.err
    assert run("info", f"./{name}").code == 0


def test_record_without_lines_says_that_no_daemon_answers(symd: Run, tmp_path: Path) -> None:
    done = symd("record", "--server", f"unix:{tmp_path}/none.sock")
    assert (done.code, "no daemon is running" in done.err) == (3, True), done.err


def test_record_without_lines_is_silent_where_one_does(symd: Run, server: str) -> None:
    done = symd("record", "--server", server, stdin=b"\n")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_a_page_that_was_written_is_said(run: Run, tmp_path: Path) -> None:
    done = run("view", PAGES, "--variables", "0", "-o", tmp_path / "page.html")
    size = (tmp_path / "page.html").stat().st_size
    assert (done.code, done.out) == (0, "")
    assert f"symd: written to {tmp_path}/page.html, {size:,} bytes\n" in done.err


def test_addr2line_without_a_module_names_its_option(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    hint = "(-e FILE names the module; without it that is a.out: symd addr2line -e FILE 0x1978)"
    assert run("addr2line", "0x1978").err == f"symd: a.out: cannot read the file: no such file or directory {hint}\n"
    assert hint not in run("addr2line", "-e", "none", "0x1978").err
    said = run("addr2line", "-fi", SHADE, "0x1978").err
    assert f"without it that is a.out: symd addr2line -fi -e {SHADE} 0x1978)" in said
    assert run("addr2line", "-fi", "-e", SHADE, "0x1978").out.splitlines()[1] == "/src/shade.cl:13"


@pytest.mark.parametrize(
    ("number", "what"),
    [
        (errno.ENOSPC, "with room"),
        (errno.EACCES, "that you may write in"),
        (errno.ENOENT, "that can be made, or is there"),
    ],
)
def test_a_folder_of_libraries_is_named_by_what_it_lacks(number: int, what: str) -> None:
    assert folder_hint("TMPDIR", OSError(number, os.strerror(number))) == f"set TMPDIR to a folder {what}"


def test_a_program_runs_where_there_is_no_home(symd: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CACHE_HOME", "SYMD_CAPTURES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/proc/nohome")
    done = symd("run", "--way", "opencl-layer", "--", "true")
    assert (done.code, done.err) == (0, NOTHING_SEEN)


def test_a_store_that_cannot_be_made_is_no_fault_of_the_disk() -> None:
    with pytest.raises(FileNotFoundError):
        make_folder(Path("/proc/store"))
    with pytest.raises(StoreUnavailable) as caught:
        Store(Path("/proc/store"))
    assert caught.value.message == "the folder cannot be made: no such file or directory"
    assert disk_error(Path("/proc/store"), OSError(errno.ENOSPC, "full")).message == "the disk refused: full"


@pytest.mark.parametrize(
    ("number", "said", "hint"),
    [
        ("ENOENT", "the path cannot be used: it is so", "is not there: look whether it was moved or removed"),
        ("ENOTDIR", "the path cannot be used: it is so", "there is a file where the path has a folder"),
        ("EISDIR", "the path cannot be used: it is so", "there is a folder where a file should be"),
        ("EEXIST", "the path cannot be used: it is so", "something of another kind is there"),
        ("ELOOP", "the path cannot be used: it is so", "a symbolic link on the way"),
        ("ENAMETOOLONG", "the path cannot be used: it is so", "choose a shorter path"),
        ("EACCES", "the system refused: it is so", "do this as the user to whom it belongs"),
        ("EMFILE", "the system refused: it is so", "raise its limit"),
        ("EIO", "the disk refused: it is so", "the disk fails"),
    ],
)
def test_a_path_that_leads_nowhere_is_no_fault_of_the_disk(number: str, said: str, hint: str) -> None:
    error = disk_error(Path("/somewhere"), OSError(getattr(errno, number), "It is so"))
    assert (error.message, hint in error.hint) == (said, True)


def test_a_store_below_a_file_is_told_by_its_path(symd: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = symd("serve", "--address", f"unix:{tmp_path}/s", "--store", tmp_path / "file" / "store")
    assert done.code == 3
    assert f"{tmp_path}/file/store: the path cannot be used: not a directory (there is a file where" in done.err


@pytest.mark.parametrize(
    ("module", "says"),
    [
        (
            "saxpy.sm_90.none.cubin",
            "-G for lines and variables without optimization (nvcc, ptxas, NVRTC); symd info shows why",
        ),
        ("saxpy.lto.fatbin", "there is no code object in it (LTO entry lto_90 at byte 16: skipped"),
    ],
)
def test_lines_of_cubins_without_any_say_how_nvcc_writes_them(run: Run, module: str, says: str) -> None:
    done = run("lines", ROOT / "samples" / "cuda" / "bin" / module)
    assert (done.code, says in done.err) == (1, True), done.err


def test_locate_in_a_cubin_without_lines_says_how_nvcc_writes_them(run: Run) -> None:
    done = run("locate", ROOT / "samples" / "cuda" / "bin" / "saxpy.sm_90.none.cubin", "saxpy.cu:3")
    assert done.err.endswith(
        "compile with -lineinfo for lines, or -G for lines and variables without optimization (nvcc, ptxas, NVRTC)\n"
    ), done.err


def test_hints_name_the_file_that_was_asked(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "my kernels.zebin"
    file.write_bytes(PAGES.read_bytes())
    for verb in (["view", "--kernel", "nope", "-o", "-"], ["lines", "--kernel", "nope"]):
        done = run(verb[0], file, *verb[1:])
        assert done.code == 1
        assert done.err.endswith(f"(symd names '{file}' --kind kernel '*' lists them)\n"), done.err


@pytest.mark.parametrize(
    ("file", "path", "says"),
    [
        ("cuda/bin/tonemap.default.fatbin", "sm_90", "there are 'sm_90a', 'sm_80'"),
        ("amdgpu/bin/aligned.bundle", "gfx900", "did you mean 'hipv4-amdgcn-amd-amdhsa--gfx900'? Write symd "),
        ("amdgpu/bin/v4-gfx900.co", "gfx900", "the file is itself the code object: leave the path out"),
    ],
)
@pytest.mark.parametrize("verb", [["symbolize", "0x10"], ["lines"], ["variables", "0x10"], ["verify"]])
def test_a_code_object_that_is_none_is_told_which_there_are(
    run: Run, verb: list[str], file: str, path: str, says: str
) -> None:
    done = run(verb[0], "--object", path, ROOT / "samples" / file, *verb[1:])
    assert (done.code, f"there is no code object '{path}' ({says}" in done.err) == (1, True), done.err
    if called := re.search(r" Write symd (.*)\)$", done.err, re.MULTILINE):
        assert "there is no code object" not in run(*shlex.split(called[1])).err


@pytest.mark.parametrize(
    ("file", "size"),
    [
        ("kernels/bin/filters/igc2-dg2-opt.zebin", 3000),
        ("cuda/bin/tonemap.default.fatbin", 3000),
        ("amdgpu/bin/aligned.bundle", 3000),
        ("kernels/bin/vadd/dg2-opt.dbg", 40),
        ("amdgpu/bin/v4-gfx900.co", 40),
        ("amdgpu/bin/v4-gfx900.co", 3000),
    ],
)
@pytest.mark.parametrize("verb", [["symbolize", "0x1978"], ["info"]])
def test_a_file_that_was_cut_off_is_told_to_be_copied_again(
    run: Run, tmp_path: Path, verb: list[str], file: str, size: int
) -> None:
    (tmp_path / "cut").write_bytes((ROOT / "samples" / file).read_bytes()[:size])
    done = run(verb[0], tmp_path / "cut", *verb[1:])
    if done.code == 0 and verb == ["info"]:
        assert "note  the section table cannot be used" in done.out
    else:
        assert "was the file cut off on its way? Copy or build it again" in done.err, done.err
