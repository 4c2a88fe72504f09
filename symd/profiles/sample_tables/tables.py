"""Tables of samples answered: one value for a run, which keeps what it has found so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from symd.api import Symbolizer
from symd.model.answers import Reason
from symd.model.columns import U32
from symd.profiles.resolver import NamedModule
from symd.profiles.sample_tables import arrow_places
from symd.profiles.sample_tables.answering import SampleAnswering
from symd.profiles.sample_tables.arrow_answers import (
    ANSWER,
    LOCATION,
    DescribedRegistry,
    appended,
    hot_lines_schema,
    hot_lines_table,
)
from symd.profiles.sample_tables.form import Form
from symd.profiles.sample_tables.location_registry import LocationRegistry
from symd.profiles.sample_tables.module_names import SampleModuleNames
from symd.profiles.sample_tables.tally import SampleTally, Weights


@dataclass(frozen=True, slots=True)
class TableNames:
    """How the columns of a table of samples are called. ``columns`` says for a column of symd's what the table of
    samples calls it; names of columns that symd adds begin with ``prefix``."""

    columns: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class TableReport:
    """What was answered: so many ``samples``, of which ``placeless`` name no place, the others by ``reasons``, most first; at so many
    distinct ``locations``. ``notes`` say why modules and contexts could not be asked."""

    samples: int
    placeless: int
    reasons: Mapping[Reason, int]
    locations: int
    notes: tuple[str, ...]


class SampleTables:
    """Answers tables of samples from the modules of a symbolizer. ``modules`` are those that samples may name by other names than the
    symbolizer's. Not safe to use from several threads at once."""

    def __init__(
        self,
        symbolizer: Symbolizer,
        modules: Sequence[NamedModule] = (),
        names: TableNames | None = None,
    ) -> None:
        self.names = names or TableNames()
        arrow_places.checked_names(self.names.columns)
        self._registry = LocationRegistry()
        self._described = DescribedRegistry(self._registry)
        self._answering = SampleAnswering(symbolizer, SampleModuleNames(symbolizer, modules), self._registry)
        self._tally = SampleTally(self._registry)
        self._weight_type = pa.int64()

    def schema(self, samples: pa.Schema, form: Form) -> pa.Schema:
        """What ``answered`` gives for samples of that schema. Raises InvalidInput where they name no place, or names are taken."""
        arrow_places.columns_read(samples, self.names.columns)
        if form is Form.HOT_LINES:
            return hot_lines_schema(self._weight_type_in(samples))
        added = ANSWER if form is Form.SAMPLES else {LOCATION: pa.int64()}
        return appended(samples, added, self.names.prefix)

    def answered(self, samples: pa.Table, form: Form, *, plain: bool = True) -> pa.Table:
        """A table of the schema that ``schema`` says. Unless ``plain``, texts that symd adds are dictionaries, which are made and written
        faster. Hot lines are those of this table alone."""
        schema = self.schema(samples.schema, form)
        entries, weights = self._counted(samples)
        if form is Form.HOT_LINES:
            tally = SampleTally(self._registry)
            tally.add(entries, weights)
            return self._hot_lines(tally, self._weight_type_in(samples.schema))
        if form is Form.LOCATIONS:
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
            tally.samples, tally.placeless, tally.reasons, len(self._registry) - 1, tuple(self._answering.notes)
        )

    def _weight_type_in(self, samples: pa.Schema) -> pa.DataType:
        name = self.names.columns.get(arrow_places.WEIGHT, arrow_places.WEIGHT)
        is_float = name in samples.names and pa.types.is_floating(samples.field(name).type)
        return pa.float64() if is_float else pa.int64()
