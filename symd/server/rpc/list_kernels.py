"""ModuleService.ListKernels."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import overload

from symd.errors import ObjectNotFound
from symd.model.summaries import KernelSummary, ModuleSummary, ObjectSummary
from symd.rpc.wire.modules import to_kernel
from symd.rpc.wire.resource_names import module_digest, optional_path
from symd.server.call import Call
from symd.server.paging import written_page
from symd.server.service_context import ServiceContext
from symd.v1.module_service_pb2 import ListKernelsRequest, ListKernelsResponse


def handle(service: ServiceContext, request: ListKernelsRequest, _call: Call) -> bytes:
    module = service.engine.module(module_digest(request.parent, "parent"))
    path = optional_path(request)
    as_json = request.facts_as_json

    def respond(kernels: Sequence[tuple[str, KernelSummary]], token: str) -> ListKernelsResponse:
        found = [to_kernel(kernel, of_object, as_json=as_json) for of_object, kernel in kernels]
        return ListKernelsResponse(kernels=found, next_page_token=token)

    of = f"{request.parent}/kernels/{path}"
    return written_page(_kernels(module, path), of, request.page_size, request.page_token, respond)


def _kernels(module: ModuleSummary, path: str | None) -> _Kernels:
    objects = [each for each in module.objects if path in (None, each.path)]
    if path is not None and not objects:
        raise ObjectNotFound.at(path, (each.path for each in module.objects))
    return _Kernels(objects)


class _Kernels(Sequence[tuple[str, KernelSummary]]):
    """(path, kernel) of all kernels of some code objects, without a list of them: a page needs a few of many."""

    def __init__(self, objects: Sequence[ObjectSummary]) -> None:
        self._objects = objects
        self._ends = list(accumulate(len(each.kernels) for each in objects))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, at: int) -> tuple[str, KernelSummary]: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[tuple[str, KernelSummary]]: ...
    def __getitem__(self, at: int | slice) -> tuple[str, KernelSummary] | Sequence[tuple[str, KernelSummary]]:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        at = range(len(self))[at]
        number = bisect_right(self._ends, at)
        item = self._objects[number]
        return item.path, item.kernels[at - self._ends[number]]
