"""The places and weights of a table of samples in Apache Arrow: which columns it needs, and of which types."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from symd.errors import InvalidInput
from symd.model.addresses import LATEST_TIME
from symd.model.columns import I64
from symd.profiles.sample_tables import NumberColumn, Places, TextColumn
from symd.profiles.sample_tables.location_registry import Weights
from symd.profiles.sample_tables.sample_files import PLACES, TEXTS, WEIGHT

SAME_NAMES: Mapping[str, str] = MappingProxyType({})
_WAYS = (("context", "device_address"), ("kernel", "offset"), ("address",))
_HINT = (
    "columns that name a place: context and device_address (and time); address; or kernel and offset (and module); "
    "columns= or --column says what they are called here"
)


def columns_read(schema: pa.Schema, names: Mapping[str, str]) -> list[str]:
    """The columns of a table that say place and weight, by its own names. Raises InvalidInput where they name no place,
    and where one is there twice."""
    read = [theirs for name in (*PLACES, WEIGHT) if (theirs := names.get(name, name)) in schema.names]
    twice = [name for name in read if schema.names.count(name) > 1]
    if twice:
        raise InvalidInput(f"there are several columns {twice[0]!r}", hint="rename them")
    missing = [theirs for theirs in names.values() if theirs not in schema.names]
    if missing:
        inside = (
            "; a field inside of a column is made a column first" if missing[0].split(".")[0] in schema.names else ""
        )
        there = ", ".join(schema.names)[:400]
        raise InvalidInput(f"there is no column {missing[0]!r}", hint=f"there are {there}{inside}")
    if not any(all(names.get(name, name) in read for name in way) for way in _WAYS):
        there = ", ".join(schema.names)[:400] or "none"
        raise InvalidInput("no column names a place", hint=f"there are {there}; {_HINT}")
    return read


def check_types(schema: pa.Schema, names: Mapping[str, str]) -> None:
    """Raises InvalidInput where a table with that schema would be refused."""
    nothing = schema.empty_table()
    places(nothing, names)
    weights(nothing, names)


def text_columns(schema: pa.Schema, names: Mapping[str, str]) -> list[str]:
    """The columns of a table, by the table's own names, that say a place as text."""
    return [theirs for name in TEXTS if (theirs := names.get(name, name)) in schema.names]


def places(table: pa.Table, names: Mapping[str, str] = SAME_NAMES) -> Places:
    """The places of the rows. Raises InvalidInput for a column that is missing or of another type."""
    columns_read(table.schema, names)

    def text(name: str) -> TextColumn | None:
        return _texts(table, names.get(name, name))

    def number(name: str) -> NumberColumn | None:
        return _numbers(table, names.get(name, name))

    return Places(
        table.num_rows,
        context=text("context"),
        device_address=number("device_address"),
        times=_times(table, names.get("time", "time")),
        module=text("module"),
        path=text("object"),
        kernel=text("kernel"),
        offset=number("offset"),
        address=number("address"),
    )


def weights(table: pa.Table, names: Mapping[str, str] = SAME_NAMES) -> Weights | None:
    """The weights of the rows; 0 where there is none, None where there is no such column. Raises InvalidInput for
    another type."""
    column = _column(table, names.get(WEIGHT, WEIGHT))
    if column is None:
        return None
    whole = pa.types.is_integer(column.type)
    if not whole and not pa.types.is_floating(column.type):
        raise _wrong_type(names.get(WEIGHT, WEIGHT), column.type, "whole numbers or floating-point numbers")
    try:
        found = column.cast(pa.int64() if whole else pa.float64())
    except pa.ArrowInvalid as error:
        raise InvalidInput(
            "there is a weight that does not fit 63 bits", where=names.get(WEIGHT, WEIGHT), hint="cast them to float64"
        ) from error
    numbers: Weights = found.fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _column(table: pa.Table, name: str) -> pa.Array | None:
    """A column in one piece; None where it is not there, or has no value at all."""
    if name not in table.schema.names:
        return None
    column = table.column(name)
    if pa.types.is_null(column.type):
        return None
    joined = column.combine_chunks()
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def _numbers(table: pa.Table, name: str) -> NumberColumn | None:
    """Numbers with a sign are extended by it: an address above 2^63 may be a negative number."""
    column = _column(table, name)
    if column is None:
        return None
    if not pa.types.is_integer(column.type):
        raise _wrong_type(name, column.type, "whole numbers")
    signed = pa.types.is_signed_integer(column.type)
    values = column.cast(pa.int64() if signed else pa.uint64()).fill_null(0).to_numpy(zero_copy_only=False)
    return NumberColumn(values.view(np.uint64), _present(column))


def _times(table: pa.Table, name: str) -> I64 | None:
    """Nanoseconds; where there is none, after everything that was told."""
    column = _column(table, name)
    if column is None:
        return None
    if not (pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type)):
        raise _wrong_type(name, column.type, "nanoseconds as whole numbers, or timestamps")
    try:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ns", column.type.tz))
        found: I64 = column.cast(pa.int64()).fill_null(LATEST_TIME).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid as error:
        raise InvalidInput(
            "there is a time that does not fit 63 bits of nanoseconds",
            where=name,
            hint="leave it out: a null is the latest",
        ) from error
    return np.minimum(found, LATEST_TIME)


def _texts(table: pa.Table, name: str) -> TextColumn | None:
    """An empty text is none."""
    column = _column(table, name)
    if column is None:
        return None
    value_type = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if not any(is_one(value_type) for is_one in is_text):
        raise _wrong_type(name, column.type, "texts")
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    try:
        texts = coded.dictionary.to_pylist()
    except UnicodeDecodeError as error:
        raise InvalidInput(
            "there is a text that is not UTF-8", where=name, hint="what wrote it may be damaged"
        ) from error
    codes = coded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    nothing = [number for number, text in enumerate(texts) if not text]
    if nothing:
        codes = np.where(np.isin(codes, nothing), -1, codes)
    return TextColumn(codes, [text or "" for text in texts])


def _present(column: pa.Array) -> NDArray[np.bool_]:
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    present: NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return present


def _wrong_type(name: str, found: pa.DataType, wanted: str) -> InvalidInput:
    return InvalidInput(f"the column holds {found}", where=name, hint=f"it must hold {wanted}: cast it")
