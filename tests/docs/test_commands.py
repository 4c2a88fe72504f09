"""The commands of docs/which-command.md, docs/security.md and docs/operations.md do what is written there, typed in a fresh folder."""

from __future__ import annotations

import grp
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path

import click
import pytest

from symd.cli.command_line import GROUP
from tests.docs.shell import LONG, Shell, commands, programs, shows, steps
from tests.live.conftest import missing
from tests.tools import require

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/security.md", "docs/operations.md", "docs/reliability.md")
SAMPLE = ROOT / "samples" / "kernels" / "bin" / "vadd" / "dg2-opt.dbg"
UNITS = ROOT / "packaging" / "systemd"


def section(page: str, heading: str) -> str:
    """What stands between this heading and the next of its kind."""
    return (ROOT / page).read_text().split(f"\n{heading}\n")[1].split("\n## ")[0]


@pytest.fixture
def shell(tmp_path):
    made = Shell(tmp_path)
    yield made
    made.stop()


def test_the_readme_begins_with_an_answer_and_its_peers() -> None:
    """The page itself is followed by test_pages; what comes before symd is installed is tests/packaging's."""
    text = (ROOT / "README.md").read_text()
    typed = [step.line.split()[0] for step in steps(text.split("\n## What it reads")[0])]
    assert typed == ["symd", "symd", "llvm-symbolizer", "symd", "llvm-symbolizer", "symd", "symd"]
    (install,) = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert [line.split()[0] for line in install.splitlines()] == ["python3", "export"]
    assert len(programs(text)) == 2
    assert all(len(program.splitlines()) <= 12 for program in programs(text).values())


def test_the_figures_of_the_readme_are_those_that_were_measured() -> None:
    measured = (ROOT / "benchmarks" / "RESULTS.md").read_text().splitlines()
    rows = [
        line
        for line in section("README.md", "## How fast").splitlines()
        if re.match(r"\| (bulk|index|one-shot):", line)
    ]
    assert len(rows) == 3
    for row in rows:
        figures = re.findall(r"\d[\d,.]*(?:/s| ms)", row)
        assert len(figures) == 2
        assert any(all(f" {figure}" in line for figure in figures) for line in measured), row


@pytest.mark.live
def test_every_command_prints_what_the_table_of_questions_shows(shell: Shell) -> None:
    doctor = [sys.executable, "-m", "symd", "doctor", "--json"]
    found = subprocess.run(doctor, check=False, cwd=ROOT, capture_output=True, text=True, timeout=LONG).stdout
    if "dg2" not in found:
        missing("no driver of Intel's can be simulated here")
    typed = steps((ROOT / "docs" / "which-command.md").read_text())
    assert {step.line.split()[1] for step in typed} >= {"serve", "grab", "symbolize", "daemon"}
    assert all(step.shown for step in typed if step.line.split()[:2] != ["symd", "setup"] and "cp " not in step.line)
    for step in typed:
        printed = shell.run(step.line, step.exit_code)
        for line in step.shown:
            assert shows(printed, line), f"{step.line}: {line!r} is not in\n{printed}"


def test_the_commands_for_a_team(shell: Shell) -> None:
    require("openssl")
    shutil.copy(SAMPLE, shell.folder / "kernel.dbg")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    folder, store = shell.folder / "symd", shell.folder / "store"
    told = []
    for line in commands(section("docs/security.md", "## For a team")):
        here = line.replace("50051", port).replace("/run/symd", str(folder)).replace("-o symd ", "")
        here = here.replace("--socket-group symd", f"--socket-group {grp.getgrgid(os.getegid()).gr_name}")
        told.append(shell.run(here.replace("/var/lib/symd", str(store))))
        if "install -d" in line:
            assert stat.S_IMODE((folder if "/run" in line else store).stat().st_mode) == (
                0o711 if "/run" in line else 0o700
            )
    answers = "".join(told)
    assert (store / "catalogue.sqlite").exists()
    assert answers.count("symd serves at ") == 3
    assert answers.count(f"symd serves at tls:0.0.0.0:{port}") == 2
    assert answers.count("igc-debug") == 2
    assert [line.split()[0] for line in answers.splitlines() if line.startswith(("NAME ", "ci "))] == ["NAME", "ci"]


