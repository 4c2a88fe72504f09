"""``symd run -- PROGRAM...``: a program with its own streams, signals and exit code, and the modules that it builds."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from symd.capture import CaptureCounts, OneAtATime, Sink
from symd.capture.drivers.simulate import simulation
from symd.capture.folder import DumpFolder
from symd.capture.folder_sink import SOURCES, FolderSink, own_folder
from symd.capture.forward import ForwardingSink, Sent
from symd.capture.receiver import Receiver, recover
from symd.capture.run_folder import RunFolder, make_run_folder
from symd.capture.ways import WITHOUT_COMPILER, chosen_ways, environment_for, program_file
from symd.cli.captures_destination import Destination, destination, send_waiting, unanswered
from symd.cli.options import complete_files, example, limit_option, named_server, server_option_that
from symd.config import Limits
from symd.errors import InvalidInput, ToolMissing
from symd.formats.elf.constants import EM_AMDGPU, EM_CUDA, EM_INTELGT
from symd.model.captures import CaptureWay
from symd.model.texts import counted
from symd.system.atomic_output import make_inside, writing
from symd.system.messages import complain, os_error_text
from symd.system.private_files import make_folder
from symd.system.process.programs import ForegroundEnding, ForegroundProgram, SignalMask, end_like, signals_held
from symd.system.symlinks import still_resolved

NOT_EXECUTABLE = 126
"""Exit code: the program is there and cannot be run, as env(1) has it."""
NOT_FOUND = 127
"""Exit code: there is no such program."""
WAYS = {
    CaptureWay.OPENCL_LAYER: "the OpenCL layer",
    CaptureWay.PRELOAD: "the preloaded library",
    CaptureWay.WRAPPER_DRIVER: "the wrapper driver",
    CaptureWay.LISTENER: "Triton's listener",
    CaptureWay.FOLDER: "compilers' dumps",
}
"""The ways into a program that is started, and what the summary calls them."""

_DEVICE_MACHINES: Final = frozenset({EM_AMDGPU, EM_CUDA, EM_INTELGT})
"""Machines of ELF images that devices run."""
_SET_SINCE: Final = ("OPENBLAS_NUM_THREADS", "GRPC_VERBOSITY", "LC_CTYPE")


class ProgramNotStarted(Exception):
    """The program that ``symd run`` was given is not there, or cannot be run."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(str(reason))
        self.reason = reason


@click.command(
    "run",
    context_settings={"allow_interspersed_args": False},
    epilog=example(
        "symd run -- ./your_program --its arguments\nsymd run --out captures --debug-lines -- python train.py"
    ),
)
@server_option_that(
    "Send what is captured to the daemon at unix:PATH, HOST:PORT or tls:HOST:PORT; by default to yours, if it is running."
)
@click.option(
    "-o",
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep what is captured in this folder. Without --out, --server or a running daemon, symd creates a folder in its cache, or a temporary one if it cannot write there.",
)
@click.option(
    "--debug-lines",
    is_flag=True,
    help="Build OpenCL C that has no -g with options for line tables, which do not change the code.",
)
@click.option(
    "--way",
    "ways",
    multiple=True,
    type=click.Choice([way.value for way in WAYS]),
    help="Capture only in this way; can be given several times. By default, every way that reaches the program is used.",
)
@click.option(
    "--simulate",
    metavar="PRODUCT",
    help="Give PROGRAM Intel's real drivers with a simulated device (skl, tgllp, dg2, pvc, ...): modules are built, but kernels do not run.",
)
@click.option("--quiet", is_flag=True, help="Print nothing at the end if all went well.")
@limit_option
@click.argument(
    "program",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    metavar="PROGRAM [ARGUMENT]...",
    shell_complete=complete_files,
)
def command(
    server: str | None,
    out: Path | None,
    debug_lines: bool,
    ways: tuple[str, ...],
    simulate: str | None,
    quiet: bool,
    limits: Limits,
    program: tuple[str, ...],
) -> int:
    """Run PROGRAM and keep each GPU module that it builds or loads through Level Zero, OpenCL, CUDA, HIP or Triton.

    PROGRAM shares symd's standard streams, terminal and signals. symd exits with PROGRAM's exit code or dies by the
    same signal. At the end, a line on stderr says what was captured and where it is.
    """
    _check_no_module(program[0])
    simulated = _simulated(simulate) if simulate else {}
    chosen = destination(program[0], out, named_server(server, out))
    run = make_run_folder()
    sent: Sent | None = None
    try:
        lines = chosen if debug_lines else None
        environment = _environment(program[0], tuple(map(CaptureWay, ways)), run, lines)
        ending, counts, sent = _run_captured(program, environment | simulated, run, chosen, limits)
    except ProgramNotStarted as error:
        is_line = len(program) == 1 and " " in program[0] and isinstance(error.reason, FileNotFoundError)
        hint = f" (each argument is a word of its own: symd run -- {program[0]})" if is_line else ""
        _say(f"{program[0]}: {os_error_text(error.reason)}{hint}")
        return NOT_FOUND if isinstance(error.reason, FileNotFoundError) else NOT_EXECUTABLE
    finally:
        run.end()
        gone = chosen.tidy(sent)
        recover(limits)
    if sent is not None and not sent.left:
        send_waiting(chosen.address)
    is_elsewhere = bool(chosen.why_there) and not gone
    was_told_nothing = sent is not None and not sent.left and not sent.events
    nobody = unanswered(chosen.address) if was_told_nothing else ""
    went_well = counts.went_well and not nobody and (sent is None or not (sent.left or sent.refused))
    if not quiet or is_elsewhere or not went_well:
        advice = "" if simulate or counts.saw_modules or _has_device() else NO_DEVICE
        parts = (*summary(counts), *where(counts, chosen, sent, gone=gone), nobody, advice)
        _say("; ".join(filter(None, parts)))
    return end_like(ending)


