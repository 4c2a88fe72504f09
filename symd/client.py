"""The engine's verbs over a channel: the same words, the same answers, the same errors."""

from __future__ import annotations

import copy
import hashlib
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from itertools import dropwhile, islice
from types import TracebackType
from typing import Any, Self, overload

import grpc
import numpy as np
from google.protobuf.field_mask_pb2 import FieldMask
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_status import rpc_status

from symd.api import AliasVerbs, ContextVerbs
from symd.config import MIB, server_address
from symd.errors import (
    AliasNotFound,
    BadQuery,
    BuildFailed,
    CallRefused,
    DeadlineExceeded,
    InvalidInput,
    Malformed,
    ServerUnavailable,
    SymdError,
    Unavailable,
)
from symd.model.addresses import ByAddress, Query
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
from symd.model.breakpoints import Breakpoint, Located, Watch, checked_breakpoints
from symd.model.columns import U64
from symd.model.contexts import ALIAS_HINT, WHOLE_ADDRESS, AddressForm, Alias, Context, ContextRecord, Load, Unload
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
from symd.model.kinds import of_kind
from symd.model.line_tables import LineLevel, LineTable
from symd.model.listings import WHOLE_MODULE, Listing, ListingPart
from symd.model.module_events import ModuleWatch
from symd.model.names import NamedItem
from symd.model.sources import PathRule, SourceText
from symd.model.summaries import ModuleRecord, ModuleSummary
from symd.model.texts import checked_label
from symd.model.variables import InScope
from symd.model.waiting import never_cancelled
from symd.rpc.channel import (
    Credentials,
    about_certificates,
    about_tokens,
    connect,
    default_credentials,
    is_refused_unseen,
    is_untrusted,
    unreachable,
)
from symd.rpc.failover import Failover, are_several
from symd.rpc.retry import Attempt
from symd.rpc.stall_timer import StallTimer
from symd.rpc.wire.answers import PLAIN_PYTHON_ANSWERS, from_answers, from_columns
from symd.rpc.wire.breakpoints import from_answer as from_locations
from symd.rpc.wire.breakpoints import from_events, to_breakpoint
from symd.rpc.wire.columns import OTHER_SIDE, AnswersBuilder, check_count, concatenated
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
from symd.rpc.wire.failures import from_status, rebuilt
from symd.rpc.wire.fields import chunks_of
from symd.rpc.wire.grabs import GrabParts, to_grab_request
from symd.rpc.wire.line_tables import from_chunks, to_level
from symd.rpc.wire.listings import from_chunks as from_listing_chunks
from symd.rpc.wire.listings import to_request as to_listing_request
from symd.rpc.wire.location_tables import TableCache, TableReceiver
from symd.rpc.wire.modules import from_module, from_packed, from_record
from symd.rpc.wire.modules import from_responses as from_module_events
from symd.rpc.wire.names import from_item
from symd.rpc.wire.names import to_request as to_names_request
from symd.rpc.wire.queries import AddressColumn, RowAnswers, add_query, write_column
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
    UploadModuleRequest,
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

MAX_NAMES_PER_CALL = 10_000
"""The most modules asked for in one FindMissingModules."""
MAX_ADDRESSES_PER_CALL = 1 << 16
"""The most addresses of a column that go in one unary call. More travel as a stream of batches."""
MAX_ADDRESSES_PER_BATCH = 1 << 20
"""The most addresses in one batch of a stream, where the daemon takes as many."""
MIN_BATCHES = 4
"""The batches that a stream has at least, so that one side packs and unpacks while the other looks up."""
MAX_QUERIES_PER_CALL = 100_000
"""The most queries in one call when they are not a column."""
_ENDED = "try again: so ends a call that a daemon has no room for (its limit pending_calls), or no time before it ends itself"

