"""``symd completion SHELL``: the script by which a shell completes symd's verbs, options, choices and file names."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import ShellComplete, get_completion_class

from symd.cli.command_line import GROUP
from symd.cli.options import example
from symd.errors import InvalidInput

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
def command(shell: str | None) -> None:
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
