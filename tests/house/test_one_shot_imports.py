"""``symd symbolize FILE ADDRESS`` is a process that answers one question: what that does not need is not imported. Each module costs
it up to a few milliseconds, for every caller, every time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parents[2] / "samples"
FILES = {
    "amdgpu/bin/v4-gfx900.co": "shade+0x40",
    "cuda/bin/raycast.sm_90.debug.cubin": "_Z7raycastPfi6float3+0x100",
    "kernels/bin/filters/igc2-dg2-opt.zebin": "smooth+0x40",
}
"""A code object of each maker, and a question about it."""
NEVER = (
    *(
        "grpc",
        "google",
        "sqlite3",
        "asyncio",
        "ssl",
        "elftools",
        "importlib.metadata",
        "email",
        "numpy.ma",
    ),
    *(
        "symd.api",
        "symd.client",
        "symd.rpc.channel",
        "symd.engine.engine",
        "symd.engine.indexes",
        "symd.store",
        "symd.server",
        "symd.rpc.wire",
        "symd.v1",
    ),
    *(
        "symd.engine.reading",
        "symd.cores",
        "symd.engine.contexts",
        "symd.profiles",
        "symd.capture.drivers",
        "symd.query.disasm",
        "symd.system.process",
        "symd.capture",
    ),
    *(
        "symd.debuginfo.variables",
        "symd.debuginfo.embedded_sources",
    ),
    *(
        "symd.query.function_names",
        "symd.query.demangled",
        "symd.query.function_spellings",
        "symd.query.rust_names",
        "symd.query.names",
    ),
    *("symd.query.line_tables", "symd.query.variables", "symd.query.source_files", "symd.query.breakpoints"),
    *(
        "symd.model.arguments",
        "symd.model.breakpoints",
        "symd.model.contexts",
        "symd.model.names",
        "symd.model.variables",
        "symd.model.line_tables",
    ),
    *(
        "symd.formats.containers.nvidia.core_sections",
        "symd.formats.containers.amd.core_state",
    ),
)
"""Modules and packages, with all that is in them."""
NOT_FOR_EVERY_MAKER = {
    "yaml": "kernels",
    "symd.formats.spirv": "kernels",
    "symd.debuginfo.spirv": "kernels",
}
"""Modules that only files of one folder of samples need: Intel's files hold YAML and SPIR-V."""


@pytest.mark.parametrize("file", FILES)
def test_a_question_about_one_file_imports_nothing_that_it_does_not_need(file: str) -> None:
    options = ["--server", "none"]  # with an option even a question that could be is not read plainly
    command = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "symd",
        "symbolize",
        *options,
        str(SAMPLES / file),
        FILES[file],
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "symd.query.symbolize" in imported
    others = [name for name, folder in NOT_FOR_EVERY_MAKER.items() if not file.startswith(f"{folder}/")]
    assert not [name for name in sorted(imported) for each in (*NEVER, *others) if f"{name}.".startswith(f"{each}.")]


@pytest.mark.parametrize("module", ["symd.server.access_file", "symd.server.http.colouring"])
def test_what_tokens_and_colours_need_of_the_server_is_not_the_daemon(module: str) -> None:
    script = f"import sys, {module}; sys.exit(repr([name for name in ('grpc', 'symd.engine') if name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr.strip() == "[]"
