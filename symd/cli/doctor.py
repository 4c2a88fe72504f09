"""``symd doctor``: which drivers, devices and tools are here, and what to install."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from textwrap import wrap
from typing import Any

import click

from symd import __version__
from symd.capture.drivers import DriverReport, survey
from symd.capture.drivers.runner import cuda_report
from symd.cli.options import example, json_option
from symd.cli.output import NO, printable, write_json, write_line
from symd.cli.start import built_commit, version_text
from symd.client import Client
from symd.config import default_server
from symd.errors import SymdError
from symd.query.disasm import llvm, nvidia, spirv
from symd.query.disasm.disassembler import library
from symd.system.installed import chosen_folders
from symd.system.process.process import ProcessLimits
from symd.system.process.run import run_tool

_DAEMON_SECONDS = 5.0
"""The longest a daemon may take to say that it is there."""
VERSION_LIMITS = ProcessLimits(seconds=10.0, memory=4096 << 20, answer=1 << 20)
"""What a program may cost that is asked for its version."""


@dataclass(frozen=True, slots=True)
class Tool:
    """An outside program or library, by the names it may have; ``install`` is what to do when none is here."""

    name: str
    names: tuple[str, ...]
    purpose: str
    install: str


_LLVM = tuple(f"-{number}" for number in range(22, 13, -1))
TOOLS: tuple[Tool, ...] = (
    Tool(
        "ocloc", ("ocloc",), "compile kernels for Intel devices that are not here", "apt-get install intel-opencl-icd"
    ),
    Tool("libiga64", ("iga64",), "disassemble Intel code", "apt-get install libigc1"),
    Tool("llvm-objdump", ("llvm-objdump",), "disassemble AMD code", llvm.INSTALL),
    Tool(
        "llvm-symbolizer",
        ("llvm-symbolizer", *(f"llvm-symbolizer{end}" for end in _LLVM)),
        "a second opinion",
        "apt-get install llvm",
    ),
    Tool("nvdisasm", ("nvdisasm",), "disassemble NVIDIA code", nvidia.INSTALL),
    Tool("spirv-dis", ("spirv-dis",), "disassemble SPIR-V", spirv.INSTALL),
    Tool("c++filt", ("c++filt",), "readable C++ names (symbolize -C)", "apt-get install binutils"),
)
"""What symd can use, in the order of the report. Names that begin with "lib" are shared libraries."""
_DISASSEMBLERS: Mapping[str, Callable[[], Sequence[str]]] = {
    "llvm-objdump": llvm.installed_programs,
    "nvdisasm": nvidia.installed_programs,
}
"""Where listings find these themselves, the best first."""


@dataclass(frozen=True, slots=True)
class ToolReport:
    """What ``symd doctor`` says of a tool; ``path`` and ``version`` are None where it is not here or does not say."""

    tool: str
    path: str | None
    version: str | None
    purpose: str
    hint: str


@click.command("doctor", epilog=example("symd doctor\nsymd doctor --json | jq '.drivers[] | select(.problem != \"\")'"))
@click.option("--driver-root", metavar="DIR", help="Look at another driver generation in this folder.")
@json_option
def command(driver_root: str | None, as_json: bool) -> int:
    """Show which drivers, devices and tools are installed, and what to install.

    Exit code 1: no driver works, not even simulated, so symd grab cannot work.
    """
    answering = survey(driver_root)
    drivers = [*answering, cuda_report()]
    daemon = daemon_report()
    tools = [look_for(tool) for tool in TOOLS]
    if as_json:
        write_json(_report(drivers, tools) | {"daemon": daemon})
    else:
        _print(drivers, tools, daemon)
    return 0 if any(report.devices for report in answering) else NO


def look_for(tool: Tool) -> ToolReport:
    """Where a tool is and what it calls itself."""
    path = _library(tool) if tool.name.startswith("lib") else _program(tool)
    says = None if path is None or tool.name.startswith("lib") else _version(path)
    return ToolReport(tool.name, path, says, tool.purpose, "" if path else tool.install)


def _program(tool: Tool) -> str | None:
    """Folders of SYMD_TOOLS come first, as they do for those who use the tool."""
    if tool.name in _DISASSEMBLERS:
        return next(iter(_DISASSEMBLERS[tool.name]()), None)
    chosen = [shutil.which(name, path=folder) for folder in chosen_folders() for name in tool.names if "/" not in name]
    return next((path for path in (*chosen, *map(shutil.which, tool.names)) if path), None)


def _library(tool: Tool) -> str | None:
    chosen = [
        path for folder in chosen_folders() for name in tool.names for path in Path(folder).glob(f"lib{name}.so*")
    ]
    return next((str(path) for path in (*chosen, *map(library, tool.names)) if path), None)


def daemon_report() -> dict[str, str]:
    """Whether a daemon answers where commands and clients look for one by default."""
    address = ""
    try:
        address = default_server()
        with Client(address, timeout=_DAEMON_SECONDS) as client:
            says = f"symd {client.server_info().version} answers"
    except SymdError as error:
        says = error.message
    return {"address": address, "says": says}


def _version(path: str) -> str | None:
    """The line with a digit that the program says of itself first."""
    try:
        ended = run_tool([path, "--version"], VERSION_LIMITS, environment=os.environ)
    except SymdError:
        return None
    lines = ended.answer.decode("utf-8", "replace").splitlines() if ended.ending.status == 0 else []
    return next((line.strip() for line in lines if any(character.isdigit() for character in line)), None)


def _report(drivers: Sequence[DriverReport], tools: Sequence[ToolReport]) -> dict[str, Any]:
    return {
        "symd": __version__,
        "commit": built_commit() or None,
        "python": platform.python_version(),
        "packages": {name: _package(name) for name in ("numpy", "grpcio", "protobuf", "pyelftools")},
        "drivers": [asdict(report) for report in drivers],
        "tools": [asdict(tool) for tool in tools],
    }


def _package(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _print(drivers: Sequence[DriverReport], tools: Sequence[ToolReport], daemon: Mapping[str, str]) -> None:
    write_line(f"symd {version_text()}, Python {platform.python_version()}")
    write_line(f"daemon{f' at {address}' if (address := daemon['address']) else ''}: {daemon['says']}")
    write_line()
    # those of $COLUMNS, or 80, where it is no terminal: this is for people, --json for programs
    columns = shutil.get_terminal_size().columns
    answering = [_driver_row(each) for each in drivers if not each.problem]
    if answering:
        _write_table(("interface", "simulated", "driver: devices"), answering, columns)
        write_line()
    problems: dict[str, list[str]] = {}
    for report in drivers:
        if report.problem:
            said = f"{report.problem}; {report.hint}" if report.hint else report.problem
            problems.setdefault(said, []).append(f"{report.api}, {report.simulate or 'hardware'}")
    for said, where in problems.items():
        for line in _wrapped(printable(f"{'; '.join(where)}: {said}"), columns, "  "):
            write_line(line)
        write_line()
    _write_table(("tool", "for what: here"), [_tool_row(tool) for tool in tools], columns)


def _driver_row(report: DriverReport) -> tuple[str, str, str]:
    return report.api, report.simulate or "hardware", f"{report.driver or '-'}: {', '.join(report.devices)}"


def _wrapped(text: str, columns: int, indent: str) -> list[str]:
    """The text in lines that fit; names of packages and paths, which people copy, stay whole."""
    return wrap(text, columns, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def _tool_row(tool: ToolReport) -> tuple[str, str]:
    here = f"{tool.path} ({tool.version})" if tool.version else tool.path
    return tool.tool, f"{tool.purpose}: {here or f'not found; {tool.hint}'}"


def _write_table(headings: Sequence[str], rows: Sequence[Sequence[str]], columns: int) -> None:
    """Columns side by side; what does not fit into a line goes on below the last one."""
    table = [headings, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)][:-1]
    indent = " " * min(sum(widths) + 2 * len(widths), columns // 2)
    for *cells, last in table:
        line = "".join(f"{cell:{width}}  " for cell, width in zip(cells, widths, strict=True)) + last
        for part in _wrapped(line, columns, indent):
            write_line(part)
