"""The decoders of requests as one target, and the readers of profiles, one each."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from google.protobuf.message import DecodeError

from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import SymdError
from symd.profiles import FORMATS, NamedModule, Options, ProfileFormat, Resolver, profile_format, symbolize
from symd.rpc.wire import (
    breakpoints,
    contexts,
    fields,
    grabs,
    line_tables,
    modules,
    queries,
    variables,
)
from symd.server.paging import slice_page
from symd.store import Store
from symd.v1 import (
    alias_service_pb2,
    breakpoint_service_pb2,
    context_service_pb2,
    listing_service_pb2,
    module_service_pb2,
    name_service_pb2,
    symbol_service_pb2,
    variable_service_pb2,
)
from symd.v1.query_pb2 import Query
from tests.fuzz import seeds
from tests.fuzz.messages import Words, fill
from tests.fuzz.mutations import Change
from tests.fuzz.target import Refused, Target, fitting
from tests.profiles.modules import AMD, CUBIN, CUBIN_CRC, PRUNED, ZEBIN

LIMITS = Limits()


def _page(request: module_service_pb2.ListKernelsRequest) -> None:
    fields.module_digest(request.module)
    slice_page(range(100), request.module, request.page_size, request.page_token, lambda at: Query(address=at))


DECODERS: tuple[tuple[Any, Callable[[Any], object]], ...] = (
    (symbol_service_pb2.SymbolizeRequest, lambda request: queries.from_request(request, LIMITS.batch)),
    (context_service_pb2.CreateContextRequest, lambda request: contexts.from_context(request.context)),
    (symbol_service_pb2.GetLineTableRequest, line_tables.from_request),
    (name_service_pb2.FindNamesRequest, modules.from_names_request),
    (variable_service_pb2.GetVariablesRequest, variables.from_request),
    (listing_service_pb2.GetListingRequest, line_tables.from_listing_request),
    (breakpoint_service_pb2.ResolveBreakpointRequest, breakpoints.from_resolve_request),
    (breakpoint_service_pb2.WatchRequest, breakpoints.from_start),
    (breakpoint_service_pb2.WatchRequest, breakpoints.from_change),
    (context_service_pb2.RecordEventsRequest, contexts.from_record_request),
    (alias_service_pb2.CreateAliasesRequest, contexts.from_create_request),
    (alias_service_pb2.GetAliasRequest, contexts.from_key),
    (module_service_pb2.UpdateModuleRequest, modules.from_update_request),
    (listing_service_pb2.ReadSourcesRequest, line_tables.from_sources_request),
    (module_service_pb2.GrabModuleRequest, lambda request: grabs.from_grab_request(request, 10.0)),
    (module_service_pb2.ListKernelsRequest, _page),
)
"""What the daemon makes of a request, before it asks anybody."""


def decode(data: bytes) -> None:
    """The first byte says which request."""
    if not data:
        raise Refused
    kind, decoder = DECODERS[data[0] % len(DECODERS)]
    try:
        request = kind.FromString(data[1:])
    except DecodeError as error:
        raise Refused from error
    with fitting():
        decoder(request)


@cache
def _requests() -> list[bytes]:
    """Every kind, filled a few times."""
    found = []
    words = Words((f"modules/{'ab' * 32}", "contexts/0123456789abcdef0123456789abcdef", "vadd", "kernel.cl"))
    for number, (kind, _) in enumerate(DECODERS):
        for again in range(6):
            message = kind()
            fill(random.Random(f"{number}/{again}"), message, words)
            found.append(bytes([number]) + message.SerializeToString()[: seeds.LARGEST])
    return found


@cache
def _resolver() -> Resolver:
    """The modules of the sample profiles, in an engine of this process."""
    engine = Engine(Store.temporary(LIMITS), LIMITS)
    named = [(ZEBIN, None), (AMD, "gpu-shade"), (AMD, "shade.co"), (AMD, "2"), (PRUNED, "4711/3")]
    return Resolver(
        engine,
        [
            NamedModule(engine.add(path.read_bytes(), path.name).sha256, path.name, identity)
            for path, identity in (*named, (CUBIN, str(CUBIN_CRC)))
        ],
    )


def _profile(form: ProfileFormat) -> Target:
    def read(data: bytes) -> None:
        with fitting():
            symbolize(data, _resolver(), Options(LIMITS), form.NAME)

    return Target(read, cache(lambda: _profiles_of(form)), _zipped)


def _target_name(form: ProfileFormat) -> str:
    """That of the format's module, or what a format without one is called."""
    return str(getattr(form, "__name__", form.NAME.replace("-", "_"))).rpartition(".")[2]


def _zipped(dice: random.Random, data: bytes, change: Change) -> bytes:
    """A profile expanded, changed and compressed again, or changed as it is."""
    if not profile_format.compressed(data) or dice.random() < 1 / 4:
        return change(data)
    try:
        return profile_format.compress(change(profile_format.expand(data, LIMITS)))
    except SymdError:
        return change(data)


def _profiles_of(form: ProfileFormat) -> Sequence[bytes]:
    plain = [
        profile_format.expand(data, LIMITS) if profile_format.compressed(data) else data for data in seeds.profiles()
    ]
    found = seeds.spread((data for data in plain if form.claims(data)), largest=4 * seeds.LARGEST)
    return [*found, *(profile_format.compress(data) for data in found[:1])] or [b"a;b;c 1\n"]


TARGETS: Mapping[str, Target] = {
    "requests": Target(decode, _requests),
    **{f"profiles.{_target_name(form)}": _profile(form) for form in FORMATS},
}
