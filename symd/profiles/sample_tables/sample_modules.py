"""Where the modules of samples are, and tables of samples answered from there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from symd.api import Symbolizer
from symd.config import DEFAULT_LIMITS, UNBOUNDED_STORE, Limits, default_cache
from symd.engine.engine import Engine
from symd.engine.files.module import open_symbolizer
from symd.errors import InvalidInput
from symd.profiles.sample_tables.named_module import named_module
from symd.store import ModuleStore, Store
from symd.store.files import disk
from symd.store.ownership import check_owner
from symd.store.paths import StorePaths
from symd.store.shared.opening import open_shared

if TYPE_CHECKING:
    from symd.profiles.sample_tables.tables import SampleTables, TableNames


@dataclass(frozen=True, slots=True)
class SampleModules:
    """Where the modules of samples are: ``modules`` are [ID=]FILE, ``server`` is a daemon's address; ``store`` is the folder of a store, or
    with the URL of its ``catalogue`` the object storage of one that several daemons share, whose files are kept in the folder ``cache``."""

    modules: tuple[str, ...] = ()
    server: str | None = None
    store: str | None = None
    catalogue: str | None = None
    cache: str | None = None
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        """Raises InvalidInput where one does not go with another."""
        if self.store is not None and self.server is not None:
            raise InvalidInput("modules come from a store or from a daemon, not from both", hint="give one of the two")
        if self.is_shared != bool(self.catalogue):
            raise InvalidInput(
                "the catalogue is not given"
                if self.is_shared
                else "a catalogue goes with a store in an object storage",
                where=self.store or self.catalogue or "",
                hint="a shared store takes both, s3://BUCKET/PREFIX and postgresql://USER@HOST/DATABASE",
            )

    @property
    def is_shared(self) -> bool:
        """Whether the store is one that several daemons share."""
        return "://" in (self.store or "")


@contextmanager
def open_tables(source: SampleModules, names: TableNames) -> Iterator[SampleTables]:
    """Tables of samples answered from these modules."""
    from symd.profiles.sample_tables.tables import SampleTables  # noqa: PLC0415 - Arrow is an extra, and slow to import

    with _open_symbolizer(source) as symbolizer:
        named = [named_module(text, symbolizer, source.server, source.limits) for text in source.modules]
        yield SampleTables(symbolizer, named, names)


@contextmanager
def _open_symbolizer(source: SampleModules) -> Iterator[Symbolizer]:
    if source.store is None:
        with open_symbolizer(source.server, source.limits) as symbolizer:
            yield symbolizer
        return
    with Engine(_open_store(source, source.store), source.limits) as engine:
        yield engine


def _open_store(source: SampleModules, store: str) -> ModuleStore:
    """Who only asks removes nothing for want of room: how much a store may hold is for its daemons to say."""
    limits = source.limits._replace(store_size=UNBOUNDED_STORE)
    if source.is_shared:
        cache = Path(source.cache) if source.cache else default_cache()
        return open_shared(store, source.catalogue or "", cache, limits, make=False)
    if not Path(store).is_dir():
        raise InvalidInput("there is no such store", where=store, hint="symd serve --store FOLDER makes one")
    with disk(Path(store)):
        check_owner(Path(store))
        StorePaths(Path(store)).check_store()
    return Store(Path(store), limits, adopt_later=True)