def _check_no_module(program: str) -> None:
    """Raises InvalidInput where the program is a code object, which no host runs."""
    if "/" not in program and shutil.which(program):
        return
    with contextlib.suppress(OSError), Path(program).open("rb") as stream:
        head = stream.read(20)
        if head.startswith(b"\x7fELF") and int.from_bytes(head[18:20], "little") in _DEVICE_MACHINES:
            raise InvalidInput(
                "is a module, not a program",
                where=program,
                hint="symd run -- PROGRAM runs what loads it; symd info FILE shows what is in it",
            )


NO_DEVICE = "there is no GPU here: symd run --simulate dg2 gives the program Intel's drivers without one, and symd doctor says what is installed"
_DEVICES = ("dri/renderD*", "kfd", "nvidiactl", "dxg")
"""What drivers open below /dev."""


def _has_device() -> bool:
    return any(any(Path("/dev").glob(pattern)) for pattern in _DEVICES)


def _environment(
    program: str, wanted: Sequence[CaptureWay], run: RunFolder, lines: Destination | None
) -> dict[str, str]:
    """The program's environment; ``lines`` is where captures go where lines are asked for."""
    ways = chosen_ways(wanted, program_file(program, os.environ))
    sources = lines.folder / SOURCES if lines is not None else None
    if lines is not None and sources is not None:
        with writing(sources, "choose another --out"):
            if lines.named:
                still_resolved(lines.folder)
            else:
                make_folder(lines.folder, parents=True, exist_ok=True)
            make_inside(lines.folder)
            sources = own_folder(sources)
    try:
        return environment_for(ways, _own_environment(), run, sources)
    except ToolMissing as error:
        if wanted:
            raise
        _say(f"{error.message}; modules are taken from what compilers dump, without load addresses ({error.hint})")
        return environment_for(WITHOUT_COMPILER, _own_environment(), run, None)


def _own_environment() -> dict[str, str]:
    """The environment of this process without what was set since it began: by ``symd.cli.command_line.main``, and by
    Python's coercion of the locale (PEP 538)."""
    environment = dict(os.environ)
    with contextlib.suppress(OSError):
        entries = Path("/proc/self/environ").read_bytes().split(b"\0")
        began = dict(os.fsdecode(entry).partition("=")[::2] for entry in entries if b"=" in entry)
        for name in _SET_SINCE:
            environment.pop(name, None)
            if name in began:
                environment[name] = began[name]
    return environment


