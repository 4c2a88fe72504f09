"""The command line: an ordered table of verbs, and the one place where an error becomes a line and an exit code.

A verb's module is imported when the verb is used, so that help and completion come at once."""

from __future__ import annotations

import errno
import fcntl
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import NoReturn, TextIO

import click
from click.shell_completion import shell_complete

from symd.cli.advice import is_refused, usage_text, whole_call, with_call
from symd.cli.call_files import call_text, calls_for, files_among, profile_for_a_module, with_file_first
from symd.cli.options import documented, example
from symd.cli.output import MISUSED, write_build_log
from symd.cli.process import Terminated, blocking_streams, cleaned_up
from symd.cli.start import INTERRUPTED, end, version_text
from symd.cli.unknown_verbs import START, batch_calls, call_at_once, calls_by_options, no_option, no_verb
from symd.cli.verbs import BELOW, OTHERS, SECTIONS, SYNONYMS, VERBS, is_at_once, understood
from symd.engine.files import gc_frozen
from symd.errors import BuildFailed, InvalidInput, StoreUnavailable, SymdError, UnknownFormat
from symd.model.addresses import is_place
from symd.system.messages import complain, os_error_text

_SHARED = {
    "status": ("status", "status"),
    "health": ("status", "health"),
    "rm": ("modules", "remove"),
    "stop": ("status", "stop"),
    "start": ("background", "command"),
    "add": ("modules", "add"),
    "daemon": ("command_line", "daemon"),
    "setup": ("command_line", "setup"),
    "attach": ("collect", "attach"),
    "slim": ("extract", "slim_command"),
    "locate": ("lines", "locate_command"),
    "samples": ("setup", "samples"),
    "completion": ("setup", "completion"),
    "install-shim": ("setup", "install_shim"),
    "gdb-script": ("setup", "gdb_script"),
    "lldb-script": ("setup", "lldb_script"),
}
"""Module and name of commands that share a module with others. The module of any other verb has the verb's name, with
"_" for "-", and its command the name ``command``."""


def load_verb(name: str) -> click.Command:
    """The command of a verb, whose module is imported now."""
    with gc_frozen():
        module, attribute = _SHARED.get(name, (name.replace("-", "_"), "command"))
        command: click.Command = getattr(import_module(f"symd.cli.{module}"), attribute)
    return documented(command)


def _with_calls(said: str, calls: Sequence[Sequence[str]], context: click.Context) -> str:
    """What is said, and behind it those of the calls that would not be refused."""
    shown = " or ".join(filter(None, (whole_call(each, context) for each in calls)))
    is_explained = not calls and "; " in said
    words = context.find_root().obj or ()
    if not shown and not is_explained and (files := files_among(words)):
        places = [word for word in words if is_place(word) and word not in files]
        shown = " or ".join(call_text(each) for each in calls_for(files[0], [*files[1:], *places]))
    if not shown:
        return said.removesuffix(":")
    joint = "" if said.endswith((":", " in")) else " Write" if said.endswith("?") else "; write"
    return f"{said}{joint} {shown}"


