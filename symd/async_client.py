"""The client's verbs for programs with an event loop: the same words, the same answers, the same errors, over grpc.aio."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, overload

import grpc
import grpc.aio
from google.protobuf.field_mask_pb2 import FieldMask
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from symd.client import (
    MAX_ADDRESSES_PER_BATCH,
    MAX_ADDRESSES_PER_CALL,
    MAX_NAMES_PER_CALL,
    MAX_QUERIES_PER_CALL,
    MIN_BATCHES,
    OpenWatch,
    addresses_of,
    alias_key,
    begun_after,
    closed_error,
    error_of,
    symbolize_request,
    undecodable,
    upload_requests,
)
from symd.config import server_address
from symd.errors import AliasNotFound, BuildFailed, ServerUnavailable, SymdError
from symd.model.addresses import ByAddress
from symd.model.answers import Answer, Answers
from symd.model.arguments import (
    AnyColumn,
    AnyLine,
    AnyNames,
    AnyQuery,
    ModuleName,
    address_column,
    checked_bytes,
    checked_column,
    checked_files,
    checked_kernel,
    checked_level,
    checked_line,
    checked_modules,
    checked_name,
    checked_names,
    checked_object,
    checked_part,
    checked_path,
    checked_queries,
    checked_query,
    checked_rules,
    checked_section,
    checked_timeout,
    is_one_query,
)
from symd.model.breakpoints import Breakpoint, Event, Located, checked_breakpoints
from symd.model.columns import U64
from symd.model.contexts import WHOLE_ADDRESS, AddressForm, Alias, Context, ContextRecord, Load, Unload
from symd.model.cores import CoreDump
from symd.model.device import DeviceAnswers
from symd.model.device_arguments import (
    AnyAddresses,
    AnyTimes,
    ContextName,
    checked_addresses,
    checked_alias_key,
    checked_context_id,
    checked_load_number,
)
from symd.model.grabs import Grabbed, GrabRequest
from symd.model.identities import ObjectPath, checked_digest
from symd.model.line_tables import LineLevel, LineTable
from symd.model.listings import WHOLE_MODULE, Listing, ListingPart
from symd.model.module_events import ModuleEvent
from symd.model.names import NamedItem
from symd.model.sources import PathRule, SourceText
from symd.model.summaries import ModuleRecord, ModuleSummary
from symd.model.texts import checked_label
from symd.model.variables import InScope
from symd.model.waiting import never_cancelled
from symd.rpc.channel import (
    Credentials,
    Metadata,
    about_certificates,
    about_tokens,
    connect_async,
    default_credentials,
    is_untrusted,
)
from symd.rpc.failover import Failover, are_several
from symd.rpc.retry import Attempt
from symd.rpc.stall_timer import AsyncSilence
from symd.rpc.wire.answers import PLAIN_PYTHON_ANSWERS, from_answers, from_columns
from symd.rpc.wire.breakpoints import from_answer as from_locations
from symd.rpc.wire.breakpoints import from_events, to_breakpoint
from symd.rpc.wire.columns import AnswersBuilder, check_count, concatenated
from symd.rpc.wire.contexts import (
    concatenated_device,
    from_alias,
    from_context_record,
    from_device_columns,
    from_load,
    to_alias,
    to_context,
    to_event,
    to_key,
)
from symd.rpc.wire.contexts import to_request as to_device_request
from symd.rpc.wire.cores import from_parts as from_core_parts
from symd.rpc.wire.cores import to_request as to_core_request
from symd.rpc.wire.failures import from_status
from symd.rpc.wire.grabs import GrabParts, to_grab_request
from symd.rpc.wire.line_tables import from_chunks, to_level
from symd.rpc.wire.listings import from_chunks as from_listing_chunks
from symd.rpc.wire.listings import to_request as to_listing_request
from symd.rpc.wire.location_tables import TableCache, TableReceiver
from symd.rpc.wire.modules import from_module, from_packed, from_record
from symd.rpc.wire.modules import from_responses as from_module_events
from symd.rpc.wire.names import from_item
from symd.rpc.wire.names import to_request as to_names_request
from symd.rpc.wire.queries import AddressColumn, RowAnswers, write_column
from symd.rpc.wire.resource_names import checked_module_name, context_id, context_name, module_digest, module_name
from symd.rpc.wire.sources import FILES
from symd.rpc.wire.sources import from_chunks as from_source_chunks
from symd.rpc.wire.variables import from_response as from_variables_response
from symd.rpc.wire.variables import to_requests as to_variables_requests
from symd.v1 import module_pb2
from symd.v1.alias_service_pb2 import CreateAliasesRequest, DeleteAliasRequest, GetAliasRequest, ListAliasesRequest
from symd.v1.alias_service_pb2_grpc import AliasServiceStub
from symd.v1.breakpoint_service_pb2 import PendingBreakpoint, ResolveBreakpointRequest, WatchBreakpointsRequest
from symd.v1.breakpoint_service_pb2_grpc import BreakpointServiceStub
from symd.v1.context_service_pb2 import (
    CreateContextRequest,
    DeleteContextRequest,
    GetContextRequest,
    ListContextsRequest,
    ListLoadsRequest,
    RecordEventsRequest,
)
from symd.v1.context_service_pb2_grpc import ContextServiceStub
from symd.v1.core_service_pb2_grpc import CoreServiceStub
from symd.v1.listing_service_pb2 import ReadSourcesRequest
from symd.v1.listing_service_pb2_grpc import ListingServiceStub
from symd.v1.module_service_pb2 import (
    DeleteModuleRequest,
    FindMissingModulesRequest,
    GetModuleRequest,
    ListCodeObjectsRequest,
    ListContainersRequest,
    ListKernelsRequest,
    ListModulesRequest,
    ReadCodeObjectRequest,
    UpdateModuleRequest,
    UploadHeader,
    WatchModulesRequest,
)
from symd.v1.module_service_pb2_grpc import ModuleServiceStub
from symd.v1.name_service_pb2_grpc import NameServiceStub
from symd.v1.server_service_pb2 import GetServerInfoRequest, ServerInfo
from symd.v1.server_service_pb2_grpc import ServerServiceStub
from symd.v1.symbol_service_pb2 import (
    ANSWER_FORM_COLUMNS,
    GetLineTableRequest,
    SymbolizeRequest,
    SymbolizeStreamRequest,
)
from symd.v1.symbol_service_pb2_grpc import SymbolServiceStub
from symd.v1.variable_service_pb2_grpc import VariableServiceStub

E_co = TypeVar("E_co", covariant=True)


class AsyncEventStream(Generic[E_co]):
    """Events as they come: ``async for``. ``close`` ends it; whoever waits then comes to the end. Also a context manager."""

    def __init__(self, events: AsyncIterator[E_co], close: Callable[[], object]) -> None:
        self._events = events
        self._close = close

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> E_co:
        return await anext(self._events)

    def close(self) -> None:
        self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Stubs:
    """A channel of the running event loop, and what is called over it."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        self.health: Any = HealthStub(channel)
        self.cores: Any = CoreServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.listings: Any = ListingServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.variables: Any = VariableServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.modules: Any = ModuleServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.symbols: Any = SymbolServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.breakpoints: Any = BreakpointServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.names: Any = NameServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.contexts: Any = ContextServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.aliases: Any = AliasServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        self.server: Any = ServerServiceStub(channel)  # type: ignore[no-untyped-call] # generated


