"""ModuleService.WatchModules: a thread that sleeps until something happens to a module or the call ends."""

from __future__ import annotations

from collections.abc import Iterator

from symd.rpc.wire.modules import from_watch_request, to_response
from symd.server.call import Call
from symd.server.lanes import Work
from symd.server.service_context import ServiceContext
from symd.v1.module_service_pb2 import WatchModulesRequest, WatchModulesResponse

WORK = Work.WATCH


def handle(service: ServiceContext, request: WatchModulesRequest, call: Call) -> Iterator[WatchModulesResponse]:
    resume_after, only_new, contexts, apis = from_watch_request(request)
    watch = service.engine.watch_modules(resume_after, only_new=only_new, contexts=contexts, apis=apis)
    with watch, service.watches.opened(call.client, watch.close):
        if not call.add_callback(watch.close):
            return  # it has ended already
        service.check_running()
        for event in watch:
            yield to_response(event)
        service.check_running()
