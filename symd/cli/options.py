"""Arguments and options that several verbs share, and the end of a help text: examples, and where the pages are that it
names (a wheel has them in the package, a clone beside it).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from symd.cli.limit_values import limits_of
from symd.config import DEFAULT_LIMITS, SERVER_VARIABLE, Limits, default_server
from symd.errors import Unavailable
from symd.model.sources import PathRule, parse_rule
from symd.system.installed import shipped

Verb = TypeVar("Verb", bound=Callable[..., Any])


_NAMED_LIMITS = "symd.cli.options.named_limits"


def parse_limits(context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> Limits:
    """``NAME=VALUE`` texts to limits."""
    context.meta[_NAMED_LIMITS] = {each.partition("=")[0] for each in values}
    if not values:
        return DEFAULT_LIMITS
    return limits_of(values)


def names_limit(context: click.Context, name: str) -> bool:
    """Whether the command was given this limit."""
    return name in context.meta[_NAMED_LIMITS]


def parse_rules(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[PathRule, ...]:
    """``FROM=TO`` texts to rules for source paths."""
    return tuple(map(parse_rule, values))


def complete_files(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete the name of a file."""
    return [CompletionItem(incomplete, type="file")]


file_argument = click.argument("file", shell_complete=complete_files)


def server_value(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    """The address of a daemon; None for "none", and where nobody names one."""
    if text == "default":
        return default_server()
    return None if text in ("", "none") else text


def named_server(server: str | None, out: Path | None) -> str | None:
    """What --server says beside --out: "" for "none", and None where nobody names a daemon, or only the environment
    does and ``out`` is named."""
    source = click.get_current_context().get_parameter_source("server")
    is_environments = source is ParameterSource.ENVIRONMENT
    return None if source is ParameterSource.DEFAULT or (out is not None and is_environments) else server or ""


def server_option_that(
    does: str, callback: Callable[[click.Context, click.Parameter, str | None], str | None] = server_value
) -> Callable[[Verb], Verb]:
    """``--server``, whose help says what it ``does``; ``callback`` reads its value."""
    return click.option(
        "--server",
        metavar="ADDRESS",
        envvar=SERVER_VARIABLE,
        show_envvar=True,
        callback=callback,
        help=does,
    )


_ADDRESS = "at unix:PATH, HOST:PORT or tls:HOST:PORT"
server_option = server_option_that(
    f'Ask the daemon {_ADDRESS} instead of parsing here; FILE may then be modules/SHA256, or the beginning of it. "default" is the'
    ' daemon that runs here, "none" means no daemon.'
)
module_server_option = server_option_that(
    f'Ask the daemon {_ADDRESS} instead of parsing here; --module may then name modules/SHA256. "default" is the daemon that runs'
    ' here, "none" means no daemon.'
)


def _daemon_value(context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    if text == "none" and context.get_parameter_source("server") is ParameterSource.COMMANDLINE:
        raise click.BadParameter("this verb asks a daemon: name one, or leave --server out for the one that runs here")
    return server_value(context, parameter, text)


daemon_option = server_option_that(f"The daemon {_ADDRESS}.  [default: the one that runs here]", callback=_daemon_value)


def timeout_option(seconds: float, does: str) -> Callable[[Verb], Verb]:
    """``--timeout``, by default ``seconds``; its help says what it ``does``."""
    return click.option(
        "--timeout",
        type=click.FloatRange(0, min_open=True),
        default=seconds,
        show_default=True,
        metavar="SECONDS",
        help=does,
    )


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")


def shown_anyway(*names: str) -> Callable[[Verb], Verb]:
    """Flags by which other tools show what a verb always shows: taken, and not in its help."""
    return click.option(*names, "shown_anyway", is_flag=True, hidden=True, expose_value=False)


object_option = click.option("--object", "path", metavar="PATH", help="Use only the code object at this nesting path.")

debug_option = click.option(
    "--debug",
    metavar="DEBUGFILE",
    shell_complete=complete_files,
    help="A separate file with FILE's debug data: the output of symd slim or objcopy --only-keep-debug, the unstripped object, a .dwo file, a .dwp package, the ID.dbg.spv of a SPIR-V module, or a folder of such files. Files next to FILE are found without this option.",
)

demangle_option = click.option(
    "-C", "--demangle", is_flag=True, help="Show C++ names as they are written in the source."
)

target_option = click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="TARGET",
    help="Look only in code objects for this target, such as gfx90a or sm_80; can be given several times.",
)

every_option = click.option(
    "--all", "every_address", is_flag=True, help="Show every statement address of exactly this line."
)

rules_option = click.option(
    "--map",
    "rules",
    multiple=True,
    metavar="FROM=TO",
    callback=parse_rules,
    help="Look below TO for source files whose paths begin with FROM; the first matching rule applies.",
)

source_root_option = click.option(
    "--source-root",
    "roots",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=(Path(),),
    show_default="the working directory",
    help="Read source files only below this folder and below each TO of --map.",
)

limit_option = click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=VALUE",
    callback=parse_limits,
    help="Change a limit, such as module_size=4G, build_seconds=5min or batch=1M; docs/reliability.md lists them.",
)


def file_verb(verb: Verb) -> Verb:
    """The arguments of every verb that reads one module: FILE, --server, --limit and --json."""
    return file_argument(server_option(limit_option(json_option(verb))))


EXAMPLE = "\b\nExample:\n"
"""What is in front of the examples of a help."""


def first_example(command: click.Command) -> str:
    """The first line of a command's example; "" where it has none."""
    _, found, lines = (command.epilog or "").partition(EXAMPLE)
    return lines.partition("\n")[0].strip() if found else ""


def example(text: str) -> str:
    """An epilog that keeps its lines."""
    return EXAMPLE + "\n".join(f"  {line}" for line in text.splitlines())


class DocumentedContext(click.Context):
    """The context of a command whose help ends with where ``docs/`` is, if it names a page."""

    def get_help(self) -> str:
        """Called by click for --help."""
        text = super().get_help()
        return f"{text}\n\ndocs/ is {folder}" if "docs/" in text and (folder := _folder()) else text


def documented(command: click.Command) -> click.Command:
    """The command, with such contexts for itself and the commands below it."""
    command.context_class = DocumentedContext
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        documented(each)
    return command


def _folder() -> str:
    try:
        return str(shipped("docs"))
    except Unavailable:
        return ""