_TOO_MANY = "the daemon refused the call at each attempt: more are open on this connection than it takes"
_FEWER = "allow more time, or have fewer calls open at a time; `symd serve --limit calls_per_connection=N` takes more"
_PROXY = "try again; where there is a proxy between, look into its log"
_NOT_DECODED = "Exception deserializing response!"
_BROKEN_OFF = "RST_STREAM"
"""What gRPC says by itself of a message that is none, and of a stream that HTTP/2 ended without an answer (RFC 9113, 6.4)."""


class Client:
    """A daemon at ``unix:PATH``, ``HOST:PORT`` or ``tls:HOST:PORT`` (by default $SYMD_SERVER, or where ``symd serve`` listens by default).
    Several over one store are ``ipv4:HOST:PORT,HOST:PORT`` or a name, ``dns:///HOST:PORT``: they are asked in turn, and where one is lost
    or says nothing for long the others answer, also what had begun.

    It has every verb of ``symd.api.Symbolizer``. ``timeout`` is in seconds, for each call it makes; None waits, of several daemons for each a while.
    ``credentials`` is what it shows over TCP and whom it trusts; None: what the environment says ($SYMD_TOKEN, $SYMD_TLS_CA, ...).
    Safe to use from several threads. Raises what the engine raises, and ``ServerUnavailable`` when nobody answers.
    """

    def __init__(
        self, address: str | None = None, *, timeout: float | None = None, credentials: Credentials | None = None
    ) -> None:
        self.address = server_address(address)
        self._timeout = checked_timeout(timeout)
        self._tables = TableCache()
        self._closed = threading.Event()  # of this client, and of those that share its channel
        shown = self._shown = default_credentials() if credentials is None else credentials
        self._persistence = Failover(
            several=are_several(self.address), is_certain=partial(is_untrusted, self.address, shown)
        )
        self._once = Failover(several=False)
        self._channel = connect(self.address, shown)
        self._health = HealthStub(self._channel)  # made now: gRPC 1.85 dies of one that is made of a closed channel
        self._cores = CoreServiceStub(self._channel)  # type: ignore[no-untyped-call] # generated
        self._listings = ListingServiceStub(self._channel)  # type: ignore[no-untyped-call] # generated
        self._variables = VariableServiceStub(self._channel)  # type: ignore[no-untyped-call] # generated
        self._modules = ModuleServiceStub(self._channel)  # type: ignore[no-untyped-call] # generated
        self._symbols = SymbolServiceStub(self._channel)  # type: ignore[no-untyped-call] # generated
        self._breakpoints = BreakpointServiceStub(self._channel)  # type: ignore[no-untyped-call] # generated
        self._names = NameServiceStub(self._channel)  # type: ignore[no-untyped-call] # generated
        self._contexts = ContextServiceStub(self._channel)  # type: ignore[no-untyped-call] # generated
        self._aliases = AliasServiceStub(self._channel)  # type: ignore[no-untyped-call] # generated
        self._server = ServerServiceStub(self._channel)  # type: ignore[no-untyped-call] # generated

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the channel; calls that run end."""
        self._closed.set()
        self._channel.close()

    def with_timeout(self, seconds: float | None) -> Client:
        """The same client over the same channel with another timeout."""
        other = copy.copy(self)
        other._timeout = checked_timeout(seconds)  # noqa: SLF001 - its own
        return other

    @property
    def contexts(self) -> ContextVerbs:
        """Device addresses as of a time."""
        return _Contexts(self)

    @property
    def aliases(self) -> AliasVerbs:
        """Other names of modules."""
        return _Aliases(self)

    def server_info(self) -> ServerInfo:
        """The daemon's version and limits."""
        info: ServerInfo = self._call(self._server.GetServerInfo, GetServerInfoRequest()).info
        return info

    def health(self, service: str = "") -> str:
        """What the daemon says of a service, by its full name ("symd.v1.ModuleService"; "" is all of them): "SERVING" or
        "NOT_SERVING". Raises NotFound for a service that is not there."""
        request = HealthCheckRequest(service=service)
        status: int = self._call(self._health.Check, request).status
        return str(HealthCheckResponse.ServingStatus.Name(status))

    def missing(self, digests: Sequence[str]) -> list[str]:
        """Those of ``digests`` that the daemon does not have, in the order given."""
        missing: list[str] = []
        digests = checked_modules(digests)
        for start in range(0, len(digests), MAX_NAMES_PER_CALL):
            names = [module_name(checked_digest(digest)) for digest in digests[start : start + MAX_NAMES_PER_CALL]]
            response = self._call(self._modules.FindMissingModules, FindMissingModulesRequest(names=names))
            missing += map(module_digest, response.names)
        return missing

    def add(self, data: bytes, label: str = "") -> ModuleSummary:
        """Send a module, unless the daemon has it."""
        digest, label = hashlib.sha256(checked_bytes(data)).hexdigest(), checked_label(label)
        if not self.missing([digest]):
            return self.module(digest)
        header = UploadHeader(sha256=digest, size_bytes=len(data), label=label, with_description=True)
        response = self._call(self._modules.UploadModule, partial(upload_requests, header, data))
        return self._described(response.module)

    def grab(self, request: GrabRequest) -> tuple[ModuleSummary, Grabbed]:
        """Let the daemon build a module with a driver of its machine. Relative names of source text count from this process' working
        folder. ``BuildFailed`` carries the whole log."""
        parts = GrabParts()
        try:
            grabbing = partial(self._stream_once, self._modules.GrabModule, to_grab_request(request))
            parts.take(self._once.replayed(grabbing, self._timeout))
        except BuildFailed as error:
            error.build_log = parts.build_log or error.build_log
            raise
        return self._described(parts.result.module), parts.grabbed()

    def modules(self) -> Iterator[ModuleRecord]:
        """The catalogue, oldest first, fetched page by page."""
        for page in self._pages(self._modules.ListModules, ListModulesRequest()):
            yield from map(from_record, page.modules)

    def record(self, digest: ModuleName) -> ModuleRecord:
        """One module's line of the catalogue."""
        request = GetModuleRequest(name=checked_module_name(digest))
        return from_record(self._call(self._modules.GetModule, request).module)

    def relabel(self, digest: ModuleName, label: str) -> ModuleRecord:
        """Give a module another label."""
        module = module_pb2.Module(name=checked_module_name(digest), label=checked_label(label))
        request = UpdateModuleRequest(module=module, update_mask=FieldMask(paths=["label"]))
        return from_record(self._call(self._modules.UpdateModule, request).module)

    def remove(self, digest: ModuleName) -> None:
        """Let the daemon forget a module with its index and its aliases."""
        self._call_once(self._modules.DeleteModule, DeleteModuleRequest(name=checked_module_name(digest)))

    def module(self, digest: ModuleName) -> ModuleSummary:
        """One module described."""
        request = GetModuleRequest(name=checked_module_name(digest), with_description=True)
        return self._described(self._call(self._modules.GetModule, request).module)

    def object_data(self, digest: ModuleName, path: str) -> bytes:
        """The bytes of the code object at nesting path ``path``."""
        request = ReadCodeObjectRequest(name=checked_module_name(digest), path=checked_object(path))
        return b"".join(response.chunk for response in self._stream(self._modules.ReadCodeObject, request))

    def lines(
        self, digest: ModuleName, path: str | None = None, level: LineLevel = LineLevel.SOURCE
    ) -> Iterator[LineTable]:
        """The decoded line tables of one level, one for each code object that has it."""
        name = checked_module_name(digest)
        request = GetLineTableRequest(name=name, path=checked_path(path), level=to_level(checked_level(level)))
        return from_chunks(self._stream(self._symbols.GetLineTable, request))

    def symbolize(
        self, digest: ModuleName, queries: Iterable[AnyQuery], path: str | None = None, *, as_written: bool = False
    ) -> Answers:
        """Frames for each query, in order."""
        if type(queries) is list and len(queries) == 1 and not as_written:
            return RowAnswers((self.symbolize_one(digest, queries[0], path),))
        path, column = checked_path(path), address_column(queries)
        if column is not None:
            return self.symbolize_column(digest, column, path=path, as_written=as_written)
        name, queries = checked_module_name(digest), checked_queries(queries)
        if len(queries) <= PLAIN_PYTHON_ANSWERS:
            ask = symbolize_request(name, queries, path, as_written=as_written)
            return RowAnswers(from_answers(self._call(self._symbols.Symbolize, ask).answers, len(queries)))
        if all(isinstance(query, ByAddress) for query in queries):
            return self.symbolize_column(digest, addresses_of(queries), path=path, as_written=as_written)
        size = MAX_QUERIES_PER_CALL
        parts = [queries[at : at + size] for at in range(0, len(queries), size)]
        return concatenated(
            [self._as_columns(symbolize_request(name, part, path, as_written=as_written)) for part in parts]
        )

    def symbolize_one(self, digest: ModuleName, query: AnyQuery, path: str | None = None) -> Answer:
        """The frames for one query, by the shortest way there is."""
        name, query, path = checked_module_name(digest), checked_query(query), checked_path(path)
        asked = symbolize_request(name, (query,), path, as_written=False)
        return from_answers(self._call(self._symbols.Symbolize, asked).answers, 1)[0]

    def symbolize_column(
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
        name, values = checked_module_name(digest), checked_column(values)
        kernel, section, path = checked_kernel(kernel), checked_section(section), checked_path(path)
        tables = self._tables.of(checked_name(digest))
        known = list(tables.known)

        def ask(message: SymbolizeRequest, part: U64) -> None:
            message.MergeFrom(
                SymbolizeRequest(name=name, path=path, keeps_tables=True, known_tables=known, as_written=as_written)
            )
            write_column(message.column, AddressColumn(part, kernel, section))

        if len(values) <= MAX_ADDRESSES_PER_CALL:
            request = SymbolizeRequest()
            ask(request, values)
            message = self._call(self._symbols.Symbolize, request).columns
            return from_columns(message, values, tables.take(message.locations))
        ask(SymbolizeRequest(), values[:0])  # what does not fit a message is refused here, not in the thread that sends
        size = max(len(values) // MIN_BATCHES, MAX_ADDRESSES_PER_CALL)
        size = min(size, MAX_ADDRESSES_PER_BATCH, self.server_info().max_batch)
        parts = [values[start : start + size] for start in range(0, len(values), size)]
        return self._in_batches(ask, parts, tables)

    def locate(
        self,
        digest: ModuleName,
        where: AnyLine,
        path: str | None = None,
        *,
        every_address: bool = False,
        rules: Sequence[PathRule] = (),
    ) -> Located:
        """The addresses for a breakpoint at a source line, fetched page by page."""
        where, path = checked_line(where), checked_path(path)
        asked = to_breakpoint(
            Breakpoint("", where, every_address, None if path is None else ObjectPath(path), checked_rules(rules))
        )
        request = ResolveBreakpointRequest(name=checked_module_name(digest), breakpoint=asked)
        pages = list(self._pages(self._breakpoints.ResolveBreakpoint, request))
        return from_locations(where, (each for page in pages for each in page.locations), pages[0].refusal)

    def watch(self, breakpoints: Sequence[Breakpoint], *, only_new: bool = False, resume_after: str = "") -> Watch:
        """Breakpoints that wait, as long as the watch is open: the client's timeout does not end it."""
        breakpoints = checked_breakpoints(breakpoints)
        pending = [PendingBreakpoint(id=each.id, breakpoint=to_breakpoint(each)) for each in breakpoints]
        request = WatchBreakpointsRequest(breakpoints=pending, only_new=only_new)
        messages, cancel = self._followed(self._breakpoints.WatchBreakpoints, request, resume_after)
        return Watch(from_events(messages, {each.id: each.where for each in breakpoints}), cancel)

    def watch_modules(
        self,
        resume_after: str = "",
        *,
        only_new: bool = False,
        contexts: Sequence[str] = (),
        apis: Sequence[str] = (),
    ) -> ModuleWatch:
        """What happens to modules, as long as the watch is open: the client's timeout does not end it."""
        names = map(context_name, contexts)
        request = WatchModulesRequest(only_new=only_new, contexts=names, apis=apis)
        messages, cancel = self._followed(self._modules.WatchModules, request, resume_after)
        return ModuleWatch(from_module_events(messages), cancel)

    def names(self, digest: ModuleName, wanted: AnyNames, path: str | None = None) -> Sequence[NamedItem]:
        """Kernels, functions and files by name, fetched page by page."""
        request = to_names_request(checked_digest(checked_name(digest)), checked_names(wanted), checked_path(path))
        return [from_item(each) for page in self._pages(self._names.FindNames, request) for each in page.items]

    @overload
    def variables(  # type: ignore[overload-overlap] # a text is one query, and not its characters
        self, digest: ModuleName, query: AnyQuery, path: str | None = None
    ) -> InScope: ...
    @overload
    def variables(self, digest: ModuleName, query: Iterable[AnyQuery], path: str | None = None) -> list[InScope]: ...
    def variables(
        self, digest: ModuleName, query: AnyQuery | Iterable[AnyQuery], path: str | None = None
    ) -> InScope | list[InScope]:
        """The variables in scope at one place, read where the daemon is; at several, in order, where there are several queries."""
        asked = [checked_query(query)] if is_one_query(query) else checked_queries(query)  # type: ignore[arg-type]
        requests = to_variables_requests(checked_digest(checked_name(digest)), asked, checked_path(path))
        answers = [self._call(self._variables.GetVariables, request) for request in requests]
        found = [each for answer in answers for each in from_variables_response(answer)]
        return found[0] if is_one_query(query) else found

    def listing(
        self,
        digest: ModuleName,
        part: ListingPart = WHOLE_MODULE,
        check_cancelled: Callable[[], None] = never_cancelled,
    ) -> Iterator[Listing]:
        """The instructions with the frames that each comes from, disassembled where the daemon is. ``check_cancelled`` is called before it is asked."""
        check_cancelled()
        request = to_listing_request(checked_digest(checked_name(digest)), checked_part(part))
        return from_listing_chunks(self._stream(self._listings.GetListing, request))

    def core(self, digest: ModuleName, modules: Sequence[ModuleName] = ()) -> CoreDump:
        """What every warp or wave of a GPU core dump was doing, read where the daemon is."""
        return from_core_parts(
            self._stream(self._cores.ReadCore, to_core_request(checked_name(digest), checked_modules(modules)))
        )

    def sources(self, digest: ModuleName, files: Sequence[str], path: str | None = None) -> list[SourceText]:
        """The texts of source files, from the module or from the daemon's disk."""
        found: list[SourceText] = []
        files, path = checked_files(files), checked_path(path)
        for start in range(0, len(files), FILES):
            some = files[start : start + FILES]
            request = ReadSourcesRequest(name=checked_module_name(digest), path=path, files=some)
            found += from_source_chunks(self._stream(self._listings.ReadSources, request))
        return found

    def _as_columns(self, ask: SymbolizeRequest) -> Answers:
        ask.form = ANSWER_FORM_COLUMNS
        columns = self._call(self._symbols.Symbolize, ask).columns
        check_count(columns.count, len(ask.queries))
        return from_columns(columns)

    def _in_batches(
        self, ask: Callable[[SymbolizeRequest, U64], None], parts: Sequence[U64], tables: TableReceiver
    ) -> Answers:
        """Send batch after batch while answers come back; decode each as it comes."""

        def numbered() -> Iterator[SymbolizeStreamRequest]:
            for number, part in enumerate(parts):
                request = SymbolizeStreamRequest(id=number)
                ask(request.batch, part)
                yield request

        whole, expected = AnswersBuilder(sum(map(len, parts))), iter(parts)
        for response in self._stream(self._symbols.SymbolizeStream, numbered):
            if response.HasField("failure"):
                raise from_status(response.failure)
            columns = response.answers.columns
            values = next(expected, parts[0][:0])
            whole.add(from_columns(columns, values, tables.take(columns.locations)))
        return whole.answers()

    def _described(self, module: module_pb2.Module) -> ModuleSummary:
        """The module with its code objects, kernels and containers, fetched page by page. Raises the module's failure."""
        if module.HasField("failure"):
            raise from_status(module.failure)
        described = from_packed(module.description) if module.HasField("description") else None
        if described is not None:
            return described
        objects = self._pages(self._modules.ListCodeObjects, ListCodeObjectsRequest(parent=module.name))
        kernels = self._pages(self._modules.ListKernels, ListKernelsRequest(parent=module.name, facts_as_json=True))
        containers = self._pages(self._modules.ListContainers, ListContainersRequest(parent=module.name))
        return from_module(
            module,
            (each for page in objects for each in page.code_objects),
            (each for page in kernels for each in page.kernels),
            (each for page in containers for each in page.containers) if module.contents.container_count else (),
        )

    def _pages(self, method: Callable[..., Any], request: Any) -> Iterator[Any]:
        while True:
            page = self._call(method, request)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def _call(self, method: Callable[..., Any], request: Any) -> Any:
        """``request`` is a message, or a function that begins an iterator of messages: the call may be made twice."""
        return self._persistence.called(partial(self._attempted, method, request), self._timeout)

    def _call_once(self, method: Callable[..., Any], request: Any) -> Any:
        return self._once.called(partial(self._attempted, method, request), self._timeout)

    def _attempted(self, method: Callable[..., Any], request: Any, attempt: Attempt) -> Any:
        if callable(request) and attempt.silence is not None:
            return self._sent(method, request, attempt)
        try:
            return self._begun(method, begun(request), timeout=attempt.seconds())
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                attempt.ran_out()
            raise self._error_of(error, self._timeout) from None

    def _sent(self, method: Callable[..., Any], request: Callable[[], Iterator[Any]], attempt: Attempt) -> Any:
        """The answer to many messages, which may take long while they are sent."""
        silence = StallTimer(attempt)
        future: Callable[..., Any] = method.future  # type: ignore[attr-defined] # gRPC's
        call = self._begun(future, silence.requests(request()), timeout=attempt.timeout)
        try:
            with silence.watched(call.cancel):
                return call.result()
        except (grpc.RpcError, grpc.FutureCancelledError):
            raise self._error_of(call, self._timeout) from None
        finally:
            call.cancel()

    def _stream(self, method: Callable[..., Any], request: Any) -> Iterator[Any]:
        """The messages of an answer; ``request`` as for ``_call``."""
        return self._persistence.replayed(partial(self._stream_once, method, request), self._timeout)

    def _stream_once(self, method: Callable[..., Any], request: Any, attempt: Attempt) -> Generator[Any, None, None]:
        silence = StallTimer(attempt)
        asked = silence.requests(request()) if callable(request) else request
        responses = self._begun(method, asked, timeout=attempt.timeout)
        try:
            yield from silence.answers(responses, responses.cancel)
        except grpc.RpcError as error:
            raise self._error_of(error, self._timeout) from None
        finally:
            responses.cancel()

    def _followed(
        self, method: Callable[..., Any], request: Any, position: str
    ) -> tuple[Iterator[Any], Callable[[], None]]:
        """What a watch says until it, or we, end it; and what ends it."""
        watch = OpenWatch(begun_after(partial(self._begun, method), request), position)

        def said(position: str) -> Generator[Any, None, None]:
            call = watch.call(position)
            try:
                yield from call
            except grpc.RpcError as error:
                if call.code() is not grpc.StatusCode.CANCELLED:
                    raise self._error_of(error, None) from None
            finally:
                call.cancel()

        return self._persistence.followed(said, position), watch.cancel

    def _begun(self, method: Callable[..., Any], request: Any, **settings: Any) -> Any:
        """What ``method`` gives. gRPC has no class of its own for the error of a closed channel."""
        try:
            return method(request, **settings)
        except ValueError:
            if self._closed.is_set():
                raise closed_error(self.address) from None
            raise

    def _error_of(self, error: Any, timeout: float | None) -> SymdError:
        if self._closed.is_set():
            return closed_error(self.address)
        told = about_tokens(self.address, self._shown, error_of(error, self.address, timeout))
        return about_certificates(self.address, self._shown, told)


class OpenWatch:
    """A watch's call, and the calls that go on after it where a daemon is lost. The first is made at once.

    ``begin`` makes a call of the request after a position."""

    def __init__(self, begin: Callable[[str], Any], position: str) -> None:
        self._begin = begin
        self._ended = False
        self._call = begin(position)

    def cancel(self) -> None:
        """End it. From any thread."""
        self._ended = True
        self._call.cancel()

    def call(self, position: str) -> Any:
        """The call that goes on at ``position``."""
        if self._call.done():
            self._call = self._begin(position)
        if self._ended:
            self._call.cancel()
        return self._call


def begun_after(method: Callable[..., Any], request: Any, metadata: Any = None) -> Callable[[str], Any]:
    """Begins a watch's call after a position."""

    def begin(position: str) -> Any:
        request.resume_after = position
        return method(request, metadata=metadata)

    return begin


def begun(request: Any) -> Any:
    """A message, or an iterator of messages from its beginning."""
    return request() if callable(request) else request


def closed_error(address: str) -> InvalidInput:
    """The error for a call of a client that was closed, before it or meanwhile."""
    return InvalidInput("this client is closed", where=address, hint="ask before close(), or inside its `with`")


def error_of(error: Any, address: str, timeout: float | None) -> SymdError:
    """The error that the status of a call stands for; one without details comes from gRPC itself."""
    status = rpc_status.from_call(error)
    if status is not None:
        return from_status(status)
    return _error_of_grpc(error.code(), error.details() or "", address, timeout)


def _error_of_grpc(code: grpc.StatusCode, details: str, address: str, timeout: float | None) -> SymdError:
    if code is grpc.StatusCode.UNAVAILABLE:
        return _unavailable(details, address)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineExceeded(f"no answer within {timeout} s", where=address, hint="allow more time")
    if code is grpc.StatusCode.CANCELLED:
        return Unavailable("the daemon has ended the call without saying why", where=address, hint=_ENDED)
    if details == _NOT_DECODED:
        return undecodable(address)
    if _BROKEN_OFF in details and code in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL):
        facts = {"grpc": details}
        return Unavailable("the call was broken off before its end", where=address, hint=_PROXY, metadata=facts)
    return rebuilt(code.value[0], details, "", {}).prefix_where(address)


def _unavailable(details: str, address: str) -> Unavailable:
    if is_refused_unseen(details):
        return CallRefused(_TOO_MANY, where=address, hint=_FEWER, metadata={"grpc": details})
    what, hint = unreachable(address, details)
    return ServerUnavailable(what, where=address, hint=hint, metadata={"grpc": details})


def undecodable(address: str) -> Malformed:
    """The error for an answer that is no message of its type."""
    return Malformed("what came is no answer to this call", where=address, hint=OTHER_SIDE)


def upload_requests(header: UploadHeader, data: bytes) -> Iterator[UploadModuleRequest]:
    yield UploadModuleRequest(header=header)
    for chunk in chunks_of(data, MIB):
        yield UploadModuleRequest(chunk=chunk)


def symbolize_request(name: str, queries: Sequence[Query], path: str | None, *, as_written: bool) -> SymbolizeRequest:
    ask = SymbolizeRequest(name=name, path=path, as_written=as_written)
    for query in queries:
        add_query(ask.queries, query)
    return ask


def addresses_of(queries: Sequence[Query]) -> U64:
    try:
        return np.fromiter((query.address for query in queries if isinstance(query, ByAddress)), np.uint64)
    except OverflowError:
        raise BadQuery("an address does not fit 64 bits") from None


class _Contexts(ContextVerbs):
    """``ContextVerbs`` over the channel of a client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._stub = client._contexts  # noqa: SLF001 - a part of it
        self._call = client._call  # noqa: SLF001
        self._call_once = client._call_once  # noqa: SLF001
        self._pages = client._pages  # noqa: SLF001

    def add(self, context: Context) -> str:
        response = self._call(self._stub.CreateContext, CreateContextRequest(context=to_context(context)))
        return context_id(response.context.name)

    def get(self, name: ContextName) -> ContextRecord:
        response = self._call(self._stub.GetContext, GetContextRequest(name=context_name(checked_context_id(name))))
        return from_context_record(response.context)

    def all(self, after: ContextName = "") -> Iterator[ContextRecord]:
        pages = self._pages(self._stub.ListContexts, ListContextsRequest())
        records = (from_context_record(each) for page in pages for each in page.contexts)
        if after:
            last = self.get(after).id
            return islice(dropwhile(lambda record: record.id != last, records), 1, None)
        return records

    def remove(self, name: ContextName) -> None:
        self._call_once(self._stub.DeleteContext, DeleteContextRequest(name=context_name(checked_context_id(name))))

    def record(self, name: ContextName, events: Sequence[Load | Unload]) -> list[str]:
        """In one call, and so all or nothing."""
        request = RecordEventsRequest(name=context_name(checked_context_id(name)), events=map(to_event, events))
        return list(self._call(self._stub.RecordEvents, request).keys)

    def loads(self, name: ContextName, after: int = 0) -> Iterator[tuple[int, Load]]:
        last = checked_load_number(after)
        request = ListLoadsRequest(parent=context_name(checked_context_id(name)))
        for page in self._pages(self._stub.ListLoads, request):
            yield from ((each.number, from_load(each.load)) for each in page.loads if each.number > last)

    def symbolize(
        self, name: ContextName, values: AnyAddresses, times: AnyTimes = None, form: AddressForm = WHOLE_ADDRESS
    ) -> DeviceAnswers:
        question, size = checked_addresses(name, values, times, form), MAX_ADDRESSES_PER_CALL
        if len(question.values) > size:
            size = min(MAX_ADDRESSES_PER_BATCH, self._client.server_info().max_batch)
        responses = (
            self._call(self._stub.SymbolizeAddresses, to_device_request(part)) for part in question.parts(size)
        )
        return concatenated_device([from_device_columns(response.answers) for response in responses])


class _Aliases:
    """``AliasVerbs`` over the channel of a client."""

    def __init__(self, client: Client) -> None:
        self._stub = client._aliases  # noqa: SLF001 - a part of it
        self._call = client._call  # noqa: SLF001
        self._call_once = client._call_once  # noqa: SLF001
        self._pages = client._pages  # noqa: SLF001

    def add(self, aliases: Sequence[Alias]) -> None:
        self._call(self._stub.CreateAliases, CreateAliasesRequest(aliases=map(to_alias, aliases)))

    def resolve(self, kind: str, key: str, context: ContextName = "") -> Alias | None:
        request = to_key(GetAliasRequest, checked_alias_key(kind, key, context))
        try:
            return from_alias(self._call(self._stub.GetAlias, request).alias)
        except AliasNotFound:
            return None

    def remove(self, kind: str, key: str, context: ContextName = "") -> None:
        request = to_key(DeleteAliasRequest, checked_alias_key(kind, key, context))
        self._call_once(self._stub.DeleteAlias, request)

    def of(self, digest: ModuleName, after: Alias | None = None) -> Iterator[Alias]:
        parent = checked_module_name(digest)
        key = alias_key(after) if after else ("", "", "")
        for page in self._pages(self._stub.ListAliases, ListAliasesRequest(parent=parent)):
            yield from (alias for alias in map(from_alias, page.aliases) if alias_key(alias) > key)


def alias_key(alias: Alias) -> tuple[str, str, str]:
    """What aliases are listed by."""
    of_kind(alias, Alias, ALIAS_HINT)
    return alias.context, alias.kind, alias.key
