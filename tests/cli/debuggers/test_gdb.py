"""symd's commands in Debian's gdb, beside a program that is stopped."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.debuggers.programs import BASE, PATIENCE, ROOT, SAMPLES, compiled, symd_script, untraceable
from tests.tools import require

FILTERS = SAMPLES / "kernels" / "bin" / "filters" / "igc2-dg2-opt.zebin"
"""Kernels of one module, each in a section of its own that begins at address 0."""
SHADE = SAMPLES / "amdgpu" / "bin" / "v4-gfx900.co"
OFFSET = 0x1940
"""An object address in its kernel shade."""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("host"))


@pytest.fixture
def gdb(tmp_path: Path, program: Path):
    """Run commands in gdb, with the program stopped; what they print after a mark."""
    path = require("gdb")
    done = subprocess.run(
        [path, "-batch", "-nx", "-ex", "python print(6 * 7)"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if "42" not in done.stdout:
        pytest.fail("this gdb has no Python")
    script = subprocess.run(
        [sys.executable, "-m", "symd", "gdb-script"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=PATIENCE,
        check=True,
    ).stdout.strip()

    def run(*commands: str) -> tuple[str, str]:
        words = [
            "set confirm off",
            f"source {script}",
            f"set symd-program {symd_script(tmp_path)}",
            "break report_fault",
            f"run {SHADE} {OFFSET:#x}",
            "up",
            r"echo ---\n",
            *commands,
        ]
        command = [path, "-batch", "-nx", *(word for each in words for word in ("-ex", each)), str(program)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=tmp_path)
        if "ptrace" in ended.stderr or "Could not trace" in ended.stderr:
            untraceable(ended.stderr)
        return ended.stdout.partition("---\n")[2], ended.stderr

    return run


def located(module: Path, *words: str) -> list[dict]:
    """What the command line says of places."""
    command = [sys.executable, "-m", "symd", "locate", "--json", str(module), *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def answers(*queries: str) -> list[dict]:
    """What the command line answers."""
    command = [sys.executable, "-m", "symd", "symbolize", "--json", str(SHADE), *queries]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_an_expression_of_the_program_is_an_address_of_its_gpu_code(gdb) -> None:
    """The address stands in a variable; the module in a file, and in the program's memory; the load base in a variable too."""
    by_file, _ = gdb(f"symd frames -m {SHADE} -b loaded_at fault fault+4")
    by_memory, _ = gdb("symd frames -s code_object code_object_size -b loaded_at fault fault+4")
    expected = [frame for answer in answers(f"{OFFSET:#x}", f"{OFFSET + 4:#x}") for frame in answer["frames"]]
    shown = re.findall(r"#\d+  (\S+) at (\S+):(\d+)", by_file)
    assert shown == [(frame["function"], frame["file"], str(frame["line"])) for frame in expected]
    assert by_file.splitlines()[0].startswith(f"{OFFSET:#x}: #0  shade at ")
    assert by_memory == by_file


def test_inlined_calls_and_reasons_are_shown(gdb) -> None:
    said, _ = gdb(f"set symd-module {SHADE}", "symd frames 0x1998 16 shade+0x98")
    [inlined, far, _] = answers("0x1998", "0x10", "shade+0x98")
    assert len(inlined["frames"]) > 1
    lines = said.splitlines()
    assert lines[0].endswith(" (inlined)")
    assert lines[1].strip().startswith("#1  shade at ")
    assert f"0x10: {far['reason']}" in lines
    assert any(line.startswith("shade+0x98: #0") for line in lines)


def test_variables_and_breakpoint_addresses(gdb) -> None:
    said, _ = gdb(f"symd variables -m {SHADE} -b loaded_at fault", f"symd locate -m {SHADE} -b loaded_at shade.cl:18")
    assert "shade: float[64] tile = " in said
    elsewhere, _ = gdb(f"symd variables -m {SHADE} 0x1998")
    assert {"blend: float half_way = <not here>", "shade: int steps = <optimized out>"} <= {*elsewhere.splitlines()}
    for each in located(SHADE, "shade.cl:18"):
        assert f"{BASE + each['address']:#x} in shade at " in said


def test_places_without_a_base_are_asked_in_one_process_and_are_offsets_into_sections(gdb, tmp_path: Path) -> None:
    log, program = tmp_path / "calls", tmp_path / "logged"
    program.write_text(f'#!/bin/sh\necho "$1" >> {log}\nexec {symd_script(tmp_path)} "$@"\n')
    program.chmod(0o755)
    said, _ = gdb(f"set symd-program {program}", f"symd locate -m {SHADE} shade.cl:18")
    places = located(SHADE, "shade.cl:18")
    assert [each["address"] for each in places] != [each["section_offset"] for each in places]
    assert [line.partition(" in ")[0] for line in said.splitlines()] == [
        f"({each['section']})+{each['section_offset']:#x} of shade" for each in places
    ]
    assert log.read_text().split() == ["locate"]


