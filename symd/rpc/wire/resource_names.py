"""Resource names: a module is "modules/{sha256}", a context "contexts/{id}"; and what most requests begin with."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from symd.model.arguments import ModuleName, checked_name
from symd.model.identities import Digest, ObjectPath, checked_digest, named_digest
from symd.rpc.wire.fields import bad_field

CONTEXT = re.compile(r"contexts/([0-9a-f]{32})\Z")

RECENT = 1 << 12
"""Names that are known to be right: most questions are about modules that were asked about before."""


NAME_TAG: Final = 0x0A
"""The byte that stands before field 1 of a message where it has a length, such as a text (protobuf.dev/programming-guides/encoding). Most
requests begin with it and a module's name."""
_MODULES: Final = "modules/"
_BATCH: Final = re.compile(rb"(?:\x08[\x80-\xff]*[\x00-\x7f])?\x12[\x80-\xff]*[\x00-\x7f]")
"""What stands before a batch in a request of SymbolizeStream: field 1, a number, if it has one, then the tag and the length of field 2."""
_NAME_BYTES: Final = 2 + len(_MODULES) + 64
"""Of a module's name, with its tag and length."""


def module_name(digest: str) -> str:
    return f"{_MODULES}{digest}"


def leading_digest(request: bytes) -> str | None:
    """What may be the digest in the module's name with which the bytes of a request begin; None where they begin with something else. Nothing
    is checked: whoever decodes the request does."""
    if not request.startswith(b"modules/", 2) or request[0] != NAME_TAG:
        return None
    return request[2 + len(_MODULES) : 2 + request[1]].decode(errors="replace")


def leading_digest_of_batch(request: bytes) -> str | None:
    """What may be the digest in the module's name with which the batch in a request of SymbolizeStream begins, before which a number may stand; None where there is none."""
    begins = _BATCH.match(request)
    return leading_digest(request[begins.end() : begins.end() + _NAME_BYTES]) if begins else None


def checked_module_name(digest: ModuleName) -> str:
    """``modules/SHA256``. Raises ``BadQuery`` when ``digest`` names no module by a lower-case hexadecimal SHA-256."""
    return _module_name(checked_name(digest))


@lru_cache(RECENT)
def _module_name(digest: str) -> str:
    return module_name(checked_digest(digest))


@lru_cache(RECENT)
def module_digest(name: str, field: str = "name") -> Digest:
    """The digest in a module's name, which stands in the request's ``field``. Raises ``BadQuery``."""
    digest = named_digest(name)
    if digest is None:
        raise bad_field(
            field,
            f"{name[:100]!r} is not a module's name",
            'a module is named "modules/" and its SHA-256 in 64 lower-case hexadecimal digits',
        )
    return digest


def digest_and_path(request: Any) -> tuple[Digest, ObjectPath | None]:
    """The module that a request's ``name`` means, and the one code object that its ``path`` restricts it to, if any. Raises
    ``BadQuery``."""
    return module_digest(request.name), optional_path(request)


def optional_path(message: Any) -> ObjectPath | None:
    """The ``path`` of a message that may have one: "" names the module itself, None stands for any code object."""
    return ObjectPath(message.path) if message.HasField("path") else None


def context_name(context: str) -> str:
    return f"contexts/{context}"


def context_id(name: str, field: str = "name") -> str:
    """The id in a context's name, which stands in the request's ``field``. Raises ``BadQuery``."""
    match = CONTEXT.match(name)
    if match is None:
        raise bad_field(
            field,
            f"{name[:100]!r} is not a context's name",
            'a context is named "contexts/" and 32 lower-case hexadecimal digits, as CreateContext says',
        )
    return match[1]


def optional_context_id(name: str, field: str = "context") -> str:
    """The id in a context's name, which stands in the request's ``field``; "" where the name is empty. Raises ``BadQuery``."""
    return context_id(name, field) if name else ""
