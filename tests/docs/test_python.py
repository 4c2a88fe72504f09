"""docs/python.md and docs/notebook.ipynb run as they stand."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import server as server  # noqa: PLC0414 - a fixture, shared

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "python.md"
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"


def test_the_page_runs_from_top_to_bottom(server: str, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    shutil.copy(ROOT / "samples" / "kernels" / "bin" / "vadd" / "dg2-opt.dbg", tmp_path / "kernel.dbg")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    program = tmp_path / "page.py"
    program.write_text("\n".join(blocks))
    command = [sys.executable, "-W", "ignore::ResourceWarning", str(program)]
    environment = {"PYTHONPATH": str(ROOT), "SYMD_SERVER": server, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    (first, *_) = done.stdout.splitlines()
    assert f"    {first}\n" in PAGE.read_text()
    assert "missing.dbg: cannot read the file: no such file or directory\n" in done.stdout
    assert "\nTrue\n" in done.stdout
    assert done.stdout.count(first) >= 2


EXECUTE = """
import sys, nbclient, nbformat
from jupyter_client import AsyncKernelManager

notebook = nbformat.read(sys.argv[1], as_version=4)
manager = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=sys.argv[2])  # a folder: no port that others may take
resources = {"metadata": {"path": sys.argv[3]}}
nbclient.NotebookClient(notebook, km=manager, timeout=300, startup_timeout=300, resources=resources).execute()
nbformat.write(notebook, sys.argv[4])
"""


def test_the_notebook_runs_and_is_kept_without_outputs(tmp_path: Path) -> None:
    for package in ("pandas", "pyarrow", "nbclient", "ipykernel"):
        pytest.importorskip(package)
    kept = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert not [cell["id"] for cell in kept if cell["outputs"] or cell["execution_count"]]
    executed = tmp_path / "executed.ipynb"
    names = [str(each) for each in (NOTEBOOK, tmp_path / "kernel", NOTEBOOK.parent, executed)]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "IPYTHONDIR": str(tmp_path),
        "JUPYTER_RUNTIME_DIR": str(tmp_path),
    }
    command = [sys.executable, "-W", "ignore", "-c", EXECUTE, *names]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    code = [cell for cell in json.loads(executed.read_text())["cells"] if cell["cell_type"] == "code"]
    shown = [str(output.get("data", output.get("text"))) for cell in code for output in cell["outputs"]]
    assert len(shown) == len(code)
    assert "raycast.sm_100.lines.cubin" in shown[0]
    assert "raycast.cu:" in shown[1]
    assert "write ADDRESS" in shown[-1]
