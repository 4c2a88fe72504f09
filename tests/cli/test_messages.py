"""What is said where a call goes wrong: without control characters, and with what to do next."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from symd.cli.listing_text import missing_source_text
from symd.cli.output import write_build_log
from symd.errors import InvalidInput, StoreUnavailable
from symd.model.sources import SourceText
from symd.rpc.channel import Credentials, connect
from symd.store import Store
from symd.store.maintenance import copy
from tests.cli.conftest import ROOT, Run
from tests.small_disk import small_disk

SHADE = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"


@pytest.mark.parametrize("call", [("info", "nosuch\033[31mX"), ("nosuch\033[31mX",), ("info", "--nosuch\033[31m")])
def test_an_error_brings_no_control_characters_to_the_terminal(run: Run, call: tuple[str, ...]) -> None:
    done = run(*call)
    assert done.code == 2
    assert done.err.strip().isprintable()
    assert r"\x1b[31m" in done.err


def test_nor_does_a_build_log(capsys: pytest.CaptureFixture[str]) -> None:
    write_build_log("error:\tno\033[31m\r\n  such name é\n")
    assert capsys.readouterr().err == "error:  no\\x1b[31m\n  such name é\n"


def test_a_copy_to_a_full_disk_names_that_disk(tmp_path: Path) -> None:
    with Store(tmp_path / "from") as store:
        for number in range(300):
            store.put(bytes([number % 256, number // 256]), "label" * 200)
    with small_disk(tmp_path / "disk", 1 << 16) as problem:
        if problem:
            pytest.skip(problem)
        with pytest.raises(StoreUnavailable, match="full") as caught:
            copy(tmp_path / "from", tmp_path / "disk" / "to")
        assert caught.value.where.startswith(f"{tmp_path}/disk/to")


def test_a_copy_says_that_indexes_stay_behind(run: Run, tmp_path: Path) -> None:
    with Store(tmp_path / "from") as store:
        store.put(b"a module")
    done = run("store", "copy", tmp_path / "from", tmp_path / "to")
    assert done.out == "copied 1 module, 8 bytes; indexes were not copied and are rebuilt when needed\n"


def test_a_log_may_be_a_file(symd: Run, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("at shade+0x40\n")
    plain = symd("annotate", "-m", SHADE, stdin=log.read_bytes())
    assert "symd: shade+0x40" in plain.out
    assert symd("annotate", "-m", SHADE, log) == plain
    missing = symd("annotate", "-m", SHADE, tmp_path / "none")
    assert (missing.code, "none: cannot read the file: no such file" in missing.err) == (2, True)


HINTS = {
    "a file to collect": (("collect", "--once", "--out", "{folder}/out", SHADE), "symd info --server default"),
    "an address alone": (("symbolize", "0x1640"), "'0x1640' is an address (FILE comes first"),
    "a process by name": (("attach", "nosuch"), "'nosuch' is not a process ID"),
    "no process": (("attach", "0"), "'0' is not a process ID"),
    "a process of many digits": (("attach", "9" * 5000), "9' is not a process ID"),
}


@pytest.mark.parametrize(("call", "says"), HINTS.values(), ids=HINTS)
def test_what_to_do_next_is_said(run: Run, tmp_path: Path, call: tuple[object, ...], says: str) -> None:
    done = run(*(str(each).format(folder=tmp_path) for each in call))
    assert (done.code, says in done.err) == (2, True), done.err


@pytest.mark.parametrize(
    ("address", "hint"),
    [
        ("http://localhost:50051", "write localhost:50051"),
        ("https://gpu.example:50051/symd", "write tls:gpu.example:50051"),
        ("http://localhost", "write localhost:PORT"),
        ("grpc://localhost:50051", "write localhost:50051"),
        ("grpcs://gpu.example:50051", "write tls:gpu.example:50051"),
        ("tls://gpu.example:50051", "write tls:gpu.example:50051"),
        ("tls:grpc://gpu.example:50051", "write tls:gpu.example:50051"),
        ("TLS:gpu.example:50051", "write tls:gpu.example:50051"),
        ("UNIX:/run/symd.sock", "write unix:/run/symd.sock"),
        ("unix://run/symd.sock", "write unix:/run/symd.sock"),
    ],
)
def test_an_address_of_the_web_is_written_as_one_of_a_daemon(address: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        connect(address, Credentials())
    assert caught.value.hint.endswith(hint)


def test_a_second_token_of_a_name_is_told(run: Run, tmp_path: Path) -> None:
    access = tmp_path / "access"
    first = run("token", "ci", "--access", access)
    assert first.err == f"symd: {access} did not exist and was created; symd serve --access {access} reads it\n"
    second = run("token", "ci", "--access", access)
    assert second.code == 0
    assert "ci has 2 valid tokens now" in second.err
    assert "--rotate" in second.err
    assert run("token", "ci", "--rotate", "--access", access).err == ""


def test_an_access_file_that_is_there_is_not_said_to_be_made(run: Run, tmp_path: Path) -> None:
    (tmp_path / "access").touch(0o600)
    assert run("token", "ci", "--access", tmp_path / "access").err == ""


@pytest.mark.parametrize("base", [f"{1 << 63:#x}", str(1 << 63)])
def test_an_address_may_be_recorded_as_text(symd: Run, server: str, base: str) -> None:
    load = {"load": {"file": str(SHADE), "load_base": base, "key": "1", "time": 1}}
    told = symd("record", "--server", server, stdin=f'{{"context": {{}}}}\n{json.dumps(load)}\n'.encode())
    assert told.code == 0, told.err
    context = told.json[0]["context"]
    asked = symd("symbolize", "--json", "--server", server, "--context", context, f"{(1 << 63) + 0x1940:#x}")
    assert asked.json[0]["reason"] == "EXACT"


ZEBIN = SHADE.parents[2] / "kernels" / "bin" / "filters" / "igc2-dg2-opt.zebin"
STALLS = SHADE.parents[2] / "profiles" / "stalls.csv"
NEXT = {
    "a module before a profile without OUT": (
        ("profile", ZEBIN, STALLS),
        f"write, for example: symd profile {ZEBIN} {STALLS} -o OUT",
    ),
    "a page behind a module": (("view", ZEBIN, "page.html"), f"symd view {ZEBIN} -o page.html (see"),
    "an order": (
        ("hot", "--sort", "line", STALLS),
        f"; write symd hot -m FILE --by line {STALLS} (see symd hot --help",
    ),
    "a table": (("hot", "--csv", STALLS), f"; write symd hot -m FILE --json {STALLS} (see"),
    "a function of a profile": (
        ("hot", "--func", "k", STALLS),
        f"symd hot -m FILE --kernel k {STALLS} (see",
    ),
    "a port": (("serve", "--port", "80"), "; write --address HOST:PORT (gRPC) or --http HOST:PORT (browsers) (see"),
    "a profile without OUT": (
        ("profile", "-m", ZEBIN, STALLS),
        f"write, for example: symd profile -m {ZEBIN} {STALLS} -o OUT (see symd profile --help",
    ),
    "a module to run": (("run", SHADE), f"{SHADE}: is a module, not a program (symd run -- PROGRAM"),
    "a module to check": (("check", SHADE), f"(write symd verify {SHADE}, which checks its debug data; symd extract"),
    "a module in place of a dump": (("core", SHADE), "is not a GPU core dump (symd info"),
    "an option without its value": (("hot", "--by"), "(see symd hot --help)"),
}


@pytest.mark.parametrize(("call", "says"), NEXT.values(), ids=NEXT)
def test_what_was_meant_is_written_out(run: Run, call: tuple[object, ...], says: str) -> None:
    done = run(*map(str, call))
    assert (done.code, says in done.err) == (2, True), done.err


def test_variables_without_debug_data_say_what_to_compile_with(run: Run) -> None:
    done = run("variables", SHADE.with_name("v4-gfx900-nodebug.co"), "0x1900")
    assert (done.code, "symd: there is no debug info: compile with -g" in done.err) == (1, True), done.err


def test_letters_in_another_order_are_a_name(run: Run) -> None:
    assert "shade" in run("symbolize", SHADE, "shdae+0x80").out.partition(" ")[2]


def test_a_profile_of_one_frame_is_told_in_the_singular(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("[smooth+0x290] 3\n")
    done = run("profile", "-m", ZEBIN, tmp_path / "in", tmp_path / "out")
    assert "folded: 1 frame: 1 resolved" in done.err
    assert "have no symbols" not in done.err


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("shade.kd", "shade.kd is the descriptor of a kernel, without code: drop .kd and write shade"),
        ("blend", f"symd locate {SHADE} blend finds one that is only inlined"),
        ("0x7f0000001680", "is it a device address? Subtract the load address, or use --context"),
    ],
)
def test_a_place_as_other_tools_show_it_is_explained(run: Run, query: str, says: str) -> None:
    assert says in run("symbolize", SHADE, query).err


def test_a_page_without_a_source_text_says_so(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("view", SHADE, "--variables", "0", "-o", tmp_path / "page.html")
    assert re.search(r"symd: \d+ of \d+ source files? (is|are) not in the page: /src/", done.err), done.err


def test_a_source_that_is_where_the_compiler_saw_it_is_named(tmp_path: Path) -> None:
    source = SourceText(str(tmp_path / "a.hip"), problem="the module has none, and no allowed folder holds it")
    assert missing_source_text(source).endswith(f"; add --map {tmp_path}=FOLDER")
    (tmp_path / "a.hip").touch()
    assert missing_source_text(source).endswith(f"add --source-root {tmp_path}")


def test_a_source_below_the_working_directory_is_told_with_its_rule(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lib").mkdir()
    source = SourceText("/build/app/lib/a.hip", problem="the module has none, and no allowed folder holds it")
    assert missing_source_text(source).endswith("holds it; add --map /build/app/lib=FOLDER")
    assert missing_source_text(replace(source, file="a.hip")).endswith("; add --source-root FOLDER")
    (tmp_path / "a.hip").touch()
    assert missing_source_text(source).endswith("; a file of that name is here: add --map /build/app/lib=.")
    (tmp_path / "lib" / "a.hip").touch()
    assert missing_source_text(source).endswith("; a file of that name is here: add --map /build/app=.")
    (tmp_path / "shade.cl").write_bytes((ROOT / "samples" / "amdgpu" / "src" / "shade.cl").read_bytes())
    assert "add --map /src=.)" in run("listing", SHADE, "shade").out
    assert "    13      float half_way = (a + b) * 0.5f;\n" in run("listing", SHADE, "shade", "--map", "/src=.").out


RULED = {
    "listing": (("listing", SHADE, "--function", "shade"), SHADE),
    "a page": (("view", SHADE, "--variables", "0", "-o", "page.html"), SHADE),
    "a line": (("locate", SHADE, "nosuch.cl:3"), SHADE),
    "a profile": (("hot", "-m", ZEBIN, STALLS), STALLS),
    "a profile with lines": (("profile", "-m", ZEBIN, STALLS, "out.csv"), STALLS),
}


@pytest.mark.parametrize(("call", "file"), RULED.values(), ids=RULED)
def test_a_rule_that_fits_no_source_file_is_told(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: tuple[object, ...], file: Path
) -> None:
    """``shade.cl`` was compiled in /src, the kernels of the profile in /tmp/symd-opencl."""
    monkeypatch.chdir(tmp_path)
    said = f"symd: --map /none={tmp_path}: no source file of {file} lies in /none\n"
    assert said in run(*call, "--map", f"/none={tmp_path}").err
    fits = "/tmp/symd-opencl" if file == STALLS else "/src"
    assert "no source file of" not in run(*call, "--map", f"{fits}={tmp_path}").err


def test_sums_by_kernel_name_no_files_that_a_rule_could_fit(run: Run, tmp_path: Path) -> None:
    assert "--map" not in run("hot", "--by", "kernel", "-m", ZEBIN, STALLS, "--map", f"/none={tmp_path}").err
