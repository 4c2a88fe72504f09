"""``symd view FILE -o PAGE``: the page of one module as one file, to keep or to send."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from symd.cli.listing import missing_text
from symd.cli.output import printable, say
from symd.cli.view import ShownPage
from symd.engine.files.module import kernel_names
from symd.model.names import Match, NameKind, NameQuery
from symd.model.texts import counted, file_label, plural
from symd.server.http.report import answers_of, kernels_of, report
from symd.system.atomic_output import write_file_or_stdout


def write_page(shown: ShownPage, file: str, target: str, kernels: Sequence[str], variables: int) -> None:
    """Write the page of FILE to ``target``, with the variables at so many instructions of each kernel. Of a module of
    many kernels those with the most samples are in it, or the first, unless ``kernels`` names others. Raises
    KernelNotFound for a name that nothing has."""
    site = shown.site()
    names = [name for each in kernels for name in _kernels_called(shown, each)]
    chosen, left_out = kernels_of(site, shown.digest, names)
    answers, problems = answers_of(site, shown.digest, chosen, variables)
    page = report(answers, file_label(Path(file).name))
    write_file_or_stdout(target, page, hint="choose another PAGE")
    if target != "-":
        say(f"written to {target}, {len(page):,} bytes")
    _say_missing_sources(shown)
    for problem, count in problems.items():
        click.echo(
            f"symd: {count} of {counted(len(chosen), 'kernel')} {plural(count, 'has', 'have')} no instructions in the page: {printable(problem)}",
            err=True,
        )
    if left_out:
        further = plural(left_out, "further kernel is", "further kernels are")
        click.echo(f"symd: {left_out} {further} not in the page (--kernel NAME adds one)", err=True)


def _say_missing_sources(shown: ShownPage) -> None:
    """Say of how many source files the page has no text, and why of the first."""
    wanted = NameQuery("*", Match.GLOB, frozenset({NameKind.FILE}))
    files = list(dict.fromkeys(each.name for each in shown.symbolizer.names(shown.digest, wanted)))
    missing = [each for each in shown.sources(shown.digest, files, None) if each.text is None] if files else []
    if missing:
        count = f"{len(missing)} of {counted(len(files), 'source file')}"
        say(
            f"{count} {plural(len(missing), 'is', 'are')} not in the page: {missing[0].file}: {missing_text(missing[0])}"
        )


def _kernels_called(shown: ShownPage, name: str) -> list[str]:
    """The symbols of the kernels that a name means; the name itself where its code is in no kernel."""
    return sorted(kernel_names(shown.symbolizer, shown.digest, name)) or [name]
