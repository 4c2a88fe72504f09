"""What to write instead of a call that is wrong: the option that a word belongs to, what other tools call an option,
and an example."""

from __future__ import annotations

import os
import re
import shlex
import sys

import click

from symd.cli.options import first_example

_PROFILE_VERBS = ("profile", "hot", "record")
"""Verbs of which other tools have some that start a program and sample it."""


def usage_text(error: click.ClickException) -> str:
    """What is said of a call that is wrong: click's words, what to write instead, and whose help says more."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    verb = context.command_path if context else "symd"
    said = error.format_message().rstrip(".")
    return f"{said}{_advice(error, said, context)} (see {verb} --help)"


def _advice(error: click.ClickException, said: str, context: click.Context | None) -> str:
    """What to write instead, where that is known."""
    if context is not None and context.info_name in _PROFILE_VERBS and "--" in sys.argv[2:]:
        return "; symd does not sample a program: symd run -- PROGRAM collects its modules, and symd profile and symd hot read what a profiler wrote"
    if isinstance(error, click.NoSuchOption) and re.fullmatch(r"-[0-9]", error.option_name):
        return "; addresses are not negative"
    if isinstance(error, click.NoSuchOption) and context is not None:
        return _other_option(error.option_name, context)
    if said.startswith("Missing ") and "write, for example" not in said and context is not None:
        return f"; write, for example: {shown}" if (shown := first_example(context.command)) else ""
    return _misplaced(error.message, context)


_OPTIONS_MEANT = {
    "--sort": "--by",
    "--csv": "--json",
    "--port": "--address HOST:PORT (gRPC) or --http HOST:PORT (browsers)",
    "--kernel": "--by kernel, or for one kernel symd listing --profile PROFILE --function NAME FILE",
}
"""Options of other tools and what is typed instead, where the verb has it."""


def _other_option(typed: str, context: click.Context) -> str:
    """What to write instead of an option that the verb does not have."""
    meant = _OPTIONS_MEANT.get(typed, "")
    options = {option for each in context.command.params for option in each.opts}
    return f"; write {meant}" if meant.partition(" ")[0] in options else ""


def _misplaced(message: str, context: click.Context | None) -> str:
    """Which option an argument belongs to that is one too many: a module or a profile, a page, a place or a function
    behind FILE."""
    extra = re.fullmatch(r"Got unexpected extra argument \((.+)\)", message, re.DOTALL)
    if extra is None or context is None:
        return ""
    verb, text, word = str(context.info_name), extra[1], shlex.quote(extra[1])
    first, second = (
        shlex.quote(str(next((context.params[each] for each in names if context.params.get(each)), "")))
        for names in (("source", "file"), ("target",))
    )
    options = {option for each in context.command.params for option in each.opts}
    named = next((each for each in ("--function", "--kernel") if each in options), None)
    if verb in _PROFILE_VERBS[:2]:
        words = f"{second} {word}" if verb == "profile" else word
        said = f"modules go after -m: symd {verb} -m {first} {words}"
    elif "--profile" in options and text.endswith((".html", ".htm")):
        said = f"the page's file goes after -o: symd view {first} -o {word}"
    elif "--profile" in options and os.path.exists(text):  # noqa: PTH110 - pathlib is slow to load
        said = f"a profile goes after --profile: symd {verb} {first} --profile {word}"
    elif "--around" in options and re.search(r"\+|^0[xX]|^[0-9]", text):
        said = f"use --around {word}"
    else:
        said = f"use {named} {word}" if named else ""
    return f"; {said}" if said else ""
