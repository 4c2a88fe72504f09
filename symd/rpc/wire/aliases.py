"""Other names of modules and code objects."""

from __future__ import annotations

from typing import TypeVar

from symd.model.alias_arguments import AliasKey, checked_alias_key
from symd.model.contexts import ALIAS_HINT, Alias
from symd.model.kinds import of_kind
from symd.rpc.wire.resource_names import context_name, module_digest, module_name, optional_context_id, optional_path
from symd.rpc.wire.text import utf8
from symd.v1 import alias_service_pb2 as pb

Request = TypeVar("Request", pb.GetAliasRequest, pb.DeleteAliasRequest)


def to_alias(alias: Alias) -> pb.Alias:
    """Raises ``BadQuery`` for a kind or a key that is no text."""
    of_kind(alias, Alias, ALIAS_HINT)
    kind, key, context = checked_alias_key(alias.kind, alias.key, alias.context)
    return pb.Alias(
        kind=kind,
        key=key,
        module=module_name(alias.module),
        path=utf8(alias.path),
        context=optional_context_name(context),
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


def to_key(kind_of_request: type[Request], key: AliasKey) -> Request:
    """The request of that type about the alias."""
    return kind_of_request(kind=key.kind, key=key.key, context=optional_context_name(key.context))


def from_key(request: pb.GetAliasRequest | pb.DeleteAliasRequest) -> tuple[str, str, str]:
    """(kind, key, the context's id or ""). Raises ``BadQuery``."""
    return request.kind, request.key, optional_context_id(request.context)


def optional_context_name(context: str) -> str:
    """The name of the context with that id; "" for none."""
    return context_name(context) if context else ""
