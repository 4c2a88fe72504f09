"""Arguments and options that several verbs share; the end of a help text: examples, and where the pages are that it
names (a wheel has them in the package, a clone beside it); and what ``--limit NAME=VALUE`` may say.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from symd.config import DEFAULT_LIMITS, MIB, SERVER_VARIABLE, Limits, default_server
from symd.errors import Unavailable
from symd.model.addresses import LATEST_TIME
from symd.model.sources import PathRule, parse_rule
from symd.system.installed import shipped
from symd.system.messages import alike

Verb = TypeVar("Verb", bound=Callable[..., Any])


_NAMED_LIMITS = "symd.cli.options.named_limits"


def parse_limits(context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> Limits:
    """``NAME=VALUE`` texts to limits."""
    context.meta[_NAMED_LIMITS] = {each.partition("=")[0] for each in values}
    return limits_of(values) if values else DEFAULT_LIMITS


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


def context_options(verb: Verb) -> Verb:
    """``--context`` and ``--time``, by which a verb about FILE is asked about a device address instead."""
    of_context = click.option(
        "--context",
        metavar="CONTEXT",
        is_eager=True,  # what else is given is looked at with regard to it
        help="Treat QUERY as a device address in this context of a daemon (see symd daemon contexts); omit FILE.",
    )
    of_time = click.option(
        "--time",
        type=click.IntRange(0, LATEST_TIME),
        callback=_time_in_context,
        metavar="NANOSECONDS",
        help="With --context: the time to answer for, by the context's clock.  [default: now, or when the last module was unloaded]",
    )
    return of_context(of_time(verb))


def _time_in_context(context: click.Context, _parameter: click.Parameter, time: int | None) -> int | None:
    if time is not None and context.params.get("context") is None:
        raise click.UsageError("--time is only for device addresses: it needs --context")
    return time


def needed_without_context(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """The value of an argument that may be missing where ``--context`` is given, and nowhere else."""
    if value in (None, ()) and context.params.get("context") is None and not context.resilient_parsing:
        raise click.MissingParameter(ctx=context, param=parameter)
    return value


_file_or_device_argument = click.argument(
    "file", metavar="FILE", required=False, callback=needed_without_context, shell_complete=complete_files
)


def file_or_device_verb(verb: Verb) -> Verb:
    """The arguments of a verb that reads one module, or what is at a device address: those of ``file_verb``, --context
    and --time."""
    return _file_or_device_argument(server_option(limit_option(json_option(context_options(verb)))))


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
    """The folder of the pages, where it is on this machine."""
    try:
        return str(shipped("docs"))
    except Unavailable:
        return ""


_LIMIT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)", re.ASCII)
_KIB: Final = 1 << 10
_SIZES: Final = MappingProxyType(
    {"": 1, "B": 1} | {f"{letter}{end}": _KIB**power for power, letter in enumerate("KMGT", 1) for end in ("", "iB")}
)
_COUNTS: Final = MappingProxyType({"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12})
_SECONDS: Final = MappingProxyType({"": 1.0, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0})
_BYTES: Final = frozenset(("bytes_in_flight", "client_bytes_in_flight", "expansion", "open_indexes"))
"""Limits that are sizes, though their names do not end as those of others do."""
_SIZE_ENDINGS: Final = ("_size", "_memory", "_bytes", "_disk")


class LimitKind(NamedTuple):
    """What a limit counts: its units, and the values that it may have where ``_RANGES`` says no others."""

    what: str
    units: MappingProxyType[str, int] | MappingProxyType[str, float]
    lowest: float
    highest: float
    examples: str


SIZE: Final = LimitKind("a size", _SIZES, 1, 1 << 50, "bytes, or with K, M, G or T (also KiB, MiB, ...), as 64M")
COUNT: Final = LimitKind("a number", _COUNTS, 1, 1 << 40, "a whole number, or with K, M, G or T (thousands), as 4M")
TIME: Final = LimitKind("a time", _SECONDS, 0.001, 2_000_000, "seconds, or with ms, s, min, h or d, as 90s")
_INT32: Final = (1 << 31) - 1
_WORKER: Final = 128 * MIB
"""Less address space, and Python with its libraries does not start."""
_RANGES: Final[MappingProxyType[str, tuple[float, float]]] = MappingProxyType(
    {
        "build_memory": (_WORKER, SIZE.highest),
        "driver_memory": (_WORKER, SIZE.highest),
        "daemon_memory": (_WORKER, SIZE.highest),
        "free_disk": (0, SIZE.highest),
        "connections": (1, _INT32),
        "calls_per_connection": (1, _INT32),
    }
    | dict.fromkeys(("aliases", "contexts"), (0, COUNT.highest))
)
"""Lowest and highest value of the limits that have others than their kind: 0 where "none" is sensible; what gRPC counts
in 32 bits."""
_SMALLER_FIRST: Final = (
    ("client_bytes_in_flight", "bytes_in_flight", "one client can never have its share"),
    ("response_bytes", "client_bytes_in_flight", "a response that is allowed is refused as BUSY, always"),
    ("bytes_in_flight", "daemon_memory", "calls are ended for want of memory before the limit is reached"),
    ("module_size", "store_size", "a module that is allowed does not fit into the store"),
)


def limit_kind(name: str) -> LimitKind:
    """What the limit of this name counts."""
    if isinstance(getattr(DEFAULT_LIMITS, name), float):
        return TIME
    return SIZE if name in _BYTES or name.endswith(_SIZE_ENDINGS) else COUNT


def limits_of(texts: tuple[str, ...]) -> Limits:
    """``NAME=VALUE`` texts to limits. Raises click.BadParameter, which says what may be written."""
    chosen: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.BadParameter(f"{text!r} is not a limit and its value; write NAME=VALUE, such as module_size=4G")
        _check_limit_name(name)
        chosen[name] = _limit(name, value)
    return Limits(**chosen)


def limit_contradictions(limits: Limits) -> Iterator[str]:
    """A sentence for each limit that has no effect, or makes another one useless."""
    for smaller, larger, meaning in _SMALLER_FIRST:
        if getattr(limits, smaller) > getattr(limits, larger):
            values = [f"{name} ({limit_text(name, getattr(limits, name))})" for name in (smaller, larger)]
            yield f"{values[0]} is more than {values[1]}: {meaning}"


def limit_text(name: str, value: float) -> str:
    """A value in the unit that it is read in."""
    of = limit_kind(name)
    if of is TIME:
        return f"{value:,.3f}".rstrip("0").rstrip(".") + " s"
    if of is COUNT:
        return f"{round(value):,}"
    unit = max((unit for unit in ("", "KiB", "MiB", "GiB", "TiB") if value >= _SIZES[unit] and not value % _SIZES[unit]),
               key=_SIZES.__getitem__, default="")  # fmt: skip
    return f"{round(value) // round(_SIZES[unit])} {unit or 'B'}"


def limit_range(name: str) -> tuple[float, float]:
    """The lowest and the highest value of a limit."""
    of = limit_kind(name)
    return _RANGES.get(name, (of.lowest, of.highest))


def _check_limit_name(name: str) -> None:
    known = Limits._fields
    if name in known:
        return
    holding = [each for each in known if name and name.lower() in each]
    near = alike(name.lower(), known, 3, 0.5) or holding[:3]
    meant = (
        f"did you mean {' or '.join(near)}?"
        if near
        else f"{_folder() or 'docs'}/reliability.md lists them, such as module_size"
    )
    raise click.BadParameter(f"there is no limit {name!r}; {meant}")


def _limit(name: str, text: str) -> float:
    of, (lowest, highest) = limit_kind(name), limit_range(name)
    span = f"from {limit_text(name, lowest)} to {limit_text(name, highest)}"
    match = _LIMIT.fullmatch(text)
    if not match or match[2] not in of.units:
        raise click.BadParameter(f"{name}: {text!r} is not {of.what}; write {of.examples}; {span}")
    value = float(match[1]) * of.units[match[2]]
    if not (math.isfinite(value) and lowest <= value <= highest):
        raise click.BadParameter(f"{name}: {text!r} is out of range; {span}")
    if of is TIME:
        return value
    if value != int(value):
        raise click.BadParameter(f"{name}: {text!r} is not a whole number; {span}")
    return int(value)
