"""symd doctor, with made-up drivers."""

from collections.abc import Sequence

import pytest

from symd.cli.doctor import TOOLS
from symd.drivers import DriverReport
from tests.cli.conftest import Run

GOOD = DriverReport("opencl", "dg2", "Driver 1", ("Device A",))
BAD = DriverReport("level-zero", None, problem="no loader", hint="apt-get install libze1")


@pytest.fixture
def drivers(monkeypatch: pytest.MonkeyPatch) -> list[DriverReport]:
    reports = [BAD, GOOD]

    def survey(driver_root: str | None = None) -> Sequence[DriverReport]:
        return reports

    monkeypatch.setattr("symd.cli.doctor.survey", survey)
    return reports


def test_text_says_what_is_here_and_what_to_install(run: Run, drivers: list[DriverReport]):
    outcome = run("doctor")
    assert outcome.code == 0
    for words in ("Driver 1", "Device A", "no loader; apt-get install libze1", *(tool.name for tool in TOOLS)):
        assert words in outcome.out


def test_json_has_drivers_and_tools(run: Run, drivers: list[DriverReport]):
    [report] = run("doctor", "--json").json
    assert list(report) == ["symd", "python", "packages", "drivers", "tools"]
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
    drivers.remove(GOOD)
    assert run("doctor").code == 1


def test_a_tool_that_is_not_here_has_a_hint(run: Run, drivers: list[DriverReport], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    [report] = run("doctor", "--json").json
    absent = [tool for tool in report["tools"] if not tool["tool"].startswith("lib") and not tool["path"]]
    assert absent
    assert all("install" in tool["hint"] for tool in absent)