class _Calls:
    """The calls of one client: its channel, made for the event loop that runs when it is first used, and what goes with each call."""

    def __init__(self, address: str, timeout: float | None, credentials: Credentials) -> None:
        self.address, self.timeout = address, checked_timeout(timeout)
        self._credentials = credentials
        self._persistence = Failover(
            several=are_several(address), is_certain=partial(is_untrusted, address, credentials)
        )
        self._once = Failover(several=False)
        self._metadata: Metadata = ()
        self._stubs: _Stubs | None = None
        self._closed = threading.Event()  # of this client, and of those that share its channel

    @property
    def stubs(self) -> _Stubs:
        if self._closed.is_set():
            raise closed_error(self.address)
        if self._stubs is None:
            channel, self._metadata = connect_async(self.address, self._credentials)
            self._stubs = _Stubs(channel)
        return self._stubs

    def with_timeout(self, seconds: float | None) -> _Calls:
        _ = self.stubs  # which sets the metadata too: the copy has both
        other = copy.copy(self)
        other.timeout = checked_timeout(seconds)
        return other

    async def close(self) -> None:
        self._closed.set()
        if self._stubs is not None:
            await self._stubs.channel.close()

    async def one(self, method: Callable[..., Any], request: Any) -> Any:
        """``request`` is a message, or a function that begins an iterator of messages: the call may be made twice."""
        return await self._persistence.called_async(partial(self._attempted, method, request), self.timeout)

    async def one_once(self, method: Callable[..., Any], request: Any) -> Any:
        return await self._once.called_async(partial(self._attempted, method, request), self.timeout)

    async def _attempted(self, method: Callable[..., Any], request: Any, attempt: Attempt) -> Any:
        try:
            with self._open():
                if callable(request):
                    silence = AsyncSilence(attempt)
                    call = method(silence.requests(request()), timeout=attempt.timeout, metadata=self._metadata)
                    async with silence.watched():
                        return self._decoded(await call)
                return self._decoded(await method(request, timeout=attempt.seconds(), metadata=self._metadata))
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                attempt.ran_out()
            raise await self._error_of(error) from None

    def _decoded(self, message: Any) -> Any:
        """A message, for which gRPC gives None where it cannot be decoded."""
        if message is None:
            raise undecodable(self.address)
        return message

    def stream(self, method: Callable[..., Any], request: Any) -> AsyncIterator[Any]:
        """The messages of an answer; ``request`` as for ``one``."""
        return self._persistence.replayed_async(partial(self._stream_attempted, method, request), self.timeout)

    def stream_once(self, method: Callable[..., Any], request: Any) -> AsyncIterator[Any]:
        return self._once.replayed_async(partial(self._stream_attempted, method, request), self.timeout)

    async def _stream_attempted(
        self, method: Callable[..., Any], request: Any, attempt: Attempt
    ) -> AsyncGenerator[Any, None]:
        silence = AsyncSilence(attempt)
        asked = silence.requests(request()) if callable(request) else request
        with self._open():
            call = method(asked, timeout=attempt.timeout, metadata=self._metadata)
            try:
                async for message in silence.answers(call):
                    yield self._decoded(message)
            except grpc.RpcError as error:
                raise await self._error_of(error) from None
            finally:
                call.cancel()

    async def pages(self, method: Callable[..., Any], request: Any) -> AsyncIterator[Any]:
        while True:
            page = await self.one(method, request)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def followed(
        self, method: Callable[..., Any], request: Any, position: str
    ) -> tuple[AsyncIterator[Any], Callable[[], None]]:
        """What a watch says until it, or we, end it; and what ends it. The timeout does not."""
        watch = OpenWatch(begun_after(method, request, self._metadata), position)

        async def said(position: str) -> AsyncGenerator[Any, None]:
            call = watch.call(position)
            try:
                async for message in call:
                    yield self._decoded(message)
            except (
                asyncio.CancelledError
            ):  # gRPC raises it where the call is ended here, and not only where the task is
                task = asyncio.current_task()
                if task is None or task.cancelling() or not call.cancelled():
                    raise
            except grpc.RpcError as error:
                if await call.code() is not grpc.StatusCode.CANCELLED:
                    raise await self._error_of(error) from None
            finally:
                call.cancel()

        return self._persistence.followed_async(said, position), watch.cancel

    @contextmanager
    def _open(self) -> Generator[None, None, None]:
        """A call is made in it. Where the channel is closed before, or meanwhile, gRPC says so as if the caller's task were cancelled."""
        try:
            yield
        except grpc.aio.UsageError:
            if self._closed.is_set():
                raise closed_error(self.address) from None
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed.is_set() and task is not None and not task.cancelling():
                raise closed_error(self.address) from None
            raise

    async def _error_of(self, error: Any) -> SymdError:
        told = about_tokens(self.address, self._credentials, error_of(error, self.address, self.timeout))
        if not isinstance(told, ServerUnavailable):
            return told
        return await asyncio.to_thread(about_certificates, self.address, self._credentials, told)


