"""ModuleService.ListModules: a token names the last record seen, so what is added or removed shifts no page."""

from __future__ import annotations

from itertools import dropwhile

from symd.model.summaries import ModuleRecord
from symd.service.call import Call
from symd.service.paging import bad_token, filled, from_token, to_token
from symd.service.service_context import ServiceContext
from symd.v1.module_service_pb2 import ListModulesRequest, ListModulesResponse
from symd.wire.modules import to_module

LIST = "modules"


def handle(service: ServiceContext, request: ListModulesRequest, _call: Call) -> ListModulesResponse:
    seen = _key(request.page_token)
    rest = dropwhile(lambda record: (record.create_time, record.sha256) <= seen, service.engine.modules())
    page = filled(rest, request.page_size, to_module)
    return ListModulesResponse(modules=page.entries, next_page_token=_token(page.last) if page.last else "")


def _token(last: ModuleRecord) -> str:
    return to_token(LIST, f"{last.create_time!r} {last.sha256}")


def _key(token: str) -> tuple[float, str]:
    """(create_time, sha256) of the last record seen. Raises ``BadQuery``."""
    create_time, _, digest = from_token(token, LIST, str, "-inf ").partition(" ")
    try:
        return float(create_time), digest
    except ValueError:
        raise bad_token() from None
