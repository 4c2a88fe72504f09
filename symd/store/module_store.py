"""The face of a store: what the engine, the daemon and the watches use, whatever keeps the bytes and the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from symd.errors import SymdError
from symd.model.identities import Digest
from symd.model.summaries import ModuleRecord
from symd.store.catalogued import OLDEST, EarlierAttempts, Figures, ModuleState
from symd.store.context_log import Aliases, ContextLog
from symd.store.eviction import EvictionLog, Usage
from symd.store.files import IncomingFile
from symd.store.module_log import ModuleLog, Removals
from symd.store.upload import Upload
from symd.store.writability import Writability


class ModuleStore(Protocol):
    """Modules by digest, with their indexes, remembered failures, aliases and contexts. ``symd.store.Store`` keeps them in a folder, and
    its methods say what each does; ``symd.store.shared`` keeps them for several machines. Safe to use from several threads."""

    aliases: Aliases
    module_log: ModuleLog
    context_log: ContextLog
    removals: Removals
    eviction_log: EvictionLog
    usage: Usage
    given_up: int

    @property
    def writability(self) -> Writability: ...

    def close(self) -> None: ...

    def adopt(self, stop: Callable[[], bool] = ...) -> None: ...

    def missing(self, digests: Sequence[str]) -> list[str]: ...

    def state(self, digest: str, version: int) -> ModuleState: ...

    def put(self, data: bytes | bytearray | memoryview, label: str = "", format: str = "") -> str: ...  # noqa: A002

    def writer(self) -> Upload: ...

    def data(self, digest: str) -> memoryview: ...

    def file(self, digest: str) -> AbstractContextManager[Path]: ...

    def set_aside(self, digest: str) -> bool: ...

    def index(self, digest: str, version: int) -> memoryview | None: ...

    def put_index(self, digest: str, version: int, data: bytes | bytearray | memoryview) -> memoryview | None: ...

    def new_index(self, digest: str, version: int) -> AbstractContextManager[IncomingFile]: ...

    def keep_index(self, file: IncomingFile, digest: str, version: int, format: str = "") -> bool: ...  # noqa: A002

    def scratch(self) -> AbstractContextManager[IncomingFile]: ...

    def drop_index(self, digest: str, version: int) -> None: ...

    def outdated(self, version: int) -> list[Digest]: ...

    def drop_older_indexes(self, digest: str, version: int) -> None: ...

    def attempt(self, digest: str, version: int) -> AbstractContextManager[EarlierAttempts]: ...

    def note_attempt(self, digest: str, version: int, ending: str) -> None: ...

    def forget_attempts(self, digest: str, version: int) -> None: ...

    def failure(self, digest: str, version: int) -> SymdError | None: ...

    def remember_failure(self, digest: str, version: int, error: SymdError) -> bool: ...

    def figures(self) -> Figures: ...

    def is_catalogued(self, digest: str) -> bool: ...

    def record(self, digest: str) -> ModuleRecord: ...

    def records(self, after: tuple[float, str] = OLDEST, limit: int = 1000) -> list[ModuleRecord]: ...

    def admit(self, digest: str, format: str) -> None: ...  # noqa: A002

    def refuse(self, digest: str, version: int, error: SymdError) -> None: ...

    def relabel(self, digest: str, label: str) -> None: ...

    def remove(self, digest: str) -> None: ...
