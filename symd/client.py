"""The engine's verbs over a channel: the same words, the same answers, the same errors."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import grpc
import numpy as np
from grpc_status import rpc_status

from symd.config import MIB, Config
from symd.errors import BadQuery, BuildFailed, DeadlineExceeded, ServerUnavailable, SymdError
from symd.model import (
    U64,
    Answer,
    Answers,
    ByAddress,
    Grabbed,
    GrabRequest,
    LineTable,
    ModuleRecord,
    ModuleSummary,
    Query,
)
from symd.v1 import module_pb2
from symd.v1.module_service_pb2 import (
    FindMissingModulesRequest,
    GetModuleRequest,
    ListCodeObjectsRequest,
    ListKernelsRequest,
    ListModulesRequest,
    ReadObjectRequest,
    UploadHeader,
    UploadModuleRequest,
)
from symd.v1.module_service_pb2_grpc import ModuleServiceStub
from symd.v1.server_service_pb2 import GetServerInfoRequest, ServerInfo
from symd.v1.server_service_pb2_grpc import ServerServiceStub
from symd.v1.symbol_service_pb2 import (
    ANSWER_FORM_COLUMNS,
    GetLineTableRequest,
    SymbolizeRequest,
    SymbolizeStreamRequest,
)
from symd.v1.symbol_service_pb2_grpc import SymbolServiceStub
from symd.wire.answers import from_answer, from_columns, join
from symd.wire.failures import from_failure, from_status, rebuilt
from symd.wire.grabs import GrabParts, to_grab_request
from symd.wire.line_tables import from_chunks
from symd.wire.modules import from_module, from_record
from symd.wire.names import checked_digest, module_digest, module_name
from symd.wire.pieces import pieces
from symd.wire.queries import Column, to_column, to_query

OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.default_authority", "localhost"),  # over a Unix socket gRPC would send the path, which some servers refuse
)
NAMES = 10_000
"""Modules asked for in one FindMissingModules."""
UNARY = 1 << 16
"""Up to so many addresses go in one call; more travel as a stream of"""
BATCH = 1 << 20
"""addresses each, or fewer where the daemon takes fewer."""
QUERIES = 100_000
"""Queries that are spelled out one by one, in one call."""


class Client:
    """A daemon at ``unix:PATH`` or ``HOST:PORT`` (by default where ``symd serve`` listens by default).

    It has every verb of ``symd.engine.Symbolizer``. ``timeout`` is in seconds, for each call it makes; None waits.
    Safe to use from several threads. Raises what the engine raises, and ``ServerUnavailable`` when nobody answers.
    """

    def __init__(self, address: str | None = None, *, timeout: float | None = None) -> None:
        self.address = address or Config().address
        self._timeout = timeout
        self._channel = grpc.insecure_channel(self.address, options=OPTIONS)
        self._modules = ModuleServiceStub(self._channel)  # type: ignore[no-untyped-call] # generated
        self._symbols = SymbolServiceStub(self._channel)  # type: ignore[no-untyped-call] # generated
        self._server = ServerServiceStub(self._channel)  # type: ignore[no-untyped-call] # generated

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the channel; calls that run end."""
        self._channel.close()

    def within(self, seconds: float | None) -> Client:
        """The same client over the same channel with another timeout."""
        other = copy.copy(self)
        other._timeout = seconds  # noqa: SLF001 - its own
        return other

    def server_info(self) -> ServerInfo:
        """The daemon's version and limits."""
        info: ServerInfo = self._call(self._server.GetServerInfo, GetServerInfoRequest()).info
        return info

    def missing(self, digests: Sequence[str]) -> list[str]:
        """Those of ``digests`` that the daemon does not have, in the order given."""
        missing: list[str] = []
        for start in range(0, len(digests), NAMES):
            names = [module_name(checked_digest(digest)) for digest in digests[start : start + NAMES]]
            response = self._call(self._modules.FindMissingModules, FindMissingModulesRequest(names=names))
            missing += map(module_digest, response.names)
        return missing

    def add(self, data: bytes, label: str = "") -> ModuleSummary:
        """Send a module, unless the daemon has it."""
        digest = hashlib.sha256(data).hexdigest()
        if not self.missing([digest]):
            return self.module(digest)
        header = UploadHeader(sha256=digest, size=len(data), label=label)
        response = self._call(self._modules.UploadModule, _upload(header, data))
        return self._described(response.module)

    def grab(self, request: GrabRequest) -> tuple[ModuleSummary, Grabbed]:
        """Let the daemon build a module with a driver of its machine. ``BuildFailed`` carries the whole log."""
        parts = GrabParts()
        try:
            parts.take(self._stream(self._modules.GrabModule, to_grab_request(request)))
        except BuildFailed as error:
            error.build_log = parts.build_log or error.build_log
            raise
        return self._described(parts.result.module), parts.grabbed()

    def modules(self) -> Iterator[ModuleRecord]:
        """The catalogue, oldest first, fetched page by page."""
        for page in self._pages(self._modules.ListModules, ListModulesRequest()):
            yield from map(from_record, page.modules)

    def module(self, digest: str) -> ModuleSummary:
        """One module described."""
        request = GetModuleRequest(name=module_name(checked_digest(digest)))
        return self._described(self._call(self._modules.GetModule, request).module)

    def object_data(self, digest: str, path: str) -> bytes:
        """The bytes of the code object at nesting path ``path``."""
        request = ReadObjectRequest(name=module_name(checked_digest(digest)), object=path)
        return b"".join(response.chunk for response in self._stream(self._modules.ReadObject, request))

    def lines(self, digest: str, path: str | None = None) -> Iterator[LineTable]:
        """The decoded line tables, one for each code object."""
        request = GetLineTableRequest(name=module_name(checked_digest(digest)), object=path)
        return from_chunks(self._stream(self._symbols.GetLineTable, request))

    def symbolize(self, digest: str, queries: Sequence[Query], path: str | None = None) -> Answers:
        """Frames for each query, in order."""
        if len(queries) > 1 and all(isinstance(query, ByAddress) for query in queries):
            return self.symbolize_column(digest, _addresses(queries), path=path)
        ask = SymbolizeRequest(name=module_name(checked_digest(digest)), object=path, form=ANSWER_FORM_COLUMNS)
        answers = []
        for start in range(0, max(len(queries), 1), QUERIES):
            del ask.queries[:]
            ask.queries.extend([to_query(query) for query in queries[start : start + QUERIES]])
            answers.append(from_columns(self._call(self._symbols.Symbolize, ask).columns))
        return join(answers)

    def symbolize_one(self, digest: str, query: Query, path: str | None = None) -> Answer:
        """The frames for one query, by the shortest way there is."""
        name = module_name(checked_digest(digest))
        ask = SymbolizeRequest(name=name, object=path, queries=(to_query(query),))
        return from_answer(self._call(self._symbols.Symbolize, ask).answers[0])

    def symbolize_column(
        self,
        digest: str,
        values: U64,
        *,
        kernel: str | None = None,
        section: str | int | None = None,
        path: str | None = None,
    ) -> Answers:
        """Frames for a column of numbers; columns come back, and nothing is made an object on the way."""
        name = module_name(checked_digest(digest))

        def ask(part: U64) -> SymbolizeRequest:
            return SymbolizeRequest(name=name, object=path, column=to_column(Column(part, kernel, section)))

        if len(values) <= UNARY:
            return from_columns(self._call(self._symbols.Symbolize, ask(values)).columns, values)
        ask(values[:0])  # what does not fit a message is refused here, not in the thread that sends
        size = min(BATCH, self.server_info().max_batch)
        parts = [values[start : start + size] for start in range(0, len(values), size)]
        return self._in_batches(map(ask, parts), parts)

    def _in_batches(self, requests: Iterable[SymbolizeRequest], parts: Sequence[U64]) -> Answers:
        """Send batch after batch while answers come back; decode each as it comes."""
        numbered = (SymbolizeStreamRequest(id=number, batch=batch) for number, batch in enumerate(requests))
        responses = self._stream(self._symbols.SymbolizeStream, numbered)
        answers = []
        for response, values in zip(responses, parts, strict=True):
            if response.HasField("failure"):
                raise from_failure(response.failure)
            answers.append(from_columns(response.answers.columns, values))
        return join(answers)

    def _described(self, module: module_pb2.Module) -> ModuleSummary:
        """The module with its code objects and kernels, fetched page by page."""
        objects = self._pages(self._modules.ListCodeObjects, ListCodeObjectsRequest(parent=module.name))
        kernels = self._pages(self._modules.ListKernels, ListKernelsRequest(parent=module.name))
        return from_module(
            module,
            (each for page in objects for each in page.code_objects),
            (each for page in kernels for each in page.kernels),
        )

    def _pages(self, method: Callable[..., Any], request: Any) -> Iterator[Any]:
        while True:
            page = self._call(method, request)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def _call(self, method: Callable[..., Any], request: Any) -> Any:
        try:
            return method(request, timeout=self._timeout)
        except grpc.RpcError as error:
            raise self._error(error) from None

    def _stream(self, method: Callable[..., Any], request: Any) -> Iterator[Any]:
        responses = method(request, timeout=self._timeout)
        try:
            yield from responses
        except grpc.RpcError as error:
            raise self._error(error) from None
        finally:
            responses.cancel()

    def _error(self, error: Any) -> SymdError:
        """The error that a status stands for; one without details comes from gRPC itself."""
        status = rpc_status.from_call(error)
        if status is not None:
            return from_status(status)
        code, details = error.code(), error.details() or ""
        if code is grpc.StatusCode.UNAVAILABLE:
            return ServerUnavailable(
                "no daemon answers", where=self.address, hint="start one with `symd serve`", metadata={"grpc": details}
            )
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return DeadlineExceeded(f"no answer within {self._timeout} s", where=self.address, hint="allow more time")
        return rebuilt(code.value[0], details, "", {}).at(self.address)


def _upload(header: UploadHeader, data: bytes) -> Iterator[UploadModuleRequest]:
    yield UploadModuleRequest(header=header)
    for chunk in pieces(data, MIB):
        yield UploadModuleRequest(chunk=chunk)


def _addresses(queries: Sequence[Query]) -> U64:
    try:
        return np.fromiter((query.address for query in queries if isinstance(query, ByAddress)), np.uint64)
    except OverflowError:
        raise BadQuery("an address does not fit 64 bits") from None
