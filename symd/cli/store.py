"""``symd store``: what an operator does for a store, by its name: a folder, or a URL of an object storage with a
catalogue."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from symd.cli.options import example, json_option, limit_option, names_limit
from symd.cli.output import NO, progress_bar, write_json, write_line
from symd.config import MIB, UNBOUNDED_STORE, Limits, default_store
from symd.errors import StoreUnavailable
from symd.index import VERSION
from symd.model.identities import Digest
from symd.model.texts import plural
from symd.store import ModuleStore, Store
from symd.store.catalogue import MIGRATIONS
from symd.store.files import disk
from symd.store.folder import StorePaths, check_owner
from symd.store.inspection import Inspection, Progress, StoreFinding, inspect
from symd.store.maintenance import Collected, Copied, Transferred, collect, copy, repair, transfer
from symd.store.shared import shared_urls
from symd.system.private_files import temporary_folder

if TYPE_CHECKING:
    from symd.store.shared.store import SharedStore

_ONE = {"indexes": "index", "aliases": "alias"}
_WHOLE = 1000
"""Characters, more than any first sentence has."""
Verb = TypeVar("Verb", bound=Callable[..., Any])


class _StorePath(click.Path):
    """A store's folder or URL, with what "default" names in its place. It stays text: a path would lose a slash of a
    URL."""

    def __init__(self) -> None:
        super().__init__(file_okay=False, readable=False, path_type=str)  # the store says whose it is

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(named_store(value), param, ctx)


_store_option = click.option(
    "--store",
    "root",
    type=_StorePath(),
    default="default",
    show_default="$SYMD_STORE or the user's cache",
    help='The folder that keeps modules and indexes; "default" is the store of the daemon that runs here.',
)
_catalogue_option = click.option(
    "--catalogue",
    envvar="SYMD_CATALOGUE",
    default="",
    metavar="URL",
    help="The catalogue of a --store in object storage, postgresql://USER@HOST/DATABASE.",
)
_no_catalogue_option = click.option("--catalogue", default="", hidden=True)


class _StoreVerbs(click.Group):
    """A group whose help has the first sentence of each command whole."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.get_short_help_str(_WHOLE)) for name, each in commands if each is not None])


@click.group(
    "store",
    cls=_StoreVerbs,
    epilog=example(
        "symd daemon store check --store /var/lib/symd\nsymd daemon store repair\nsymd daemon store gc --limit store_size=8G"
    ),
)
def command() -> None:
    """Check, repair, tidy or copy the folder that keeps modules and indexes, even while daemons use it."""


@command.command(
    "check",
    epilog=example(
        "symd daemon store check --json\nsymd daemon store check --store s3://symd/modules --catalogue postgresql://symd@db/symd"
    ),
)
@_store_option
@_catalogue_option
@limit_option
@json_option
@click.pass_context
def check(context: click.Context, root: str, catalogue: str, limits: Limits, as_json: bool) -> int:
    """Read every module, every index and the catalogue, and say what is wrong. Exit code 1: something is wrong."""
    shared = is_shared(root, catalogue, by_environment=_by_environment(context))
    with progress_bar("reading") as show:
        told = partial(show, "reading")
        found = shared_urls(root, catalogue, limits).inspected(told) if shared else inspect(Path(root), told)
    _write_findings(found.findings, as_json=as_json)
    if as_json:
        write_json({**_counts(found), "older_schema": found.older_schema, "findings": len(found.findings)})
    else:
        if found.older_schema:
            write_line(
                f"the catalogue has schema {found.older_schema}; the next start upgrades it to {len(MIGRATIONS)}"
            )
        counts = ", ".join(f"{count} {_noun(name, count)}" for name, count in _counts(found).items())
        write_line(f"{counts}: {_verdict(found.findings)}")
    return NO if found.findings else 0


@command.command("repair", epilog=example("symd daemon store repair --store /var/lib/symd"))
@_store_option
@_no_catalogue_option
@limit_option
@json_option
def repair_command(root: str, catalogue: str, limits: Limits, as_json: bool) -> int:
    """Repair what check finds: set damaged modules aside, remove damaged indexes, rebuild a damaged catalogue. Exit
    code 1: something is left that you can only repair by adding modules again or moving files away."""
    folder = folder_of(root, catalogue)
    with progress_bar("reading") as show:
        done = repair(folder, limits, partial(show, "reading"))
    _write_findings(done.after, as_json=as_json)
    if as_json:
        write_json({"before": len(done.before), "after": len(done.after), "rebuilt": done.rebuilt or None})
        return NO if done.after else 0
    if done.rebuilt:
        write_line(done.rebuilt)
    write_line(f"before: {_verdict(done.before)}; now: {_verdict(done.after)}")
    return NO if done.after else 0


