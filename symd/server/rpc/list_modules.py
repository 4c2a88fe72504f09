"""ModuleService.ListModules: a token names the last record seen, so what is added or removed shifts no page."""

from __future__ import annotations

from math import isnan

from symd.model.identities import is_digest
from symd.model.summaries import ModuleRecord
from symd.rpc.wire.modules import to_module
from symd.server.call import Call
from symd.server.paging import DEFAULT_SIZE, bad_token, filled, from_token, page_size, to_token
from symd.server.service_context import ServiceContext
from symd.v1.module_service_pb2 import ListModulesRequest, ListModulesResponse

LIST = "modules"
_BEFORE_ALL = float("-inf"), ""


def handle(service: ServiceContext, request: ListModulesRequest, _call: Call) -> ListModulesResponse:
    at_once = min(page_size(request.page_size), DEFAULT_SIZE) + 1  # one more tells whether there is another page
    rest = service.engine.records(_seen(request.page_token), at_once)
    page = filled(rest, request.page_size, to_module)
    return ListModulesResponse(modules=page.entries, next_page_token=_token(page.last) if page.last else "")


def _token(last: ModuleRecord) -> str:
    return to_token(LIST, f"{last.create_time!r} {last.sha256}")


def _seen(token: str) -> tuple[float, str]:
    """(create_time, sha256) of the last record seen. Raises ``BadQuery``."""
    if not token:
        return _BEFORE_ALL
    written, _, digest = from_token(token, LIST, str, "").partition(" ")
    try:
        create_time = float(written)
    except ValueError:
        raise bad_token() from None
    if isnan(create_time) or not is_digest(digest):
        raise bad_token()
    return create_time, digest
