"""``symd man``: the manual pages, made of the same text as ``--help``.

Source: man-pages(7) for the sections, groff_man(7) for the macros."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from symd import __version__
from symd.cli import GROUP, VERBS, verb_sections
from symd.cli.command_line import BELOW, OTHERS
from symd.cli.options import example
from symd.system.atomic_output import output_folder, write_file

_EXIT_CODES = (
    ("0", "answered"),
    ("1", "the answer is no: something that was named does not exist, a check failed; the verb's text says what"),
    ("2", "the call or the input is wrong, or a limit was reached"),
    ("3", "an outside part failed (driver, daemon, disk, tool) or refuses: a daemon without the right token"),
)
_HINT = "name a folder that you may write to"
_VARIABLES = (
    ("SYMD_SERVER", "The daemon that every verb with --server asks, where none is named."),
    ("SYMD_STORE", "The folder where a daemon keeps modules and indexes."),
    ("SYMD_TOKEN, SYMD_TOKEN_FILE", "The bearer token that is shown to a daemon over TCP, or the file that holds it."),
    ("SYMD_TLS_CA, SYMD_TLS_CERT, SYMD_TLS_KEY", "Whom to trust over TLS, and what to show."),
    ("NO_COLOR, FORCE_COLOR", "No colours, or colours where there is no terminal."),
)


@click.command(
    "man", epilog=example("symd setup man symbolize | man -l -\nsymd setup man --directory ~/.local/share/man/man1")
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write all pages into this folder, which is created if necessary: symd.1, and symd-VERB.1 for each verb.",
)
@click.argument("verb", required=False)
def command(directory: Path | None, verb: str | None) -> None:
    """Write the manual page of VERB, or of symd, to standard output, or with --directory all of them into a folder.

    For man symd and man symd-symbolize to find them, use a folder named man1 inside one that $MANPATH or manpath lists, such as
    ~/.local/share/man.
    """

    context = click.Context(GROUP, info_name="symd")
    if directory is None:
        found = GROUP if verb is None else GROUP.resolve_command(context, [verb])[1]
        click.echo(page(found or GROUP, "symd" if verb is None else f"symd {verb}"), nl=False)
        return
    if verb is not None:
        raise click.UsageError("--directory writes all pages: it takes no VERB")
    place = output_folder(directory, hint=_HINT)
    write_file(place / "symd.1", page(GROUP, "symd").encode(), hint=_HINT)
    for name, _ in VERBS:
        each = GROUP.get_command(context, name)
        if each is not None:
            write_file(place / f"symd-{name}.1", page(each, f"symd {name}").encode(), hint=_HINT)


def page(command: click.Command, name: str) -> str:
    """One page, as groff reads it."""
    return "".join(f"{line}\n" for line in _lines(command, name))


def _lines(command: click.Command, name: str) -> Iterator[str]:

    title = name.replace(" ", "-")
    context = click.Context(command, info_name=name)
    summary = dict(VERBS).get(name.removeprefix("symd "), "Which source line is this GPU instruction?")
    yield f'.TH "{title.upper()}" "1" "" "symd {__version__}" "symd"'
    yield ".SH NAME"
    yield f"{_text(title)} \\- {_text(summary.rstrip('.?'))}"
    yield ".SH SYNOPSIS"
    yield f"\\fB{_text(name)}\\fR {_text(' '.join(command.collect_usage_pieces(context)))}"
    yield ".SH DESCRIPTION"
    yield from _paragraphs(command.help or "")
    if isinstance(command, click.Group):
        yield from _verbs() if name == "symd" else _commands(command, context)
    yield from _options(command, context)
    yield from _epilog(command.epilog or "")
    yield ".SH EXIT STATUS"
    for code, meaning in _EXIT_CODES:
        yield from _item(code, meaning)
    yield ".SH ENVIRONMENT"
    for variables, meaning in _VARIABLES:
        yield from _item(variables, meaning)
    yield ".SH SEE ALSO"
    yield ", ".join(rf"\fB{_text(f'symd-{verb}')}\fR(1)" for verb, _ in VERBS) if name == "symd" else r"\fBsymd\fR(1)"


def _verbs() -> Iterator[str]:

    yield ".SH VERBS"
    for heading, verbs in verb_sections():
        yield f".SS {_text(heading)}"
        for verb, summary in verbs:
            yield from _item(verb, summary)
    summaries = dict(VERBS)
    for above, below in BELOW.items():
        yield f".SS Below {above}"
        for verb in below:
            yield from _item(verb, summaries[verb])
    yield ".SS Others"
    for verb in OTHERS:
        yield from _item(verb, summaries[verb])


def _commands(group: click.Group, context: click.Context) -> Iterator[str]:
    yield ".SH COMMANDS"
    for each in group.list_commands(context):
        yield from _item(each, _first_sentence(group, context, each))


def _first_sentence(group: click.Group, context: click.Context, name: str) -> str:
    found = group.get_command(context, name)
    return (found.help or "").strip().split(".")[0] if found else ""


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    records = [record for each in command.get_params(context) if (record := each.get_help_record(context))]
    records = [(names, text) for names, text in records if text]
    if records:
        yield ".SH OPTIONS"
        for names, text in records:
            yield from _item(names, text)


def _epilog(text: str) -> Iterator[str]:
    """Blocks that begin with a backspace keep their lines, as click has it; the last one is the examples."""
    for block in text.split("\n\n"):
        lines = block.strip("\n").splitlines()
        if lines[:1] != ["\b"]:
            yield from (".PP", *_paragraphs(block)) if lines else ()
            continue
        lines = lines[1:]
        if lines[0].startswith("Example"):
            yield ".SH EXAMPLES"
            lines = lines[1:]
        else:
            yield ".PP"
        yield ".nf"
        yield from (_text(re.sub(r"^ {2}", "", line)) for line in lines)
        yield ".fi"


def _paragraphs(text: str) -> Iterator[str]:
    for number, block in enumerate(re.split(r"\n\s*\n", text.strip())):
        if number:
            yield ".PP"
        lines = [line.strip() for line in block.splitlines()]
        if lines[0] == "\b":
            yield from (".nf", *map(_text, lines[1:]), ".fi")
        else:
            yield _text(" ".join(lines))


def _item(name: str, text: str) -> Iterator[str]:
    yield ".TP"
    yield f"\\fB{_text(name)}\\fR"
    yield _text(" ".join(text.split()))


def _text(text: str) -> str:
    """Text that groff prints as it stands."""
    escaped = (
        text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga").replace("^", "\\(ha")
    )
    escaped = escaped.replace("~", "\\(ti").replace("\x08", "")
    escaped = "".join(character if character.isascii() else f"\\[u{ord(character):04X}]" for character in escaped)
    return f"\\&{escaped}" if escaped.startswith(".") else escaped
