"""Every example that a verb's help shows: it is typed in a folder that has its files and ends well, or says here why it cannot be."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from symd.cli.command_line import GROUP
from symd.cli.verbs import VERBS
from symd.store import Store
from tests.cli.conftest import ROOT, server  # noqa: F401 - a fixture
from tests.docs.test_calls import refusal

SAMPLES = ROOT / "samples"
ZEBIN = SAMPLES / "kernels" / "bin" / "vadd" / "dg2-opt.zebin"
CUBIN = SAMPLES / "cuda" / "bin" / "raycast.sm_90.debug.cubin"
CODE_OBJECT = SAMPLES / "amdgpu" / "bin" / "v4-gfx900.co"
CORE = SAMPLES / "cores" / "bin"
FILES = {
    "program.bin": ZEBIN,
    "libkernels.so": SAMPLES / "amdgpu" / "bin" / "host.so",
    "kernel.co": CODE_OBJECT,
    "shade.co": CODE_OBJECT,
    "kernels.co": CODE_OBJECT,
    "kernels.zebin": SAMPLES / "kernels" / "bin" / "filters" / "igc2-dg2-opt.zebin",
    "kernel.cubin": CUBIN,
    "saxpy.cubin": next((SAMPLES / "cuda" / "bin").glob("saxpy*lines*.cubin")),
    "kernel.spv": next((SAMPLES / "kernels" / "bin").rglob("*.spv")),
    "vadd.spv": next((SAMPLES / "kernels" / "bin").rglob("*.spv")),
    "vadd.cl": SAMPLES / "kernels" / "vadd.cl",
    "core_1760000000_host_4242.nvcudmp": CORE / "illegal_address.nvcudmp",
    "stalls.csv": SAMPLES / "profiles" / "stalls.csv",
    "small.co": CODE_OBJECT,
    "kernel.dbg": SAMPLES / "kernels" / "bin" / "vadd" / "dg2-opt.dbg",
    "samples/amdgpu/bin/v4-gfx900.co": CODE_OBJECT,
}
"""What a name in an example is here."""
TEXTS = {
    "samples.tsv": "vadd+0x1b0\t3\nvadd+0x10\t1\n",
    "rocr-debug-agent.log": "nothing of interest\n",
    "loaded.json": '{"context": {"process": 4711}}\n'
    '{"load": {"file": "kernels.co", "load_base": 65536, "key": "1", "time": 1}}\n',
    "your_program": "#!/bin/sh\necho ran\n",
    "train.py": "print('trained')\n",
}
HERE = {
    "(#3)": "(#1)",
    "small.co 0x1b00": "small.co 0x1a00",
    "/build=/home/me": "/tmp/symd-opencl=/home/me/src",
    "src/vadd.cl:8": "src/vadd.cl:9",
    "token ci --rights": "token other --rights",
    "> ci.token": "> other.token",
}
"""What an example says of files that are not these."""
NEED_A_DAEMON = {"status", "modules", "rm", "health", "contexts", "record", "add"}
"""Verbs whose examples ask the daemon that runs."""
NOT_TYPED = {
    "symd serve": "runs until it is ended; every test with a daemon starts one",
    "symd daemon start": "leaves a daemon behind; tests/cli/test_daemon_verbs.py",
    "symd daemon health --server tls:": "asks a daemon over TLS; tests/docs has one",
    "symd daemon rm --json": "asks for two modules of other digests",
    "SYMD_TOKEN_FILE=": "asks a daemon over TLS; tests/docs has one",
    "symd grab": "needs a driver; tests/live grabs",
    "symd run --out captures --debug-lines": "needs the driver's loader to be of use; tests/capture runs programs",
    "symd collect --caches": "runs until it is interrupted",
    "symd collect --once captures": "needs captures and a daemon; tests/cli/test_collect.py",
    "symd daemon fetch": "asks servers of the network; the tests of debuginfod",
    "symd attach": "needs a process that has modules; tests/capture attaches",
    "symd symbolize --context": "needs a context; tests/cli/test_contexts.py has some",
    "symd variables --context": "likewise; tests/cli/test_device_addresses.py",
    "symd listing --context": "likewise",
    "symd daemon contexts 3f2a": "likewise",
    "symd daemon contexts --process": "likewise",
    "PATH=~/.local": "needs trace_processor",
    "symd daemon watch": "runs until it is interrupted",
    "symd daemon stop": "ends the daemon; tests/cli/test_stop.py",
    "symd listing": "needs the vendor's disassembler; tests/cli/test_listing.py",
    "symd core --json gpucore.4242": "needs a dump of ROCm's; tests/cli/test_core.py",
    "symd annotate -m kernels.co@": "needs the text of a debugger; tests/cli/test_annotate.py",
    "compute-sanitizer": "needs compute-sanitizer",
    "symd check --device 26.27:bmg": "says no of some kernels; tests/cli/test_check.py",
    "symd profile --module 3=": "needs a profile with these ids; tests/cli/test_profile.py",
    "symd profile --server": "likewise",
    "symd batch --store": "names a folder of the system",
    "symd slim kernels.co": "see the example that uses what it writes",
    "symd daemon store repair": "works on the user's own store; tests/cli/test_store.py",
    "symd daemon store gc": "likewise",
    "symd daemon store copy --store": "names a folder of the system",
    "symd daemon store copy /var/lib/symd s3:": "needs PostgreSQL and S3; tests/store/shared has both",
    "symd daemon store check --store": "names a folder of the system",
    "symd doctor": "looks at the whole machine, for seconds; tests/cli/test_doctor.py",
    "symd view": "opens a browser; tests/server/http",
    "symd setup mcp": "speaks a protocol; tests/cli/test_mcp.py",
    "claude mcp": "needs Claude",
    "gdb -x": "needs gdb and a program",
    "lldb -o": "needs LLDB and a program",
    "symd setup samples": "writes everything; tests/cli/test_samples.py",
}
"""How an example begins that is only parsed, and why."""


def examples() -> list[str]:
    """Every line of every example, those of verbs' own verbs too."""
    found: list[str] = []
    context = click.Context(GROUP, info_name="symd")

    def look(command: click.Command) -> None:
        for name in command.list_commands(context) if isinstance(command, click.Group) else ():
            look(command.get_command(context, name))
        lines = (command.epilog or "").partition("Example:\n")[2].splitlines()
        found.extend(re.sub(r"\s{2,}#.*", "", line).strip() for line in lines if line.strip())

    for verb, _ in VERBS:
        look(GROUP.get_command(context, verb))
    return found


