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

from symd.cli.advice import profile_for_a_module, usage_text
from symd.cli.options import documented, example
from symd.cli.output import MISUSED, write_build_log
from symd.cli.process import Terminated, blocking_streams, cleaned_up
from symd.cli.start import INTERRUPTED, end, version_text
from symd.engine.files.gc_control import gc_frozen
from symd.errors import BuildFailed, InvalidInput, StoreUnavailable, SymdError, UnknownFormat
from symd.model.addresses import is_number
from symd.model.texts import alike
from symd.system.messages import complain, os_error_text

VERBS: tuple[tuple[str, str], ...] = (
    ("info", "Show what is inside files, at any depth of nesting."),
    ("symbolize", "Turn addresses into source lines."),
    ("lines", "Print the decoded line table."),
    ("locate", "Turn a source line into addresses for breakpoints."),
    ("variables", "Show which variables are in scope at an address, and where they live."),
    ("names", "Find functions, kernels and source files by name."),
    ("listing", "Show source beside instructions (disassembly)."),
    ("view", "Show source beside instructions in the browser, or write it as a page."),
    ("extract", "Write each code object to a file of its own."),
    ("hot", "Show the hottest lines, instructions or kernels of a profile."),
    ("profile", "Add source lines to a profile, or convert it for a viewer."),
    ("batch", "Add source lines to samples in a Parquet file."),
    ("annotate", "Add source lines to a crash log or other text."),
    ("core", "Show every stopped warp or wave in a GPU core dump."),
    ("run", "Run a program and capture the modules that it builds."),
    ("attach", "Capture the modules of a process that is already running."),
    ("collect", "Take modules from compiler caches and dump folders."),
    ("grab", "Build a module with a real driver and take its debug data."),
    ("check", "Check SPIR-V against the rules of the Level Zero environment."),
    ("verify", "Compare symd's reading of the debug data with pyelftools'."),
    ("serve", "Run the daemon: gRPC on a Unix socket, or on TCP if you ask for it."),
    ("daemon", "Manage a daemon: status, modules, health, token, store, stop, ..."),
    ("setup", "Set up a shell, a debugger or an assistant; copy the samples."),
    ("doctor", "Show which drivers, devices and tools are here, and what to install."),
    ("slim", "Strip an AMD code object, keeping its debug data in a second file."),
    ("addr2line", "Answer in the format of binutils' addr2line."),
    ("llvm-symbolizer", "Answer in the format of llvm-symbolizer."),
    ("status", "Show how a daemon is doing."),
    ("health", "Ask whether a daemon is serving."),
    ("stop", "Stop your daemon."),
    ("modules", "List the modules that a daemon has."),
    ("rm", "Remove modules from a daemon."),
    ("fetch", "Get a module, or one of its source files, from debuginfod servers."),
    ("contexts", "List the processes that loaded modules, and what each loaded when."),
    ("watch", "Follow what happens to modules, and where breakpoints land in them."),
    ("record", "Tell a daemon what a debugger or profiler sees loaded, and where."),
    ("token", "Make a token for a client that connects over TCP."),
    ("store", "Check, repair, clean up or copy the folder of modules and indexes."),
    ("completion", "Print a script that completes verbs, options and files in your shell."),
    ("install-shim", "Let programs that run addr2line or llvm-symbolizer ask symd instead."),
    ("gdb-script", "Print the path of a script that adds GPU source lines to gdb."),
    ("lldb-script", "Print the path of a script that connects LLDB to a daemon."),
    ("mcp", "Answer an assistant over the Model Context Protocol."),
    ("samples", "Copy modules, sources and clients to try symd with."),
)
"""Verb and summary. The verb's module, of the same name with "_" for "-", has a click command of the
name ``command``, but for those of ``_SHARED``."""
_SHARED = {
    "status": ("status", "status"),
    "health": ("status", "health"),
    "modules": ("modules", "modules"),
    "rm": ("modules", "remove"),
    "stop": ("status", "stop"),
    "daemon": ("command_line", "daemon"),
    "setup": ("command_line", "setup"),
    "install-shim": ("setup", "install_shim"),
    "gdb-script": ("setup", "gdb_script"),
    "lldb-script": ("setup", "lldb_script"),
}
"""Module and name of commands that share a module with others."""

SECTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Ask about a file",
        ("info", "symbolize", "lines", "locate", "variables", "names", "listing", "view", "extract"),
    ),
    ("Profiles, logs, core dumps", ("hot", "profile", "batch", "annotate", "core")),
    ("Get modules", ("run", "attach", "collect", "grab")),
    ("Check", ("check", "verify")),
    ("Daemon", ("serve", "daemon")),
    ("Setup", ("setup", "doctor")),
)
"""Headings of the help with their verbs."""

BELOW: dict[str, tuple[str, ...]] = {
    "daemon": ("status", "health", "stop", "modules", "rm", "fetch", "contexts", "watch", "record", "token", "store"),
    "setup": ("completion", "install-shim", "gdb-script", "lldb-script", "mcp", "samples"),
}
"""Verbs that the help shows below another one. They can be typed without it too."""
OTHERS = ("slim", "addr2line", "llvm-symbolizer")
"""Verbs that the help only names."""

_SYNONYMS = {
    "listing": "disas disasm disassemble disassembly objdump nvdisasm",
    "symbolize": "lookup resolve",
    "hot": "top hotspots hottest",
    "info": "readelf cuobjdump inspect",
    "names": "nm functions symbols",
    "lines": "line-table linetable",
    "locate": "break breakpoint",
    "variables": "vars locals",
    "view": "web",
}
"""Verb to words of other tools that do as it does."""
SYNONYMS = {word: verb for verb, words in _SYNONYMS.items() for word in words.split()}
MEANT = {
    "listing": "asm sass isa dump source list x",
    "symbolize": "addr2sym line srcline frames where address bt backtrace stack",
    "annotate": "decode crash log stacktrace",
    "hot": "annotate-profile report-profile perf stat stats analyze",
    "profile": "convert export symbolize-profile flamegraph",
    "info": "file show kernels ls-file",
    "names": "search find grep demangle",
    "lines": "debug-line decodedline",
    "locate": "line2addr addresses",
    "variables": "scope print p ptype types whatis",
    "view": "open browse gui http report",
    "extract": "unpack split unbundle",
    "core": "coredump",
    "run": "capture trace exec launch",
    "collect": "import add ingest cache",
    "grab": "build compile ocloc",
    "check": "spirv-val lint",
    "verify": "compare diff validate",
    "slim": "strip shrink",
    "serve": "start server listen",
    "daemon": "load",
    "daemon modules": "ls",
    "daemon rm": "remove delete forget",
    "daemon contexts": "ps processes",
    "daemon watch": "events follow",
    "daemon status": "ping",
    "daemon stop": "kill shutdown quit",
    "daemon store": "backup copy repair gc",
    "doctor": "diagnose devices drivers",
    "setup": "install config configure",
    "setup gdb-script": "gdb",
    "setup lldb-script": "lldb",
}
"""Verb to words of other tools that may mean it."""

_EXPLAINED = {
    "report": "symd hot -m FILE PROFILE prints the hottest lines, and symd view FILE --profile PROFILE -o PAGE writes a page",
    "examples": "symd setup samples . writes them into this folder",
    "restart": "symd daemon stop ends the daemon, and symd serve starts it",
    **dict.fromkeys(
        ("step", "next", "stepi", "nexti", "finish", "continue", "c", "s", "n"),
        "a debugger runs the program, and symd answers it: docs/tutorials/debugger.md",
    ),
    **dict.fromkeys(
        ("vscode", "code", "editor", "dap"),
        "symd setup samples DIR copies the extension (vscode) and the debug adapter (clients/debug_adapter.py): docs/integrations.md",
    ),
}
"""Words that mean no verb, and what to do."""


def verb_sections() -> list[tuple[str, list[tuple[str, str]]]]:
    """Each heading with its verbs and their summaries."""
    summaries = dict(VERBS)
    return [(heading, [(verb, summaries[verb]) for verb in verbs]) for heading, verbs in SECTIONS]


def full_name(verb: str) -> str:
    """The verb as it is shown: behind the one that the help lists it below."""
    return next((f"{above} {verb}" for above, verbs in BELOW.items() if verb in verbs), verb)


def load_verb(name: str) -> click.Command:
    """The command of a verb, whose module is imported now."""
    with gc_frozen():
        module, attribute = _SHARED.get(name, (name.replace("-", "_"), "command"))
        command: click.Command = getattr(import_module(f"symd.cli.{module}"), attribute)
    return documented(command)


