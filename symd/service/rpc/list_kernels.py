"""ModuleService.ListKernels."""

from __future__ import annotations

from collections.abc import Sequence

import grpc

from symd.errors import ObjectNotFound
from symd.model.summaries import KernelSummary, ModuleSummary
from symd.service.paging import slice_page
from symd.service.parts import Parts
from symd.v1.module_service_pb2 import ListKernelsRequest, ListKernelsResponse
from symd.wire.modules import to_kernel
from symd.wire.names import module_digest


def handle(parts: Parts, request: ListKernelsRequest, _context: grpc.ServicerContext) -> ListKernelsResponse:
    module = parts.engine.module(module_digest(request.parent))
    only = request.object if request.HasField("object") else None
    kernels = _kernels(module, only)
    page, token = slice_page(kernels, f"{request.parent}/kernels/{only}", request.page_size, request.page_token)
    return ListKernelsResponse(kernels=(to_kernel(kernel, path) for path, kernel in page), next_page_token=token)


def _kernels(module: ModuleSummary, only: str | None) -> Sequence[tuple[str, KernelSummary]]:
    objects = [each for each in module.objects if only in (None, each.path)]
    if only is not None and not objects:
        raise ObjectNotFound(f"no code object {only[:100]!r} in this module", hint="list its code objects")
    return [(each.path, kernel) for each in objects for kernel in each.kernels]
