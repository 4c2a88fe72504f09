"""``symd grab INPUT``: let a real driver build a module and take its debug data."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import click

from symd.capture.drivers import Confinement, grab
from symd.cli.check import violation_text
from symd.cli.options import complete_files, example, json_option, limit_option, server_option_that
from symd.cli.output import check_output_is_not_input, write_build_log, write_json, write_line
from symd.client import Client
from symd.config import Limits, default_drivers
from symd.engine.files.input import read_input
from symd.errors import NoDebugData, UnknownFormat
from symd.formats import elf
from symd.formats.containers import archive, spirv
from symd.formats.containers.intel import igc_debug
from symd.formats.containers.uri import is_uri
from symd.formats.spirv_rules import Device, check
from symd.formats.spirv_rules.module import PRODUCTS
from symd.model.grabs import Grabbed, GrabRequest, name_for_compiler
from symd.model.texts import in_utf8
from symd.system.atomic_output import write_file
from symd.system.messages import complain

KINDS = ("source", "spirv", "native")
MAGICS: tuple[tuple[bytes, str], ...] = (
    *((magic, "spirv") for magic in spirv.MAGICS),
    (elf.MAGIC, "native"),
    (igc_debug.MAGIC, "native"),
    (archive.MAGIC, "native"),
)
"""First bytes and the kind of input they mean: SPIR-V in both byte orders, ELF, Intel's patch-token binary, ocloc's
archive for several devices."""
APIS = {"source": "opencl", "spirv": "level-zero", "native": "level-zero"}
"""The interface that is asked when nobody chooses one."""
PRINTED_WARNINGS = 10
"""Warnings that are printed, of those that the check finds before the driver is asked."""


@click.command(
    "grab",
    epilog=example(
        "symd grab vadd.spv --simulate dg2 --build-flags=-g -o vadd.dbg\n"
        "symd grab vadd.cl --simulate skl --build-flags='-g -cl-opt-disable' --server unix:/run/user/1000/symd/symd.sock"
    ),
)
@click.argument("file", metavar="INPUT", shell_complete=complete_files)
@click.option("--api", type=click.Choice(["level-zero", "opencl"]), help="Default: opencl for source, else level-zero.")
@click.option("--kind", type=click.Choice(KINDS), help="What INPUT is; by default, its first bytes decide.")
@click.option(
    "--device", default=0, show_default=True, metavar="N", help="The device's number; symd doctor lists them."
)
@click.option("--build-flags", default="", metavar="FLAGS", help="Flags for the driver's compiler; -g is added.")
@click.option("--no-debug", is_flag=True, help="Do not add -g.")
@click.option(
    "--simulate", metavar="PRODUCT", help="Run the real driver without hardware, for skl, tgllp, dg2, pvc, ..."
)
@click.option(
    "--driver",
    metavar="NAME",
    help="Use the driver generation NAME of the daemon or, without --server, of $SYMD_DRIVERS.",
)
@click.option("--driver-root", metavar="DIR", help="A folder with another driver generation; not with --server.")
@click.option("--timeout", default=60.0, show_default=True, metavar="SECONDS", help="How long the driver may take.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the debug data to this file."
)
@server_option_that("Let the daemon at unix:PATH, HOST:PORT or tls:HOST:PORT build the module and keep it.")
@click.option("--no-check", is_flag=True, help="Do not check SPIR-V with symd check before giving it to the driver.")
@click.option("--log", "show_log", is_flag=True, help="Show the build log on stderr even if the build succeeds.")
@limit_option
@json_option
def command(
    file: str,
    api: str | None,
    kind: str | None,
    device: int,
    build_flags: str,
    no_debug: bool,
    simulate: str | None,
    driver: str | None,
    driver_root: str | None,
    timeout: float,
    output: Path | None,
    server: str | None,
    no_check: bool,
    show_log: bool,
    limits: Limits,
    as_json: bool,
) -> None:
    """Build INPUT with a real driver, and take the debug data that the driver has for its kernels.

    INPUT is OpenCL C source, SPIR-V or a native binary; "-" is standard input. SPIR-V is checked first, and anything
    that the driver may fail on is reported on stderr (see symd check). If the build fails, the compiler's whole log
    follows the error on stderr. Intel's compiler gets the name of a source file (-s PATH), unless FLAGS contain -s.
    """
    check_output_is_not_input((output,), (file,))
    name, drivers = _driver(driver, driver_root, server)
    data = read_input(file, limits)
    kind = kind or sniff(data, file)
    label = "standard input" if file == "-" else in_utf8(file)
    interface = api or APIS[kind]
    if kind == "spirv" and not no_check:
        _warn(data, label, _described(simulate, name))
    flags = build_flags if no_debug else with_debug_data(build_flags)
    source = "" if file == "-" or is_uri(file) else name_for_compiler(str(Path(file).absolute()))
    if kind == "source" and source:
        _say_another_name(str(Path(file).absolute()), source, flags)
    request = GrabRequest(interface, kind, data, flags, device, simulate, name, timeout, label, source)
    module, grabbed = _grab(request, server, limits, drivers)
    if show_log and grabbed.build_log:
        write_build_log(grabbed.build_log)
    if output:
        _write(output, grabbed, label)
    _report(request, grabbed, module, output, as_json)


def _say_another_name(path: str, name: str, flags: str) -> None:
    words = flags.split()
    if name != path and "-g" in words and "-s" not in words:
        complain(
            f"{in_utf8(path)}: Intel's compiler cannot be told this name: the debug data says {name}"
            " (rename the file, or map the one to the other with --map)"
        )


def sniff(data: bytes, name: str) -> str:
    """The kind of an input by its first bytes; text is source. Raises ``UnknownFormat``."""
    for magic, kind in MAGICS:
        if data.startswith(magic):
            return kind
    if not data:
        raise UnknownFormat("the file is empty", where=name, hint="give source text, SPIR-V or a native binary")
    try:
        data.decode()
    except UnicodeDecodeError:
        text = False
    else:
        text = b"\0" not in data
    if not text:
        raise UnknownFormat(
            "neither source text nor SPIR-V nor a native binary", where=name, hint="say what it is with --kind"
        )
    return "source"


def with_debug_data(flags: str) -> str:
    """The build flags with ``-g``, unless they say already what debug data is wanted."""
    return flags if any(word.startswith("-g") for word in flags.split()) else f"-g {flags}".strip()


def _described(product: str | None, driver: str) -> Device:
    """The device as far as it is known: a driver that somebody configured may be of either generation."""
    return PRODUCTS.get(product or "", Device()) if not driver else Device()


def _warn(data: bytes, label: str, device: Device) -> None:
    """Say on stderr what of a SPIR-V module the driver may choke on; the driver has the last word."""
    found = [violation for violation in check(data, device).violations if not violation.accepted_in_practice]
    for violation in found[:PRINTED_WARNINGS]:
        complain(f"warning: {label}: {violation_text(violation)}")
    if len(found) > PRINTED_WARNINGS:
        complain(f"warning: {label}: {len(found) - PRINTED_WARNINGS} more (symd check shows them)")


def _driver(name: str | None, root: str | None, server: str | None) -> tuple[str, Mapping[str, str]]:
    """The name of the driver that is asked, and the folders of drivers by name; a folder of the user's is its own name.

    Raises click.UsageError for a folder together with a name or a daemon: no daemon loads libraries from where a client
    says.
    """
    if root is None:
        return name or "", default_drivers() if server is None else {}
    if server is not None:
        raise click.UsageError(
            "--driver-root works only without --server; to use a driver of the daemon, give --driver NAME (symd serve --driver)"
        )
    if name is not None:
        raise click.UsageError("--driver and --driver-root cannot be used together")
    return root, {root: root}


def _grab(
    request: GrabRequest, server: str | None, limits: Limits, drivers: Mapping[str, str]
) -> tuple[str | None, Grabbed]:
    """What the driver gave, and the module's name when a daemon keeps it."""
    if server is None:
        return None, grab(request, limits, drivers, Confinement.NONE)  # the user's own files and flags

    with Client(server) as client:
        summary, grabbed = client.grab(request)
    return f"modules/{summary.sha256}", grabbed


