"""Other names of modules and code objects."""

from __future__ import annotations

from symd.model.contexts import Alias
from symd.v1 import alias_service_pb2 as pb
from symd.wire.resource_names import context_name, module_digest, module_name, optional_context_id, optional_path
from symd.wire.text import utf8


def to_alias(alias: Alias) -> pb.Alias:
    return pb.Alias(
        kind=utf8(alias.kind),
        key=utf8(alias.key),
        module=module_name(alias.module),
        path=utf8(alias.path),
        context=optional_context_name(alias.context),
    )


def from_alias(message: pb.Alias) -> Alias:
    """Raises ``BadQuery``."""
    return Alias(
        message.kind,
        message.key,
        module_digest(message.module, "aliases.module"),
        optional_path(message),
        optional_context_id(message.context, "aliases.context"),
    )


def from_create_request(request: pb.CreateAliasesRequest) -> list[Alias]:
    """Raises ``BadQuery``."""
    return [from_alias(alias) for alias in request.aliases]


def from_key(request: pb.GetAliasRequest | pb.DeleteAliasRequest) -> tuple[str, str, str]:
    """(kind, key, the context's id or ""). Raises ``BadQuery``."""
    return request.kind, request.key, optional_context_id(request.context)


def optional_context_name(context: str) -> str:
    """The name of the context with that id; "" for none."""
    return context_name(context) if context else ""
