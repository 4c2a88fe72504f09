"""``symd report FILE -o PAGE``: the page of one module as one file, to keep or to send."""

from __future__ import annotations

from pathlib import Path

import click

from symd.cli.options import (
    complete_files,
    debug_option,
    example,
    file_argument,
    limit_option,
    rules_option,
    server_option,
)
from symd.cli.output import check_output_is_not_input, printable, say
from symd.cli.view import ShownPage, page_options, shown_module
from symd.config import Limits
from symd.engine.files.module import kernel_names
from symd.model.sources import PathRule
from symd.model.texts import counted, file_label, plural
from symd.system.atomic_output import write_file_or_stdout

VARIABLES = 100
"""Instructions of each kernel whose variables are in a report, where nothing else is said: reading them takes about 15 ms each."""


@click.command(
    "report",
    epilog=example(
        "symd report kernels.zebin -o page.html\nsymd report kernels.zebin --profile stalls.csv --kernel smooth -o page.html"
    ),
)
@file_argument
@click.option(
    "-o",
    "target",
    required=True,
    metavar="PAGE",
    shell_complete=complete_files,
    help='The HTML file to write; "-" for standard output.',
)
@click.option(
    "--kernel", "kernels", multiple=True, metavar="NAME", help="Only this kernel; may be given several times."
)
@click.option(
    "--variables",
    type=click.IntRange(0),
    default=VARIABLES,
    show_default=True,
    metavar="N",
    help="Put in the variables at so many instructions of each kernel, the hottest ones where there is a profile.",
)
@server_option
@debug_option
@page_options
@rules_option
@limit_option
def command(
    file: str,
    target: str,
    kernels: tuple[str, ...],
    variables: int,
    server: str | None,
    debug: str | None,
    profile: str | None,
    identity: str | None,
    roots: tuple[Path, ...],
    rules: tuple[PathRule, ...],
    limits: Limits,
) -> None:
    """Write the page of FILE (symd view) as one HTML file that needs nothing else, to keep or to send.

    It holds the instructions, the source texts that were found, and the samples of the profile. Of a module of many kernels those with the most
    samples are put in, or the first; --kernel names others.
    """
    check_output_is_not_input((target,), (file, debug, profile))
    with shown_module(file, server, limits, debug, profile, identity, roots, rules) as shown:
        from symd.server.http.report import answers_of, kernels_of, report  # noqa: PLC0415 - 4 ms: the help need not wait for the page

        site = shown.site()
        names = [name for each in kernels for name in _kernels_called(shown, each)]
        chosen, left_out = kernels_of(site, shown.digest, names)
        answers, problems = answers_of(site, shown.digest, chosen, variables)
        page = report(answers, file_label(Path(file).name))
        write_file_or_stdout(target, page, hint="choose another PAGE")
        if target != "-":
            say(f"written to {target}, {len(page):,} bytes")
        for problem, count in problems.items():
            click.echo(
                f"symd: {count} of {counted(len(chosen), 'kernel')} {plural(count, 'has', 'have')} no instructions in the report: {printable(problem)}",
                err=True,
            )
        if left_out:
            further = plural(left_out, "further kernel is", "further kernels are")
            click.echo(f"symd: {left_out} {further} not in the report (--kernel NAME puts one in)", err=True)


def _kernels_called(shown: ShownPage, name: str) -> list[str]:
    """The symbols of the kernels that a name means; the name itself where its code is in no kernel."""
    return sorted(kernel_names(shown.symbolizer, shown.digest, name)) or [name]