def _run_captured(
    program: Sequence[str], environment: Mapping[str, str], run: RunFolder, chosen: Destination, limits: Limits
) -> tuple[ForegroundEnding, CaptureCounts, Sent | None]:
    kept = FolderSink(chosen.folder, limits.capture_bytes, follow_links=not chosen.named, private=not chosen.named)
    with kept as folder, signals_held() as mask:
        forwarding = ForwardingSink(folder)
        sink = OneAtATime(forwarding)
        receiver = Receiver(run, sink, limits)
        dumps = _dumps(run, sink, limits) if run.dumps.exists() else None
        try:
            running = _started(program, environment, mask)
            receiver.start()
            if dumps:
                dumps.start()
            with _goes_on(f"the daemon at {chosen.address} gets nothing; modules stay in {chosen.folder}"):
                forwarding.forwarder = chosen.forwarder()
            with _goes_on("modules that are built after a kill of symd would be lost"):
                run.note(chosen.folder, running.process)
            ending = running.wait()
        finally:
            counts = receiver.finish()
            if dumps:
                dumps.finish()
                counts.dumped, counts.dumps_left_out = dumps.modules, dumps.left_out
            sent = forwarding.forwarder.finish() if forwarding.forwarder else None
    return ending, counts, sent


def _simulated(product: str) -> dict[str, str]:
    return simulation(product)


def _dumps(run: RunFolder, sink: Sink, limits: Limits) -> DumpFolder:
    return DumpFolder(run.dumps, sink, limits)


@contextlib.contextmanager
def _goes_on(without: str) -> Iterator[None]:
    """The program runs already, and must not be left: what cannot be done for it is said."""
    try:
        yield
    except OSError as error:
        _say(f"{without} ({os_error_text(error)})")


def _started(program: Sequence[str], environment: Mapping[str, str], mask: SignalMask) -> ForegroundProgram:
    try:
        return ForegroundProgram(program, environment, mask)
    except OSError as error:
        raise ProgramNotStarted(error) from error


def summary(counts: CaptureCounts) -> list[str]:
    """What was captured, how, and what was not: parts of one line."""
    said = []
    if counts.builds:
        through = " and ".join(WAYS[way] for way in WAYS if counts.ways[way])
        said = [
            f"{counted(counts.modules, 'module')} of {counted(counts.builds, 'build')}"
            + (f", through {through}" if through else "")
        ]
    if counts.dumped:
        said.append(f"{counted(counts.dumped, 'module')} from compilers' dumps")
    if not said:
        said.append("no module was built or loaded where symd could see it")
    if counts.dumps_left_out:
        what = counted(len(counts.dumps_left_out), "dumped file")
        said.append(f"{what} left out, the first because: {counts.dumps_left_out[0]}")
    if counts.brought:
        said.append(f"{counted(counts.brought, 'file part')} with device code that the program brought along")
    if counts.failed:
        said.append(f"{counted(counts.failed, 'failed build')}, logs kept")
    return [*said, *_losses(counts)]


def _losses(counts: CaptureCounts) -> list[str]:
    """What did not arrive, or is not kept."""
    said = []
    for lost, whose in ((counts.lost, ""), (counts.said_lost, ", as the program says")):
        if lost:
            said.append(f"{counted(lost, 'record')} could not be handed over{whose}")
    if counts.refusals:
        said.append(f"{counted(counts.refusals, 'message')} refused, the first because: {counts.refused[0]}")
    if counts.untold is not None:
        said.append(f"{counted(counts.untold_events, 'event')} not kept, the first because: {counts.untold}")
    return said


def where(counts: CaptureCounts, chosen: Destination, sent: Sent | None, *, gone: bool) -> list[str]:
    """Where the captured modules are now, as parts of the line that ``symd run`` says at the end."""
    if not counts.saw_modules:
        return []
    said = []
    if sent is not None and sent.left:
        reason = f" ({sent.error})" if sent.error else ""
        said.append(f"not everything reached the daemon at {chosen.address}{reason}, the next symd run sends the rest")
    elif sent is not None:
        said.append(f"sent to {chosen.address}")
        if sent.refused:
            said.append(f"{counted(len(sent.refused), 'event')} refused there, the first because: {sent.refused[0]}")
    reason = f" ({chosen.why_there})" if chosen.why_there else ""
    return said if gone else [*said, f"in {chosen.folder}{reason}"]


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # the program may have been given no standard error
        complain(text)
