"""A daemon's verbs for programs with an event loop: the engine's words, its answers and its errors, over grpc.aio."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Self, TypeVar, overload

from google.protobuf.field_mask_pb2 import FieldMask
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from symd.config import server_address
from symd.errors import AliasNotFound, BuildFailed
from symd.model.addresses import ByAddress, ByDevice
from symd.model.answers import Answer, Answers
from symd.model.arguments import (
    AnyAddresses,
    AnyColumn,
    AnyNames,
    AnyPlace,
    AnyQuery,
    AnyTimes,
    ColumnQuestion,
    ContextName,
    ModuleName,
    address_column,
    checked_addresses,
    checked_alias_key,
    checked_bytes,
    checked_column,
    checked_context_id,
    checked_digest_of,
    checked_files,
    checked_kernel,
    checked_level,
    checked_load_number,
    checked_modules,
    checked_names,
    checked_object,
    checked_part,
    checked_path,
    checked_place,
    checked_places,
    checked_queries,
    checked_query,
    checked_question,
    checked_rules,
    checked_section,
    checked_targets,
    checked_within,
    is_in_memory,
    is_one_query,
    unchecked_digest,
)
from symd.model.breakpoints import Breakpoint, Located, checked_breakpoints
from symd.model.columns import U64
from symd.model.contexts import (
    WHOLE_ADDRESS,
    AddressForm,
    Alias,
    Context,
    ContextRecord,
    DeviceAnswers,
    Load,
    Origin,
    Unload,
)
from symd.model.cores import CoreDump
from symd.model.grabs import Grabbed, GrabRequest
from symd.model.identities import ObjectPath, checked_digest
from symd.model.line_tables import WHOLE_MODULE, CodePart, LineLevel, LineTable, Listing, ListingPart
from symd.model.names import NamedItem
from symd.model.sources import PathRule, SourceText
from symd.model.summaries import ModuleRecord, ModuleSummary
from symd.model.texts import checked_label
from symd.model.variables import InScope
from symd.model.watches import AsyncWatch, WatchEvent
from symd.rpc.async_calls import AsyncCalls
from symd.rpc.channel import Credentials, default_credentials
from symd.rpc.retry import WatchSession
from symd.rpc.wire.answers import (
    PLAIN_PYTHON_ANSWERS,
    concatenated_device,
    from_answers,
    from_columns,
    from_device_columns,
)
from symd.rpc.wire.breakpoints import from_answer as from_locations
from symd.rpc.wire.breakpoints import to_resolve_request
from symd.rpc.wire.columns import AnswersBuilder, check_count, concatenated
from symd.rpc.wire.contexts import (
    alias_key,
    from_alias,
    from_context_record,
    from_load,
    to_alias,
    to_context,
    to_event,
    to_key,
)
from symd.rpc.wire.cores import from_parts as from_core_parts
from symd.rpc.wire.cores import to_request as to_core_request
from symd.rpc.wire.failures import from_status
from symd.rpc.wire.fields import checked_module_name, context_id, context_name, module_digest, module_name
from symd.rpc.wire.grabs import GrabParts, to_grab_request
from symd.rpc.wire.line_tables import (
    FILES,
    from_chunks,
    from_listing_chunks,
    from_source_chunks,
    to_listing_request,
)
from symd.rpc.wire.line_tables import to_request as to_lines_request
from symd.rpc.wire.location_tables import TableCache, TableReceiver
from symd.rpc.wire.modules import (
    MAX_NAMES_PER_CALL,
    from_module,
    from_named_item,
    from_packed,
    from_record,
    to_names_request,
    upload_requests,
)
from symd.rpc.wire.queries import (
    MAX_ADDRESSES_PER_BATCH,
    MAX_ADDRESSES_PER_CALL,
    MAX_QUERIES_PER_CALL,
    MIN_BATCHES,
    RowAnswers,
    addresses_of,
    symbolize_request,
    write_column,
)
from symd.rpc.wire.variables import from_response as from_variables_response
from symd.rpc.wire.variables import to_requests as to_variables_requests
from symd.v1 import module_pb2
from symd.v1.alias_service_pb2 import CreateAliasesRequest, DeleteAliasRequest, GetAliasRequest, ListAliasesRequest
from symd.v1.breakpoint_service_pb2 import WatchResponse
from symd.v1.context_service_pb2 import (
    CreateContextRequest,
    DeleteContextRequest,
    GetContextRequest,
    ListContextsRequest,
    ListLoadsRequest,
    RecordEventsRequest,
)
from symd.v1.listing_service_pb2 import ReadSourcesRequest
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
)
from symd.v1.server_service_pb2 import GetServerInfoRequest, ServerInfo
from symd.v1.symbol_service_pb2 import ANSWER_FORM_PACKED, SymbolizeRequest, SymbolizeStreamRequest

T = TypeVar("T")


class AsyncClient:
    """A daemon at ``unix:PATH``, ``HOST:PORT`` or ``tls:HOST:PORT`` (by default $SYMD_SERVER, or where ``symd serve``
    listens by default). Several over one store are ``ipv4:HOST:PORT,HOST:PORT`` or a name, ``dns:///HOST:PORT``: they
    are asked in turn, and where one is lost the others answer, also what had begun.

    Every verb of ``symd.api.Symbolizer`` is here; await it, or use ``async for`` where it gives an iterator.
    ``timeout`` is in seconds, for each call it makes with all of its attempts; None waits. ``credentials`` is what it
    shows over TCP and whom it trusts; None: what the environment says ($SYMD_TOKEN, $SYMD_TLS_CA, ...).

    Use it in one event loop only. A task that is cancelled cancels its call.

    Raises what the engine raises, and ``ServerUnavailable`` when nobody answers.
    """

    def __init__(
        self, address: str | None = None, *, timeout: float | None = None, credentials: Credentials | None = None
    ) -> None:
        self.address = server_address(address)
        self._tables = TableCache()
        self._calls = AsyncCalls(self.address, timeout, default_credentials() if credentials is None else credentials)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the channel; calls that run end."""
        await self._calls.close()

    def with_timeout(self, seconds: float | None) -> AsyncClient:
        """The client over the same channel with another timeout, in seconds; None for no timeout."""
        other = copy.copy(self)
        other._calls = self._calls.with_timeout(seconds)  # noqa: SLF001 - its own
        return other

    @property
    def contexts(self) -> AsyncContexts:
        """Device addresses as of a time."""
        return AsyncContexts(self, self._calls)

    @property
    def aliases(self) -> AsyncAliases:
        """Other names of modules."""
        return AsyncAliases(self._calls)

    async def server_info(self) -> ServerInfo:
        """The daemon's version and limits."""
        response = await self._calls.unary(self._calls.stubs.server.GetServerInfo, GetServerInfoRequest())
        info: ServerInfo = response.info
        return info

    async def health(self, service: str = "") -> str:
        """What the daemon says of a service, by its full name ("symd.v1.ModuleService"; "" is all of them): "SERVING"
        or "NOT_SERVING". Raises NotFound for a service that is not there."""
        response = await self._calls.unary(self._calls.stubs.health.Check, HealthCheckRequest(service=service))
        return str(HealthCheckResponse.ServingStatus.Name(response.status))

    async def missing(self, digests: Sequence[str]) -> list[str]:
        """The digests among ``digests`` whose modules the daemon does not have, in the order given."""
        missing: list[str] = []
        digests = checked_modules(digests)
        for start in range(0, len(digests), MAX_NAMES_PER_CALL):
            names = [module_name(checked_digest(digest)) for digest in digests[start : start + MAX_NAMES_PER_CALL]]
            request = FindMissingModulesRequest(modules=names)
            response = await self._calls.unary(self._calls.stubs.modules.FindMissingModules, request)
            missing += map(module_digest, response.missing_modules)
        return missing

    async def add(self, data: bytes, label: str = "") -> ModuleSummary:
        """Send a module, unless the daemon has it."""
        digest, label = hashlib.sha256(checked_bytes(data)).hexdigest(), checked_label(label)
        if not await self.missing([digest]):
            return await self.module(digest)
        header = UploadHeader(sha256=digest, size_bytes=len(data), label=label, with_description=True)
        response = await self._calls.client_streaming(
            self._calls.stubs.modules.UploadModule, partial(upload_requests, header, data)
        )
        return await self._described(response.module)

    async def grab(self, request: GrabRequest) -> tuple[ModuleSummary, Grabbed]:
        """Let the daemon build a module with a driver of its machine. Relative names of source text count from this
        process' working folder. ``BuildFailed`` carries the whole log."""
        parts = GrabParts()
        try:
            method = self._calls.stubs.modules.GrabModule
            async for message in self._calls.stream(method, to_grab_request(request), may_repeat=False):
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
        request = GetModuleRequest(module=checked_module_name(digest))
        response = await self._calls.unary(self._calls.stubs.modules.GetModule, request)
        return from_record(response.module)

    async def relabel(self, digest: ModuleName, label: str) -> ModuleRecord:
        """Give a module another label."""
        module = module_pb2.Module(name=checked_module_name(digest), label=checked_label(label))
        request = UpdateModuleRequest(module=module, update_mask=FieldMask(paths=["label"]))
        response = await self._calls.unary(self._calls.stubs.modules.UpdateModule, request)
        return from_record(response.module)

    async def remove(self, digest: ModuleName) -> None:
        """Let the daemon forget a module with its index and its aliases."""
        request = DeleteModuleRequest(module=checked_module_name(digest))
        await self._calls.unary(self._calls.stubs.modules.DeleteModule, request)

    async def module(self, digest: ModuleName) -> ModuleSummary:
        """One module described."""
        request = GetModuleRequest(module=checked_module_name(digest), with_description=True)
        response = await self._calls.unary(self._calls.stubs.modules.GetModule, request)
        return await self._described(response.module)

    async def object_data(self, digest: ModuleName, path: str) -> bytes:
        """The bytes of the code object at nesting path ``path``."""
        request = ReadCodeObjectRequest(module=checked_module_name(digest), code_object=checked_object(path))
        stream = self._calls.stream(self._calls.stubs.modules.ReadCodeObject, request)
        return b"".join([response.chunk async for response in stream])

    def lines(
        self,
        digest: ModuleName,
        path: str | None = None,
        level: LineLevel = LineLevel.SOURCE,
        within: CodePart | None = None,
    ) -> AsyncIterator[LineTable]:
        """The decoded line tables of one level, one for each code object that has it, or of each the rows ``within``
        some part of the code."""
        asked = checked_path(path), checked_level(level), checked_within(within)
        request = to_lines_request(checked_digest_of(digest), *asked)
        return _read(self._calls.stream(self._calls.stubs.symbols.GetLineTable, request), from_chunks)

    async def symbolize(
        self,
        digest: ModuleName,
        queries: Iterable[AnyQuery],
        path: str | None = None,
        *,
        as_written: bool = False,
        with_ranges: bool = False,
    ) -> Answers:
        """Frames for each query, in order: rows (``RowAnswers``) for few queries and for those ``with_ranges``, else
        columns. Many object addresses are asked as one column (``symbolize_column``), many other queries in calls of
        at most ``MAX_QUERIES_PER_CALL``. Raises what ``symbolize_one`` raises."""
        # A debugger asks for one place at a time: it takes no look at the types of columns.
        if type(queries) is list and len(queries) == 1 and not as_written:
            return RowAnswers((await self.symbolize_one(digest, queries[0], path, with_ranges=with_ranges),))

        # An array of addresses is a column already.
        path, column = checked_path(path), address_column(queries)
        if column is not None and not with_ranges:
            return await self.symbolize_column(digest, column, path=path, as_written=as_written)

        # Few answers are sooner read row by row than out of columns, and only rows have ranges.
        asked, name = checked_queries(queries), checked_module_name(digest)
        if with_ranges or len(asked) <= PLAIN_PYTHON_ANSWERS:
            request = symbolize_request(name, asked, path, as_written=as_written)
            request.with_ranges = with_ranges
            response = await self._calls.unary(self._calls.stubs.symbols.Symbolize, request)
            return RowAnswers(from_answers(response.answers, len(asked), with_ranges=with_ranges))

        if all(isinstance(query, ByAddress) for query in asked):
            return await self.symbolize_column(digest, addresses_of(asked), path=path, as_written=as_written)

        # Queries of several kinds have no common column: rows are asked, and columns come back.
        found = []
        for at in range(0, len(asked), MAX_QUERIES_PER_CALL):
            request = symbolize_request(name, asked[at : at + MAX_QUERIES_PER_CALL], path, as_written=as_written)
            request.form = ANSWER_FORM_PACKED
            response = await self._calls.unary(self._calls.stubs.symbols.Symbolize, request)
            check_count(response.packed_answers.count, len(request.queries))
            found.append(from_columns(response.packed_answers))
        return concatenated(found)

    async def symbolize_one(
        self, digest: ModuleName, query: AnyQuery, path: str | None = None, *, with_ranges: bool = False
    ) -> Answer:
        """The frames for one query, by the shortest way there is.

        >>> answer = await client.symbolize_one(digest, "shade+0x78")
        >>> answer.reason.name, [str(frame) for frame in answer.frames]
        ('EXACT', ['blend at /src/shade.cl:13:25', 'shade at /src/shade.cl:23:18'])
        """
        query, name, path = checked_query(query), checked_module_name(digest), checked_path(path)
        request = symbolize_request(name, (query,), path, as_written=False)
        if with_ranges:
            request.with_ranges = True
        response = await self._calls.unary(self._calls.stubs.symbols.Symbolize, request)
        return from_answers(response.answers, 1, with_ranges=with_ranges)[0]

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
        origin = Origin("", None, kernel, section)
        tables = self._tables.of(unchecked_digest(digest))
        known = list(tables.known)

        def ask(message: SymbolizeRequest, part: U64) -> None:
            message.MergeFrom(
                SymbolizeRequest(
                    module=name, code_object=path, keeps_tables=True, known_table_ids=known, as_written=as_written
                )
            )
            write_column(message.packed_queries, ColumnQuestion(part, (origin,)))

        if len(column) <= MAX_ADDRESSES_PER_CALL:
            request = SymbolizeRequest()
            ask(request, column)
            response = await self._calls.unary(self._calls.stubs.symbols.Symbolize, request)
            asked = ColumnQuestion(column, (origin,))
            return from_columns(response.packed_answers, asked, tables.take(response.packed_answers.locations))
        ask(SymbolizeRequest(), column[:0])  # what does not fit a message is refused here, not while others are sent
        info = await self.server_info()
        size = max(len(column) // MIN_BATCHES, MAX_ADDRESSES_PER_CALL)
        size = min(size, MAX_ADDRESSES_PER_BATCH, info.max_batch)
        parts = [column[start : start + size] for start in range(0, len(column), size)]
        return await self._in_batches(ask, parts, tables)

    async def symbolize_origins(
        self,
        values: AnyColumn,
        origins: Sequence[Origin],
        origin: AnyColumn | None = None,
        times: AnyTimes = None,
        *,
        as_written: bool = False,
    ) -> DeviceAnswers:
        """Frames for each of ``values``, whatever it counts from: a whole profile over kernels of several modules and
        device memory of several contexts, in one message up to a million values."""
        question = checked_question(values, origins, origin, times)
        return await _symbolize_question(self, self._calls, question, as_written=as_written)

    async def locate(
        self,
        digest: ModuleName,
        where: AnyPlace,
        path: str | None = None,
        *,
        every_address: bool = False,
        rules: Sequence[PathRule] = (),
        targets: Sequence[str] = (),
        context: ContextName = "",
    ) -> Located:
        """The addresses for a breakpoint at a place, fetched page by page."""
        place, path = checked_place(where), checked_path(path)
        within = None if path is None else ObjectPath(path)
        asked = Breakpoint("", place, every_address, within, checked_rules(rules), checked_targets(targets))
        name = unchecked_digest(digest) if isinstance(place, ByDevice) else checked_digest_of(digest)
        request = to_resolve_request(name, asked, checked_context_id(context))
        found = self._calls.pages(self._calls.stubs.breakpoints.ResolveBreakpoint, request)
        pages = [page async for page in found]
        locations = (each for page in pages for each in page.locations)
        return from_locations(place, locations, pages[0].refusal, pages[0].module)

    def watch(
        self,
        breakpoints: Sequence[Breakpoint] = (),
        *,
        contexts: Sequence[ContextName] = (),
        apis: Sequence[str] = (),
        only_new: bool = False,
        resume_token: str = "",
    ) -> AsyncWatch:
        """What happens to modules and what they answer to breakpoints, as long as the watch is open: the client's
        timeout does not end it."""
        names = [checked_context_id(each) for each in contexts]
        session = WatchSession(checked_breakpoints(breakpoints), names, apis, only_new=only_new)
        method = self._calls.stubs.breakpoints.Watch
        messages, cancel = self._calls.followed(method, session.requests, session.end, resume_token)
        return AsyncWatch(_watch_events(messages, session), session.change, cancel)

    async def names(self, digest: ModuleName, wanted: AnyNames, path: str | None = None) -> Sequence[NamedItem]:
        """Kernels, functions and files by name, fetched page by page."""
        request = to_names_request(checked_digest_of(digest), checked_names(wanted), checked_path(path))
        pages = self._calls.pages(self._calls.stubs.names.FindNames, request)
        return [from_named_item(each) async for page in pages for each in page.items]

    @overload
    async def variables(  # type: ignore[overload-overlap] # a text is one query, and not its characters
        self, digest: ModuleName, query: AnyQuery | ByDevice, path: str | None = None, *, with_ranges: bool = False
    ) -> InScope: ...
    @overload
    async def variables(
        self,
        digest: ModuleName,
        query: Iterable[AnyQuery | ByDevice],
        path: str | None = None,
        *,
        with_ranges: bool = False,
    ) -> list[InScope]: ...
    async def variables(
        self,
        digest: ModuleName,
        query: AnyQuery | ByDevice | Iterable[AnyQuery | ByDevice],
        path: str | None = None,
        *,
        with_ranges: bool = False,
    ) -> InScope | list[InScope]:
        """The variables in scope at one place, read where the daemon is; at several, in order, where there are several
        queries."""
        asked = checked_places([query] if is_one_query(query) else query)  # type: ignore[arg-type,list-item]
        name = (
            unchecked_digest(digest) if all(isinstance(each, ByDevice) for each in asked) else checked_digest_of(digest)
        )
        requests = to_variables_requests(name, asked, checked_path(path), with_ranges=with_ranges)
        answers = [await self._calls.unary(self._calls.stubs.variables.GetVariables, request) for request in requests]
        found = [each for answer in answers for each in from_variables_response(answer, with_ranges=with_ranges)]
        return found[0] if is_one_query(query) else found

    def listing(
        self,
        digest: ModuleName,
        part: ListingPart = WHOLE_MODULE,
    ) -> AsyncIterator[Listing]:
        """The instructions with the frames that each comes from, disassembled where the daemon is."""
        part = checked_part(part)
        name = unchecked_digest(digest) if is_in_memory(part.within) else checked_digest_of(digest)
        request = to_listing_request(name, part)
        return _read(self._calls.stream(self._calls.stubs.listings.GetListing, request), from_listing_chunks)

    async def core(self, digest: ModuleName, modules: Sequence[ModuleName] = ()) -> CoreDump:
        """What every warp or wave of a GPU core dump was doing, read where the daemon is."""
        request = to_core_request(unchecked_digest(digest), checked_modules(modules))
        parts = self._calls.stream(self._calls.stubs.cores.ReadCore, request)
        return from_core_parts([part async for part in parts])

    async def sources(self, digest: ModuleName, files: Sequence[str], path: str | None = None) -> list[SourceText]:
        """The texts of source files, from the module or from the daemon's disk."""
        found: list[SourceText] = []
        files, path = checked_files(files), checked_path(path)
        for start in range(0, len(files), FILES):
            some = files[start : start + FILES]
            request = ReadSourcesRequest(module=checked_module_name(digest), code_object=path, files=some)
            chunks = self._calls.stream(self._calls.stubs.listings.ReadSources, request)
            found += from_source_chunks([chunk async for chunk in chunks])
        return found

    async def _in_batches(
        self, ask: Callable[[SymbolizeRequest, U64], None], parts: Sequence[U64], tables: TableReceiver
    ) -> Answers:
        """Send batch after batch while answers come back; decode each as it comes."""

        def numbered() -> Iterator[SymbolizeStreamRequest]:
            for number, part in enumerate(parts):
                request = SymbolizeStreamRequest(id=number)
                ask(request.request, part)
                yield request

        whole, expected = AnswersBuilder(sum(map(len, parts))), iter(parts)
        async for response in self._calls.stream(self._calls.stubs.symbols.SymbolizeStream, numbered):
            if response.HasField("failure"):
                raise from_status(response.failure)
            columns = response.response.packed_answers
            values = next(expected, parts[0][:0])
            whole.add(from_columns(columns, ColumnQuestion(values, ()), tables.take(columns.locations)))
        return whole.answers()

    async def _described(self, module: module_pb2.Module) -> ModuleSummary:
        """The module with its code objects, kernels and containers, fetched page by page. Raises the module's
        failure."""
        if module.HasField("failure"):
            raise from_status(module.failure)
        described = from_packed(module.description) if module.HasField("description") else None
        if described is not None:
            return described
        stubs = self._calls.stubs.modules
        objects = self._calls.pages(stubs.ListCodeObjects, ListCodeObjectsRequest(module=module.name))
        kernels = self._calls.pages(stubs.ListKernels, ListKernelsRequest(module=module.name, facts_as_json=True))
        containers = self._calls.pages(stubs.ListContainers, ListContainersRequest(module=module.name))
        return from_module(
            module,
            [each async for page in objects for each in page.code_objects],
            [each async for page in kernels for each in page.kernels],
            [each async for page in containers for each in page.containers] if module.contents.container_count else (),
        )


async def _symbolize_question(
    client: AsyncClient, calls: AsyncCalls, question: ColumnQuestion, *, as_written: bool
) -> DeviceAnswers:
    """The answers to a question about device memory or several modules, in as few calls as take it."""
    size, found = MAX_ADDRESSES_PER_CALL, []
    if len(question.values) > size:
        info = await client.server_info()
        size = min(MAX_ADDRESSES_PER_BATCH, info.max_batch)
    for part in question.parts(size):
        request = SymbolizeRequest(as_written=as_written)
        write_column(request.packed_queries, part)
        response = await calls.unary(calls.stubs.symbols.Symbolize, request)
        found.append(from_device_columns(response.packed_answers, part))
    return concatenated_device(found)


async def _read(messages: AsyncIterator[Any], decoded: Callable[[Sequence[Any]], Iterator[T]]) -> AsyncIterator[T]:
    """What is decoded of the messages of a stream, those from one header to the next together."""
    group: list[Any] = []
    async for message in messages:
        if message.HasField("header") and group:
            for each in decoded(group):
                yield each
            group = []
        group.append(message)
    for each in decoded(group):
        yield each


async def _watch_events(messages: AsyncIterator[WatchResponse], session: WatchSession) -> AsyncIterator[WatchEvent]:
    try:
        async for message in messages:
            event = session.read(message)
            if event is not None:
                yield event
    finally:
        session.end()


class AsyncContexts:
    """What ``AsyncClient.contexts`` gives. A context is named by the id that ``add`` gives; methods that take one raise
    ``ContextNotFound``."""

    def __init__(self, client: AsyncClient, calls: AsyncCalls) -> None:
        self._client, self._calls = client, calls

    async def add(self, context: Context) -> str:
        """Make a context known. The id follows from what it says: adding it again changes nothing."""
        request = CreateContextRequest(context=to_context(context))
        response = await self._calls.unary(self._calls.stubs.contexts.CreateContext, request)
        return context_id(response.context.name)

    async def get(self, name: ContextName) -> ContextRecord:
        """One context."""
        request = GetContextRequest(context=context_name(checked_context_id(name)))
        response = await self._calls.unary(self._calls.stubs.contexts.GetContext, request)
        return from_context_record(response.context)

    async def all(self, after: ContextName = "") -> AsyncIterator[ContextRecord]:
        """Every context, oldest first; only those after the one with the id ``after``."""
        last = await self.get(after) if after else None
        passed = last is None
        async for page in self._calls.pages(self._calls.stubs.contexts.ListContexts, ListContextsRequest()):
            for record in map(from_context_record, page.contexts):
                if passed:
                    yield record
                passed = passed or (last is not None and record.id == last.id)

    async def remove(self, name: ContextName) -> None:
        """Forget a context with its loads, unloads and aliases."""
        request = DeleteContextRequest(context=context_name(checked_context_id(name)))
        await self._calls.unary(self._calls.stubs.contexts.DeleteContext, request)

    async def record(self, name: ContextName, events: Sequence[Load | Unload]) -> list[str]:
        """Tell the daemon a batch of events in one call, and so all or nothing."""
        request = RecordEventsRequest(context=context_name(checked_context_id(name)), events=map(to_event, events))
        response = await self._calls.unary(self._calls.stubs.contexts.RecordEvents, request)
        return list(response.keys)

    async def loads(self, name: ContextName, after: int = 0) -> AsyncIterator[tuple[int, Load]]:
        """Every load with its segments, its key and, when it has ended, its end, in the order they were told; each with
        its number. Only those after number ``after``."""
        last = checked_load_number(after)
        request = ListLoadsRequest(context=context_name(checked_context_id(name)))
        async for page in self._calls.pages(self._calls.stubs.contexts.ListLoads, request):
            for each in page.loads:
                if each.number > last:
                    yield each.number, from_load(each.load)

    async def symbolize(
        self, name: ContextName, values: AnyAddresses, times: AnyTimes = None, form: AddressForm = WHOLE_ADDRESS
    ) -> DeviceAnswers:
        """Frames at device addresses, each as of its time.

        ``name`` is what ``add`` gave, ``contexts/ID`` or a record. ``values`` is an address, a list of them or a NumPy
        array (one dimension, any type of whole numbers; uint64 is taken as it is); one is a column of one. ``times``
        are nanoseconds of the context's clock: a number for all, or one for each as a list or an array of int64; None
        for now, and where nothing of the context is loaded any more, for the nanosecond before the last of it went.
        ``form`` says how the addresses are written where they are not whole: ``AddressForm(shift, known_bits)``, such
        as Intel's ``AddressForm(3, 32)``.

        Answers come in the order asked, one for each; what is nowhere has a reason (``Reason.UNLOADED``,
        ``OUTSIDE_TEXT``, ...) and is no error. Raises ``BadQuery`` for what is no address, no time or no context's
        name, and ``ContextNotFound``."""
        question = checked_addresses(name, values, times, form)
        return await _symbolize_question(self._client, self._calls, question, as_written=False)


class AsyncAliases:
    """What ``AsyncClient.aliases`` gives."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls = calls

    async def add(self, aliases: Sequence[Alias]) -> None:
        """Make names known, all or on an error none; the last one told wins. Raises ``ModuleNotFound`` and
        ``ContextNotFound``."""
        request = CreateAliasesRequest(aliases=map(to_alias, aliases))
        await self._calls.unary(self._calls.stubs.aliases.CreateAliases, request)

    async def resolve(self, kind: str, key: str, context: ContextName = "") -> Alias | None:
        """What a name means in a context, or else everywhere. None: nobody told."""
        request = to_key(GetAliasRequest, checked_alias_key(kind, key, context))
        try:
            response = await self._calls.unary(self._calls.stubs.aliases.GetAlias, request)
        except AliasNotFound:
            return None
        return from_alias(response.alias)

    async def remove(self, kind: str, key: str, context: ContextName = "") -> None:
        """Forget what a name means in that context, or ("") everywhere. Raises ``AliasNotFound``."""
        request = to_key(DeleteAliasRequest, checked_alias_key(kind, key, context))
        await self._calls.unary(self._calls.stubs.aliases.DeleteAlias, request)

    async def of(self, digest: ModuleName, after: Alias | None = None) -> AsyncIterator[Alias]:
        """All names of a module, by context, kind and key; only those after ``after``."""
        request = ListAliasesRequest(module=checked_module_name(digest))
        key = alias_key(after) if after else ("", "", "")
        async for page in self._calls.pages(self._calls.stubs.aliases.ListAliases, request):
            for alias in map(from_alias, page.aliases):
                if alias_key(alias) > key:
                    yield alias
