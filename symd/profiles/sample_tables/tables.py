"""Tables of samples in Apache Arrow answered: one value for a run, which keeps what it has found so far. Places and
weights are read from columns of these types; answers are columns too: a number for each sample, what the numbers stand
for, frames beside each sample, hot lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from symd.api import Symbolizer
from symd.errors import InvalidInput
from symd.model.addresses import LATEST_TIME
from symd.model.answers import Reason
from symd.model.columns import I64, U32
from symd.profiles.resolver import NamedModule
from symd.profiles.sample_tables import NumberColumn, Places, TextColumn
from symd.profiles.sample_tables.answering import SampleAnswering, SampleModuleNames
from symd.profiles.sample_tables.location_registry import (
    HotLines,
    LocationRegistry,
    RegistryColumns,
    SampleTally,
    Weights,
)
from symd.profiles.sample_tables.sample_files import PLACES, TEXTS, WEIGHT, SampleForm, TableNames

FRAME = pa.struct(
    [
        ("function", pa.string()),
        ("linkage_name", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("column", pa.int64()),
        ("inlined", pa.bool_()),
    ]
)
ANSWER = {
    "reason": pa.string(),
    "in_module": pa.string(),
    "in_kernel": pa.string(),
    "frames": pa.list_(FRAME),
}
"""What an answer says, with the types that are written to files."""
LOCATION = "location"
LOCATIONS = pa.schema([(LOCATION, pa.int64()), *ANSWER.items()])
_REASONS = ["", *("" for _ in range(max(Reason)))]
for _reason in Reason:
    _REASONS[_reason] = _reason.name


def appended(schema: pa.Schema, columns: Mapping[str, pa.DataType], prefix: str) -> pa.Schema:
    """A schema with further columns, whose names begin with ``prefix``. Raises InvalidInput where the names are
    taken."""
    for name in columns:
        if prefix + name in schema.names:
            raise InvalidInput(
                f"there is a column {prefix + name!r} already",
                hint="prefix= or --prefix puts characters before symd's names",
            )
    for name, kind in columns.items():
        schema = schema.append(pa.field(prefix + name, kind))
    return schema


def hot_lines_schema(weight: pa.DataType) -> pa.Schema:
    """Weights are whole numbers (int64), or floating-point numbers where the samples' are."""
    return pa.schema(
        [
            ("function", pa.string()),
            ("file", pa.string()),
            ("line", pa.int64()),
            ("reason", pa.string()),
            ("samples", pa.int64()),
            ("weight", weight),
            ("total_samples", pa.int64()),
            ("total_weight", weight),
        ]
    )


