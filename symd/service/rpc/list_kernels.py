"""ModuleService.ListKernels."""

from __future__ import annotations

from collections.abc import Sequence

from symd.errors import ObjectNotFound
from symd.model.summaries import KernelSummary, ModuleSummary
from symd.service.call import Call
from symd.service.paging import slice_page
from symd.service.service_context import ServiceContext
from symd.v1.module_service_pb2 import ListKernelsRequest, ListKernelsResponse
from symd.wire.modules import to_kernel
from symd.wire.resource_names import module_digest, optional_path


def handle(service: ServiceContext, request: ListKernelsRequest, _call: Call) -> ListKernelsResponse:
    module = service.engine.module(module_digest(request.parent, "parent"))
    path = optional_path(request)
    kernels = _kernels(module, path)
    of = f"{request.parent}/kernels/{path}"
    page, token = slice_page(
        kernels, of, request.page_size, request.page_token, lambda entry: to_kernel(entry[1], entry[0])
    )
    return ListKernelsResponse(kernels=page, next_page_token=token)


def _kernels(module: ModuleSummary, path: str | None) -> Sequence[tuple[str, KernelSummary]]:
    objects = [each for each in module.objects if path in (None, each.path)]
    if path is not None and not objects:
        raise ObjectNotFound.at(path)
    return [(each.path, kernel) for each in objects for kernel in each.kernels]