def _write(output: Path, grabbed: Grabbed, label: str) -> None:
    if not grabbed.debug_data:
        raise NoDebugData(f"{grabbed.driver} has no debug data for it", where=label, hint=_why_no_debug_data(grabbed))
    write_file(output, grabbed.debug_data, hint="choose another -o")


def _why_no_debug_data(grabbed: Grabbed) -> str:
    if not grabbed.kernels:
        return "it has no kernels"
    return "build it without --no-debug, from SPIR-V that carries lines or from source"


def _report(request: GrabRequest, grabbed: Grabbed, module: str | None, output: Path | None, as_json: bool) -> None:
    fields = {
        "api": request.api,
        "driver": grabbed.driver,
        "device": grabbed.device,
        "kernels": list(grabbed.kernels),
        "debug_data_size": len(grabbed.debug_data),
        "native_size": len(grabbed.native),
        "sha256": hashlib.sha256(grabbed.debug_data).hexdigest() if grabbed.debug_data else None,
        "module": module,
        "output": str(output) if output else None,
        "build_log": grabbed.build_log,
    }
    if as_json:
        write_json(fields)
        return
    write_line(f"driver      {grabbed.driver}")
    write_line(f"device      {grabbed.device}")
    write_line(f"kernels     {', '.join(grabbed.kernels) or 'none'}")
    write_line(f"debug data  {len(grabbed.debug_data)} bytes" + ("" if output or module else " (keep it with -o FILE)"))
    write_line(f"native      {len(grabbed.native)} bytes")
    for name, value in (("module", module), ("written to", str(output) if output else None)):
        if value:
            write_line(f"{name:<12}{value}")