@command.command(
    "copy",
    epilog=example(
        "symd daemon store copy --store /var/lib/symd /backup/symd-monday\n"
        "symd daemon store copy /var/lib/symd s3://symd/modules --catalogue postgresql://symd@db/symd"
    ),
)
@_store_option
@click.argument("places", nargs=-1, required=True, metavar="[FROM] TO")
@click.option(
    "--catalogue",
    envvar="SYMD_CATALOGUE",
    default="",
    metavar="URL",
    help="The catalogue of the store that is in object storage, postgresql://USER@HOST/DATABASE; if both are, that of FROM.",
)
@click.option("--to-catalogue", default="", metavar="URL", help="The catalogue of TO, if both are in object storage.")
@limit_option
@json_option
def copy_command(
    root: str, places: tuple[str, ...], catalogue: str, to_catalogue: str, limits: Limits, as_json: bool
) -> int:
    """Copy the store at FROM, or at --store if there is no FROM, to TO, even while daemons use it. Exit code 1: a
    module was damaged and left out.

    "default" as FROM or TO is the store of the daemon that runs here.

    Between folders, TO is created: a store with everything that was acknowledged before the copy began, including
    labels, aliases and contexts. Indexes are rebuilt when they are needed. s3://BUCKET/PREFIX and file:///FOLDER are
    stores that several daemons share: what TO already has stays, indexes are copied too, and an interrupted copy
    resumes when you start it again.
    """
    if len(places) > 2:
        raise click.UsageError("give TO, or FROM and TO")
    source, target = map(named_store, places if len(places) == 2 else (root, places[0]))
    if not is_url(source) and not is_url(target):
        return _copied(copy(Path(source), Path(target)), as_json=as_json)
    one, other = store_places(source, target, catalogue, to_catalogue)
    with progress_bar("copying") as show:
        return _transferred(transferred(one, other, limits, partial(show, "copying")), as_json=as_json)


def _copied(done: Copied, *, as_json: bool) -> int:
    if as_json:
        write_json(asdict(done))
    else:
        _write_damaged(done.damaged)
        write_line(
            f"copied {_several(done.modules, 'module')}, {_several(done.module_bytes, 'byte')}; indexes were not copied and are rebuilt when needed"
        )
    return NO if done.damaged else 0


def _transferred(done: Transferred, *, as_json: bool) -> int:
    if as_json:
        write_json(asdict(done))
    else:
        _write_damaged(done.damaged)
        write_line(
            f"copied {_several(done.modules, 'module')}, {_several(done.module_bytes, 'byte')}, {_several(done.indexes, 'index', 'indexes')};"
            f" {_several(done.there, 'module')} {plural(done.there, 'was', 'were')} there;"
            f" {_several(done.aliases, 'alias', 'aliases')}, {_several(done.contexts, 'context')}"
        )
    return NO if done.damaged else 0


def _write_damaged(damaged: Sequence[Digest]) -> None:
    for digest in damaged:
        write_line(f"modules/{digest} is damaged and was left out (symd store check)")


@command.command(
    "gc",
    epilog=example(
        "symd daemon store gc --limit store_size=8G\n"
        "symd daemon store gc --store s3://symd/modules --catalogue postgresql://symd@db/symd"
    ),
)
@_store_option
@_catalogue_option
@limit_option
@click.option("--damaged", is_flag=True, help="Also remove what was set aside in a folder because it was damaged.")
@json_option
@click.pass_context
def gc_command(context: click.Context, root: str, catalogue: str, limits: Limits, damaged: bool, as_json: bool) -> None:
    """Remove leftovers of interrupted uploads and indexes of older formats; with --limit store_size=SIZE, also the
    least recently used modules beyond that size.

    Without that limit, no module is removed: the store's daemons decide how much it may hold.
    """
    if not names_limit(context, "store_size"):
        limits = limits._replace(store_size=UNBOUNDED_STORE)
    if is_shared(root, catalogue, by_environment=_by_environment(context)):
        gone = collected(root, catalogue, limits)
    else:
        gone = collect(Path(root), limits, damaged=damaged)
    if as_json:
        write_json(asdict(gone))
    else:
        write_line(_removed(gone))


def _by_environment(context: click.Context) -> bool:
    """Whether the environment names the catalogue, perhaps of another store."""
    return context.get_parameter_source("catalogue") is ParameterSource.ENVIRONMENT


def _removed(gone: Collected) -> str:
    what = (
        _several(gone.leftovers, "leftover"),
        f"{_several(len(gone.indexes), 'index', 'indexes')} of older formats",
        f"{_several(len(gone.modules), 'module')} beyond store_size",
        _several(len(gone.damaged), "damaged file"),
    )
    return f"removed {', '.join(what)}"


def _write_findings(findings: Sequence[StoreFinding], *, as_json: bool) -> None:
    for finding in findings:
        if as_json:
            write_json({**asdict(finding), "advice": finding.advice})
        else:
            write_line(f"{finding.kind}  {finding.subject}: {finding.problem} ({finding.advice})")


def _counts(found: Inspection) -> dict[str, int]:
    return {name: count for name, count in asdict(found).items() if name not in ("findings", "older_schema")}


def _verdict(findings: Sequence[StoreFinding]) -> str:
    return _several(len(findings), "finding") if findings else "nothing is wrong"


def _several(count: int, thing: str, things: str = "") -> str:
    return f"{count} {plural(count, thing, things)}"


