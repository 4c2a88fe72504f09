"""symd as a user has it: its modules compiled, in an environment without the tools that develop it."""

from __future__ import annotations

import compileall
import shutil
import sysconfig
import venv
from pathlib import Path

from benchmarks.peers import CACHE

SOURCE = Path(__file__).parents[1] / "symd"


SCRIPT = """\
#!{python}
import sys
from symd.cli.start import main
if __name__ == "__main__":
    sys.exit(main())
"""
"""What pip makes of the entry point in pyproject.toml."""


def command() -> Path:
    """``symd`` in an environment with a copy of symd as it is now; what symd depends on is shared."""
    folder = CACHE / "installed"
    interpreter = folder / "bin" / "python"
    if not interpreter.exists():
        venv.create(folder)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    shutil.rmtree(packages / "symd", ignore_errors=True)
    shutil.copytree(SOURCE, packages / "symd", ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(packages / "symd", quiet=1)
    script = folder / "bin" / "symd"
    script.write_text(SCRIPT.format(python=interpreter), encoding="utf-8")
    script.chmod(0o755)
    return script
