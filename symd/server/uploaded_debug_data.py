"""Debug data that agents of other tools upload by build ID, which becomes an alias of the module."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from symd.api import Host
from symd.errors import BadQuery
from symd.formats.debug_ids import ALIAS_KIND, LONGEST
from symd.model.contexts import Alias
from symd.model.identities import Digest
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
    """Keep the module that ``chunks`` are, once it is whole and was indexed, and let the build IDs name it; its size in bytes. Raises what
    indexing it raises, and ``LimitExceeded`` for one of more than ``Limits.module_size`` bytes."""
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
