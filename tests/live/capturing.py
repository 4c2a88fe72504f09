"""Programs of ours that build modules with a real driver, run bare and under ``symd run``, and what was captured."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from symd.capture.drivers.apis import APIS
from symd.capture.drivers.simulate import environment, launcher
from symd.capture.folder_sink import EVENTS, events_of
from symd.model.captures import CaptureEvent, ModuleLoaded
from tests.live.conftest import Target, missing
from tests.tools import require

PROGRAMS = Path(__file__).parent / "programs"
_OPENCL, _LEVEL_ZERO = "/usr/include/CL/cl.h", "/usr/include/level_zero/ze_api.h"
_HEADERS = {
    "opencl_host.c": (_OPENCL,),
    "level_zero_host.c": (_LEVEL_ZERO,),
    "sycl_like_host.cpp": (_OPENCL, _LEVEL_ZERO),
}
_LINKED = {
    "opencl_host.c": "-l:libOpenCL.so.1",
    "level_zero_host.c": "-l:libze_loader.so.1",
    "sycl_like_host.cpp": "-ldl",
}
_COMPILERS = {".c": "cc", ".cpp": "c++"}
SUMMARY = re.compile(r"symd: .*\n")


@cache
def built(folder: Path, name: str, *flags: str) -> Path:
    """The program of ``programs/`` that the file ``name`` is, linked with its loader unless the flags say that it opens it."""
    source = PROGRAMS / name
    for header in _HEADERS[name]:
        if not Path(header).exists():
            missing(f"{header} is not here")
    program = folder / "-".join((source.stem, *(flag.strip("-").replace("=", "-") for flag in flags)))
    link = () if "-DBY_NAME" in flags else (_LINKED[name],)
    compiler = require(_COMPILERS[source.suffix])
    words = [compiler, "-O1", "-pthread", *flags, "-o", str(program), str(source), *link]
    subprocess.run(words, check=True)
    return program


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run that has ended; ``events`` are () of a bare one."""

    status: int
    output: str
    errors: str
    summary: str = ""
    events: tuple[CaptureEvent, ...] = ()

    @property
    def loaded(self) -> list[ModuleLoaded]:
        return [event for event in self.events if isinstance(event, ModuleLoaded)]

    def named(self, name: str) -> list[CaptureEvent]:
        """The events of a class of this name."""
        return [event for event in self.events if type(event).__name__ == name]


@dataclass(frozen=True, slots=True)
class Host:
    """One driver generation with one simulated device, for one interface; ``folder`` is for what runs leave. ``loader`` is a copy of the
    generation's own loader of the C library, for programs that look for their files beside /proc/self/exe, which it is."""

    target: Target
    api: str
    folder: Path
    loader: str = ""

    @property
    def variables(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("COV_")}
        return environment(inherited, self.target.product, self.target.root)

    def command(self, program: Path | str, *arguments: str) -> list[str]:
        words = launcher(APIS[self.api], self.target.root)
        return [*([self.loader, *words[1:]] if self.loader else words), str(program), *arguments]

    def bare(self, program: Path | str, *arguments: str, **variables: str) -> Outcome:
        return _outcome(self.command(program, *arguments), self.folder, self.variables | variables)

    def captured(self, program: Path | str, *arguments: str, options: Sequence[str] = (), **variables: str) -> Outcome:
        """Under symd; the captures are in the folder ``out``, which is made anew."""
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        symd = [sys.executable, "-m", "symd", "run", "--out", str(out), *options, "--"]
        ended = _outcome([*symd, *self.command(program, *arguments)], self.folder, self.variables | variables)
        said = SUMMARY.findall(ended.errors)
        events = tuple(event for event, _ in events_of(out)) if (out / EVENTS).exists() else ()
        return Outcome(ended.status, ended.output, SUMMARY.sub("", ended.errors), "".join(said), events)


def _outcome(command: Sequence[str], folder: Path, variables: dict[str, str]) -> Outcome:
    ended = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder, env=variables, timeout=300)
    return Outcome(ended.returncode, ended.stdout, ended.stderr)


def assert_same(bare: Outcome, captured: Outcome) -> None:
    """Nobody who sees the program only can tell that it was captured."""
    assert (captured.status, captured.output, captured.errors) == (bare.status, bare.output, bare.errors)