def _noun(name: str, count: int) -> str:
    """What a field of ``Inspection`` counts, for so many."""
    things = name.replace("_", " ")
    return plural(count, _ONE.get(things) or things.removesuffix("s"), things)


_ONE_SLASH: Final = re.compile(r"(s3:/|file:/)([^/].*)", re.DOTALL)
_WITH_SLASH: Final = {"s3:/": "s3://", "file:/": "file:///"}


def is_url(store: str) -> bool:
    """Whether that is an object storage, and no folder. Raises ``UsageError`` for a URL that lacks a slash, which would
    name a folder."""
    lacking = _ONE_SLASH.fullmatch(store)
    if lacking and not os.path.lexists(store):
        raise click.UsageError(f"{store} lacks a slash: write {_WITH_SLASH[lacking[1]]}{lacking[2]}")
    return "://" in store


_CACHE_SIZE: Final = 1024 * MIB
"""What a copy keeps on this machine of an object storage, at most: each file is read once."""


class StorePlace(NamedTuple):
    """Where a store is. ``folder`` is a path; or ``url`` an object storage, with the URL of its ``catalogue``."""

    folder: str
    url: str = ""
    catalogue: str = ""


def named_store(text: str) -> str:
    """The folder or the URL that ``text`` names; "default" is $SYMD_STORE, or the store in the user's cache."""
    if text != "default":
        return text
    named = os.environ.get("SYMD_STORE", "")
    return named if is_url(named) else str(default_store())


def store_places(source: str, target: str, catalogue: str, target_catalogue: str) -> tuple[StorePlace, StorePlace]:
    """Where a copy comes from and goes to; ``catalogue`` is that of the one that is an object storage, or of the source
    where both are. Raises ``UsageError`` where one is missing or too many."""
    shared = [each for each in (source, target) if is_url(each)]
    given = [each for each in (catalogue, target_catalogue) if each]
    if len(shared) != len(given) or (given and not catalogue):
        raise click.UsageError(
            "each store in object storage needs a catalogue: --catalogue postgresql://HOST/DATABASE, and --to-catalogue for TO if FROM has one too"
        )
    first = _place(source, catalogue)
    return first, _place(target, target_catalogue if first.url else catalogue)


def transferred(source: StorePlace, target: StorePlace, limits: Limits, progress: Progress | None) -> Transferred:
    """Bring what one store has into another (``symd.store.maintenance``)."""
    unbounded = limits._replace(store_size=UNBOUNDED_STORE)  # a copy holds what the store holds
    if source.folder:
        with disk(Path(source.folder)):
            check_owner(Path(source.folder))
            StorePaths(Path(source.folder)).check_store()
    try:
        with _opened(source, unbounded, make=False) as one, _opened(target, unbounded, make=True) as other:
            return transfer(one, other, progress)
    except StoreUnavailable as error:
        error.hint = f"{error.hint}; what was copied stays: repeat the command to continue"
        raise


def folder_of(store: str, catalogue: str) -> Path:
    """The folder that ``store`` names. Raises ``UsageError``, which says what there is instead, for a store that
    several daemons share."""
    if is_url(store) or catalogue:
        raise click.UsageError(
            "this repairs only a store in a folder. For one in object storage, `symd store check --catalogue …` names what is damaged: add those"
            " modules again, and the daemons rebuild indexes; `symd store gc` removes what is no longer needed"
        )
    return Path(store)


def is_shared(store: str, catalogue: str, *, by_environment: bool) -> bool:
    """Whether ``store`` is one that several daemons share. Raises ``UsageError`` where its catalogue is missing, or a
    folder is given one, not just ``by_environment``."""
    if is_url(store) and not catalogue:
        raise click.UsageError("a store in object storage needs --catalogue postgresql://HOST/DATABASE")
    if catalogue and not is_url(store) and not by_environment:
        raise click.UsageError("--catalogue goes with --store s3://BUCKET/PREFIX: a folder has its own")
    return is_url(store)


def collected(store: str, catalogue: str, limits: Limits) -> Collected:
    """Remove what nobody needs of a store that several daemons share, and modules beyond ``Limits.store_size``."""
    with _opened_shared(StorePlace("", store, catalogue), limits, make=False) as shared:
        gone = shared.collect(VERSION)
    return Collected(0, gone.indexes, gone.modules, ())


@contextmanager
def _opened(place: StorePlace, limits: Limits, *, make: bool) -> Iterator[ModuleStore]:
    if place.folder:
        with Store(Path(place.folder), limits) as store:
            yield store
        return
    with _opened_shared(place, limits, make=make) as shared:
        yield shared


@contextmanager
def _opened_shared(place: StorePlace, limits: Limits, *, make: bool) -> Iterator[SharedStore]:
    bounded = limits._replace(cache_size=min(limits.cache_size, _CACHE_SIZE))
    with (
        temporary_folder() as cache,
        shared_urls(place.url, place.catalogue, bounded).opened(cache, make=make) as shared,
    ):
        yield shared


def _place(text: str, catalogue: str) -> StorePlace:
    return StorePlace("", text, catalogue) if is_url(text) else StorePlace(text)
