"""ServerService: what this daemon is, what it can and what it takes."""

from __future__ import annotations

from collections.abc import Mapping

from symd import __version__
from symd.capture.drivers.simulate import SIMULATED_PRODUCTS
from symd.config import Limits
from symd.formats.containers import FORMATS
from symd.index import VERSION
from symd.model.texts import in_utf8
from symd.rpc.wire.fields import to_duration
from symd.rpc.wire.grabs import APIS
from symd.server.answering import method
from symd.server.call import Call
from symd.server.config import Right
from symd.server.messages import MAX_REQUEST
from symd.server.paging import MAX_SIZE
from symd.server.rpc.module_service import UPLOAD_CHUNK
from symd.server.service_context import ServiceContext
from symd.v1 import server_service_pb2 as pb
from symd.v1.server_service_pb2 import DisassemblerInfo, GetServerInfoRequest, GetServerInfoResponse, ServerInfo

_SECONDS = "_seconds"
"""How the names of limits of time end."""


def to_limits(limits: Limits, further: Mapping[str, int]) -> list[pb.Limit]:
    """Every limit of ``limits``, then the ``further`` ones, by the names that errors give them."""
    return [_to_limit(name, value) for name, value in {**limits._asdict(), **further}.items()]


def _to_limit(name: str, value: float) -> pb.Limit:
    if not name.endswith(_SECONDS):
        return pb.Limit(name=name, amount=int(value))
    return pb.Limit(name=name, duration=to_duration(value))


@method(Right.READ)
def get_server_info(service: ServiceContext, _request: GetServerInfoRequest, call: Call) -> GetServerInfoResponse:
    """Tell what this daemon is, what it can do, and the limits that it was started with."""
    config, limits = service.config, service.config.limits
    info = ServerInfo(
        version=__version__,
        index_version=VERSION,
        services=service.services,
        formats=[reader.NAME for reader in FORMATS],
        apis=APIS.values(),
        drivers=sorted(config.drivers),
        simulated_products=SIMULATED_PRODUCTS,
        disassemblers=[DisassemblerInfo(name=name, installed=here) for name, here in service.disassemblers.items()],
        reads_source_files=bool(config.source_roots),
        max_module_bytes=limits.module_size,
        max_chunk_bytes=UPLOAD_CHUNK,
        max_request_bytes=MAX_REQUEST,
        max_batch=limits.batch,
        max_streams=config.streams,
        max_watches=service.watches.most_of_client,
        max_page_size=MAX_SIZE,
        limits=to_limits(
            limits,
            {
                "streams": config.streams,
                "watches": config.watches,
                "client_watches": service.watches.most_of_client,
            },
        ),
        store=in_utf8(config.objects or str(config.store.absolute())) if call.is_owner else "",
    )
    return GetServerInfoResponse(info=info)
