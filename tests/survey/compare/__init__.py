"""Comparisons by name: symd's reading of a file beside an independent tool's. To add one, write a function that takes a
`Case` and returns what it `Compared`, and give it a name here."""

from __future__ import annotations

from collections.abc import Callable

from tests.survey.case import Case, Compared
from tests.survey.compare import (
    elf_symbols,
    embedded_spirv,
    hpcstruct,
    llvm_symbolizer,
    nvidia_tools,
    offloading,
    pyelftools,
    source_text,
    spirv_tools,
)

COMPARISONS: dict[str, Callable[[Case], Compared]] = {
    "images": offloading.images,
    "bundler": offloading.bundled,
    "kernels": elf_symbols.kernels,
    "functions": elf_symbols.functions,
    "llvm": llvm_symbolizer.frames,
    "pyelftools": pyelftools.debug_data,
    "nvdisasm": nvidia_tools.positions,
    "cuobjdump": nvidia_tools.cubins,
    "embedded-spirv": embedded_spirv.modules,
    "spirv-kernels": spirv_tools.kernels,
    "spirv-positions": spirv_tools.positions,
    "source-text": source_text.answers,
    "hpcstruct": hpcstruct.lines,
}
