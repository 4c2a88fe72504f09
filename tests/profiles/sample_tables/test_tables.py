"""Every row of a table has the answer that the verbs give to its place."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from symd.engine.contexts.verbs import StoredContexts
from symd.engine.engine import Engine
from symd.errors import (
    Busy,
    DataLoss,
    DeadlineExceeded,
    InvalidInput,
    LimitExceeded,
    Malformed,
    StoreUnavailable,
    SymdError,
    Unavailable,
    WorkerDied,
)
from symd.index import Index
from symd.index.module import build_index
from symd.model.addresses import ByAddress, ByKernel, DeviceAddress, KernelOffset, ObjectAddress
from symd.model.contexts import Context, Load, Segment, Unload
from symd.profiles import NamedModule
from symd.profiles.sample_tables.sample_files import SampleForm, TableNames
from symd.profiles.sample_tables.tables import SampleTables
from tests.profiles.modules import CUBIN
from tests.profiles.sample_tables.conftest import AMD, expected

NOTHING = {"reason": None, "in_module": None, "in_kernel": None, "frames": []}
ADDED = tuple(NOTHING)


def answered(tables: SampleTables, **columns: object) -> list[dict[str, object]]:
    """The columns that are added, for each row."""
    found = tables.answered(pa.table(columns), SampleForm.SAMPLES).to_pylist()
    return [{name: row[name] for name in ADDED} for row in found]


def test_addresses_of_several_modules_mixed(engine: Engine, tables: SampleTables, amd: str, zebin: str) -> None:
    random = np.random.default_rng(5)
    addresses = random.integers(0, 0x2400, 4000)
    modules = [(amd, zebin)[number] for number in random.integers(0, 2, 4000)]
    found = answered(tables, module=modules, address=pa.array(addresses, pa.uint64()))
    wanted = {
        module: [expected(each, module) for each in engine.symbolize(module, [ByAddress(ObjectAddress(int(at))) for at in addresses])]
        for module in (amd, zebin)
    }  # fmt: skip
    assert found == [wanted[module][at] for at, module in enumerate(modules)]
    assert len({row["reason"] for row in found}) >= 3


def test_offsets_in_kernels_with_and_without_a_module(engine: Engine, amd: str, zebin: str) -> None:
    tables = SampleTables(engine, [NamedModule(amd, "a"), NamedModule(zebin, "b")])
    names = ["shade", "smooth", "nobody"] * 50
    offsets = list(range(0, 600, 4))
    found = answered(tables, kernel=names, offset=offsets)
    homes = {"shade": amd, "smooth": zebin}
    for row, name, offset in zip(found, names, offsets, strict=True):
        if name in homes:
            assert row == expected(engine.symbolize_one(homes[name], f"{name}+{offset}"), homes[name])
        else:
            assert row == {**NOTHING, "reason": "UNKNOWN_KERNEL"}
    assert answered(tables, module=[amd, zebin], kernel=["smooth"] * 2, offset=[0, 0])[0] == {
        **NOTHING, "reason": "UNKNOWN_KERNEL", "in_module": amd,
    }  # fmt: skip


def test_device_addresses_as_of_a_time(engine: Engine, tables: SampleTables, amd: str) -> None:
    context = engine.contexts.add(Context(host="here", process=7))
    base = 0x7F00_0000_0000
    engine.contexts.record(context, [Load(amd, 100, load_base=base, key="1"), Unload("1", 200)])
    engine.contexts.record(context, [Load(amd, 300, load_base=base + 0x10_0000, key="2")])
    address = np.tile(np.arange(0x1800, 0x2000, 4, np.uint64), 3)
    where = np.repeat(np.array([base, base, base + 0x10_0000], np.uint64), 512)
    times = np.repeat(np.array([150, 250, 0]), 512)
    found = answered(
        tables,
        context=[context] * 1536,
        device_address=address + where,
        time=pa.array(times, mask=times == 0),
    )
    latest = (1 << 63) - 2
    wanted = engine.contexts.symbolize(context, address + where, np.where(times == 0, latest, times))
    assert found == [expected(each.answer, each.module) for each in wanted]
    at = (0x1978 - 0x1800) // 4
    assert [found[at + each]["reason"] for each in (0, 512, 1024)] == ["EXACT", "UNLOADED", "EXACT"]


def test_nothing_was_loaded_before_time_0_and_other_rows_are_answered(
    engine: Engine, tables: SampleTables, amd: str
) -> None:
    context = engine.contexts.add(Context(host="here", process=7))
    engine.contexts.record(context, [Load(amd, 0, load_base=0, key="1")])
    found = answered(tables, context=[context] * 3, device_address=[0x1978] * 3, time=[0, -1, 5])
    assert [row["reason"] for row in found] == ["EXACT", "UNKNOWN_MODULE", "EXACT"]
    assert tables.report().notes == (f"contexts/{context}: there are times below 0",)


def test_times_may_be_timestamps_of_any_unit(engine: Engine, tables: SampleTables, amd: str) -> None:
    context = engine.contexts.add(Context(host="here", process=8))
    engine.contexts.record(context, [Load(amd, 2_000_000, load_base=0, key="1"), Unload("1", 4_000_000)])
    seen = {
        str(kind): [
            row["reason"]
            for row in answered(
                tables,
                context=[f"contexts/{context}"] * 3,
                device_address=[0x1978] * 3,
                time=pa.array([1, 3, 5], pa.int64()).cast(kind)
                if unit == "ms"
                else pa.array([1000, 3000, 5000]).cast(kind),
            )
        ]
        for unit, kind in (("ms", pa.timestamp("ms")), ("us", pa.timestamp("us", "UTC")))
    }
    assert list(seen.values()) == [["UNLOADED", "EXACT", "UNLOADED"]] * 2


def test_each_row_belongs_to_the_first_kind_whose_columns_it_has(tables: SampleTables, amd: str) -> None:
    at = 0x1978
    rows = answered(
        tables,
        module=[amd, amd, amd, None],
        kernel=["shade", "shade", None, ""],
        offset=pa.array([0, None, 4, None], pa.int32()),
        address=pa.array([at, at, at, None], pa.int64()),
    )
    assert rows[0]["frames"][0]["function"] == "shade"
    assert [frame["function"] for frame in rows[1]["frames"]] == ["blend", "shade"]
    assert rows[2] == rows[1]
    assert rows[3] == NOTHING


@pytest.mark.parametrize(
    "called", ["{digest}", "{upper}", "modules/{digest}", "build-1", "shade"], ids=["sha", "SHA", "name", "id", "label"]
)
def test_a_module_is_called_by_its_digest_its_identity_or_its_label(
    tables: SampleTables, amd: str, called: str
) -> None:
    name = called.format(digest=amd, upper=amd.upper())
    (row,) = answered(tables, module=[name], address=[0x1978])
    assert (row["reason"], row["in_module"]) == ("EXACT", amd)


def test_a_name_that_two_modules_bear_is_ambiguous_and_one_that_none_bears_is_unknown(
    engine: Engine, tables: SampleTables, zebin: str
) -> None:
    engine.relabel(zebin, "shade")
    rows = answered(tables, module=["shade", "other", "f" * 64], address=[1, 1, 1])
    assert [row["reason"] for row in rows] == ["AMBIGUOUS", "UNKNOWN_MODULE", "UNKNOWN_MODULE"]
    assert [row["in_module"] for row in rows] == [None] * 3
    assert "no module is called other" in tables.report().notes


@pytest.mark.parametrize("called", ["{digest}", "late"], ids=["digest", "label"])
def test_a_module_that_comes_later_is_found_then(engine: Engine, called: str) -> None:
    data = CUBIN.read_bytes()
    name = called.format(digest=hashlib.sha256(data).hexdigest())
    tables = SampleTables(engine)
    assert answered(tables, module=[name], address=[0])[0]["reason"] == "UNKNOWN_MODULE"
    engine.add(data, "late")
    assert answered(tables, module=[name], address=[0])[0]["reason"] != "UNKNOWN_MODULE"


def test_the_only_module_needs_no_name(engine: Engine, tables: SampleTables) -> None:
    assert answered(tables, address=[0x1978])[0]["reason"] == "EXACT"
    assert answered(tables, kernel=["march"], offset=[0])[0]["reason"] == "EXACT"
    assert answered(SampleTables(engine), address=[0x1978])[0]["reason"] == "UNKNOWN_MODULE"


def test_what_nobody_told_of_does_not_end_the_batch(tables: SampleTables) -> None:
    rows = answered(tables, context=["0" * 64, "what?", None], device_address=[1, 2, 3])
    assert [row["reason"] for row in rows] == ["UNKNOWN_MODULE", "UNKNOWN_MODULE", None]
    assert len(tables.report().notes) == 2


def test_a_symbolizer_that_cannot_be_reached_ends_it(engine: Engine, monkeypatch: pytest.MonkeyPatch, amd: str) -> None:
    def gone(*_: object, **__: object) -> object:
        raise Unavailable("nobody there")

    monkeypatch.setattr(engine, "symbolize_column", gone)
    with pytest.raises(Unavailable):
        answered(SampleTables(engine), module=[amd], address=[1])


@pytest.mark.parametrize(
    "column",
    [
        pa.array([0x1978], pa.int64()),
        pa.array([0x1978], pa.uint16()),
        pa.chunked_array([pa.array([], pa.uint64()), pa.array([0x1978], pa.uint64())]),
    ],
    ids=str,
)
def test_whole_numbers_of_any_width_are_addresses(tables: SampleTables, column: pa.Array) -> None:
    assert answered(tables, address=column)[0]["reason"] == "EXACT"


def test_the_bits_of_a_negative_number_are_the_address(engine: Engine, tables: SampleTables, amd: str) -> None:
    context = engine.contexts.add(Context(host="here", process=9))
    engine.contexts.record(context, [Load(amd, 1, load_base=(1 << 64) - (1 << 40), key="1")])
    (row,) = answered(tables, context=[context], device_address=pa.array([0x1978 - (1 << 40)], pa.int64()))
    assert row["reason"] == "EXACT"


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
def test_texts_of_any_layout_are_names(tables: SampleTables, kind: pa.DataType) -> None:
    modules = pa.array(["build-1", None, "build-1"], pa.string()).cast(kind)
    assert [row["reason"] for row in answered(tables, module=modules, address=[0x1978] * 3)] == ["EXACT"] * 3
    assert [row["reason"] for row in answered(tables, module=modules.slice(1), address=[0x1978] * 2)] == ["EXACT"] * 2


WRONG = {
    "no column names a place": {"pc": [1]},
    "offset alone": {"offset": [1]},
    "a float": {"address": [1.5]},
    "a text": {"address": ["0x10"]},
    "a number for a name": {"module": [1], "address": [1]},
    "a float for a time": {"context": ["x"], "device_address": [1], "time": [0.5]},
    "a text for a weight": {"address": [1], "weight": ["much"]},
    "a weight of 64 bits": {"address": [1], "weight": pa.array([1 << 63], pa.uint64())},
    "a time that is too large": {"context": ["x"], "device_address": [1], "time": pa.array([1 << 63], pa.uint64())},
    "a column of that name": {"address": [1], "frames": [1]},
}


@pytest.mark.parametrize("columns", WRONG.values(), ids=WRONG)
def test_columns_that_cannot_be_used_are_named(tables: SampleTables, columns: dict[str, object]) -> None:
    with pytest.raises(InvalidInput) as caught:
        answered(tables, **columns)
    assert caught.value.hint


def test_who_names_no_place_is_told_which_columns_there_are(tables: SampleTables) -> None:
    with pytest.raises(InvalidInput, match="there are pc, host;"):
        answered(tables, pc=[1], host=["a"])


def test_columns_have_other_names_where_that_is_said(engine: Engine, amd: str) -> None:
    tables = SampleTables(engine, names=TableNames({"address": "pc", "module": "binary"}, "gpu_"))
    found = tables.answered(pa.table({"pc": [0x1978], "binary": [amd], "frames": ["kept"]}), SampleForm.SAMPLES)
    assert found.column_names == [
        "pc",
        "binary",
        "frames",
        "gpu_reason",
        "gpu_in_module",
        "gpu_in_kernel",
        "gpu_frames",
    ]
    assert found["gpu_reason"].to_pylist() == ["EXACT"]
    with pytest.raises(InvalidInput, match="'pcs' is not the name"):
        SampleTables(engine, names=TableNames({"pcs": "pc"}))
    with pytest.raises(InvalidInput, match="no column 'binary'"):
        tables.answered(pa.table({"pc": [1]}), SampleForm.SAMPLES)


def test_other_columns_stay_as_they_are(tables: SampleTables) -> None:
    odd = pa.array([{"a": [1, 2]}, None], pa.struct([("a", pa.list_(pa.int8()))]))
    samples = pa.table({"odd": odd, "address": [0x1978, None], "d": pa.array(["x", "y"]).dictionary_encode()})
    found = tables.answered(samples, SampleForm.SAMPLES)
    assert found.select(samples.column_names).equals(samples)


@pytest.mark.parametrize("form", list(SampleForm))
@pytest.mark.parametrize("rows", [0, 3])
def test_the_schema_is_what_comes(tables: SampleTables, form: SampleForm, rows: int) -> None:
    samples = pa.table({"address": pa.array([0x1978, 1, None][:rows], pa.uint64()), "weight": pa.array([1.5] * rows)})
    found = tables.answered(samples, form)
    assert found.schema.equals(tables.schema(samples.schema, form))
    found.validate(full=True)


def test_the_numbers_of_locations_stand_for_what_samples_have(tables: SampleTables) -> None:
    samples = pa.table({"address": list(range(0x1800, 0x2100, 2))})
    by_frames = tables.answered(samples, SampleForm.SAMPLES).to_pylist()
    numbers = tables.answered(samples, SampleForm.LOCATIONS)["location"].to_pylist()
    table = {row.pop("location"): row for row in tables.locations().to_pylist()}
    assert [table[number] for number in numbers] == [{name: row[name] for name in ADDED} for row in by_frames]
    assert len(table) == len({str(row) for row in table.values()})
    assert table[0] == NOTHING


OF_A_MODULE = [
    Malformed("its line table ends in the midst"),
    DataLoss("the stored bytes are not what they were"),
    WorkerDied("the process that read the module died of SIGKILL"),
    LimitExceeded("indexing takes more than 5 bytes of memory", metadata={"limit": "build_memory"}),
    DeadlineExceeded("indexing took longer than 60 s", metadata={"limit": "build_seconds"}),
    DeadlineExceeded("reading the module took longer than 10 s", metadata={"limit": "question_seconds"}),
]
OF_THE_CALL = [
    Busy("as many as are allowed"),
    DeadlineExceeded("the deadline passed before the work began"),
    DeadlineExceeded("no message came for 10 s", metadata={"limit": "message_seconds"}),
    LimitExceeded("the question takes longer than 10 seconds", metadata={"limit": "question_seconds"}),
    StoreUnavailable("the disk refused"),
]


def raising(error: SymdError) -> Callable[..., object]:
    def refuse(*_: object, **__: object) -> object:
        raise error

    return refuse


@pytest.mark.parametrize("error", OF_A_MODULE, ids=str)
def test_a_damaged_module_is_malformed_and_said(
    engine: Engine, amd: str, monkeypatch: pytest.MonkeyPatch, error: SymdError
) -> None:
    monkeypatch.setattr(engine, "symbolize_column", raising(error))
    tables = SampleTables(engine)
    assert answered(tables, module=[amd], address=[1]) == [{**NOTHING, "reason": "MALFORMED"}]
    assert tables.report().notes == (f"modules/{amd}: {error.message}",)


@pytest.mark.parametrize("error", OF_A_MODULE, ids=str)
def test_a_module_of_a_context_that_cannot_be_read_takes_no_other_with_it(
    engine: Engine, amd: str, zebin: str, monkeypatch: pytest.MonkeyPatch, error: SymdError
) -> None:
    context = engine.contexts.add(Context(host="here", process=10))
    smooth = Segment(DeviceAddress(1 << 44), 16, ByKernel("smooth", KernelOffset(0)))
    engine.contexts.record(context, [Load(amd, 0, load_base=0, key="1"), Load(zebin, 0, (smooth,), key="2")])

    def opened(digest: str) -> Index:
        if digest == zebin:
            raise error
        return Index.open_checked(build_index(AMD.read_bytes(), engine.limits))

    monkeypatch.setattr(engine, "contexts", StoredContexts(engine.store.context_log, opened))
    rows = answered(SampleTables(engine), context=[context] * 2, device_address=[0x1978, 1 << 44])
    assert [row["reason"] for row in rows] == ["EXACT", "MALFORMED"]


@pytest.mark.parametrize("error", OF_A_MODULE, ids=str)
def test_a_context_that_cannot_be_answered_for_one_module_is_not_unknown(
    engine: Engine, amd: str, monkeypatch: pytest.MonkeyPatch, error: SymdError
) -> None:
    """As daemons of earlier versions say it."""
    monkeypatch.setattr(engine, "contexts", SimpleNamespace(symbolize=raising(error)))
    tables = SampleTables(engine)
    assert answered(tables, context=["ab" * 16], device_address=[1]) == [{**NOTHING, "reason": "MALFORMED"}]
    assert tables.report().notes == (f"contexts/{'ab' * 16}: {error.message}",)


@pytest.mark.parametrize("context", ["ab" * 16, "no name of a context"])
def test_a_context_that_nobody_told_of_is_unknown(engine: Engine, context: str) -> None:
    tables = SampleTables(engine)
    assert answered(tables, context=[context], device_address=[1]) == [{**NOTHING, "reason": "UNKNOWN_MODULE"}]
    assert len(tables.report().notes) == 1


def test_notes_do_not_repeat_long_names(tables: SampleTables) -> None:
    answered(tables, module=["x" * 1_000_000], address=[1])
    (note,) = tables.report().notes
    assert len(note) < 1000


@pytest.mark.parametrize("error", OF_THE_CALL, ids=str)
def test_a_daemon_that_did_not_come_to_the_question_is_no_answer(
    engine: Engine, amd: str, monkeypatch: pytest.MonkeyPatch, error: SymdError
) -> None:
    monkeypatch.setattr(engine, "symbolize_column", raising(error))
    monkeypatch.setattr(engine, "contexts", SimpleNamespace(symbolize=raising(error)))
    places = ({"module": [amd], "address": [1]}, {"context": ["ab" * 16], "device_address": [1]})
    for place in places:
        with pytest.raises(type(error)) as raised:
            answered(SampleTables(engine), **place)
        assert raised.value is error


def test_code_objects_are_named_by_their_path(engine: Engine, amd: str) -> None:
    tables = SampleTables(engine, [NamedModule(amd, str(AMD))])
    rows = answered(tables, module=[amd] * 3, object=["", None, "elsewhere"], address=[0x1978] * 3)
    assert [row["reason"] for row in rows] == ["EXACT", "EXACT", "UNKNOWN_KERNEL"]
