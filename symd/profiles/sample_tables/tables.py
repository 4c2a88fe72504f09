"""Tables of samples answered: one value for a run, which keeps what it has found so far. Answers are columns of Apache
Arrow: a number for each sample, what the numbers stand for, frames beside each sample, hot lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from symd.api import Symbolizer
from symd.errors import InvalidInput
from symd.model.answers import Reason
from symd.model.columns import U32
from symd.profiles.resolver import NamedModule
from symd.profiles.sample_tables import arrow_places
from symd.profiles.sample_tables.answering import SampleAnswering, SampleModuleNames
from symd.profiles.sample_tables.location_registry import (
    HotLines,
    LocationRegistry,
    RegistryColumns,
    SampleTally,
    Weights,
)
from symd.profiles.sample_tables.sample_files import WEIGHT, SampleForm, TableNames

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


class Descriptions(NamedTuple):
    """The entries of a registry as columns, with the names and in the order of ``ANSWER``; texts are dictionaries."""

    columns: Mapping[str, pa.Array]

    def of(self, entries: U32) -> dict[str, pa.Array]:
        """The columns for rows with these entries."""
        rows = pa.array(entries)
        return {name: column.take(rows) for name, column in self.columns.items()}


class DescribedRegistry:
    """A registry whose entries are columns of Arrow, made anew when there are new ones."""

    def __init__(self, registry: LocationRegistry) -> None:
        self._registry = registry
        self._made: tuple[RegistryColumns, Descriptions] | None = None

    def descriptions(self) -> Descriptions:
        columns = self._registry.columns()
        if self._made is None or self._made[0] is not columns:
            self._made = columns, _described(columns)
        return self._made[1]

    def ids(self, entries: U32) -> pa.Array:
        """The numbers of locations, for rows with these entries."""
        return pa.array(self._registry.columns().entries.location[entries])

    def locations(self) -> pa.Table:
        """Every location, with its number. Location 0 is that of rows that name no place."""
        described = self.descriptions().columns
        plain = [described[name].cast(kind) for name, kind in ANSWER.items()]
        return pa.Table.from_arrays([pa.array(self._registry.columns().entries.location), *plain], schema=LOCATIONS)


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


def _described(columns: RegistryColumns) -> Descriptions:
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
    return Descriptions(
        {
            "reason": pa.DictionaryArray.from_arrays(pa.array(reason, mask=reason == 0), pa.array(_REASONS)),
            "in_module": texts(entries.module),
            "in_kernel": texts(entries.kernel),
            "frames": pa.ListArray.from_arrays(pa.array(offsets), frames),
        }
    )


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
        self._described = DescribedRegistry(self._registry)
        self._answering = SampleAnswering(symbolizer, SampleModuleNames(symbolizer, modules), self._registry)
        self._tally = SampleTally(self._registry)
        self._weight_type = pa.int64()
        self._has_weights = False

    def schema(self, samples: pa.Schema, form: SampleForm) -> pa.Schema:
        """What ``answered`` gives for samples of that schema. Raises InvalidInput where they name no place, or names
        are taken."""
        arrow_places.columns_read(samples, self.names.columns)
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
            return pa.Table.from_arrays([*samples.columns, self._described.ids(entries)], schema=schema)
        added = self._described.descriptions().of(entries)
        for name, column in added.items():
            samples = samples.append_column(self.names.prefix + name, column)
        return samples.cast(schema) if plain else samples

    def count(self, samples: pa.Table) -> None:
        """Count samples for ``hot_lines``, and give nothing back."""
        self._weight_type = self._weight_type_in(samples.schema)
        self._counted(samples)

    def _counted(self, samples: pa.Table) -> tuple[U32, Weights | None]:
        places = arrow_places.places(samples, self.names.columns)
        weights = arrow_places.weights(samples, self.names.columns)
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
        """What the numbers of all locations so far stand for."""
        return self._described.locations()

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