def why_not(line: str) -> str | None:
    return next((why for begins, why in NOT_TYPED.items() if line.startswith(begins)), None)


EXAMPLES = examples()
TYPED = [line for line in EXAMPLES if why_not(line) is None]


@pytest.fixture
def folder(tmp_path: Path, prepared: Path) -> Path:
    """One to type in, with the files that examples name."""
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    (tmp_path / "bin" / "symd").write_text(f'#!/bin/sh\nexec {sys.executable} -m symd "$@"\n')
    return tmp_path


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("prepared")
    (tmp_path / "bin").mkdir()
    (tmp_path / "home" / ".triton" / "cache").mkdir(parents=True)
    (tmp_path / "bin" / "symd").write_text(f'#!/bin/sh\nexec {sys.executable} -m symd "$@"\n')
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "samples" / "amdgpu" / "bin").mkdir(parents=True)
    for name, source in FILES.items():
        shutil.copy(source, tmp_path / name)
    pq.write_table(pa.table({"address": [0x1978, 0x10]}), tmp_path / "samples.parquet")
    for name in ("bin/symd", "your_program"):
        (tmp_path / name).chmod(0o755)
    for name in (".local/share/bash-completion/completions", ".zfunc", ".config/fish/completions"):
        (tmp_path / "home" / name).mkdir(parents=True)
    Store(tmp_path / "store", durable=False).close()
    for before in (
        "symd slim kernels.co small.co",
        "symd token ci --rights read --expires 90d --access access > ci.token",
    ):
        subprocess.run(["bash", "-c", before], cwd=tmp_path, env=environment(tmp_path), check=True, timeout=120)
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    variables = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "HOME": f"{folder}/home"}
    return {
        **kept,
        **variables,
        "XDG_RUNTIME_DIR": f"{folder}/run",
        "SYMD_STORE": f"{folder}/store",
        "TMPDIR": str(folder),
    }


def typed(line: str, folder: Path, variables: dict[str, str]) -> None:
    for shown, here in HERE.items():
        line = line.replace(shown, here)
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), (line, done.stdout, done.stderr)


def verb_of(line: str) -> str:
    """The verb of the line's last call of symd."""
    return re.findall(r"\bsymd (?:daemon |setup )?([a-z][\w-]*)", line)[-1]


@pytest.mark.parametrize("line", [line for line in TYPED if verb_of(line) not in NEED_A_DAEMON])
def test_an_example_does_what_it_says(line: str, folder: Path) -> None:
    if "| jq" in line and shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    typed(line, folder, environment(folder))


def test_the_examples_that_ask_a_daemon(folder: Path, server: str) -> None:  # noqa: F811 - the fixture
    variables = {**environment(folder), "SYMD_SERVER": server}
    typed(
        'symd info modules/$(symd info --json kernel.dbg | sed \'s/.*"sha256":"\\([0-9a-f]*\\)".*/\\1/\') || true',
        folder,
        variables,
    )
    for line in [line for line in TYPED if verb_of(line) in NEED_A_DAEMON]:
        digest = subprocess.run(
            [sys.executable, "-c", f"import symd; print(symd.Client({server!r}).add(open('kernels.zebin', 'rb').read(), 'k.zebin').sha256)"],
            cwd=folder, env=variables, capture_output=True, text=True, check=True, timeout=120,
        ).stdout.strip()  # fmt: skip
        typed(line.replace("9b74c989", digest[:8]), folder, variables)


@pytest.mark.parametrize("line", [line for line in EXAMPLES if why_not(line) is not None])
def test_an_example_that_is_not_typed_is_parsed(line: str) -> None:
    calls = re.findall(r"(?:^|[|(=] *)(symd [a-z][^|)]*)", line)
    assert [call for call in calls if refusal(call.split(" > ")[0].split(" < ")[0].strip())] == []


def test_every_verb_has_an_example_and_every_reason_is_needed() -> None:
    shown = {verb for line in EXAMPLES for verb in re.findall(r"\bsymd (?:daemon |setup )?([a-z][\w-]*)", line)}
    assert shown >= {verb for verb, _ in VERBS} - {"token", "daemon", "setup"}
    assert not [begins for begins in NOT_TYPED if not any(line.startswith(begins) for line in EXAMPLES)]
    assert len(TYPED) > len(EXAMPLES) / 3
