"""The independent tools: those of the machine, and NVIDIA's from their wheels."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from tests import tools
from tests.survey.case import ROOT, SurveyError
from tests.survey.measured import run
from tests.survey.registries import Wheel

BUILD = ROOT / "build" / "survey"
"""Where packages are unpacked and results are kept."""
WHEELS = {
    "nvdisasm": Wheel("nvidia-cuda-nvdisasm", "13.5.37"),
    "cuobjdump": Wheel("nvidia-cuda-cuobjdump", "13.5.37"),
    "cuobjdump-12.4": Wheel("triton", "3.1.0"),
}
"""NVIDIA's tools, and the packages that carry them; a version behind the name is an older one."""


@cache
def tool(name: str) -> Path:
    """The path of a tool. NVIDIA's are taken from PyPI in one version, whatever the machine has."""
    wheel = WHEELS.get(name)
    if wheel is None:
        found = tools.find(name)
        if found is None:
            raise SurveyError(f"{name} is not installed; make tools installs it")
        return Path(found)
    folder = BUILD / "tools" / f"{wheel.package}-{wheel.version}"
    if not folder.exists():
        wheel.unpack(folder)
    program = next(folder.rglob(f"bin/{name.partition('-')[0]}"), None)
    if program is None:
        raise SurveyError(f"{wheel} holds no {name}")
    program.chmod(0o755)
    return program


def printed(name: str, *arguments: str | Path) -> str:
    """What a tool prints; what it warns of, and its exit code, are left alone: readelf complains of cubins."""
    return run([tool(name), *arguments], Path(os.sep)).output.decode(errors="replace")
