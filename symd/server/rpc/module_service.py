"""ModuleService: modules uploaded, grabbed, listed and removed, and what is in them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate
from math import isnan
from typing import overload

from symd.api import Receiving
from symd.config import Limits
from symd.errors import (
    BuildFailed,
    FailedPrecondition,
    HashMismatch,
    InvalidInput,
    LimitExceeded,
    ObjectNotFound,
    Unsupported,
)
from symd.model.cancellation import cancelled_by
from symd.model.grabs import Grabbed
from symd.model.identities import checked_digest, is_digest
from symd.model.summaries import ContainerSummary, KernelSummary, ModuleRecord, ModuleSummary, ObjectSummary
from symd.rpc.wire.fields import chunks_of, module_digest, module_name, optional_path, wrong_field
from symd.rpc.wire.grabs import from_grab_request, log_chunks, to_result
from symd.rpc.wire.modules import (
    from_update_request,
    to_code_object,
    to_container,
    to_kernel,
    to_module,
    to_unreadable_module,
)
from symd.server.answering import method
from symd.server.call import Call
from symd.server.config import Right
from symd.server.guard import check_call_active, check_deadline
from symd.server.messages import module_too_large
from symd.server.paging import (
    DEFAULT_PAGE_SIZE,
    bad_token,
    filled,
    from_token,
    page_size,
    to_token,
    written_page,
)
from symd.server.service_context import ServiceContext
from symd.server.work_queues import Work
from symd.system.process import confinement
from symd.v1 import module_service_pb2 as pb


@method(Right.READ)
def find_missing_modules(
    service: ServiceContext, request: pb.FindMissingModulesRequest, _call: Call
) -> pb.FindMissingModulesResponse:
    """Give those of the named modules that the store does not have, in the order asked."""
    digests = [module_digest(name, "modules") for name in request.modules]
    missing = service.engine.missing(digests)
    return pb.FindMissingModulesResponse(missing_modules=map(module_name, missing))


@method(Right.WRITE, work=Work.UPLOAD)
def upload_module(
    service: ServiceContext, requests: Iterator[pb.UploadModuleRequest], call: Call
) -> pb.UploadModuleResponse:
    """Chunks go to the disk as they come; a module is kept only once it is whole, announced and
    indexed."""
    header = _header(requests, service.config.limits)
    call.subject = module_name(header.sha256)
    with service.engine.receive(header.label) as arriving:
        _receive(requests, header, arriving)
        check_deadline(call)
        service.check_running()
        module = arriving.commit(header.sha256)
    packed = service.engine.packed_summary(module.sha256) if header.with_description else None
    return pb.UploadModuleResponse(module=to_module(service.engine.record(module.sha256), module, packed))


UPLOAD_CHUNK = 1 << 20
"""Bytes of one chunk of an upload, at most, and of what is sent."""


def _header(requests: Iterator[pb.UploadModuleRequest], limits: Limits) -> pb.UploadHeader:
    first = next(requests, None)
    if first is None or first.WhichOneof("part") != "header":
        raise wrong_field("header", "an upload begins with its header", "send UploadHeader first")
    checked_digest(first.header.sha256)
    if first.header.size_bytes > limits.module_size:
        size, most = first.header.size_bytes, limits.module_size
        raise module_too_large(f"the module has {size} bytes, at most {most} are taken", most)
    return first.header


def _receive(requests: Iterator[pb.UploadModuleRequest], header: pb.UploadHeader, arriving: Receiving) -> None:
    """Take the announced number of bytes. Raises ``HashMismatch`` when fewer or more came."""
    for request in requests:
        chunk = _chunk(request)
        if arriving.size + len(chunk) > header.size_bytes:
            raise _mismatch(f"more than the announced {header.size_bytes} bytes came")
        arriving.write(chunk)
    if arriving.size != header.size_bytes:
        raise _mismatch(f"{arriving.size} of the announced {header.size_bytes} bytes came")


def _chunk(request: pb.UploadModuleRequest) -> bytes:
    if request.WhichOneof("part") != "chunk":
        raise wrong_field("chunk", "after the header an upload has chunks only")
    if len(request.chunk) > UPLOAD_CHUNK:
        raise LimitExceeded(
            f"a chunk has {len(request.chunk)} bytes, at most {UPLOAD_CHUNK} are taken",
            hint="send smaller chunks",
            metadata={"limit": "upload_chunk", "value": str(UPLOAD_CHUNK)},
        )
    return request.chunk


def _mismatch(what: str) -> HashMismatch:
    return HashMismatch(what, hint="send the module again")


@method(Right.GRAB, work=Work.GRAB)
def grab_module(service: ServiceContext, request: pb.GrabModuleRequest, call: Call) -> Iterator[pb.GrabModuleResponse]:
    """The build log first, also of a build that failed, then the result and its bytes."""
    _check_confined(service, call)
    wanted = from_grab_request(request, call.time_remaining())
    try:
        with cancelled_by(partial(check_call_active, call)):
            module, grabbed = service.engine.grab(wanted)
    except BuildFailed as error:
        yield from log_chunks(error.build_log)
        raise
    call.subject = module_name(module.sha256)
    yield from log_chunks(grabbed.build_log)
    yield pb.GrabModuleResponse(result=to_result(service.engine.record(module.sha256), module, grabbed))
    if request.include_bytes:
        yield from _bytes(grabbed, UPLOAD_CHUNK)


def _check_confined(service: ServiceContext, call: Call) -> None:
    """Raises FailedPrecondition where others than the daemon's user would have a driver read what that user can."""
    if not (call.is_owner or service.config.listen.grab_unconfined or confinement.available()):
        raise FailedPrecondition(
            "this machine's kernel cannot confine drivers, so they run for the daemon's user alone",
            hint="run the daemon on a kernel with Landlock (Linux 5.13 and later), or start it with grab-unconfined",
        )