class AsyncClient:
    """A daemon at ``unix:PATH``, ``HOST:PORT`` or ``tls:HOST:PORT`` (by default $SYMD_SERVER, or where ``symd serve`` listens by default).

    It has every verb of ``symd.Client``, with the same arguments: to be awaited, or, where that gives an iterator, gone through by
    ``async for``. It belongs to the event loop in which it is first used. ``timeout`` is in seconds, for each call it makes; None waits.
    Raises what ``symd.Client`` raises; a task that is cancelled cancels its call.
    """

    def __init__(
        self, address: str | None = None, *, timeout: float | None = None, credentials: Credentials | None = None
    ) -> None:
        self.address = server_address(address)
        self._tables = TableCache()
        self._calls = _Calls(self.address, timeout, default_credentials() if credentials is None else credentials)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the channel; calls that run end."""
        await self._calls.close()

    def with_timeout(self, seconds: float | None) -> AsyncClient:
        """The same client over the same channel with another timeout."""
        other = copy.copy(self)
        other._calls = self._calls.with_timeout(seconds)  # noqa: SLF001 - its own
        return other

    @property
    def contexts(self) -> AsyncContexts:
        """Device addresses as of a time."""
        return AsyncContexts(self)

    @property
    def aliases(self) -> AsyncAliases:
        """Other names of modules."""
        return AsyncAliases(self)

    async def server_info(self) -> ServerInfo:
        """The daemon's version and limits."""
        response = await self._calls.one(self._calls.stubs.server.GetServerInfo, GetServerInfoRequest())
        info: ServerInfo = response.info
        return info

    async def health(self, service: str = "") -> str:
        """What the daemon says of a service: "SERVING" or "NOT_SERVING". Raises NotFound for a service that is not there."""
        response = await self._calls.one(self._calls.stubs.health.Check, HealthCheckRequest(service=service))
        return str(HealthCheckResponse.ServingStatus.Name(response.status))

    async def missing(self, digests: Sequence[str]) -> list[str]:
        """Those of ``digests`` that the daemon does not have, in the order given."""
        missing: list[str] = []
        digests = checked_modules(digests)
        for start in range(0, len(digests), MAX_NAMES_PER_CALL):
            names = [module_name(checked_digest(digest)) for digest in digests[start : start + MAX_NAMES_PER_CALL]]
            request = FindMissingModulesRequest(names=names)
            response = await self._calls.one(self._calls.stubs.modules.FindMissingModules, request)
            missing += map(module_digest, response.names)
        return missing

    async def add(self, data: bytes, label: str = "") -> ModuleSummary:
        """Send a module, unless the daemon has it."""
        digest, label = hashlib.sha256(checked_bytes(data)).hexdigest(), checked_label(label)
        if not await self.missing([digest]):
            return await self.module(digest)
        header = UploadHeader(sha256=digest, size_bytes=len(data), label=label, with_description=True)
        response = await self._calls.one(self._calls.stubs.modules.UploadModule, partial(upload_requests, header, data))
        return await self._described(response.module)

    async def grab(self, request: GrabRequest) -> tuple[ModuleSummary, Grabbed]:
        """Let the daemon build a module with a driver of its machine. Relative names of source text count from this process' working
        folder. ``BuildFailed`` carries the whole log."""
        parts = GrabParts()
        try:
            async for message in self._calls.stream_once(
                self._calls.stubs.modules.GrabModule, to_grab_request(request)
            ):
                parts.take([message])
        except BuildFailed as error:
            error.build_log = parts.build_log or error.build_log
            raise
        return await self._described(parts.result.module), parts.grabbed()

    async def modules(self) -> AsyncIterator[ModuleRecord]:
        """The catalogue, oldest first, fetched page by page."""
        async for page in self._calls.pages(self._calls.stubs.modules.ListModules, ListModulesRequest()):
            for module in page.modules:
                yield from_record(module)

    async def record(self, digest: ModuleName) -> ModuleRecord:
        """One module's line of the catalogue."""
        request = GetModuleRequest(name=checked_module_name(digest))
        return from_record((await self._calls.one(self._calls.stubs.modules.GetModule, request)).module)

    async def relabel(self, digest: ModuleName, label: str) -> ModuleRecord:
        """Give a module another label."""
        module = module_pb2.Module(name=checked_module_name(digest), label=checked_label(label))
        request = UpdateModuleRequest(module=module, update_mask=FieldMask(paths=["label"]))
        return from_record((await self._calls.one(self._calls.stubs.modules.UpdateModule, request)).module)

    async def remove(self, digest: ModuleName) -> None:
        """Let the daemon forget a module with its index and its aliases."""
        request = DeleteModuleRequest(name=checked_module_name(digest))
        await self._calls.one_once(self._calls.stubs.modules.DeleteModule, request)

    async def module(self, digest: ModuleName) -> ModuleSummary:
        """One module described."""
        request = GetModuleRequest(name=checked_module_name(digest), with_description=True)
        return await self._described((await self._calls.one(self._calls.stubs.modules.GetModule, request)).module)

    async def object_data(self, digest: ModuleName, path: str) -> bytes:
        """The bytes of the code object at nesting path ``path``."""
        request = ReadCodeObjectRequest(name=checked_module_name(digest), path=checked_object(path))
        stream = self._calls.stream(self._calls.stubs.modules.ReadCodeObject, request)
        return b"".join([response.chunk async for response in stream])

    async def lines(
        self, digest: ModuleName, path: str | None = None, level: LineLevel = LineLevel.SOURCE
    ) -> AsyncIterator[LineTable]:
        """The decoded line tables of one level, one for each code object that has it."""
        request = GetLineTableRequest(
            name=checked_module_name(digest), path=checked_path(path), level=to_level(checked_level(level))
        )
        async for group in _by_header(self._calls.stream(self._calls.stubs.symbols.GetLineTable, request)):
            for table in from_chunks(group):
                yield table

    async def symbolize(
        self, digest: ModuleName, queries: Iterable[AnyQuery], path: str | None = None, *, as_written: bool = False
    ) -> Answers:
        """Frames for each query, in order."""
        if type(queries) is list and len(queries) == 1 and not as_written:
            return RowAnswers((await self.symbolize_one(digest, queries[0], path),))
        path, column = checked_path(path), address_column(queries)
        if column is not None:
            return await self.symbolize_column(digest, column, path=path, as_written=as_written)
        name, asked = checked_module_name(digest), checked_queries(queries)
        if len(asked) <= PLAIN_PYTHON_ANSWERS:
            ask = symbolize_request(name, asked, path, as_written=as_written)
            response = await self._calls.one(self._calls.stubs.symbols.Symbolize, ask)
            return RowAnswers(from_answers(response.answers, len(asked)))
        if all(isinstance(query, ByAddress) for query in asked):
            return await self.symbolize_column(digest, addresses_of(asked), path=path, as_written=as_written)
        found = []
        for at in range(0, len(asked), MAX_QUERIES_PER_CALL):
            ask = symbolize_request(name, asked[at : at + MAX_QUERIES_PER_CALL], path, as_written=as_written)
            ask.form = ANSWER_FORM_COLUMNS
            columns = (await self._calls.one(self._calls.stubs.symbols.Symbolize, ask)).columns
            check_count(columns.count, len(ask.queries))
            found.append(from_columns(columns))
        return concatenated(found)

    async def symbolize_one(self, digest: ModuleName, query: AnyQuery, path: str | None = None) -> Answer:
        """The frames for one query, by the shortest way there is."""
        name, query, path = checked_module_name(digest), checked_query(query), checked_path(path)
        asked = symbolize_request(name, (query,), path, as_written=False)
        return from_answers((await self._calls.one(self._calls.stubs.symbols.Symbolize, asked)).answers, 1)[0]

    async def symbolize_column(
        self,
        digest: ModuleName,
        values: AnyColumn,
        *,
        kernel: str | None = None,
        section: str | int | None = None,
        path: str | None = None,
        as_written: bool = False,
    ) -> Answers:
        """Frames for a column of numbers; columns come back, and nothing is made an object on the way.

        Answers to many point into a table of locations that the client keeps, and gets from the daemon once."""
        name, column = checked_module_name(digest), checked_column(values)
        kernel, section, path = checked_kernel(kernel), checked_section(section), checked_path(path)
        tables = self._tables.of(checked_name(digest))
        known = list(tables.known)

        def ask(message: SymbolizeRequest, part: U64) -> None:
            message.MergeFrom(
                SymbolizeRequest(name=name, path=path, keeps_tables=True, known_tables=known, as_written=as_written)
            )
            write_column(message.column, AddressColumn(part, kernel, section))

        if len(column) <= MAX_ADDRESSES_PER_CALL:
            request = SymbolizeRequest()
            ask(request, column)
            message = (await self._calls.one(self._calls.stubs.symbols.Symbolize, request)).columns
            return from_columns(message, column, tables.take(message.locations))
        ask(SymbolizeRequest(), column[:0])  # what does not fit a message is refused here, not while others are sent
        size = max(len(column) // MIN_BATCHES, MAX_ADDRESSES_PER_CALL)
        size = min(size, MAX_ADDRESSES_PER_BATCH, (await self.server_info()).max_batch)
        parts = [column[start : start + size] for start in range(0, len(column), size)]
        return await self._in_batches(ask, parts, tables)

    async def locate(
        self,
        digest: ModuleName,
        where: AnyLine,
        path: str | None = None,
        *,
        every_address: bool = False,
        rules: Sequence[PathRule] = (),
    ) -> Located:
        """The addresses for a breakpoint at a source line, fetched page by page."""
        line, path = checked_line(where), checked_path(path)
        within = None if path is None else ObjectPath(path)
        asked = to_breakpoint(Breakpoint("", line, every_address, within, checked_rules(rules)))
        request = ResolveBreakpointRequest(name=checked_module_name(digest), breakpoint=asked)
        stream = self._calls.pages(self._calls.stubs.breakpoints.ResolveBreakpoint, request)
        pages = [page async for page in stream]
        return from_locations(line, (each for page in pages for each in page.locations), pages[0].refusal)

    def watch(
        self, breakpoints: Sequence[Breakpoint], *, only_new: bool = False, resume_after: str = ""
    ) -> AsyncEventStream[Event]:
        """Breakpoints that wait, as long as the watch is open: the client's timeout does not end it."""
        breakpoints = checked_breakpoints(breakpoints)
        pending = [PendingBreakpoint(id=each.id, breakpoint=to_breakpoint(each)) for each in breakpoints]
        request = WatchBreakpointsRequest(breakpoints=pending, only_new=only_new)
        messages, cancel = self._calls.followed(self._calls.stubs.breakpoints.WatchBreakpoints, request, resume_after)
        lines = {each.id: each.where for each in breakpoints}

        async def events() -> AsyncIterator[Event]:
            parts = []
            async for message in messages:
                parts.append(message)
                if message.WhichOneof("event") != "answer" or not message.answer.more:
                    for event in from_events(parts, lines):
                        yield event
                    parts = []

        return AsyncEventStream(events(), cancel)

    def watch_modules(
        self,
        resume_after: str = "",
        *,
        only_new: bool = False,
        contexts: Sequence[str] = (),
        apis: Sequence[str] = (),
    ) -> AsyncEventStream[ModuleEvent]:
        """What happens to modules, as long as the watch is open: the client's timeout does not end it."""
        names = map(context_name, contexts)
        request = WatchModulesRequest(only_new=only_new, contexts=names, apis=apis)
        messages, cancel = self._calls.followed(self._calls.stubs.modules.WatchModules, request, resume_after)

        async def events() -> AsyncIterator[ModuleEvent]:
            async for message in messages:
                for event in from_module_events([message]):
                    yield event

        return AsyncEventStream(events(), cancel)

    async def names(self, digest: ModuleName, wanted: AnyNames, path: str | None = None) -> Sequence[NamedItem]:
        """Kernels, functions and files by name, fetched page by page."""
        request = to_names_request(checked_digest(checked_name(digest)), checked_names(wanted), checked_path(path))
        stream = self._calls.pages(self._calls.stubs.names.FindNames, request)
        return [from_item(each) async for page in stream for each in page.items]

    @overload
    async def variables(  # type: ignore[overload-overlap] # a text is one query, and not its characters
        self, digest: ModuleName, query: AnyQuery, path: str | None = None
    ) -> InScope: ...
    @overload
    async def variables(
        self, digest: ModuleName, query: Iterable[AnyQuery], path: str | None = None
    ) -> list[InScope]: ...
    async def variables(
        self, digest: ModuleName, query: AnyQuery | Iterable[AnyQuery], path: str | None = None
    ) -> InScope | list[InScope]:
        """The variables in scope at one place, read where the daemon is; at several, in order, where there are several queries."""
        asked = [checked_query(query)] if is_one_query(query) else checked_queries(query)  # type: ignore[arg-type]
        requests = to_variables_requests(checked_digest(checked_name(digest)), asked, checked_path(path))
        answers = [await self._calls.one(self._calls.stubs.variables.GetVariables, request) for request in requests]
        found = [each for answer in answers for each in from_variables_response(answer)]
        return found[0] if is_one_query(query) else found

    async def listing(
        self,
        digest: ModuleName,
        part: ListingPart = WHOLE_MODULE,
        check_cancelled: Callable[[], None] = never_cancelled,
    ) -> AsyncIterator[Listing]:
        """The instructions with the frames that each comes from, disassembled where the daemon is. ``check_cancelled`` is called before it is asked."""
        check_cancelled()
        request = to_listing_request(checked_digest(checked_name(digest)), checked_part(part))
        async for group in _by_header(self._calls.stream(self._calls.stubs.listings.GetListing, request)):
            for each in from_listing_chunks(group):
                yield each

    async def core(self, digest: ModuleName, modules: Sequence[ModuleName] = ()) -> CoreDump:
        """What every warp or wave of a GPU core dump was doing, read where the daemon is."""
        request = to_core_request(checked_name(digest), checked_modules(modules))
        return from_core_parts(
            iter([part async for part in self._calls.stream(self._calls.stubs.cores.ReadCore, request)])
        )

    async def sources(self, digest: ModuleName, files: Sequence[str], path: str | None = None) -> list[SourceText]:
        """The texts of source files, from the module or from the daemon's disk."""
        found: list[SourceText] = []
        files, path = checked_files(files), checked_path(path)
        for start in range(0, len(files), FILES):
            some = files[start : start + FILES]
            request = ReadSourcesRequest(name=checked_module_name(digest), path=path, files=some)
            stream = self._calls.stream(self._calls.stubs.listings.ReadSources, request)
            found += from_source_chunks([chunk async for chunk in stream])
        return found

    async def _in_batches(
        self, ask: Callable[[SymbolizeRequest, U64], None], parts: Sequence[U64], tables: TableReceiver
    ) -> Answers:
        """Send batch after batch while answers come back; decode each as it comes."""

        async def numbered() -> AsyncIterator[SymbolizeStreamRequest]:
            for number, part in enumerate(parts):
                request = SymbolizeStreamRequest(id=number)
                ask(request.batch, part)
                yield request

        whole, expected = AnswersBuilder(sum(map(len, parts))), iter(parts)
        async for response in self._calls.stream(self._calls.stubs.symbols.SymbolizeStream, numbered):
            if response.HasField("failure"):
                raise from_status(response.failure)
            columns = response.answers.columns
            values = next(expected, parts[0][:0])
            whole.add(from_columns(columns, values, tables.take(columns.locations)))
        return whole.answers()

    async def _described(self, module: module_pb2.Module) -> ModuleSummary:
        """The module with its code objects, kernels and containers, fetched page by page. Raises the module's failure."""
        if module.HasField("failure"):
            raise from_status(module.failure)
        described = from_packed(module.description) if module.HasField("description") else None
        if described is not None:
            return described
        stubs = self._calls.stubs.modules
        objects = self._calls.pages(stubs.ListCodeObjects, ListCodeObjectsRequest(parent=module.name))
        kernels = self._calls.pages(stubs.ListKernels, ListKernelsRequest(parent=module.name, facts_as_json=True))
        containers = self._calls.pages(stubs.ListContainers, ListContainersRequest(parent=module.name))
        return from_module(
            module,
            [each async for page in objects for each in page.code_objects],
            [each async for page in kernels for each in page.kernels],
            [each async for page in containers for each in page.containers] if module.contents.container_count else (),
        )


async def _by_header(messages: AsyncIterator[Any]) -> AsyncIterator[list[Any]]:
    """The messages of a stream, those from one header to the next together."""
    group: list[Any] = []
    async for message in messages:
        if message.HasField("header") and group:
            yield group
            group = []
        group.append(message)
    if group:
        yield group


class AsyncContexts:
    """``symd.api.ContextVerbs``, to be awaited."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._calls = client._calls  # noqa: SLF001 - a part of it

    async def add(self, context: Context) -> str:
        request = CreateContextRequest(context=to_context(context))
        return context_id((await self._calls.one(self._calls.stubs.contexts.CreateContext, request)).context.name)

    async def get(self, name: ContextName) -> ContextRecord:
        request = GetContextRequest(name=context_name(checked_context_id(name)))
        return from_context_record((await self._calls.one(self._calls.stubs.contexts.GetContext, request)).context)

    async def all(self, after: ContextName = "") -> AsyncIterator[ContextRecord]:
        last = (await self.get(after)).id if after else ""
        passed = not last
        async for page in self._calls.pages(self._calls.stubs.contexts.ListContexts, ListContextsRequest()):
            for record in map(from_context_record, page.contexts):
                if passed:
                    yield record
                passed = passed or record.id == last

    async def remove(self, name: ContextName) -> None:
        await self._calls.one_once(
            self._calls.stubs.contexts.DeleteContext, DeleteContextRequest(name=context_name(checked_context_id(name)))
        )

    async def record(self, name: ContextName, events: Sequence[Load | Unload]) -> list[str]:
        """In one call, and so all or nothing."""
        request = RecordEventsRequest(name=context_name(checked_context_id(name)), events=map(to_event, events))
        return list((await self._calls.one(self._calls.stubs.contexts.RecordEvents, request)).keys)

    async def loads(self, name: ContextName, after: int = 0) -> AsyncIterator[tuple[int, Load]]:
        last = checked_load_number(after)
        request = ListLoadsRequest(parent=context_name(checked_context_id(name)))
        async for page in self._calls.pages(self._calls.stubs.contexts.ListLoads, request):
            for each in page.loads:
                if each.number > last:
                    yield each.number, from_load(each.load)

    async def symbolize(
        self, name: ContextName, values: AnyAddresses, times: AnyTimes = None, form: AddressForm = WHOLE_ADDRESS
    ) -> DeviceAnswers:
        """``symd.api.ContextVerbs.symbolize``, awaited: ``values`` is an address, a list or an array of them, ``times`` None, nanoseconds of the
        context's clock for all, or one for each. Raises ``BadQuery`` for what is no address, no time or no context's name, and
        ``ContextNotFound``."""
        question, size = checked_addresses(name, values, times, form), MAX_ADDRESSES_PER_CALL
        if len(question.values) > size:
            size = min(MAX_ADDRESSES_PER_BATCH, (await self._client.server_info()).max_batch)
        method = self._calls.stubs.contexts.SymbolizeAddresses
        responses = [await self._calls.one(method, to_device_request(part)) for part in question.parts(size)]
        return concatenated_device([from_device_columns(response.answers) for response in responses])


class AsyncAliases:
    """``symd.api.AliasVerbs``, to be awaited."""

    def __init__(self, client: AsyncClient) -> None:
        self._calls = client._calls  # noqa: SLF001 - a part of it

    async def add(self, aliases: Sequence[Alias]) -> None:
        request = CreateAliasesRequest(aliases=map(to_alias, aliases))
        await self._calls.one(self._calls.stubs.aliases.CreateAliases, request)

    async def resolve(self, kind: str, key: str, context: ContextName = "") -> Alias | None:
        request = to_key(GetAliasRequest, checked_alias_key(kind, key, context))
        try:
            return from_alias((await self._calls.one(self._calls.stubs.aliases.GetAlias, request)).alias)
        except AliasNotFound:
            return None

    async def remove(self, kind: str, key: str, context: ContextName = "") -> None:
        request = to_key(DeleteAliasRequest, checked_alias_key(kind, key, context))
        await self._calls.one_once(self._calls.stubs.aliases.DeleteAlias, request)

    async def of(self, digest: ModuleName, after: Alias | None = None) -> AsyncIterator[Alias]:
        request = ListAliasesRequest(parent=checked_module_name(digest))
        key = alias_key(after) if after else ("", "", "")
        async for page in self._calls.pages(self._calls.stubs.aliases.ListAliases, request):
            for alias in map(from_alias, page.aliases):
                if alias_key(alias) > key:
                    yield alias