class VerbsBelow(click.Group):
    """A group of verbs that are modules of their own, by the table ``BELOW``."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(BELOW[str(self.name)])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        return load_verb(cmd_name) if cmd_name in BELOW[str(self.name)] else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            said = _no_verb(args[0])
            if self.name == "daemon" and args[0] in ("start", "serve", "run", "up"):
                said = f"no verb 'daemon {args[0]}'; symd serve starts a daemon, symd serve & in the background"
            raise click.UsageError(said, ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        summaries = dict(VERBS)
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, summaries[verb]) for verb in self.list_commands(ctx)])


def _no_verb(typed: str) -> str:
    """What to type instead of a word that is no verb, by its meaning or its spelling."""
    meant = [verb for verb, words in MEANT.items() if typed.lower() in words.split()]
    if typed in _EXPLAINED:
        return f"no verb {typed!r}; {_EXPLAINED[typed]}"
    if not meant:
        meant = [full_name(verb) for verb in alike(typed, [verb for verb, _ in VERBS])]
    return f"no verb {typed!r}; did you mean {' or '.join(meant)}?" if meant else f"no verb {typed!r}"


def _without_verb(words: Sequence[str]) -> str:
    """What to type where a file or an address stands in the place of a verb; "" elsewhere."""
    first, rest = shlex.quote(words[0]), " ".join(map(shlex.quote, words[1:]))
    if os.path.exists(words[0]):  # noqa: PTH110 - pathlib is slow to load
        return f"a verb comes before the file, as in symd info {first} or symd symbolize {first} {rest or 'ADDRESS'}"
    if is_number(words[0]):
        return f"a verb and a file come before the address: symd symbolize {rest or 'FILE'} {first}"
    return ""


def _no_option(option: str, words: Sequence[str]) -> str:
    """What to type instead of an option in front of the verb."""
    if option in ("-v", "-V"):
        return f"symd itself has no option {option}; write symd --version"
    called = f"symd VERB {option}"
    if option in ("-e", "--exe", "--obj"):  # of addr2line and llvm-symbolizer
        called = f"symd symbolize {' '.join(map(shlex.quote, words))}"
    return f"symd itself has no option {option}; a verb's options come after the verb: {called}"


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
        has_verb = any(verb in args for verb, _ in VERBS)  # click takes words out of args
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.possibilities and not has_verb:
                raise
            raise click.UsageError(_no_option(error.option_name, ctx.obj or ()), ctx) from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        args = [SYNONYMS.get(args[0], args[0]), *args[1:]]
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if args[0] == "version":
                raise click.UsageError("no verb 'version'; write symd --version", ctx) from error
            said = _no_verb(args[0])
            raise click.UsageError(said if said.endswith("?") else _without_verb(args) or said, ctx) from error

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return [verb for verb, _ in VERBS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        return load_verb(cmd_name) if cmd_name in dict(VERBS) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        for heading, verbs in verb_sections():
            with formatter.section(heading):
                formatter.write_dl(verbs)
        formatter.write_paragraph()
        formatter.write_text(f"Also: {', '.join(OTHERS)}. The verbs below daemon and setup work without that word too.")


def _print_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"symd {version_text()}")
        context.exit()


@click.group(
    "daemon", cls=VerbsBelow, epilog=example("symd daemon status\nsymd daemon modules 'kernels*'\nsymd daemon stop")
)
def daemon() -> None:
    """Manage a daemon: see how it is doing, what it has and who may use it, and stop it.

    symd serve starts one. Each verb asks the daemon that runs here, unless --server or $SYMD_SERVER names another.
    """


@click.group("setup", cls=VerbsBelow, epilog=example("symd setup completion bash\nsymd setup samples ."))
def setup() -> None:
    """Set up a shell, a debugger, an assistant or other programs to use symd, and copy the samples."""


_BEGIN = """\
symd symbolize FILE ADDRESS              find the source lines of an address
symd run -- ./program                    capture the modules that it builds
symd profile -m FILE profile.pb.gz OUT   add source lines to a profile
symd serve                               start a daemon, and ask it:
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
        "source is compiled first, with -g; symd profile takes profiles, symd annotate logs"
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