def test_a_base_is_that_of_one_kernel_where_kernels_are_loaded_apart(gdb) -> None:
    """Line 46 of the sample's source is in the kernel smooth, and line 20 is inlined into the kernel denoise."""
    both = "filters.clcpp:46 filters.clcpp:20"
    [smooth], [denoise] = located(FILTERS, "filters.clcpp:46"), located(FILTERS, "filters.clcpp:20")
    assert (smooth["kernel"], denoise["kernel"]) == ("smooth", "denoise")
    said, _ = gdb(f"symd locate -m {FILTERS} -b loaded_at {both}")
    lines = said.splitlines()
    assert lines[0].startswith(f"(.text.smooth)+{smooth['section_offset']:#x} of smooth in smooth at ")
    assert lines[1].startswith(f"(.text.denoise)+{denoise['section_offset']:#x} of denoise in median at ")
    assert lines[2] == f"{BASE:#x} is the base of one of several pieces of code: name it with -o OBJECT or -k KERNEL"

    place = BASE + denoise["section_offset"]
    said, _ = gdb(
        f"symd locate -m {FILTERS} -b loaded_at -k denoise {both}",
        f"symd frames -m {FILTERS} -b loaded_at {place:#x}",
        f"symd frames -m {FILTERS} -b loaded_at -k denoise {place:#x}",
        f"symd variables -m {FILTERS} -b loaded_at -k denoise {place:#x}",
    )
    lines = said.splitlines()
    assert lines[0].startswith("(.text.smooth)+")
    assert lines[1].startswith(f"{place:#x} in median at ")
    assert lines[1].endswith("filters.clcpp:20 (inlined)")
    assert lines[2].endswith(
        "AMBIGUOUS (name the code object with -o OBJECT, or the kernel that BASE is of with -k KERNEL)"
    )
    assert re.fullmatch(rf"denoise\+{denoise['section_offset']:#x}: #0  .*median.* at .*:20 \(inlined\)", lines[3])
    assert any(" low = " in line for line in lines[4:])


def test_a_base_is_that_of_one_code_object(gdb) -> None:
    """Each kernel of the driver's debug data is a code object that begins at address 0."""
    module = SAMPLES / "kernels" / "bin" / "filters" / "dg2-opt.dbg"
    [denoise] = located(module, "filters.clcpp:20")
    said, _ = gdb(f"symd locate -m {module} -b loaded_at -o {denoise['object']} filters.clcpp:20")
    assert said.startswith(f"{BASE + denoise['address']:#x} in ")
    said, _ = gdb(f"symd locate -m {module} -b loaded_at filters.clcpp:20")
    assert said.startswith("(.text)+")


def test_a_context_of_a_daemon_says_what_is_where(gdb, tmp_path: Path) -> None:
    """The same answers as by the module's file, with the device addresses of the load."""
    command = [sys.executable, "-m", "symd"]
    address = f"unix:{tmp_path}/s"
    load = {"file": str(SHADE), "load_base": BASE, "key": "1", "time": 1}
    told = "".join(json.dumps(each) + "\n" for each in ({"context": {"process": 4711}}, {"load": load}))
    serve = [*command, "serve", "--address", address, "--store", str(tmp_path / "store")]
    with subprocess.Popen(serve, cwd=ROOT, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        daemon.stdout.readline()
        record = [*command, "daemon", "record", "--server", address]
        done = subprocess.run(
            record, input=told, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE, check=True
        )
        context = json.loads(done.stdout.splitlines()[0])["context"]
        asked = "symd frames fault", "symd variables fault", "symd locate shade.cl:18"
        said, _ = gdb(f"set symd-server {address}", f"set symd-context {context}", *asked)
        daemon.terminate()
    own, _ = gdb(f"set symd-module {SHADE}", *(f"{each} -b loaded_at" for each in asked))
    [frame, *rest] = said.splitlines()
    assert (frame.partition(": ")[2], rest) == (own.splitlines()[0].partition(": ")[2], own.splitlines()[1:])
    assert frame.startswith(f"{BASE + OFFSET:#x}: #0  shade at ")


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("symd frames fault", "no GPU module selected; use set symd-module FILE"),
        ("symd frames", "name a place"),
        (f"symd frames -m {SHADE} no_such_name", 'No symbol "no_such_name" in current context'),
        ("symd frames -m /nowhere 0x10", "/nowhere: cannot read the file"),
        ("symd frames -s 16 64 0x10", "Cannot access memory"),
        ("symd frames -s code_object 0 0x10", "a module has between 1 and"),
        ("symd frames -m", "-m takes a value"),
        (f"symd locate -m {FILTERS} -k none filters.clcpp:20", "no kernel has this name: none"),
    ],
)
def test_what_cannot_be_is_said_in_one_line_without_a_traceback(gdb, command: str, sentence: str) -> None:
    _, complaint = gdb(command)
    assert sentence in complaint
    assert "Traceback" not in complaint


def test_a_symd_that_is_not_there_is_named(gdb) -> None:
    _, complaint = gdb("set symd-program /no/symd", f"symd frames -m {SHADE} 0x10")
    sentence = "/no/symd cannot be run: no such file or directory; say where symd is: set symd-program PATH"
    assert sentence in complaint


@pytest.mark.parametrize("folder", ["lib/python3.11/site-packages/symd/cli/debuggers", "clone/symd/cli/debuggers", ""])
def test_the_symd_that_is_run_is_that_of_the_environment_or_clone_that_the_script_lies_in(
    folder: str, tmp_path: Path
) -> None:
    for name in ("bin", "clone/.venv/bin"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "symd").touch(0o755)
    beside = tmp_path / folder if folder else Path("/")
    found = subprocess.run(
        [sys.executable, "-c", f"import symd_child; symd_child.__file__ = {str(beside / 'x.py')!r}; print(symd_child.installed_symd())"],
        capture_output=True, text=True, check=True, cwd=ROOT / "symd" / "cli" / "debuggers",
    ).stdout.strip()  # fmt: skip
    where = {"lib": tmp_path / "bin" / "symd", "clone": tmp_path / "clone" / ".venv" / "bin" / "symd", "": "symd"}
    assert found == str(where[folder.partition("/")[0]])
