"""Every call of symd that a document shows is one that symd takes: the verb, its options, its arguments."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from symd.cli.command_line import GROUP
from symd.cli.verbs import BELOW, full_name, understood

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path.parent.name != "api"),
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "samples").rglob("*.md")),
]
VERBS = [full_name(verb) for verb in GROUP.list_commands(click.Context(GROUP)) if verb not in BELOW]
IN_DEBUGGERS = {"frames", "context", "settings"}
"""Commands that the scripts for gdb and LLDB add to these."""
ELSEWHERE = re.compile(r"[|;&<]|\s\d?>|\s#\s")
"""What ends a call in a line of the shell."""


def calls(text: str) -> Iterator[str]:
    """The calls in indented lines and blocks, with their arguments, and those in the text between backquotes."""
    fence = ""
    for line in text.splitlines():
        if line.startswith("```"):
            fence = "" if fence else line
        elif fence not in ("```text", "```ini", "```python") and (fence or line.startswith("    ")):
            yield from re.findall(r"(?:^|[|;&]|exec symd )\s*(?:\w+=\S+ )*(symd [^|;&<#]*)", line)
        elif not fence:
            yield from (span for span in re.findall(r"`([^`]+)`", line) if span.startswith("symd "))


def refusal(call: str) -> str:
    """Why symd does not take the call; "" where it does. What stands for something left out ends it."""
    if call.split()[1] in IN_DEBUGGERS:
        return ""
    call = re.sub(r"\[(-[^\]]*)\]", r"\1", call)
    words = shlex.split(ELSEWHERE.split(re.split(r"\s(?:…|\.\.\.)", call)[0])[0])[1:]
    words = understood(words)
    command: click.Command = GROUP
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name = words.pop(0)
        found = command.get_command(click.Context(command), name)
        if found is None:
            return f"no verb {name}"
        command = found
    context = click.Context(command, **command.context_settings)
    try:
        _, left, _ = command.make_parser(context).parse_args(list(words))
    except click.BadOptionUsage as error:  # a mere mention, such as `symd profile --to`
        return "" if error.message.endswith("requires an argument.") else error.format_message()
    except click.UsageError as error:
        return error.format_message()
    return f"too much: {left}" if left and not context.allow_extra_args else ""


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_calls_that_a_document_shows_are_calls_of_symd(document: Path) -> None:
    shown = [call for call in calls(document.read_text()) if re.fullmatch(r"[a-z][\w-]*", call.split()[1])]
    refused = {call: said for call in shown if (said := refusal(call))}
    assert not refused


def test_the_check_sees_what_is_wrong() -> None:
    text = "    symd info --nothing x\n\n`symd extract a b c` and `symd nonsense`\n\n    cat x | symd symbolize --objs f\n    symd info kernel.co  # what\n"
    said = [refusal(call) for call in calls(text)]
    assert [bool(each) for each in said] == [True, True, True, True, False]


def test_every_verb_stands_in_the_table_of_questions() -> None:
    page = (ROOT / "docs" / "which-command.md").read_text()
    assert not [verb for verb in VERBS if f"`symd {verb}" not in page]
