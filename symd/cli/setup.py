"""``symd setup completion``, ``install-shim``, ``gdb-script`` and ``lldb-script``: what a shell runs to complete verbs,
options, choices and file names; scripts of the names llvm-symbolizer and addr2line, for programs that run those
from PATH; and where the commands for debuggers lie."""

from __future__ import annotations

import filecmp
import os
import secrets
import shlex
import shutil
import stat
import sys
from functools import partial
from pathlib import Path

import click
from click.shell_completion import ShellComplete, get_completion_class

from symd.cli.command_line import GROUP
from symd.cli.options import example
from symd.cli.output import SHIM_MARK, write_line
from symd.errors import InvalidInput, Unavailable
from symd.system.atomic_output import output_folder
from symd.system.installed import shipped
from symd.system.messages import os_error_text
from symd.system.private_files import new_file, temporary_folder
from symd.system.symlinks import resolved

NAMES = ("llvm-symbolizer", "addr2line")
_SHIM_BYTES = 4096
"""Bytes from the beginning of a shim in which the mark stands."""


@click.command(
    "install-shim",
    epilog=example(
        "symd setup install-shim ~/.local/share/symd/shims\nPATH=~/.local/share/symd/shims:$PATH trace_processor bundle …"
    ),
)
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False))
@click.option("--force", is_flag=True, help="Replace existing programs of these names.")
def install_shim(folder: str, force: bool) -> None:
    """Write scripts named llvm-symbolizer and addr2line into DIR. They answer for GPU modules, and pass everything else
    on to the real tools further down in PATH. Put DIR first in PATH.
    """
    place = output_folder(Path(folder), hint="name another folder")
    try:
        for name in NAMES:
            _write_shim(place / name, name, force)
            write_line(str(Path(folder, name)))
    except OSError as error:
        raise InvalidInput(f"cannot be written: {os_error_text(error)}", where=folder) from error


def _write_shim(path: Path, name: str, force: bool) -> None:
    if os.path.lexists(path) and not force and not _is_shim(path):
        raise InvalidInput("another program lies there", where=str(path), hint="choose another folder, or give --force")
    # -P: nothing is imported from the folder in which the script happens to be called (Python, Command line and
    # environment)
    text = f'#!/bin/sh\n{SHIM_MARK}\nexec {shlex.quote(sys.executable)} -P -m symd {name} "$@"\n'
    incoming = path.with_name(f".{name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(new_file(incoming), "w") as stream:
            stream.write(text)
            os.fchmod(stream.fileno(), 0o755)
        incoming.replace(path)
    finally:
        incoming.unlink(missing_ok=True)


def _is_shim(path: Path) -> bool:
    """Whether it is a script of ours, behind no link of another user's. A pipe is none, and is not waited for."""
    with os.fdopen(os.open(resolved(path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb") as stream:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode) and SHIM_MARK.encode() in stream.read(_SHIM_BYTES)


@click.command("gdb-script", epilog=example('gdb -x "$(symd setup gdb-script)" ./program'))
def gdb_script() -> None:
    """Print the path of a script with commands for gdb: symd frames, symd variables, symd locate.

    They run symd in a child process to show source lines of GPU code beside a program that gdb has stopped. In gdb,
    type source PATH, then help symd frames; docs/integrations.md shows a session.
    """
    _write_path("symd_gdb.py")


@click.command("lldb-script", epilog=example('lldb -o "command script import $(symd setup lldb-script)" ./program'))
def lldb_script() -> None:
    """Print the path of a script with commands for LLDB: symd context, symd frames, symd settings.

    They run symd in a child process to tell a daemon which modules LLDB has at which addresses, and to ask it for
    source lines. docs/integrations.md shows a session.
    """
    _write_path("symd_lldb.py")


def _write_path(script: str) -> None:
    write_line(str(Path(__file__).with_name("debuggers") / script))


SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_SYMD_COMPLETE"
"""The environment variable in which the completion script tells symd what to do (``symd.cli.command_line.main``)."""


@click.command(
    "completion",
    epilog=example(
        "symd setup completion bash > ~/.local/share/bash-completion/completions/symd\n"
        "symd setup completion zsh > ~/.zfunc/_symd\n"
        "symd setup completion fish > ~/.config/fish/completions/symd.fish"
    ),
)
@click.argument("shell", required=False, type=click.Choice(SHELLS))
def completion(shell: str | None) -> None:
    """Print the script that completes symd's verbs, options, choices and file names in a shell; by default the one
    that $SHELL names. Save it where the example says, or run it: eval "$(symd setup completion bash)".
    """
    click.echo(script(shell or _own_shell()))


def _own_shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise InvalidInput(
            "$SHELL does not name a shell that symd knows", where=name or "''", hint=f"write one of {', '.join(SHELLS)}"
        )
    return name


def script(shell: str) -> str:
    """What the shell is to run."""
    kind = get_completion_class(shell)
    if kind is None:
        raise InvalidInput("click cannot complete for this shell", where=shell)
    return ShellComplete.source(kind(GROUP, {}, "symd", VARIABLE))  # bash's own looks for a bash of this machine first


COPIED = ("samples", "protos")
"""The clients among the samples are built with the protos beside them."""
_LEFT_OUT = ("__pycache__", "node_modules")


@click.command(
    "samples", epilog=example("symd setup samples .\nsymd symbolize samples/amdgpu/bin/v4-gfx900.co shade+0x80")
)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def samples(folder: Path) -> None:
    """Copy symd's samples to FOLDER/samples, and its protos to FOLDER/protos.

    The samples are modules of every kind that symd reads, with their sources, profiles, core dumps, and clients in
    several languages. Copies from an earlier call are left as they are. Exit code 2: FOLDER has something else with
    these names.
    """
    place = output_folder(folder, hint="name another folder")
    there = [name for name in COPIED if os.path.lexists(place / name)]
    for name in there:
        if (other := _first_other(place / name, shipped(name))) is not None:
            raise InvalidInput(
                f"something else is there already: {other} is not there, or not as symd has it",
                where=str(folder / name),
                hint="name another folder, or remove this one",
            )
    for name in COPIED:
        if name not in there:
            _copy(shipped(name), place / name, folder / name)
        write_line(str(folder / name))


def _copy(original: Path, place: Path, named: Path) -> None:
    """Copy a folder, whole or not at all: the next call would take a part of it for something else. Raises
    ``Unavailable``."""
    try:
        with temporary_folder(".symd-samples-", place.parent) as folder:
            made = folder / place.name
            shutil.copytree(
                original, made, ignore=shutil.ignore_patterns(*_LEFT_OUT), copy_function=partial(_copy_file, named)
            )
            made.rename(place)
    except OSError as error:  # shutil.Error is one too
        raise _refused(error, named) from error


def _copy_file(named: Path, source: str, target: str) -> None:
    try:
        shutil.copy2(source, target)
    except OSError as error:  # else copytree goes on with the others, and lists what each said
        raise _refused(error, named) from error


def _refused(error: OSError, named: Path) -> Unavailable:
    return Unavailable(f"cannot copy: {os_error_text(error)}", where=str(named), hint="name another folder")


def _first_other(folder: Path, original: Path) -> Path | None:
    """The first file of ``original`` that ``folder`` does not have as it is, as a path below both; None where it has
    all."""
    for above, folders, files in os.walk(original):
        folders[:] = [each for each in folders if each not in _LEFT_OUT]
        below = Path(above).relative_to(original)
        for each in files:
            try:
                if filecmp.cmp(Path(above, each), folder / below / each):
                    continue
            except OSError:
                pass
            return below / each
    return None
