"""What callers of the verbs about contexts hand over, made what the verbs take, as ``arguments`` does it for modules.

What callers of the verbs about aliases hand over, made what the verbs take.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import index
from typing import Final, NamedTuple, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from symd.errors import BadQuery
from symd.model.arguments import AnyColumn, address_column
from symd.model.columns import I64, U64
from symd.model.contexts import AddressForm, ContextRecord, Times
from symd.model.kinds import kind_of, of_kind
from symd.model.texts import checked_text, counted

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
_FORM_HINT: Final = "pass AddressForm(shift=2), of symd.model.contexts"
_LAST_TIME: Final = (1 << 63) - 1


class AddressQuestion(NamedTuple):
    """Device addresses in the context with the id ``context``, each as of its time or all as of one."""

    context: str
    values: U64
    times: Times
    form: AddressForm

    def parts(self, size: int) -> Iterator[AddressQuestion]:
        """The question cut into questions for at most ``size`` addresses each; at least one."""
        for first in range(0, max(len(self.values), 1), size):
            part = slice(first, first + size)
            times = self.times if self.times is None or isinstance(self.times, int) else self.times[part]
            yield self._replace(values=self.values[part], times=times)


def checked_addresses(name: ContextName, values: AnyAddresses, times: AnyTimes, form: AddressForm) -> AddressQuestion:
    """Raises BadQuery for what is no context's name, no address or no time, and where times are not one for each address."""
    question = AddressQuestion(
        checked_context_id(name), _addresses(values), _times(times), of_kind(form, AddressForm, _FORM_HINT)
    )
    if isinstance(question.times, np.ndarray) and len(question.times) != len(question.values):
        what = f"{counted(len(question.times), 'time')} for {counted(len(question.values), 'address', 'addresses')}"
        raise BadQuery(what, hint="give one for each, or one for all")
    return question


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
    """A number, a column or None, as ``Times`` has them. Raises BadQuery for what is no time; the range of a number is left to others."""
    if times is None:
        return None
    column = address_column(times)
    if column is not None:
        if len(column) and not 0 <= int(column.min()) <= int(column.max()) <= _LAST_TIME:
            raise BadQuery("a time is below 0 or above 2^63 - 1", hint=_TIME_HINT)
        return column.astype(np.int64, copy=False)
    if _is_number(times):
        return _whole(times, "a time", _TIME_HINT)
    return _time_column(times)


def _time_column(times: object) -> I64:
    numbers = [_whole(each, "a time", _TIME_HINT) for each in _several(times)]
    if not all(0 <= each <= _LAST_TIME for each in numbers):
        raise BadQuery("a time is below 0 or above 2^63 - 1", hint=_TIME_HINT)
    return np.array(numbers, np.int64)


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