def hot_lines_table(hot: HotLines, texts: Sequence[str], weight: pa.DataType) -> pa.Table:
    """A line a row, in the order given."""
    lines = hot.lines
    numbers, text = np.unique(np.concatenate([lines.function, lines.file]), return_inverse=True)
    names = pa.array([texts[number] or None for number in numbers.tolist()], pa.string())
    function, file = names.take(pa.array(text[: len(lines.line)])), names.take(pa.array(text[len(lines.line) :]))
    reasons = pa.array([name or None for name in _REASONS], pa.string())
    line = pa.array(lines.line.astype(np.int64), mask=lines.line == 0)
    columns = [function, file, line, reasons.take(pa.array(lines.reason))]
    columns += [pa.array(column) for column in (hot.samples, hot.weight, hot.total_samples, hot.total_weight)]
    schema = hot_lines_schema(weight)
    return pa.Table.from_arrays(
        [pa.array(column).cast(field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def _described(columns: RegistryColumns) -> Mapping[str, pa.Array]:
    strings = pa.array(columns.texts, pa.string())

    def texts(numbers: U32) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(numbers.astype(np.int32), mask=numbers == 0), strings)

    def positions(numbers: U32) -> pa.Array:
        return pa.array(numbers.astype(np.int64), mask=numbers == 0)

    entries, (function, linkage_name, file, line, column, inlined) = columns.entries, columns.frames
    frames = pa.StructArray.from_arrays(
        [
            *(texts(function), texts(linkage_name), texts(file)),
            *(positions(line), positions(column), pa.array(inlined != 0)),
        ],
        [field.name for field in FRAME],
    )
    reason = entries.reason.astype(np.int32)
    offsets = np.concatenate([np.zeros(1, np.int32), columns.frame_ends.astype(np.int32)])
    return {
        "reason": pa.DictionaryArray.from_arrays(pa.array(reason, mask=reason == 0), pa.array(_REASONS)),
        "in_module": texts(entries.module),
        "in_kernel": texts(entries.kernel),
        "frames": pa.ListArray.from_arrays(pa.array(offsets), frames),
    }


_COUNTS = ("samples", "sample_count", "count", "counts", "value", "hits")
"""How columns of counts are called elsewhere."""


def _count_columns(schema: pa.Schema) -> list[str]:
    """The columns that are called as counts are, and are numbers."""
    return [
        field.name
        for field in schema
        if field.name.lower() in _COUNTS and (pa.types.is_integer(field.type) or pa.types.is_floating(field.type))
    ]


@dataclass(frozen=True, slots=True)
class TableReport:
    """What was answered: so many ``samples``, of which ``placeless`` name no place, the others by ``reasons``, most
    first; at so many distinct ``locations``. ``notes`` say why modules and contexts could not be asked. ``weight`` is
    the sum of the weights; None where no table had any, so that each row counts 1."""

    samples: int
    placeless: int
    reasons: Mapping[Reason, int]
    locations: int
    notes: tuple[str, ...]
    weight: int | float | None = None


class SampleTables:
    """Answers tables of samples from the modules of a symbolizer. ``modules`` are those that samples may name by other
    names than the symbolizer's. Not safe to use from several threads at once."""

    def __init__(
        self,
        symbolizer: Symbolizer,
        modules: Sequence[NamedModule] = (),
        names: TableNames | None = None,
    ) -> None:
        self.names = names or TableNames()
        self._registry = LocationRegistry()
        self._descriptions: tuple[RegistryColumns, Mapping[str, pa.Array]] | None = None
        self._answering = SampleAnswering(symbolizer, SampleModuleNames(symbolizer, modules), self._registry)
        self._tally = SampleTally(self._registry)
        self._weight_type = pa.int64()
        self._has_weights = False

    def schema(self, samples: pa.Schema, form: SampleForm) -> pa.Schema:
        """What ``answered`` gives for samples of that schema. Raises InvalidInput where they name no place, or names
        are taken."""
        columns_read(samples, self.names.columns)
        if form is SampleForm.HOT_LINES:
            return hot_lines_schema(self._weight_type_in(samples))
        added = ANSWER if form is SampleForm.SAMPLES else {LOCATION: pa.int64()}
        return appended(samples, added, self.names.prefix)

    def answered_together(self, batches: Sequence[pa.RecordBatch], form: SampleForm) -> Sequence[pa.RecordBatch]:
        """``answered`` for record batches of one schema, as record batches."""
        together = pa.Table.from_batches(batches).combine_chunks()
        return list(self.answered(together, form).to_batches())

    def answered(self, samples: pa.Table | pa.RecordBatch, form: SampleForm, *, plain: bool = True) -> pa.Table:
        """A table of the schema that ``schema`` says. Unless ``plain``, texts that symd adds are dictionaries, which
        are made and written faster. Hot lines are those of this table alone. Raises InvalidInput as ``schema`` does,
        and for samples that are no table."""
        samples = pa.Table.from_batches([samples]) if isinstance(samples, pa.RecordBatch) else samples
        if not isinstance(samples, pa.Table):
            raise InvalidInput(
                f"samples are a table of pyarrow, not {type(samples).__name__}", hint="frame.to_arrow(), pa.table(...)"
            )
        schema = self.schema(samples.schema, form)
        entries, weights = self._counted(samples)
        if form is SampleForm.HOT_LINES:
            tally = SampleTally(self._registry)
            tally.add(entries, weights)
            return self._hot_lines(tally, self._weight_type_in(samples.schema))
        if form is SampleForm.LOCATIONS:
            numbers = pa.array(self._registry.columns().entries.location[entries])
            return pa.Table.from_arrays([*samples.columns, numbers], schema=schema)
        rows = pa.array(entries)
        for name, column in self._described().items():
            samples = samples.append_column(self.names.prefix + name, column.take(rows))
        return samples.cast(schema) if plain else samples

    def count(self, samples: pa.Table) -> None:
        """Count samples for ``hot_lines``, and give nothing back."""
        self._weight_type = self._weight_type_in(samples.schema)
        self._counted(samples)

    def _counted(self, samples: pa.Table) -> tuple[U32, Weights | None]:
        places = sample_places(samples, self.names.columns)
        weights = sample_weights(samples, self.names.columns)
        self._has_weights |= weights is not None
        if weights is None and (counts := _count_columns(samples.schema)):
            self._answering.note(
                f"there is no column {self.names.columns.get(WEIGHT, WEIGHT)}, so each row counts as 1;"
                f" --column {WEIGHT}={counts[0]} counts that column"
            )
        entries = self._answering.entries(places)
        self._tally.add(entries, weights)
        return entries, weights

    def hot_lines(self) -> pa.Table:
        """The lines of all samples so far, those of the greatest weight first."""
        return self._hot_lines(self._tally, self._weight_type)

    def _hot_lines(self, tally: SampleTally, weight: pa.DataType) -> pa.Table:
        hot = tally.hot_lines()
        return hot_lines_table(hot, self._registry.columns().texts, weight)

    def locations(self) -> pa.Table:
        """What the numbers of all locations so far stand for. Location 0 is that of rows that name no place."""
        described = self._described()
        plain = [described[name].cast(kind) for name, kind in ANSWER.items()]
        return pa.Table.from_arrays([pa.array(self._registry.columns().entries.location), *plain], schema=LOCATIONS)

    def _described(self) -> Mapping[str, pa.Array]:
        """The entries of the registry as columns, with the names and in the order of ``ANSWER``, made anew when there
        are new ones; texts are dictionaries."""
        columns = self._registry.columns()
        if self._descriptions is None or self._descriptions[0] is not columns:
            self._descriptions = columns, _described(columns)
        return self._descriptions[1]

    def report(self) -> TableReport:
        """What was answered so far."""
        tally = self._tally
        return TableReport(
            tally.samples,
            tally.placeless,
            tally.reasons,
            len(self._registry) - 1,
            tuple(self._answering.notes),
            tally.weight if self._has_weights else None,
        )

    def _weight_type_in(self, samples: pa.Schema) -> pa.DataType:
        name = self.names.columns.get(WEIGHT, WEIGHT)
        is_float = name in samples.names and pa.types.is_floating(samples.field(name).type)
        return pa.float64() if is_float else pa.int64()


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
    sample_places(nothing, names)
    sample_weights(nothing, names)


def text_columns(schema: pa.Schema, names: Mapping[str, str]) -> list[str]:
    """The columns of a table, by the table's own names, that say a place as text."""
    return [theirs for name in TEXTS if (theirs := names.get(name, name)) in schema.names]


def sample_places(table: pa.Table, names: Mapping[str, str]) -> Places:
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


def sample_weights(table: pa.Table, names: Mapping[str, str]) -> Weights | None:
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
