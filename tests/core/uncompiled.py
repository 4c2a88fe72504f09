"""The modules of the core as plain Python, beside the compiled ones: both must say the same of whatever they are given."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import symd.core


def uncompiled(name: str) -> ModuleType:
    """The module ``symd.core.NAME``, run from its source."""
    spec = spec_from_file_location(f"uncompiled_{name}", Path(symd.core.__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
