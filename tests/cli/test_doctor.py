"""symd doctor, with made-up drivers."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from symd.capture.drivers import DriverReport, survey
from symd.cli.doctor import TOOLS
from tests.cli.conftest import Run

GOOD = DriverReport("opencl", "dg2", "Driver 1", ("Device A",))
BAD = DriverReport("level-zero", None, problem="no loader", hint="apt-get install libze1")

CUDA = DriverReport("cuda", None, "580.65, CUDA 13.0", ("NVIDIA H100",))


@pytest.fixture
def drivers(monkeypatch: pytest.MonkeyPatch) -> list[DriverReport]:
    reports = [BAD, GOOD]

    def survey(driver_root: str | None = None) -> Sequence[DriverReport]:
        return reports

    monkeypatch.setattr("symd.cli.doctor.survey", survey)
    monkeypatch.setattr("symd.cli.doctor.cuda_report", lambda: CUDA)
    return reports


def test_text_says_what_is_here_and_what_to_install(run: Run, drivers: list[DriverReport]):
    outcome = run("doctor")
    assert outcome.code == 0
    for words in ("Driver 1", "Device A", "no loader; apt-get install libze1", *(tool.name for tool in TOOLS)):
        assert words in outcome.out


@pytest.mark.parametrize("columns", ["", "120"])
def test_no_line_is_wider_than_a_terminal(
    run: Run, drivers: list[DriverReport], monkeypatch: pytest.MonkeyPatch, columns: str
):
    drivers.append(
        DriverReport("opencl", None, problem="a long sentence " * 20, hint="another one, with what to do " * 9)
    )
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("SYMD_SERVER", "unix:/nowhere")
    said = run("doctor").out
    assert "opencl, hardware: a long sentence" in said
    assert max(map(len, said.splitlines())) <= int(columns or 80)


def test_a_narrow_terminal_cuts_no_heading(
    run: Run, drivers: list[DriverReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    drivers.append(DriverReport("level-zero", "tgllp", "Level Zero driver 1.3.24595", ("Intel(R) Graphics [0xff20]",)))
    monkeypatch.setenv("SYMD_SERVER", "unix:/nowhere")
    for columns in (20, 30, 40):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert "…" not in run("doctor").out
    assert {"interface", "simulated", "driver:", "devices", "tool", "what:", "here"} <= set(run("doctor").out.split())


@pytest.mark.parametrize("named", ["none", "default"])
def test_words_that_name_no_address_are_none(
    run: Run, drivers: list[DriverReport], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named: str
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("SYMD_SERVER", named)
    monkeypatch.setattr("symd.config._MACHINE_SOCKET", str(tmp_path / "none"))
    assert json.loads(run("doctor", "--json").out)["daemon"]["address"] == f"unix:{tmp_path}/symd/symd.sock"


def test_json_has_drivers_and_tools(run: Run, drivers: list[DriverReport]):
    [report] = run("doctor", "--json").json
    assert list(report) == ["symd", "commit", "python", "packages", "drivers", "tools", "daemon"]
    assert report["drivers"][0] == {
        "api": "level-zero",
        "simulate": None,
        "driver": "",
        "devices": [],
        "problem": "no loader",
        "hint": "apt-get install libze1",
    }
    assert [tool["tool"] for tool in report["tools"]] == [tool.name for tool in TOOLS]


def test_no_driver_at_all_is_a_no(run: Run, drivers: list[DriverReport]):
    """symd grab has no use for CUDA's."""
    drivers.remove(GOOD)
    assert run("doctor").code == 1


def test_nvidia_devices_are_named_too(run: Run, drivers: list[DriverReport]) -> None:
    (row,) = [line for line in run("doctor").out.splitlines() if line.startswith("cuda")]
    assert row.split() == ["cuda", "hardware", "580.65,", "CUDA", "13.0:", "NVIDIA", "H100"]
    assert run("doctor", "--json").json[0]["drivers"][-1]["devices"] == ["NVIDIA H100"]


def test_a_tool_that_is_not_here_has_a_hint(run: Run, drivers: list[DriverReport], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    [report] = run("doctor", "--json").json
    absent = [tool for tool in report["tools"] if not tool["tool"].startswith("lib") and not tool["path"]]
    assert absent
    assert all("install" in tool["hint"] for tool in absent)


def test_tools_are_looked_for_where_the_user_says_first(
    run: Run, drivers: list[DriverReport], monkeypatch: pytest.MonkeyPatch, tmp_path
):
    for name in ("nvdisasm", "libiga64.so.1"):
        (tmp_path / name).write_text("#!/bin/sh\necho nvdisasm release 12.4\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("SYMD_TOOLS", str(tmp_path))
    tools = {tool["tool"]: tool for tool in run("doctor", "--json").json[0]["tools"]}
    assert tools["nvdisasm"]["path"] == str(tmp_path / "nvdisasm")
    assert tools["nvdisasm"]["version"] == "nvdisasm release 12.4"
    assert tools["libiga64"]["path"] == str(tmp_path / "libiga64.so.1")


def test_the_daemon_is_asked(run: Run, drivers: list[DriverReport], monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setenv("SYMD_SERVER", f"unix:{tmp_path}/none")
    [report] = run("doctor", "--json").json
    assert report["daemon"]["address"] == f"unix:{tmp_path}/none"
    assert "no daemon is running" in report["daemon"]["says"]
    assert f"daemon at unix:{tmp_path}/none: no daemon is running" in run("doctor").out


def test_where_only_hardware_is_missing_nothing_is_to_be_installed(monkeypatch: pytest.MonkeyPatch):
    def report(api, product, root, limits):
        problem = "" if product else "no device"
        return DriverReport(api.name, product, "Driver 1.3.24595", problem=problem, hint="apt-get install it")

    monkeypatch.setattr("symd.capture.drivers.runner._report", report)
    hardware = [each for each in survey() if each.simulate is None]
    assert [("apt-get" in each.hint, "--simulate" in each.hint) for each in hardware] == [(False, True)] * 2


def test_disassemblers_are_those_that_listings_take(
    run: Run, drivers: list[DriverReport], monkeypatch: pytest.MonkeyPatch, tmp_path
):
    """The highest version of LLVM's, and NVIDIA's in the wheel of Triton."""
    wheel = tmp_path / "wheels" / "triton" / "backends" / "nvidia" / "bin"
    programs = [tmp_path / name for name in ("llvm-objdump", "llvm-objdump-14", "llvm-objdump-22")]
    wheel.mkdir(parents=True)
    (tmp_path / "wheels" / "triton" / "__init__.py").touch()
    for program in (*programs, wheel / "nvdisasm"):
        program.write_text("#!/bin/sh\necho version 1\n")
        program.chmod(0o755)
    monkeypatch.delenv("SYMD_TOOLS", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path / "wheels")
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    tools = {tool["tool"]: tool["path"] for tool in run("doctor", "--json").json[0]["tools"]}
    assert tools["llvm-objdump"] == str(tmp_path / "llvm-objdump-22")
    assert tools["nvdisasm"] in (str(wheel / "nvdisasm"), "/usr/local/cuda/bin/nvdisasm")
    assert "spirv-dis" in tools