def exec_lines(text: str) -> list[str]:
    """The daemon's command in a unit, or in what is laid over one."""
    return re.findall(r"^ExecStart=\S+ (.*)$", text, re.MULTILINE)


def test_the_commands_of_units_are_calls_of_symd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grp, "getgrnam", lambda _name: grp.getgrgid(os.getegid()))  # there is no group symd here
    shipped = exec_lines((UNITS / "symd.service").read_text())
    written = exec_lines((ROOT / "docs/operations.md").read_text())
    assert (len(shipped), len(written)) == (1, 1)
    for line in shipped + written:
        words = line.split()
        assert words[0] == "serve"
        command = GROUP.get_command(click.Context(GROUP), "serve")
        context = command.make_context("serve", [*words[1:], "--store", str(tmp_path)])
        assert (context.params["socket_group"] is not None) == (line in written)  # as shipped it lets in nobody else
        assert context.params["addresses"] == ("unix:/run/symd/symd.sock",)


def test_the_units_are_such_that_systemd_takes_them(tmp_path: Path) -> None:
    require("systemd-analyze")
    units = []
    for source in sorted(UNITS.iterdir()):
        text = source.read_text().replace("/opt/symd/.venv/bin/symd", sys.executable).replace("/opt/symd", str(ROOT))
        units.append(tmp_path / source.name)
        units[-1].write_text(text)
    assert [unit.name for unit in units] == ["symd.service"]
    done = subprocess.run(
        ["systemd-analyze", "verify", *units], capture_output=True, text=True, timeout=LONG, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    rating = ["systemd-analyze", "security", "--offline=yes", "--no-pager", units[0]]
    said = subprocess.run(rating, capture_output=True, text=True, timeout=LONG, check=False).stdout
    (exposure,) = re.findall(r"Overall exposure level for symd.service: ([\d.]+)", said)
    assert float(exposure) < 2.5, said


def test_the_commands_of_the_container_are_calls_of_symd(tmp_path: Path) -> None:
    text = (ROOT / "packaging" / "container" / "Containerfile").read_text()
    assert json.loads(re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)[0]) == ["symd"]
    default = json.loads(re.findall(r"^CMD (.*)$", text, re.MULTILINE)[0])
    probe = json.loads(re.findall(r"CMD (\[\"symd.*)$", text, re.MULTILINE)[0])[1:]
    for words, options in ((default, ["--store", str(tmp_path)]), (probe, [])):
        command = GROUP.get_command(click.Context(GROUP), words[0])
        context = command.make_context(words[0], [*words[1:], *options])
        address = context.params["addresses"][0] if "addresses" in context.params else context.params["server"]
        assert address == "unix:/run/symd/symd.sock"
    copied = {
        source for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE) for source in line.split()[:-1]
    }
    assert copied == {"."}
    assert "requirements.lock" in text
    assert (ROOT / "requirements.lock").exists()


@pytest.mark.parametrize("page", PAGES)
def test_every_option_that_a_page_names_is_one(page: str) -> None:
    known = {"--help", *OTHERS}
    for verb in GROUP.list_commands(click.Context(GROUP)):
        known |= _options(GROUP.get_command(click.Context(GROUP), verb))
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", (ROOT / page).read_text()))
    assert not named - known


OTHERS = {
    "--system",
    "--home-dir",
    "--shell",
    "--now",
    "--since",
    "--grep",
    "--strict",
    "--only",
    "--replay",
    "--seconds",
    "--workers",
} | {
    "--plain",
    "--grown",
    "--kills",
    "--interval",
    "--calm",
    "--confined",
    "--icf",
    "--damaged",
    "--offline",
    "--name",
    "--rm",
}
"""Options of other programs that the pages name: ld.lld, useradd, systemctl, journalctl, Docker, tools/ and tests/ of this repository."""


def _options(command: click.Command) -> set[str]:
    own = {name for parameter in command.params for name in parameter.opts}
    below = command.commands.values() if isinstance(command, click.Group) else ()
    return own.union(*map(_options, below))
