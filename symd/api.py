"""The verbs that the in-process engine and the client over gRPC both offer, so that commands and tests take either."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, overload

from symd.model.addresses import ByDevice, Query
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
)
from symd.model.breakpoints import Breakpoint, Located
from symd.model.contexts import (
    WHOLE_ADDRESS,
    AddressForm,
    Alias,
    Context,
    ContextRecord,
    DeviceAnswers,
    DevicePlace,
    Load,
    Origin,
    Unload,
)
from symd.model.cores import CoreDump
from symd.model.grabs import Grabbed, GrabRequest
from symd.model.line_tables import WHOLE_MODULE, CodePart, LineLevel, LineTable, Listing, ListingPart, RowsInParts
from symd.model.names import NamedItem
from symd.model.sources import PathRule, SourceText
from symd.model.summaries import ModuleRecord, ModuleSummary
from symd.model.variables import InScope
from symd.model.watches import BreakpointChange, Watch

if TYPE_CHECKING:
    from concurrent.futures import Future


class ContextVerbs(Protocol):
    """Contexts and what was loaded in them. A context is named by the id that ``add`` gives; methods that take one
    raise ``ContextNotFound``."""

    def add(self, context: Context) -> str:
        """Make a context known. The id follows from what it says: adding it again changes nothing."""
        ...

    def get(self, name: ContextName) -> ContextRecord:
        """One context."""
        ...

    def all(self, after: ContextName = "") -> Iterator[ContextRecord]:
        """Every context, oldest first; only those after the one with the id ``after``."""
        ...

    def remove(self, name: ContextName) -> None:
        """Forget a context with its loads, unloads and aliases."""
        ...

    def record(self, name: ContextName, events: Sequence[Load | Unload]) -> list[str]:
        """Keep what happened, in any order; on an error nothing of it. The key of each event comes back. Telling an
        event twice is telling it once."""
        ...

    def loads(self, name: ContextName, after: int = 0) -> Iterator[tuple[int, Load]]:
        """Every load with its segments, its key and, when it has ended, its end, in the order they were told; each with
        its number. Only those after number ``after``."""
        ...

    def symbolize(
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
        ...


class ServedContextVerbs(ContextVerbs, Protocol):
    """The verbs about contexts as a service offers them."""

    def place(self, query: ByDevice) -> DevicePlace:
        """What a device address means in which module, or the reason why it means nothing. Raises
        ``ContextNotFound``."""
        ...


class AliasVerbs(Protocol):
    """Other names of modules and code objects, in both directions."""

    def add(self, aliases: Sequence[Alias]) -> None:
        """Make names known, all or on an error none; the last one told wins. Raises ``ModuleNotFound`` and
        ``ContextNotFound``."""
        ...

    def resolve(self, kind: str, key: str, context: ContextName = "") -> Alias | None:
        """What a name means in a context, or else everywhere. None: nobody told."""
        ...

    def remove(self, kind: str, key: str, context: ContextName = "") -> None:
        """Forget what a name means in that context, or ("") everywhere. Raises ``AliasNotFound``."""
        ...

    def of(self, digest: ModuleName, after: Alias | None = None) -> Iterator[Alias]:
        """All names of a module, by context, kind and key; only those after ``after``."""
        ...


class Symbolizer(Protocol):
    """What the in-process engine and the client over gRPC both do, with the same words and the same answers.

    Digests are lower-case hexadecimal SHA-256 of the module's bytes; a summary or a record stands for its module as
    well (``symd.model.arguments`` says what else may be written). All methods raise ``SymdError``.
    """

    @property
    def contexts(self) -> ContextVerbs:
        """Device addresses as of a time: contexts, what was loaded in them, and questions about that."""
        ...

    @property
    def aliases(self) -> AliasVerbs:
        """Other names of modules."""
        ...

    def missing(self, digests: Sequence[str]) -> list[str]:
        """The digests among ``digests`` whose modules are not in the store, in the order given."""
        ...

    def add(self, data: bytes, label: str = "") -> ModuleSummary:
        """Store a module and index it. Adding what is there already is cheap and changes nothing."""
        ...

    def grab(self, request: GrabRequest) -> tuple[ModuleSummary, Grabbed]:
        """Build a module with a real driver, take its debug data and add that."""
        ...

    def modules(self) -> Iterator[ModuleRecord]:
        """The catalogue, oldest first."""
        ...

    def record(self, digest: ModuleName) -> ModuleRecord:
        """One module's line of the catalogue. Raises ``ModuleNotFound``."""
        ...

    def relabel(self, digest: ModuleName, label: str) -> ModuleRecord:
        """Give a module another label; the catalogue's line as it is then. Raises ``ModuleNotFound``."""
        ...

    def remove(self, digest: ModuleName) -> None:
        """Forget a module with its index and its aliases; what was loaded of it in contexts stays told. Raises
        ``ModuleNotFound``."""
        ...

    def module(self, digest: ModuleName) -> ModuleSummary:
        """One module described: code objects, kernels, notes."""
        ...

    def object_data(self, digest: ModuleName, path: str) -> bytes:
        """The bytes of the code object at nesting path ``path``."""
        ...

    def lines(
        self,
        digest: ModuleName,
        path: str | None = None,
        level: LineLevel = LineLevel.SOURCE,
        within: CodePart | None = None,
    ) -> Iterator[LineTable]:
        """The decoded line table of one level, one for each code object that has it (or only the one at ``path``). With
        ``within`` only the rows that cover a function, are around a place, or cover a range."""
        ...

    def symbolize(
        self,
        digest: ModuleName,
        queries: Iterable[AnyQuery],
        path: str | None = None,
        *,
        as_written: bool = False,
        with_ranges: bool = False,
    ) -> Answers:
        """Frames for each query, in order; ``path`` restricts all of them to one code object. ``as_written``: what rows
        and scopes say, also where they contradict each other. ``with_ranges``: each answer also says how far it holds
        (``Answer.ranges``), of at most 4096 queries."""
        ...

    def symbolize_one(
        self, digest: ModuleName, query: AnyQuery, path: str | None = None, *, with_ranges: bool = False
    ) -> Answer:
        """The frames for one query about a module, or about the code object at ``path`` in it, by the shortest way.
        ``with_ranges``: the answer also says how far it holds (``Answer.ranges``)."""
        ...

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
        """Frames for each of ``values``, in order: kernel offsets when ``kernel`` is given, section offsets when
        ``section`` is, object addresses otherwise. ``path`` restricts them to one code object. ``as_written``: what
        rows and scopes say, also where they contradict each other."""
        ...

    def symbolize_origins(
        self,
        values: AnyColumn,
        origins: Sequence[Origin],
        origin: AnyColumn | None = None,
        times: AnyTimes = None,
        *,
        as_written: bool = False,
    ) -> DeviceAnswers:
        """Frames for each of ``values``, in order, whatever it counts from: a whole profile over kernels of several
        modules and device memory of several contexts. ``origins`` are these kernels, sections, modules and contexts;
        ``origin`` has for each value the number of its own among them, from 0 (None: all have the first). ``times`` are
        those of device addresses, as ``contexts.symbolize`` takes them. What cannot be answered has a reason and is no
        error, also where a module is not in the store. Raises ``BadQuery`` and ``ContextNotFound``."""
        ...

    def locate(
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
        """The addresses for a breakpoint at a place (a source line, a function, a kernel or a query), or why there are
        none (``symd.query.breakpoints.locate``). ``targets``: only in code objects for one of these, such as "gfx90a"
        or "sm_80". ``context``: locations also say their device addresses there, where the module is loaded. A device
        address (``ByDevice``) means the module that was there, and ``digest`` may then be ""."""
        ...

    def watch(
        self,
        breakpoints: Sequence[Breakpoint] = (),
        *,
        contexts: Sequence[ContextName] = (),
        apis: Sequence[str] = (),
        only_new: bool = False,
        resume_token: str = "",
    ) -> Watch:
        """What happens to modules, and what they answer to breakpoints: first the modules that are there and their
        loads that have not ended (unless ``only_new``), then ``Watching``, then everything as it happens, whoever does
        it. ``Watch.add`` and ``Watch.remove`` change the breakpoints meanwhile. ``contexts``, ``apis``: only what is
        loaded and unloaded in these, through these (values of ``CaptureApi``). With the last ``resume_token`` of an
        earlier watch, and the breakpoints that were acknowledged there, it goes on after that, also in another process
        over the same store. Ends when it is closed; raises ``PositionLost``, ``BadQuery`` and ``ContextNotFound``, at
        the latest when the first event is taken."""
        ...

    def names(self, digest: ModuleName, wanted: AnyNames, path: str | None = None) -> Sequence[NamedItem]:
        """Kernels, functions and files by name (``symd.query.names.find_names``)."""
        ...

    @overload
    def variables(  # type: ignore[overload-overlap] # a text is one query, and not its characters
        self, digest: ModuleName, query: AnyQuery | ByDevice, path: str | None = None, *, with_ranges: bool = False
    ) -> InScope: ...
    @overload
    def variables(
        self,
        digest: ModuleName,
        query: Iterable[AnyQuery | ByDevice],
        path: str | None = None,
        *,
        with_ranges: bool = False,
    ) -> list[InScope]: ...
    def variables(
        self,
        digest: ModuleName,
        query: AnyQuery | ByDevice | Iterable[AnyQuery | ByDevice],
        path: str | None = None,
        *,
        with_ranges: bool = False,
    ) -> InScope | list[InScope]:
        """The variables in scope at one place, with their frames, types and locations (``symd.query.variables``); at
        several, in order, where there are several queries. Those of device addresses (``ByDevice``) mean the module
        that was there: all frames of a stack are one call, and ``digest`` may then be "". ``with_ranges``: each answer
        also says how far it holds (``Answer.ranges``)."""
        ...

    def listing(
        self,
        digest: ModuleName,
        part: ListingPart = WHOLE_MODULE,
    ) -> Iterator[Listing]:
        """The instructions with the frames that each comes from, code object by code object
        (``symd.query.line_tables``). Those around a device address (``ByDevice``) are of the module that was there, and
        ``digest`` may then be ""."""
        ...

    def core(self, digest: ModuleName, modules: Sequence[ModuleName] = ()) -> CoreDump:
        """What every warp or wave of a GPU core dump was doing; ``modules`` answer for code that the dump holds without
        debug data. Raises ``InvalidInput`` for a module that is no dump."""
        ...

    def sources(self, digest: ModuleName, files: Sequence[str], path: str | None = None) -> list[SourceText]:
        """The texts of source files, named as frames name them, in order (``symd.query.source_files``). The engine
        knows what modules carry; a daemon looks on its disk too, where it was allowed to."""
        ...


class Receiving(Protocol):
    """A module that arrives in pieces; a context manager that forgets what was not committed."""

    @property
    def size(self) -> int:
        """Bytes written so far."""
        ...

    def write(self, chunk: bytes) -> None:
        """Append."""
        ...

    def commit(self, expected_digest: str) -> ModuleSummary:
        """Index the whole and keep it. Raises ``HashMismatch`` when it is not what was announced; after any error the
        store is as it was before."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Pending(Exception):
    """Another thread makes the index that a question needs: ``made`` ends when it has, with the error of one that took
    too long."""

    def __init__(self, made: Future[None]) -> None:
        super().__init__()
        self.made = made


class Host(Symbolizer, Protocol):
    """A symbolizer that a service may be on: it also takes modules, and gives code objects, piece by piece. Verbs that
    may take long end where nobody waits any more (``symd.model.cancellation``)."""

    @property
    def contexts(self) -> ServedContextVerbs:
        """Device addresses as of a time: contexts, what was loaded in them, and questions about that, for a service
        whose callers may leave."""
        ...

    def watch(
        self,
        breakpoints: Sequence[Breakpoint] = (),
        *,
        contexts: Sequence[ContextName] = (),
        apis: Sequence[str] = (),
        only_new: bool = False,
        resume_token: str = "",
        changes: Callable[[], Iterable[BreakpointChange]] = tuple,
    ) -> Watch:
        """``Symbolizer.watch``. ``changes`` gives the changes of breakpoints that came since it was last asked; it is
        asked after each ``Watch.wake``."""
        ...

    def answers(
        self,
        question: ColumnQuestion,
        own: str = "",
        *,
        as_written: bool = False,
        with_ranges: bool = False,
    ) -> DeviceAnswers:
        """What ``symbolize_origins`` answers to a question that is checked, with ranges where these are wanted. Errors
        of the module with the digest ``own`` are raised."""
        ...

    def records(self, after: tuple[float, str], at_once: int) -> Iterator[ModuleRecord]:
        """What ``modules`` gives behind ``after``, which is (create_time, sha256); ``at_once`` of them are read
        together."""
        ...

    def answer_from_open_index(self, digest: str, query: Query, path: str | None = None) -> Answer | None:
        """What ``symbolize_one`` answers, where that is a search in memory; None where it may take longer."""
        ...

    def answer_from_index_file(self, digest: str, query: Query, path: str | None = None) -> Answer | None:
        """What ``symbolize_one`` answers of a module that is asked about for the first time, where the file of its
        index has the answer; None where only the open index has it."""
        ...

    def stored_lines(
        self, digest: str, path: str | None = None, within: CodePart | None = None
    ) -> Iterator[RowsInParts]:
        """``lines`` of the source, each of which is made in the parts that are asked for."""
        ...

    def packed_summary(self, digest: str) -> bytes | None:
        """What ``module`` says, as its index has it (docs/index-format.md), where that is open; else None."""
        ...

    def is_open(self, digest: str) -> bool:
        """Whether the module's index is open: where it is not, a question may have to wait until it is made."""
        ...

    def without_waiting(self) -> AbstractContextManager[None]:
        """Inside, in this thread, a question raises ``Pending`` where it would wait until another thread has made an
        index. It may be asked again."""
        ...

    def receive(self, label: str = "") -> Receiving:
        """Begin to take a module."""
        ...

    def module_pieces(self, digest: str, size: int) -> Iterator[bytes]:
        """The module's own bytes in pieces of ``size`` bytes. Raises ``ModuleNotFound``."""
        ...

    def section_data(self, digest: str, path: str | None, name: str) -> bytes:
        """The bytes of a section as they are in the file of the code object at ``path``, or (None) of the module.
        Raises ``NotFound``."""
        ...

    def object_pieces(self, digest: str, path: str, size: int) -> Iterator[bytes]:
        """``object_data`` in pieces of ``size`` bytes: in memory there is never more than a piece."""
        ...
