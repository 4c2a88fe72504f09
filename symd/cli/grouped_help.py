"""Help of a verb with many options: under headings, in the order in which somebody new asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click


class GroupedCommand(click.Command):
    """``groups`` are the options by heading, each by its first name; what stands in none comes last, under "Other"."""

    def __init__(self, *arguments: Any, groups: Mapping[str, Sequence[str]], **values: Any) -> None:
        super().__init__(*arguments, **values)
        self.groups = groups

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Called by click when it writes the help."""
        shown = {
            parameter.opts[-1 if parameter.opts[0].startswith("-") and len(parameter.opts[0]) == 2 else 0]: record
            for parameter in self.get_params(ctx)
            if (record := parameter.get_help_record(ctx)) is not None
        }
        grouped = {name for names in self.groups.values() for name in names}
        groups = {**self.groups, "Other": [name for name in shown if name not in grouped]}
        for heading, names in groups.items():
            with formatter.section(heading):
                formatter.write_dl([shown[name] for name in names])
