"""Stores by name: a folder, or a URL of an object storage with a catalogue."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from symd.config import MIB, UNBOUNDED_STORE, Limits, default_store
from symd.errors import StoreUnavailable
from symd.index import VERSION
from symd.store import ModuleStore, Store
from symd.store.files import disk
from symd.store.folder import StorePaths, check_owner
from symd.store.inspection import Progress
from symd.store.maintenance import Collected, Transferred, transfer
from symd.store.shared import shared_urls
from symd.system.private_files import temporary_folder

if TYPE_CHECKING:
    from symd.store.shared.store import SharedStore


_ONE_SLASH: Final = re.compile(r"(s3:/|file:/)([^/].*)", re.DOTALL)
_WHOLE: Final = {"s3:/": "s3://", "file:/": "file:///"}


def is_url(store: str) -> bool:
    """Whether that is an object storage, and no folder. Raises ``UsageError`` for a URL that lacks a slash, which would
    name a folder."""
    lacking = _ONE_SLASH.fullmatch(store)
    if lacking and not os.path.lexists(store):
        raise click.UsageError(f"{store} lacks a slash: write {_WHOLE[lacking[1]]}{lacking[2]}")
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
