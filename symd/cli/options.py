"""Arguments and options that several verbs share, spelled the same everywhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from symd.config import Limits

if TYPE_CHECKING:
    from symd.model.sources import PathRule

Verb = TypeVar("Verb", bound=Callable[..., Any])

_VALUE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMG]?)", re.ASCII)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_limits(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> Limits:
    """``NAME=VALUE`` texts to limits; a value may end in K, M or G (powers of 1024)."""
    limits = Limits()
    for text in values:
        name, _, value = text.partition("=")
        if name not in {field.name for field in fields(Limits)}:
            known = ", ".join(field.name for field in fields(Limits))
            raise click.BadParameter(f"there is no limit {name!r}; there are {known}")
        limits = replace(limits, **{name: _number(value, type(getattr(limits, name)))})
    return limits


def _number(text: str, kind: type) -> Any:
    match = _VALUE.fullmatch(text)
    if not match:
        raise click.BadParameter(f"{text!r} is not a number with K, M, G or nothing after it")
    return kind(float(match[1]) * _UNITS[match[2]])


def parse_rules(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[PathRule, ...]:
    """``FROM=TO`` texts to rules for source paths."""
    from symd.query.paths import parse_rule  # noqa: PLC0415 - most commands have no rules

    return tuple(map(parse_rule, values))


file_argument = click.argument("file")

server_option = click.option(
    "--server",
    metavar="ADDRESS",
    help="Ask the daemon at unix:PATH, HOST:PORT or tls:HOST:PORT instead of parsing here; FILE may then be modules/SHA256.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")

object_option = click.option("--object", "path", metavar="PATH", help="Only the code object at this nesting path.")

debug_option = click.option(
    "--debug",
    metavar="DEBUGFILE",
    help="Where the debug data of FILE stands when it is apart, as symd slim leaves it; the whole object will do too.",
)

demangle_option = click.option("-C", "--demangle", is_flag=True, help="Show C++ names as they were written.")

every_option = click.option("--all", "every_address", is_flag=True, help="Every statement address of just this line.")

rules_option = click.option(
    "--map",
    "rules",
    multiple=True,
    metavar="FROM=TO",
    callback=parse_rules,
    help="Source paths that begin with FROM begin with TO here; the first rule that fits counts.",
)

limit_option = click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=VALUE",
    callback=parse_limits,
    help="Change a budget against hostile input, such as module_size=4G.",
)


def file_verb(verb: Verb) -> Verb:
    """The arguments of every verb that reads one module: FILE, --server, --limit and --json."""
    return file_argument(server_option(limit_option(json_option(verb))))


def example(text: str) -> str:
    """An epilog that keeps its lines."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in text.splitlines())