def _bytes(grabbed: Grabbed, size: int) -> Iterator[pb.GrabModuleResponse]:
    for chunk in chunks_of(grabbed.debug_data, size):
        yield pb.GrabModuleResponse(debug_data=chunk)
    for chunk in chunks_of(grabbed.native, size):
        yield pb.GrabModuleResponse(native=chunk)


LIST = "modules"
_BEFORE_ALL = float("-inf"), ""


@method(Right.READ)
def list_modules(service: ServiceContext, request: pb.ListModulesRequest, _call: Call) -> pb.ListModulesResponse:
    """A token names the last record seen, so what is added or removed shifts no page."""
    inline = min(page_size(request.page_size), DEFAULT_PAGE_SIZE) + 1  # one more tells whether there is another page
    rest = service.engine.records(_seen(request.page_token), inline)
    page = filled(rest, request.page_size, to_module)
    return pb.ListModulesResponse(modules=page.entries, next_page_token=_token(page.last) if page.last else "")


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


@method(Right.READ)
def get_module(service: ServiceContext, request: pb.GetModuleRequest, _call: Call) -> pb.GetModuleResponse:
    """A module that cannot be read is answered with why."""
    record = service.engine.record(module_digest(request.module))
    try:
        summary = service.engine.module(record.sha256)
    except (InvalidInput, LimitExceeded, Unsupported) as error:
        return pb.GetModuleResponse(module=to_unreadable_module(record, error))
    packed = service.engine.packed_summary(record.sha256) if request.with_description else None
    return pb.GetModuleResponse(module=to_module(record, summary, packed))


@method(Right.WRITE, work=Work.WRITE)
def update_module(service: ServiceContext, request: pb.UpdateModuleRequest, call: Call) -> pb.UpdateModuleResponse:
    """Give a module another label, and return its record as it is then."""
    digest, label = from_update_request(request)
    call.subject = module_name(digest)
    return pb.UpdateModuleResponse(module=to_module(service.engine.relabel(digest, label)))


@method(Right.ADMIN, work=Work.WRITE)
def delete_module(service: ServiceContext, request: pb.DeleteModuleRequest, call: Call) -> pb.DeleteModuleResponse:
    """Forget a module with its index and its aliases. Raises ``ModuleNotFound``."""
    call.subject = request.module
    service.engine.remove(module_digest(request.module))
    return pb.DeleteModuleResponse()


@method(Right.READ)
def list_code_objects(service: ServiceContext, request: pb.ListCodeObjectsRequest, _call: Call) -> bytes:
    """List the code objects of a module, in its order, page by page."""
    found = service.engine.module(module_digest(request.module)).objects
    of = f"{request.module}/objects"
    return written_page(found, of, request.page_size, request.page_token, _respond)


def _respond(items: Sequence[ObjectSummary], token: str) -> pb.ListCodeObjectsResponse:
    return pb.ListCodeObjectsResponse(code_objects=map(to_code_object, items), next_page_token=token)


@method(Right.READ)
def list_containers(service: ServiceContext, request: pb.ListContainersRequest, _call: Call) -> bytes:
    """List the containers that were opened on the way to a module's code objects, page by page."""
    found = service.engine.module(module_digest(request.module)).containers
    of = f"{request.module}/containers"
    return written_page(found, of, request.page_size, request.page_token, _containers_page)


def _containers_page(items: Sequence[ContainerSummary], token: str) -> pb.ListContainersResponse:
    return pb.ListContainersResponse(containers=map(to_container, items), next_page_token=token)


@method(Right.READ)
def list_kernels(service: ServiceContext, request: pb.ListKernelsRequest, _call: Call) -> bytes:
    """List the kernels of all code objects of a module, or of one, page by page."""
    module = service.engine.module(module_digest(request.module))
    path = optional_path(request)
    as_json = request.facts_as_json

    def respond(kernels: Sequence[tuple[str, KernelSummary]], token: str) -> pb.ListKernelsResponse:
        found = [to_kernel(kernel, of_object, as_json=as_json) for of_object, kernel in kernels]
        return pb.ListKernelsResponse(kernels=found, next_page_token=token)

    of = f"{request.module}/kernels/{path}"
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


@method(Right.READ)
def read_code_object(
    service: ServiceContext, request: pb.ReadCodeObjectRequest, call: Call
) -> Iterator[pb.ReadCodeObjectResponse]:
    """Stream the bytes of a code object in chunks. Raises ``ObjectNotFound``."""
    asking = partial(service.engine.object_pieces, module_digest(request.module), request.code_object, UPLOAD_CHUNK)
    for chunk in service.work_queues[Work.LARGE].run_for(call, asking):
        yield pb.ReadCodeObjectResponse(chunk=chunk)
