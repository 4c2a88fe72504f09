"""Arguments of the verbs about modules, contexts and aliases, converted where they have one meaning. For anything else
the error says what the argument should have been, in the words of the field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import index
from typing import Final, NamedTuple, SupportsIndex, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from symd.errors import BadQuery, InvalidInput
from symd.model.addresses import (
    ByAddress,
    ByDevice,
    ByKernel,
    BySection,
    ObjectAddress,
    Query,
    SectionRange,
    parse_query,
    wrong_query,
)
from symd.model.breakpoints import PLACE_HINT, FunctionName, KernelName, LocationSpec, SourceLine, parse_place
from symd.model.columns import U32, U64, no_numbers
from symd.model.contexts import AddressForm, ContextRecord, Origin, Times
from symd.model.identities import Digest, checked_digest, named_digest
from symd.model.line_tables import MOST_AROUND, Around, CodePart, LineLevel, ListingPart
from symd.model.names import NameQuery, parse_name_query
from symd.model.sources import PathRule
from symd.model.summaries import ModuleRecord, ModuleSummary
from symd.model.texts import checked_text, counted, kind_of, of_kind, several

ModuleName: TypeAlias = str | ModuleSummary | ModuleRecord
"""What names a module: its SHA-256 as text, or what a verb said of it."""
AnyQuery: TypeAlias = Query | str | SupportsIndex
"""A query; text as ``symd symbolize`` takes it ("vadd+0x1b0"); or a number, which is an object address."""
AnyColumn: TypeAlias = NDArray[np.integer] | Iterable[SupportsIndex]
"""Whole numbers of 64 bits."""
AnyPlace: TypeAlias = LocationSpec | str
"""What a breakpoint is set at; as text what ``parse_place`` reads: "vadd.cl:8", "vadd.cl:8:5", a function's name,
"kernel:vadd", "vadd+0x10"."""
AnyNames: TypeAlias = NameQuery | str
"""A question for names; as text a name, or a pattern where it holds ``*``, ``?`` or ``[``."""

_LONGEST_TIMEOUT: Final = 1_000_000_000
"""Thirty years: what is much longer gRPC takes for a time that is over."""
_QUERIES = frozenset((ByAddress, ByKernel, BySection))
_PLACES = (ByDevice, SourceLine, FunctionName, KernelName, ByAddress, ByKernel, BySection)


def unchecked_digest(module: ModuleName) -> str:
    """The digest in a summary, in a record or in ``modules/SHA256``. Other text is returned as it is: whoever looks for
    the module says what is wrong with it. Raises InvalidInput for what names no module."""
    if isinstance(module, str):
        return named_digest(module) or module
    if isinstance(module, ModuleSummary | ModuleRecord):
        return module.sha256
    raise InvalidInput(f"a module is named by its SHA-256, not by {kind_of(module)}", hint="pass module.sha256")


def checked_digest_of(module: ModuleName) -> Digest:
    """The digest of a module, as ``unchecked_digest``. Raises BadQuery for text that is no digest."""
    return checked_digest(unchecked_digest(module))


def checked_bytes(data: bytes) -> bytes:
    """Raises InvalidInput for what is not a module's bytes."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InvalidInput(f"a module is its bytes, not {kind_of(data)}", hint="pass open(path, 'rb').read()")
    return data


def checked_query(query: AnyQuery) -> Query:
    """One query from whatever means one. Raises BadQuery for other things."""
    if isinstance(query, (ByKernel, ByAddress, BySection)):
        return query
    if isinstance(query, str):
        return parse_query(query)
    if isinstance(query, (bool, np.bool_)):  # Python takes them for numbers
        raise wrong_query(query)
    try:
        address = index(query)
    except TypeError:
        raise wrong_query(query) from None
    if not 0 <= address < 1 << 64:
        raise BadQuery(f"{address} is not an address", hint="an address has 64 bits, and no sign")
    return ByAddress(ObjectAddress(address))


def is_one_query(query: object) -> bool:
    """Whether this is one query rather than a sequence of them."""
    return isinstance(query, (str, bytes, ByKernel, ByAddress, BySection)) or not isinstance(query, Iterable)


def address_column(queries: object) -> NDArray[np.integer] | None:
    """The array, where ``queries`` is a column of whole numbers: of NumPy, or of what makes one, as pandas does."""
    made = queries if isinstance(queries, np.ndarray) or not hasattr(queries, "__array__") else np.asarray(queries)
    return made if isinstance(made, np.ndarray) and made.ndim == 1 and made.dtype.kind in "ui" else None


def checked_queries(queries: Iterable[AnyQuery]) -> Sequence[Query]:
    """Queries from whatever means each. Raises BadQuery where one query, or text, stands for the sequence of them."""
    if is_one_query(queries):
        raise BadQuery(
            f"{kind_of(queries)} is not a sequence of queries", hint="put it in a list, or ask symbolize_one"
        )
    asked = queries if isinstance(queries, (list, tuple)) else list(queries)
    if _QUERIES.issuperset(map(type, asked)):
        return cast("Sequence[Query]", asked)
    return [checked_query(query) for query in asked]


def checked_places(queries: Iterable[AnyQuery | ByDevice]) -> Sequence[Query | ByDevice]:
    """Queries from whatever means each, as ``checked_queries`` takes them; device addresses may be among them. Raises
    BadQuery."""
    if is_one_query(queries):
        return checked_queries(queries)  # type: ignore[arg-type] # which refuses it
    return [checked_device(each) if isinstance(each, ByDevice) else checked_query(each) for each in queries]


def checked_device(query: ByDevice) -> ByDevice:
    """The device address with its context's id, which may be named as ``ContextName`` has it. Raises BadQuery."""
    return replace(query, context=checked_context_id(query.context))


def checked_column(values: AnyColumn) -> U64:
    """A column of offsets or addresses from any sequence of numbers. Raises BadQuery for other things, and for numbers
    that are not whole or have no 64 bits."""
    column = address_column(values)
    if column is not None:
        if column.dtype.kind == "u" or not len(column) or int(column.min()) >= 0:
            return column.astype(np.uint64, copy=False)
        raise _wrong_column()
    try:
        return np.array([_number(value) for value in values], np.uint64)
    except (TypeError, OverflowError):
        raise _wrong_column() from None


def _wrong_column() -> BadQuery:
    what = "the column is not a sequence of 64-bit integers"
    return BadQuery(what, hint="pass a NumPy array of uint64")


def _number(value: SupportsIndex) -> int:
    number = index(value)
    if not 0 <= number < 1 << 64:
        raise OverflowError
    return number


def checked_place(where: AnyPlace) -> LocationSpec:
    """Raises BadQuery for what no breakpoint can be set at."""
    if isinstance(where, str):
        return parse_place(where)
    place = of_kind(where, _PLACES, PLACE_HINT, "a place for a breakpoint")
    return checked_device(place) if isinstance(place, ByDevice) else place


def checked_targets(targets: Iterable[str]) -> tuple[str, ...]:
    """Raises BadQuery for what are no targets of code objects."""
    hint = "pass a list of texts such as module.objects[0].target"
    return tuple(checked_text(each, "a target", hint) for each in several(targets, "targets", hint))


def checked_names(wanted: AnyNames) -> NameQuery:
    """Raises BadQuery for what is not a question for names."""
    if isinstance(wanted, str):
        return parse_name_query(wanted)
    return of_kind(wanted, NameQuery, 'write "vadd*", or NameQuery("vadd*")', "a question for names")


def checked_timeout(seconds: object) -> float | None:
    """How many seconds a call may take; None: no end. Raises InvalidInput for what is no number of them."""
    if seconds is None:
        return None
    hint = "pass seconds, such as 10, or None to wait as long as it takes"
    if isinstance(seconds, (bool, np.bool_)) or not isinstance(seconds, (int, float, np.integer, np.floating)):
        raise InvalidInput(f"a timeout is a number of seconds, not {kind_of(seconds)}", hint=hint)
    if not 0 <= seconds <= _LONGEST_TIMEOUT:  # also nan
        raise InvalidInput(f"{str(seconds)[:80]} is not a timeout", hint=f"{hint}; at most {_LONGEST_TIMEOUT}")
    return seconds if isinstance(seconds, int) else float(seconds)


def checked_modules(modules: Iterable[ModuleName]) -> list[str]:
    """The digests of modules, as ``unchecked_digest`` has each. Raises BadQuery for what is no sequence of them."""
    return [unchecked_digest(each) for each in several(modules, "modules", "put it in a list")]


def checked_part(part: ListingPart) -> ListingPart:
    """Raises BadQuery for what is no part of a module."""
    passed: object = part
    meant = 'one function is ListingPart(within="vadd")'
    if isinstance(passed, (Around, SectionRange)):
        meant = f"pass ListingPart(within={type(passed).__name__}(...))"
    of_kind(part, ListingPart, f"{meant}, of symd.model.line_tables")
    checked_path(part.path)
    if part.target is not None:
        of_kind(part.target, str, 'pass a text such as "dg2"', "the name of a device")
    return replace(part, within=checked_within(part.within))


def checked_within(within: CodePart | None) -> CodePart | None:
    """Raises BadQuery for what says no part of the code; None: all of it."""
    if within is None or isinstance(within, str):
        return within
    of_kind(
        within, (Around, SectionRange), "pass the name of a function, Around or SectionRange (symd.model.line_tables)"
    )
    if isinstance(within, SectionRange):
        checked_section(within.section)
        if not 0 <= within.start < within.end < 1 << 64:
            raise BadQuery(
                "the range has no bytes", hint="its start is less than its end, and neither has more than 64 bits"
            )
        return within
    for name, count in (("before", within.before), ("after", within.after)):
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MOST_AROUND:
            raise BadQuery(f"{name} is not a number from 0 to {MOST_AROUND}", hint="pass how many are wanted")
    asked = within.query
    return replace(within, query=checked_device(asked) if isinstance(asked, ByDevice) else checked_query(asked))


def is_in_memory(within: CodePart | None) -> bool:
    """Whether a part of the code is meant by a device address."""
    return isinstance(within, Around) and isinstance(within.query, ByDevice)


def checked_path(path: str | None) -> str | None:
    """Raises BadQuery for what is no path of a code object; None: all of them."""
    return None if path is None else checked_object(path)


def checked_object(path: str) -> str:
    """Raises BadQuery for what is no path of a code object."""
    hint = "pass a text such as module.objects[0].path, of one code object"
    return of_kind(path, str, hint, "the path of a code object")


def checked_kernel(kernel: str | None) -> str | None:
    """Raises BadQuery for what is no name of a kernel; None: none is named."""
    hint = "pass a text such as kernel.name; symbolize_origins takes several kernels"
    return None if kernel is None else of_kind(kernel, str, hint, "the name of a kernel")


def checked_section(section: str | SupportsIndex | None) -> str | int | None:
    """Raises BadQuery for what is neither the name nor the number of a section; None: none is named."""
    if section is None or isinstance(section, str):
        return section
    if isinstance(section, (bool, np.bool_)) or not isinstance(section, (int, np.integer)):
        raise BadQuery(f"{kind_of(section)} is not a section", hint='pass its name, such as ".text", or its number')
    return int(section)


def checked_level(level: LineLevel | str) -> LineLevel:
    """Raises BadQuery for what no line table speaks of."""
    try:
        return LineLevel(level)
    except ValueError:
        raise BadQuery(
            f"{kind_of(level)} is not a level of lines", hint="pass LineLevel.SOURCE or LineLevel.PTX"
        ) from None


def checked_files(files: Iterable[str]) -> Sequence[str]:
    """Raises BadQuery for what are no names of source files."""
    names = several(files, "names of files", "put it in a list")
    for each in names:
        of_kind(each, str, "pass what frames have: frame.file", "the name of a file")
    return names


def checked_rules(rules: Iterable[PathRule]) -> tuple[PathRule, ...]:
    """Raises BadQuery for what are no rules for paths."""
    hint = 'pass a list of PathRule("/build", "/src"), of symd.model.sources'
    return tuple(of_kind(each, PathRule, hint) for each in several(rules, "rules", hint))


_HINT: Final = "an alias has a kind and a key"


class AliasKey(NamedTuple):
    """What names an alias; ``context`` is an id, or "" for everywhere."""

    kind: str
    key: str
    context: str


def checked_alias_key(kind: str, key: str, context: ContextName) -> AliasKey:
    """Raises BadQuery for what is no text, and for what names no context."""
    return AliasKey(
        checked_text(kind, "the kind of an alias", _HINT),
        checked_text(key, "the key of an alias", _HINT),
        checked_context_id(context),
    )


ContextName: TypeAlias = str | ContextRecord
"""What names a context: its id, ``contexts/ID``, or its record."""
AnyAddresses: TypeAlias = AnyColumn | SupportsIndex
"""Device addresses, or one."""
AnyTimes: TypeAlias = NDArray[np.integer] | Iterable[SupportsIndex] | SupportsIndex | None
"""``Times``; also a list, or a NumPy number."""

_CONTEXT_HINT: Final = "pass what add gave, or a record of all()"
_ADDRESS_HINT: Final = "pass a number, a list of numbers or a NumPy array of uint64"
_LOAD_HINT: Final = "pass a number that loads gave"
_TIME_HINT: Final = "times are nanoseconds, from 0 to 2^63 - 2"
_ORIGIN_HINT: Final = 'pass a list of Origin(module, kernel="vadd") or Origin(context=name), of symd.model.contexts'
_FORM_HINT: Final = "pass AddressForm(shift=2), of symd.model.contexts"
_LAST_TIME: Final = (1 << 63) - 1


class ColumnQuestion(NamedTuple):
    """Numbers that count from ``origins``: ``origin`` has for each the number of its own, None where all have the
    first. Device addresses are meant as of ``times``, each or all."""

    values: U64
    origins: Sequence[Origin]
    origin: U32 | None = None
    times: Times = None

    @property
    def numbers(self) -> U32:
        """The number of each value's origin."""
        return no_numbers(len(self.values)) if self.origin is None else self.origin

    def parts(self, size: int) -> Iterator[ColumnQuestion]:
        """The question cut into questions for at most ``size`` addresses each; at least one."""
        for first in range(0, max(len(self.values), 1), size):
            part = slice(first, first + size)
            origin = None if self.origin is None else self.origin[part]
            times = self.times if self.times is None or isinstance(self.times, int) else self.times[part]
            yield self._replace(values=self.values[part], origin=origin, times=times)


def checked_addresses(name: ContextName, values: AnyAddresses, times: AnyTimes, form: AddressForm) -> ColumnQuestion:
    """Raises BadQuery for what is no context's name, no address or no time, and where times are not one for each
    address."""
    origin = Origin(context=checked_context_id(name), form=of_kind(form, AddressForm, _FORM_HINT))
    return _with_times(ColumnQuestion(_addresses(values), (origin,)), times)


def checked_question(
    values: AnyColumn, origins: Sequence[Origin], origin: AnyColumn | None, times: AnyTimes
) -> ColumnQuestion:
    """Raises BadQuery for what is no number, no origin, no number of one and no time, and where columns are not as
    long."""
    known = [_checked_origin(each) for each in several(origins, "origins", _ORIGIN_HINT)]
    column = checked_column(values)
    numbers = None if origin is None else checked_column(origin)
    if numbers is not None and len(numbers) != len(column):
        what = f"{counted(len(numbers), 'number')} of origins for {counted(len(column), 'value')}"
        raise BadQuery(what, hint="give one for each value")
    top = 0 if numbers is None or not len(numbers) else int(numbers.max())
    if len(column) and top >= len(known):
        raise BadQuery(
            f"there is no origin {top}: there are {len(known)}",
            hint="numbers of origins are places in their list, from 0",
        )
    question = ColumnQuestion(column, known, None if numbers is None else numbers.astype(np.uint32))
    return _with_times(question, times)


def _checked_origin(origin: Origin) -> Origin:
    of_kind(origin, Origin, _ORIGIN_HINT)
    checked = Origin(
        unchecked_digest(origin.module),
        checked_path(origin.path),
        checked_kernel(origin.kernel),
        checked_section(origin.section),
        checked_context_id(origin.context),
        of_kind(origin.form, AddressForm, _FORM_HINT),
    )
    if not checked.module and not checked.context:
        raise BadQuery("an origin names neither a module nor a context", hint=_ORIGIN_HINT)
    return checked


def _with_times(question: ColumnQuestion, times: AnyTimes) -> ColumnQuestion:
    timed = question._replace(times=_times(times))
    if isinstance(timed.times, np.ndarray) and len(timed.times) != len(timed.values):
        what = f"{counted(len(timed.times), 'time')} for {counted(len(timed.values), 'address', 'addresses')}"
        raise BadQuery(what, hint="give one for each, or one for all")
    return timed


def checked_load_number(number: SupportsIndex) -> int:
    """The number of a load, or 0. Raises BadQuery for another."""
    checked = _whole(number, "the number of a load", _LOAD_HINT)
    if not 0 <= checked < 1 << 63:
        raise BadQuery(f"{checked} is not the number of a load", hint=_LOAD_HINT)
    return checked


def checked_context_id(context: ContextName) -> str:
    """A context's id, or "". Raises BadQuery for what is neither text nor a record."""
    if isinstance(context, ContextRecord):
        return context.id
    if not isinstance(context, str):
        raise BadQuery(f"a context is named by its id, not by {kind_of(context)}", hint=_CONTEXT_HINT)
    return checked_text(context, "a context's id", _CONTEXT_HINT).removeprefix("contexts/")


def _addresses(values: AnyAddresses) -> U64:
    """Device addresses as a column; one is a column of one. Raises BadQuery for what is no address."""
    column = address_column(values)
    if column is not None:
        if column.dtype.kind == "i" and len(column) and int(column.min()) < 0:
            raise BadQuery(f"{int(column.min())} is not a device address", hint="an address has 64 bits, and no sign")
        return column.astype(np.uint64, copy=False)
    return np.array([_address(each) for each in _several(values)], np.uint64)


def _times(times: AnyTimes) -> Times:
    """A number, a column or None, as ``Times`` has them. Raises BadQuery for what is no time; the range of a number is
    left to others."""
    if times is None:
        return None
    column = address_column(times)
    if column is None:
        if _is_number(times):
            return _whole(times, "a time", _TIME_HINT)
        column = np.array([_whole(each, "a time", _TIME_HINT) for each in _several(times)], object)
    if len(column) and not 0 <= int(column.min()) <= int(column.max()) <= _LAST_TIME:
        raise BadQuery("a time is below 0 or above 2^63 - 1", hint=_TIME_HINT)
    return column.astype(np.int64, copy=False)


def _address(value: object) -> int:
    number = _whole(value, "a device address", _ADDRESS_HINT)
    if not 0 <= number < 1 << 64:
        raise BadQuery(f"{number} is not a device address", hint="an address has 64 bits, and no sign")
    return number


def _several(values: object) -> Iterable[object]:
    """The elements of a sequence, or the one value alone. A text is one value, although it is a sequence of texts."""
    if isinstance(values, str | bytes) or _is_number(values) or not isinstance(values, Iterable):
        return (values,)
    return values


def _is_number(value: object) -> bool:
    """Whether a value is a number, which an array of NumPy without a dimension is, too."""
    try:
        index(value)  # type: ignore[arg-type] # whether it takes it is the question
    except TypeError:
        return False
    return True


def _whole(value: object, what: str, hint: str) -> int:
    if isinstance(value, bool | np.bool_) or not _is_number(value):  # Python takes truth for a number
        raise BadQuery(f"{kind_of(value)} is not {what}", hint=hint)
    return index(value)  # type: ignore[arg-type] # just found to be one