class VerbsBelow(click.Group):
    """A group of verbs that are modules of their own, by the table ``BELOW``."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(BELOW[str(self.name)])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        return load_verb(cmd_name) if cmd_name in BELOW[str(self.name)] else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if (verb := SYNONYMS.get(args[0], "")) in BELOW[str(self.name)]:
            args = [verb, *args[1:]]
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            said = _with_calls(*no_verb(args, str(self.name)), ctx)
            if self.name == "daemon" and args[0] in ("serve", "run", "up"):
                said = f"no verb 'daemon {args[0]}'; {START}"
            raise click.UsageError(said, ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Verbs"):
            formatter.write_dl([*BELOW[str(self.name)].items()])


DEFECT = 3
"""Exit code: symd itself is wrong, as where an outside part failed."""
_ANSWERING = (["symbolize"], ["addr2line"], ["llvm-symbolizer"])
"""Verbs that programs run for a few answers: the process ends at once."""
BROKEN_PIPE = 141
"""Exit code: what a shell reports of a program that SIGPIPE ended."""
_WRITE_FAILURES = frozenset((errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))


class Verbs(click.Group):
    """A group that knows its commands from the table."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """``symd help VERB`` is ``symd VERB --help``."""
        if args[:1] == ["help"]:
            args = [*(verb for verb in args[1:2] if verb != "help"), "--help"]
        has_verb = any(verb in args and not files_among([verb]) for verb, _ in VERBS)  # click takes words out of args
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.possibilities and not has_verb and not files_among(ctx.obj or ()):
                raise
            typed = ctx.obj or ()
            for call in () if has_verb else calls_by_options(typed):
                if is_at_once(call) and not is_refused(call, ctx):
                    ctx.obj = tuple(call)
                    return super().parse_args(ctx, list(call))
            raise click.UsageError(_with_calls(*no_option(error.option_name, typed), ctx), ctx) from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        args = understood(args)
        try:
            return self._resolved(ctx, args)
        except click.UsageError as error:
            if (call := call_at_once(args)) and not is_refused(call, ctx):
                ctx.find_root().obj = tuple(call)
                return self._resolved(ctx, understood(call))
            raise click.UsageError(_with_calls(*no_verb(args), ctx), ctx) from error

    def _resolved(self, context: click.Context, words: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(context, words)
        if command is not None and not context.resilient_parsing:
            rest = with_file_first(command, context, rest)
        return name, command, rest

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return [verb for verb, _ in VERBS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        return load_verb(cmd_name) if cmd_name in dict(VERBS) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        for heading, verbs in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([*verbs.items()])
        formatter.write_paragraph()
        formatter.write_text(f"Also: {', '.join(OTHERS)}. Verbs under daemon and setup also work without that word.")


def _print_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"symd {version_text()}")
        context.exit()


@click.group(
    "daemon",
    cls=VerbsBelow,
    epilog=example("symd daemon start\nsymd daemon status\nsymd daemon modules 'kernels*'\nsymd daemon stop"),
)
def daemon() -> None:
    """Manage a daemon: start it, see how it is doing, what it has and who may use it, and stop it.

    Each verb asks the daemon that runs here, unless --server or $SYMD_SERVER names another.
    """


@click.group("setup", cls=VerbsBelow, epilog=example("symd setup completion bash\nsymd setup samples ."))
def setup() -> None:
    """Set up a shell, a debugger, an assistant or other programs to use symd, and copy the samples."""


_BEGIN = """\
symd symbolize FILE ADDRESS              find the source lines of an address
symd run -- ./program                    capture the modules that it builds
symd profile -m FILE profile.pb.gz OUT   add source lines to a profile
symd daemon start                        start a daemon, and ask it:
symd symbolize --server default FILE ADDRESS"""
"""What somebody new types first."""

GROUP = Verbs(
    "symd",
    help=f"Which source line is this GPU instruction?\n\n\b\n{_BEGIN}\n\nsymd VERB --help explains a verb and shows an example.",
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_print_version,
            help="Show the version.",
        )
    ],
    subcommand_metavar="VERB ...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def main() -> NoReturn:
    """The console script."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy's linear algebra starts threads, and nobody here has any
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # symd says itself why there is no connection
    instruction = os.environ.get("_SYMD_COMPLETE")
    if instruction:
        sys.exit(shell_complete(GROUP, {}, "symd", "_SYMD_COMPLETE", instruction))
    with cleaned_up():
        code = invoke(sys.argv[1:])
    end(code, at_once=sys.argv[1:2] in _ANSWERING)


def invoke(arguments: Sequence[str]) -> int:
    """Do what the command line says and return the exit code: 0 answered, 1 the answer is no, 2 wrong input or call,
    3 an outside part failed (or symd itself, then with a traceback)."""
    return ended(partial(_invoke, arguments), is_daemon=arguments[:1] == ["serve"])


def ended(work: Callable[[], int], *, is_daemon: bool = False) -> int:
    """Do some work of the command, and give its exit code, or that of the error it raises, once that is explained."""
    _open_closed_streams(is_daemon=is_daemon)
    sys.stdin, sys.stdout, sys.stderr = (
        blocking_streams(sys.stdin),
        blocking_streams(sys.stdout),
        blocking_streams(sys.stderr),
    )
    _speak_utf8(sys.stdout)
    _speak_utf8(sys.stderr)
    try:
        code = _explained(work)
        sys.stdout.flush()
    except BrokenPipeError:
        _abandon_stdout()
        return BROKEN_PIPE
    except OSError as error:  # of standard output: verbs explain what happens to other files
        _abandon_stdout()
        reason = os_error_text(error)
        return _explain(StoreUnavailable(f"cannot write: {reason}", where="standard output"))
    return code


