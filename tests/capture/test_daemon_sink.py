"""Captured events in a daemon: every module, a context for each process and device, each event counted once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from symd import Client
from symd.api import Symbolizer
from symd.capture.daemon_sink import DaemonSink
from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import LimitExceeded
from symd.model.answers import Reason
from symd.model.captures import (
    CaptureApi,
    CapturedProcess,
    CaptureWay,
    FailedBuild,
    ModuleForm,
    ModuleFound,
    ModuleLoaded,
    ModuleUnloaded,
    ProcessEnded,
)
from symd.model.contexts import Load
from symd.server.config import Config
from symd.server.listening import listening
from symd.server.server import build_daemon
from symd.store import Store

SAMPLES = Path(__file__).parents[2] / "samples/kernels/bin"
VADD = (SAMPLES / "vadd/skl-O0.dbg").read_bytes()
FILTERS = (SAMPLES / "filters/driver-l0-igc2-dg2-opt.debug-zebin").read_bytes()
SPIRV = (SAMPLES / "vadd/opt.spv").read_bytes()
HEAP = 0xFFFF8000_FFBF0000
PROCESS = CapturedProcess("host", 4711, 1234, ("/opt/app", "--fast", "a b"), "boot")


@pytest.fixture(params=["engine", "client"])
def symd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Symbolizer]:
    config = Config(store=tmp_path / "store", address=f"unix:{tmp_path}/s", grace=1.0)
    with Engine(Store(config.store, config.limits, durable=False), config.limits) as engine:
        if request.param == "engine":
            yield engine
            return
        daemon = build_daemon(engine, config)
        with listening(daemon.server, config.address) as address, Client(address, timeout=30) as client:
            daemon.server.start()
            yield client
            daemon.stop(1)


@pytest.fixture
def sink(symd: Symbolizer) -> DaemonSink:
    return DaemonSink(symd)


def loaded(data: bytes = VADD, handle: int = 0x55AA, time: int = 100, **further: object) -> ModuleLoaded:
    event = ModuleLoaded(
        PROCESS,
        CaptureApi.LEVEL_ZERO,
        CaptureWay.PRELOAD,
        handle,
        time,
        ModuleForm.DEBUG_DATA,
        data,
        "gpu 0",
        ("vadd",),
    )
    return replace(event, **further)  # type: ignore[arg-type] # the fields' own types


def loads(symd: Symbolizer) -> list[Load]:
    """Every load of every context, in the order they were told."""
    return [load for record in symd.contexts.all() for _, load in symd.contexts.loads(record.id)]


def kernels_at(symd: Symbolizer, address: int, *times: int) -> list[str]:
    (record,) = symd.contexts.all()
    column = np.full(len(times), address, np.uint64)
    found = symd.contexts.symbolize(record.id, column, np.array(times, np.int64))
    return [each.answer.kernel or each.answer.reason.name for each in found]


def test_a_module_its_process_and_its_addresses(symd: Symbolizer, sink: DaemonSink) -> None:
    sink.take(loaded(addresses={"vadd": HEAP}))
    sink.take(ModuleUnloaded(PROCESS, CaptureApi.LEVEL_ZERO, 0x55AA, 200))
    (module,) = symd.modules()
    assert (module.sha256, module.label) == (hashlib.sha256(VADD).hexdigest(), "app: vadd")
    (record,) = symd.contexts.all()
    assert record.context.attributes == {"start_time": "1234", "boot_id": "boot", "command": "/opt/app --fast 'a b'"}
    assert (record.context.host, record.context.process, record.context.device) == ("host", 4711, "gpu 0")
    assert (record.context.clock, record.context.address_bits) == ("CLOCK_BOOTTIME", 48)
    (load,) = loads(symd)
    assert (load.key, load.time, load.unload_time) == ("level-zero:0x55aa", 100, 200)
    assert kernels_at(symd, HEAP + 0x368, 99, 100, 199, 200) == ["UNLOADED", "vadd", "vadd", "UNLOADED"]


def test_an_event_told_again_counts_once_also_by_another_sink(symd: Symbolizer, sink: DaemonSink) -> None:
    events = [
        loaded(addresses={"vadd": HEAP}),
        loaded(FILTERS, 2, 150, load_base=0),
        loaded(SPIRV, 3, 160),
        ModuleUnloaded(PROCESS, CaptureApi.LEVEL_ZERO, 2, 170),
        ProcessEnded(PROCESS, 300),
    ]
    for event in events:
        sink.take(event)
    once = loads(symd)
    assert [load.unload_time for load in once] == [300, 170, 300]
    for again in (sink, DaemonSink(symd)):
        for event in events:
            again.take(event)
    assert loads(symd) == once
    assert len(list(symd.modules())) == 3


def test_the_end_of_a_process_ends_what_it_loaded_on_every_device_and_nothing_else(
    symd: Symbolizer, sink: DaemonSink
) -> None:
    """Also when the one who tells the end knows nothing of the loads; another program of that process number goes on."""
    later = replace(PROCESS, start_time=9999)
    rebooted = replace(PROCESS, boot="another boot")
    executed = replace(PROCESS, command=("/bin/other",))
    sink.take(loaded())
    sink.take(loaded(handle=1, device="gpu 1"))
    sink.take(loaded(handle=2, api=CaptureApi.CUDA, device="cuda:0"))
    sink.take(loaded(handle=3, process=later))
    sink.take(loaded(handle=4, process=rebooted))
    sink.take(loaded(handle=5, process=executed, time=600))
    DaemonSink(symd).take(ProcessEnded(PROCESS, 500))
    ends = {load.key.partition(":")[2]: load.unload_time for load in loads(symd)}
    assert ends == {"0x55aa": 500, "0x1": 500, "0x2": 500, "0x3": None, "0x4": None, "0x5": None}
    bits = {record.context.device: record.context.address_bits for record in symd.contexts.all()}
    assert bits == {"gpu 0": 48, "gpu 1": 48, "cuda:0": 64}


def test_handles_of_two_interfaces_are_two(symd: Symbolizer, sink: DaemonSink) -> None:
    sink.take(loaded())
    sink.take(loaded(api=CaptureApi.OPENCL))
    sink.take(ModuleUnloaded(PROCESS, CaptureApi.OPENCL, 0x55AA, 200))
    assert {load.key: load.unload_time for load in loads(symd)} == {"level-zero:0x55aa": None, "opencl:0x55aa": 200}


def test_a_handle_that_is_used_again_is_another_load(symd: Symbolizer, sink: DaemonSink) -> None:
    for time in (100, 300):
        sink.take(loaded(time=time, addresses={"vadd": HEAP}))
        sink.take(ModuleUnloaded(PROCESS, CaptureApi.LEVEL_ZERO, 0x55AA, time + 100))
    assert [(load.time, load.unload_time) for load in loads(symd)] == [(100, 200), (300, 400)]
    assert kernels_at(symd, HEAP, 150, 250, 350) == ["vadd", "UNLOADED", "vadd"]


def test_a_module_without_addresses_was_loaded_all_the_same(symd: Symbolizer, sink: DaemonSink) -> None:
    sink.take(loaded())
    (load,) = loads(symd)
    assert (load.module, load.segments, load.time) == (hashlib.sha256(VADD).hexdigest(), (), 100)
    assert kernels_at(symd, HEAP, 100) == ["OUTSIDE_TEXT"]


@pytest.mark.parametrize(
    ("data", "addresses", "placed"),
    [
        (VADD, {"vadd": HEAP, "stranger": HEAP + 0x10000}, ["vadd"]),
        (VADD, {"stranger": HEAP}, []),
        (SPIRV, {"vadd": HEAP}, []),
        (VADD, {"vadd": (1 << 64) - 16}, []),
        (b"no module at all", {"vadd": HEAP}, []),
    ],
)
def test_an_address_that_the_module_cannot_have_says_nothing(
    symd: Symbolizer, sink: DaemonSink, data: bytes, addresses: dict[str, int], placed: list[str]
) -> None:
    sink.take(loaded(data, addresses=addresses))
    (load,) = loads(symd)
    assert [each.start.kernel for each in load.segments] == placed  # type: ignore[union-attr]
    assert load.module == hashlib.sha256(data).hexdigest()


def test_a_module_that_the_daemon_refuses_is_named_and_known_to_have_been_loaded(
    symd: Symbolizer, sink: DaemonSink
) -> None:
    sink.take(loaded(b"no module at all"))
    digest = hashlib.sha256(b"no module at all").hexdigest()
    assert {name: error.reason for name, error in sink.refused.items()} == {digest: "UNKNOWN_FORMAT"}
    assert [load.module for load in loads(symd)] == [digest]


def test_a_module_that_only_lies_somewhere_is_kept_and_nobody_loaded_it(symd: Symbolizer, sink: DaemonSink) -> None:
    sink.take(ModuleFound(CaptureWay.FOLDER, 1, ModuleForm.NATIVE_BINARY, VADD, "/cache/one.bin"))
    sink.take(ModuleFound(CaptureWay.FOLDER, 2, ModuleForm.NATIVE_BINARY, SPIRV, "/cache/two.spv", kernels=("vadd",)))
    assert [module.label for module in symd.modules()] == ["/cache/one.bin", "vadd"]
    assert not list(symd.contexts.all())


def test_a_failed_build_changes_nothing(symd: Symbolizer, sink: DaemonSink) -> None:
    sink.take(FailedBuild(PROCESS, CaptureApi.OPENCL, CaptureWay.OPENCL_LAYER, 1, -11, "error: no"))
    sink.take(ModuleUnloaded(PROCESS, CaptureApi.OPENCL, 1, 2))
    sink.take(ProcessEnded(PROCESS, 3))
    assert not list(symd.contexts.all())


def test_a_context_that_somebody_deleted_is_made_again(symd: Symbolizer, sink: DaemonSink) -> None:
    sink.take(loaded())
    (record,) = symd.contexts.all()
    symd.contexts.remove(record.id)
    symd.remove(hashlib.sha256(VADD).hexdigest())
    sink.take(loaded(handle=7, time=200))
    assert [(load.key, load.time) for load in loads(symd)] == [("level-zero:0x7", 200)]
    assert symd.missing([hashlib.sha256(VADD).hexdigest()]) == []


def test_what_the_daemon_has_no_room_for_is_an_error(tmp_path: Path) -> None:
    """The event is not lost: whoever told it keeps it."""
    limits = Limits(contexts=1)
    with Engine(Store(tmp_path / "store", limits, durable=False), limits) as engine:
        sink = DaemonSink(engine)
        sink.take(loaded())
        with pytest.raises(LimitExceeded, match="more than 1 contexts"):
            sink.take(loaded(device="gpu 1"))
        sink.take(loaded(handle=9))
        assert len(loads(engine)) == 2


def test_nothing_of_a_running_program_answers_before_it_was_loaded(symd: Symbolizer, sink: DaemonSink) -> None:
    sink.take(loaded(addresses={"vadd": HEAP}))
    (record,) = symd.contexts.all()
    (answer,) = symd.contexts.symbolize(record.id, np.array([HEAP], np.uint64), 99)
    assert answer.answer.reason is Reason.UNLOADED
