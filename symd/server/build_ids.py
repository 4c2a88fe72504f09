"""Modules by build ID, which becomes an alias of the module: debug data that agents of other tools upload, and modules
that a daemon lacks, from the debuginfod servers that its operator named."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from symd.api import Host
from symd.engine.debuginfod_client import Upstream
from symd.errors import BadQuery, LimitExceeded, ServerUnavailable, SymdError
from symd.formats.debug_ids import ALIAS_KIND, LONGEST, checked_name, other_build_ids
from symd.model.contexts import Alias
from symd.model.identities import Digest
from symd.model.summaries import ModuleSummary
from symd.server.call import Call
from symd.server.guard import check_deadline
from symd.server.messages import module_too_large
from symd.server.service_context import ServiceContext

LONGEST_NAME = 4096
"""Characters of a build ID; Go's are no hexadecimal digits."""


def checked_build_id(text: str) -> str:
    """The key of its alias: hexadecimal digits in lower case, anything else as it is. Raises BadQuery."""
    if not 0 < len(text) <= LONGEST_NAME:
        raise BadQuery(f"a build ID has 1 to {LONGEST_NAME} characters")
    hexadecimal = len(text) <= LONGEST and not text.lower().strip("0123456789abcdef")
    return text.lower() if hexadecimal else text


def is_known(engine: Host, build_id: str) -> bool:
    """Whether a module that is there was uploaded under this build ID."""
    told = engine.aliases.resolve(ALIAS_KIND, checked_build_id(build_id))
    return told is not None and not engine.missing([told.module])


def alias_build_id(engine: Host, build_id: str, digest: Digest) -> None:
    """Let the build ID name the module from now on."""
    engine.aliases.add([Alias(ALIAS_KIND, checked_build_id(build_id), digest)])


def received(service: ServiceContext, chunks: Iterable[bytes], build_ids: Sequence[str], call: Call) -> int:
    """Keep the module that ``chunks`` are, once it is whole and was indexed, and let the build IDs name it; its size in
    bytes. Raises what indexing it raises, and ``LimitExceeded`` for one of more than ``Limits.module_size`` bytes."""
    largest = service.config.limits.module_size
    digest = hashlib.sha256()
    with service.engine.receive(f"build-id {build_ids[0][:200]}") as arriving:
        for chunk in chunks:
            if arriving.size + len(chunk) > largest:
                raise module_too_large(f"the debug data has more than {largest} bytes", largest)
            digest.update(chunk)
            arriving.write(chunk)
        check_deadline(call)
        service.check_running()
        size = arriving.size
        module = arriving.commit(digest.hexdigest())
    for build_id in build_ids:
        alias_build_id(service.engine, build_id, module.sha256)
    return size


log = logging.getLogger("symd.server")

MISSING_SECONDS: Final = 600.0
"""How long a build ID that no server had is not asked for again."""
MAX_MISSING: Final = 4096
"""Build IDs of which that is remembered."""
MIN_DIGITS: Final = 16
"""Hexadecimal digits that a build ID has at least, here: servers know nothing by the beginning of one."""


class ModuleFetcher:
    """Fetches modules by build ID into the store. Safe to use from several threads."""

    def __init__(self, engine: Host, servers: Upstream) -> None:
        self._engine, self._servers = engine, servers
        self._missing: dict[str, float] = {}
        self._lock = threading.Lock()

    def __call__(self, build_id: str) -> bool:
        """Fetch a module; whether the store has it now. Raises BadQuery for what is no build ID, ServerUnavailable
        where no server answers, and LimitExceeded for a file that is too large."""
        name = checked_name(build_id)
        if len(name) < MIN_DIGITS or self._is_missing(name):
            return False
        try:
            module = self._servers.executable_kept(name, partial(self._keep, name))
        except ServerUnavailable:
            raise
        except LimitExceeded:
            self._note_missing(name)
            raise
        except SymdError as error:  # what has no device code is nothing that symd keeps
            log.info("debuginfod's file of build ID %s is not kept: %s", name, error)
            module = None
        if module is None or self._is_another(name, module):
            self._note_missing(name)
            return False
        alias_build_id(self._engine, name, module.sha256)
        return True

    def _keep(self, name: str, pieces: Iterator[bytes]) -> ModuleSummary:
        """Keep a module in the store, piece by piece: in memory there is never more than one."""
        digest = hashlib.sha256()
        with self._engine.receive(f"build-id {name}") as arriving:
            for piece in pieces:
                digest.update(piece)
                arriving.write(piece)
            return arriving.commit(digest.hexdigest())

    def _is_another(self, name: str, module: ModuleSummary) -> bool:
        """Whether the file carries other build IDs: it is kept under its digest, as any module is, and this build ID
        names nothing."""
        others = other_build_ids(module, name)
        if others:
            log.warning("debuginfod's file of build ID %s is of another, %s: it is not believed", name, others[0][:80])
        return bool(others)

    def _is_missing(self, name: str) -> bool:
        with self._lock:
            noted = self._missing.get(name)
        return noted is not None and time.monotonic() - noted < MISSING_SECONDS

    def _note_missing(self, name: str) -> None:
        with self._lock:
            if len(self._missing) >= MAX_MISSING:
                self._missing.clear()
            self._missing[name] = time.monotonic()
