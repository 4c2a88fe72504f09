"""What setuptools is told beside pyproject.toml: a wheel carries the samples, the protos, the documents and the units of this repository too,
below ``symd/shipped``. In a checkout they lie where they are."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
SHIPPED = ("docs", "packaging", "protos", "samples")
NOT_SHIPPED = shutil.ignore_patterns("__pycache__", "*.py[cod]", "node_modules", ".*", "images")


class BuildWithSamples(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for name in SHIPPED:
                into = Path(self.build_lib) / "symd" / "shipped" / name
                shutil.rmtree(into, ignore_errors=True)
                shutil.copytree(ROOT / name, into, ignore=NOT_SHIPPED)


setup(cmdclass={"build_py": BuildWithSamples})
