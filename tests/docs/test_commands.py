"""The commands of README.md and of docs/security.md and docs/operations.md do what is written there, typed in a fresh folder."""

from __future__ import annotations

import grp
import hashlib
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
from symd.engine.files.module import SHORT
from tests.docs.shell import LONG, Shell, commands, shows, steps
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


def _without_other_binaries(folder: str, names: list[str]) -> list[str]:
    """What is not copied of a folder of samples: other binaries than core dumps and kernels."""
    return ["bin"] if "bin" in names and not folder.endswith(("cores", "kernels")) else []


def test_the_first_screen_of_the_readme_is_true(shell: Shell) -> None:
    """What comes before symd is installed is tests/packaging's."""
    typed = steps((ROOT / "README.md").read_text().split("\n## ")[0])
    assert [step.line.split()[0] for step in typed] == ["python3", "export", "symd", "symd"]
    for step in typed[2:]:
        printed = shell.run(step.line)
        assert all(shows(printed, line) for line in step.shown), printed


@pytest.mark.live
def test_the_first_commands_of_the_readme(shell: Shell) -> None:
    doctor = [sys.executable, "-m", "symd", "doctor", "--json"]
    found = subprocess.run(doctor, check=False, cwd=ROOT, capture_output=True, text=True, timeout=LONG).stdout
    if "dg2" not in found:
        missing("no driver of Intel's can be simulated here")
    shutil.copytree(ROOT / "samples", shell.folder / "samples", ignore=_without_other_binaries)
    installed = shell.folder / "build" / "lib" / "symd" / "shipped"  # what pip install leaves in a clone
    installed.mkdir(parents=True)
    left = SAMPLE.read_bytes() + bytes(1)
    (installed / "other.dbg").write_bytes(left)
    lines = commands(section("README.md", "## Use it"))
    assert {line.split()[1] for line in lines if line.startswith("symd ")} >= {"serve", "grab", "symbolize", "health"}
    said = {line: shell.run(line) for line in lines}
    assert "vadd" in said["symd symbolize kernel.dbg vadd+0x1b0"]
    assert said["symd health"] == "SERVING\n"
    named, unnamed = (hashlib.sha256(data).hexdigest()[:SHORT] for data in (SAMPLE.read_bytes(), left))
    assert named in said["symd modules"]
    assert unnamed not in said["symd modules"]
    python = "\n".join(re.findall(r"```python\n(.*?)```", section("README.md", "## Use it"), re.DOTALL))
    (shell.folder / "example.py").write_text(python)
    assert "kernel.cl" in shell.run(f"{sys.executable} -W ignore::ResourceWarning example.py")


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