def _open_closed_streams(*, is_daemon: bool) -> None:
    """Python has None for a stream that was closed when symd was started. An answer that cannot be written is an error,
    as for other programs (write(2): EBADF), so that what is written to such a standard output fails as it is flushed; a
    daemon, of which nobody waits for an answer, goes on. Nobody wants errors told where standard error is closed, and a
    closed standard input says nothing. The descriptors are closed in programs that symd runs, as they were."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: PTH123, SIM115 - as long as the process
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY if is_daemon else os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - open as long as the process


def _invoke(arguments: Sequence[str]) -> int:
    code = 0
    for call in (calls := batch_calls(arguments)):
        code = max(code, _explained(partial(_invoke_one, call)))
        if code >= INTERRUPTED:
            break
    return code if calls else _invoke_one(arguments)


def _invoke_one(arguments: Sequence[str]) -> int:
    try:
        with GROUP.make_context("symd", list(arguments), obj=tuple(arguments)) as context:
            return int(GROUP.invoke(context) or 0)
    except click.BadOptionUsage as error:
        if error.ctx is None and arguments[0] in dict(VERBS):  # click's parser does not say whose option it is
            root = click.Context(GROUP, info_name="symd", obj=tuple(arguments))
            error.ctx = click.Context(load_verb(arguments[0]), root, arguments[0])
        raise
    except click.NoSuchOption as error:
        file = next((each for each in arguments if each.startswith("-") and os.path.lexists(each)), None)
        if file is None:
            raise
        raise click.UsageError(f"{error.format_message().rstrip('.')}; the file is named ./{file}", error.ctx) from None
    except SymdError as error:
        error.hint = with_call(error, arguments)
        raise
    except UnicodeEncodeError as error:  # names of files may be any bytes; messages over gRPC and URLs hold UTF-8
        bad = error.object[error.start : error.end]
        written = next((argument for argument in arguments if bad in argument), None)
        if written is None:
            raise
        raise InvalidInput(
            "this is not UTF-8", where=written, hint="only file names may have bytes that are not UTF-8"
        ) from None


def _explained(work: Callable[[], int]) -> int:
    try:
        return work()
    except (SymdError, click.ClickException) as error:
        return _explain(error)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except Exception as error:  # a defect is shown whole, and must not exit with the code of "no"
        if _is_of_standard_output(error):
            raise
        ending = error.__cause__  # Python 3.11 makes a RuntimeError of what a signal raises where a class is made
        if isinstance(ending, Terminated):
            raise ending from None
        if isinstance(ending, KeyboardInterrupt):
            return INTERRUPTED

        traceback.print_exc()
        return DEFECT


def _is_of_standard_output(error: Exception) -> bool:
    """Whether a write to standard output failed: nobody reads, there is no room, or it is not open for that. The error
    of a file that was opened has its name."""
    if not isinstance(error, OSError) or error.filename is not None:
        return False
    return error.errno in _WRITE_FAILURES or (error.errno == errno.EBADF and _takes_nothing(sys.stdout))


def _takes_nothing(stream: TextIO) -> bool:
    return fcntl.fcntl(stream.fileno(), fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY


_TYPED: Mapping[str, str] = {
    "what a program builds or loads while it runs is captured while it does": (
        "symd run -- PROGRAM takes what a program builds or loads while it runs"
    ),
    "source is compiled first, with -g; a profile or a log is not a module": (
        "source is compiled first, with -g; if it is a log, symd annotate -m MODULE FILE adds source lines to it"
    ),
    "the format of the module says what it is": "symd info FILE says what it is",
}
"""Hints of errors, which clients in other languages get too, and what can be typed instead."""


def _explain(error: SymdError | click.ClickException) -> int:
    """Say what was wrong, and give the exit code."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return MISUSED
    if isinstance(error, click.ClickException):
        complain(usage_text(error))
        return MISUSED
    if isinstance(error, UnknownFormat) and (advice := profile_for_a_module(error.where)):
        error.hint = advice
    error.hint = _TYPED.get(error.hint, error.hint)
    if os.path.isfile(error.where):  # noqa: PTH113 - pathlib is slow to load
        error.hint = error.hint.replace("symd info FILE", f"symd info {shlex.quote(error.where)}")
    complain(str(error))
    if isinstance(error, BuildFailed) and error.build_log:
        write_build_log(error.build_log)
    return error.exit_code


def _speak_utf8(stream: TextIO) -> None:
    """Names from a module may be anything; what UTF-8 cannot say is escaped."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure:
        reconfigure(encoding="utf-8", errors="backslashreplace")


def _abandon_stdout() -> None:
    """Nobody reads any more: let the flush at exit go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
