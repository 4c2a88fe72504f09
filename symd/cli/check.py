"""``symd check FILE.spv``: would a Level Zero driver take this SPIR-V module?"""

from __future__ import annotations

from dataclasses import asdict
from shlex import quote
from typing import Any

import click

from symd.cli.options import example, file_verb
from symd.cli.output import write_json, write_line
from symd.config import Limits
from symd.engine.files.input import module_beginning, read_input
from symd.engine.files.module import open_module
from symd.errors import InvalidInput
from symd.formats.containers import identify, spirv
from symd.formats.containers.recognized import recognized
from symd.formats.spirv_rules import CheckReport, Device, Violation, check
from symd.formats.spirv_rules.module import PRODUCTS
from symd.model.code import CodeKind

REFUSED = 1
_COMPILE_HINT = "clang --target=spirv64 -c, ocloc compile and llvm-spirv write SPIR-V"


@click.command(
    "check",
    epilog=example("symd check kernel.spv\nsymd check --device 26.27:bmg kernel.spv"),
)
@file_verb
@click.option(
    "--device",
    "properties",
    default="",
    metavar="[PRODUCT,]KEY=VALUE,...",
    help="A product as its driver describes it, such as 22.43:dg2 or 26.27:bmg (without a generation: the older one that has it), and features: images, fp16_module,"
    " fp64_module, int64_atomics (booleans, default true), fp16, fp32, fp64 (atomic flags such as"
    " GLOBAL_ADD+LOCAL_MIN_MAX, default none) and spirv_max (default 1.4).",
)
@click.option("--strict", is_flag=True, help="Also exit with 1 if the module breaks rules that drivers do not enforce.")
def command(file: str, server: str | None, limits: Limits, as_json: bool, properties: str, strict: bool) -> int:
    """Check the SPIR-V module FILE against the rules of the Level Zero environment.

    A broken rule is an error, or "unsupported" if a device may accept the module but does not have to. Exit code 1: a
    driver would refuse the module. FILE can be "-" for standard input; with --server it can be modules/SHA256.
    """
    device = Device.parse(properties, PRODUCTS)
    report = check(_module(file, server, limits), device)
    if as_json:
        write_json(report_json(report))
    else:
        _write(file, report, refused=report.refused(strict=strict))
    return REFUSED if report.refused(strict=strict) else 0


def _module(file: str, server: str | None, limits: Limits) -> bytes:
    """The bytes to check. A daemon is asked for a module it has; files are judged here, well-formed or not."""
    if server is None or module_beginning(file) is None:
        data = read_input(file, limits)
        _check_kind(data, file)
        return data
    with open_module(file, server, limits) as module:
        found = [item.path for item in module.summary().objects if item.kind is CodeKind.SPIRV]
        if not found:
            raise InvalidInput("the module holds no SPIR-V", where=file, hint="symd info shows what it holds")
        return module.symbolizer.object_data(module.digest, found[0])


def _check_kind(data: bytes, file: str) -> None:
    """Raises InvalidInput for what is plainly something else."""
    found = identify(data)
    if found is not None and found.NAME != spirv.NAME:
        shown = quote(file)
        hint = f"write symd verify {shown}, which checks its debug data; symd extract {shown} DIR writes SPIR-V that it holds"
        raise InvalidInput(f"it is of the format {found.NAME}, not SPIR-V", where=file, hint=hint)
    if found is None and (known := recognized(data)) is not None:
        raise InvalidInput(f"this is {known[0]}, not SPIR-V", where=file, hint=_COMPILE_HINT)


def report_json(report: CheckReport) -> dict[str, Any]:
    return {"valid": report.valid, "violations": [asdict(violation) for violation in report.violations]}


def _write(file: str, report: CheckReport, *, refused: bool) -> None:
    for violation in report.violations:
        write_line(violation_text(violation))
    errors = sum(violation.severity == "error" for violation in report.violations)
    verdict = "refused" if refused else "valid" if report.valid else "taken in practice"
    noun = "error" if errors == 1 else "errors"
    write_line(f"{file}: {verdict}, {errors} {noun}, {len(report.violations) - errors} unsupported")


def violation_text(violation: Violation) -> str:
    """One violation as a line."""
    accepted = " [drivers take it]" if violation.accepted_in_practice else ""
    return f"{violation.offset:#x}: {violation.severity}: {violation.message} ({violation.rule}){accepted}"
