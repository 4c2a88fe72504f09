"""Which ways reach a program, and what its environment becomes."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from symd.capture import ways
from symd.capture.run_folder import RunFolder, make_run_folder
from symd.capture.ways import ProgramFile, chosen_ways, environment_for, program_file
from symd.model.captures import CaptureWay

LAYER, PRELOAD, WRAPPER = CaptureWay.OPENCL_LAYER, CaptureWay.PRELOAD, CaptureWay.WRAPPER_DRIVER
LISTENER = CaptureWay.LISTENER


@pytest.mark.parametrize(
    ("wanted", "program", "chosen"),
    [
        ((), ProgramFile(), (LAYER, PRELOAD, LISTENER)),
        ((), ProgramFile(privileged=True), (LAYER, WRAPPER, LISTENER)),
        ((), ProgramFile(preloadable=False), (LAYER, WRAPPER, LISTENER)),
        ((PRELOAD,), ProgramFile(), (PRELOAD,)),
        ((PRELOAD,), ProgramFile(preloadable=False), ()),
        ((PRELOAD,), ProgramFile(privileged=True), (PRELOAD,)),
        ((WRAPPER,), ProgramFile(), (WRAPPER,)),
        ((LAYER,), ProgramFile(privileged=True), (LAYER,)),
        ((WRAPPER, PRELOAD), ProgramFile(), (PRELOAD,)),
        ((CaptureWay.FOLDER,), ProgramFile(privileged=True), (CaptureWay.FOLDER,)),
    ],
)
def test_one_way_for_each_interface(
    wanted: tuple[CaptureWay, ...], program: ProgramFile, chosen: tuple[CaptureWay, ...]
) -> None:
    assert chosen_ways(wanted, program) == chosen


def elf(bits: int, interpreter: bytes = b"") -> bytes:
    head = bytearray(64)
    head[:5] = b"\x7fELF" + bytes([bits // 32])
    struct.pack_into("<Q", head, 32, 64)
    struct.pack_into("<HH", head, 54, 56, 1)
    return bytes(head) + struct.pack("<IIQQQQQQ", 3, 0, 120, 0, 0, len(interpreter), 0, 0) + interpreter


@pytest.mark.parametrize(
    ("data", "preloadable"),
    [
        (elf(64, b"/lib64/ld-linux-x86-64.so.2\0"), True),
        (elf(64, b"/lib/ld-musl-x86_64.so.1\0"), False),
        (elf(32), False),
        (b"#!/bin/sh\n", True),
        (b"", True),
        (b"\x7fELF\x02", True),
        (elf(64)[:70], True),
    ],
)
def test_what_would_complain_of_the_library_gets_none(tmp_path: Path, data: bytes, preloadable: bool) -> None:
    program = tmp_path / "program"
    program.write_bytes(data)
    program.chmod(0o755)
    assert program_file("program", {"PATH": str(tmp_path)}).preloadable is preloadable


def test_a_setuid_program_has_more_rights(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"#!/bin/sh\n")
    program.chmod(0o4755)
    assert program_file(str(program), {}).privileged
    assert program_file("no-such-program", {"PATH": "/nowhere"}) == ProgramFile()


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[RunFolder]:
    for name in ("opencl_layer", "level_zero_preload"):
        (tmp_path / f"{name}.so").write_bytes(b"")
    monkeypatch.setattr(ways, "library", lambda name, *_: tmp_path / f"{name}.so")

    def wrapper_driver(driver: str, *_: object) -> Path:
        made = tmp_path / driver.strip("/").replace("/", "-") / "wrapper.so"
        made.parent.mkdir(exist_ok=True)
        made.write_text(f"of {driver}")
        return made

    monkeypatch.setattr(ways, "wrapper_driver", wrapper_driver)
    monkeypatch.setattr(ways, "_is_installed", lambda *_: False)
    made = make_run_folder()
    yield made
    made.remove()


def test_what_the_user_set_stays_in_front(folder: RunFolder) -> None:
    base = {"LD_PRELOAD": "/a.so", "OPENCL_LAYERS": "/l.so", "HOME": "/home", "EMPTY": ""}
    made = environment_for((LAYER, PRELOAD), base, folder, None)
    assert {name: made[name] for name in ("HOME", "EMPTY")} == {"HOME": "/home", "EMPTY": ""}
    first, ours = made["LD_PRELOAD"].split(":")
    assert first == "/a.so"
    assert Path(ours).name == "level_zero_preload.so"
    assert os.access(ours, os.R_OK)
    assert made["OPENCL_LAYERS"].startswith("/l.so:")
    assert made["SYMD_CAPTURE"] == str(folder.inner)
    assert not Path(made["cl_cache_dir"]).exists()
    assert set(made) - set(base) == {"SYMD_CAPTURE", "SYMD_CAPTURE_KEY", "cl_cache_dir", "l0_cache_dir"}
    again = environment_for((LAYER, PRELOAD), made, folder, None)
    assert again == made  # a run inside a run


@pytest.mark.parametrize(
    ("told", "wrapped", "by_table"),
    [
        ("", "of libze_intel_gpu.so.1", False),
        ("/opt/libze_intel_gpu.so.1", "of /opt/libze_intel_gpu.so.1", False),
        ("/opt/libze_intel_gpu.so.1,/x/libze_other.so", "of /opt/libze_intel_gpu.so.1,/x/libze_other.so", True),
        ("/x/libze_other.so", "/x/libze_other.so", False),
    ],
)
def test_the_drivers_that_the_loader_is_told(folder: RunFolder, told: str, wrapped: str, by_table: bool) -> None:
    base = {"ZE_ENABLE_ALT_DRIVERS": told} if told else {}
    made = environment_for((WRAPPER,), base, folder, None)
    drivers = made["ZE_ENABLE_ALT_DRIVERS"].split(",")
    assert [Path(each).read_text() if Path(each).exists() else each for each in drivers] == wrapped.split(",")
    assert ("ZE_ENABLE_LOADER_DRIVER_DDI_PATH" in made) is by_table
