"""Which options make compilers write the debug data that a module lacks."""

from __future__ import annotations

from collections.abc import Iterable

from symd.containers.nvidia import cubin
from symd.model.summaries import ObjectSummary

_NVIDIA = "-lineinfo or -G"


def compile_flags(objects: Iterable[ObjectSummary]) -> str:
    """The options for these code objects; nvcc's ``-g`` is about the host's code alone."""
    are_cubins = {item.format == cubin.NAME for item in objects}
    if are_cubins == {True}:
        return _NVIDIA
    return f"-g (of cubins: {_NVIDIA})" if True in are_cubins else "-g"
