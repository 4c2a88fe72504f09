"""Real modules through a real engine: over the channel everything is as it is in-process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from symd import Client
from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import InvalidInput, ModuleNotFound, ObjectNotFound, SymdError
from symd.model.addresses import ByAddress, ByKernel, BySection
from symd.model.answers import Reason
from symd.server.config import Config
from symd.server.listening import listening
from symd.server.server import build_daemon
from symd.store import Store

SAMPLES = Path(__file__).parents[2] / "samples/kernels/bin"
FILES = ["vadd/skl-O0.dbg", "vadd/dg2-opt.dbg", "vadd/igc2-dg2-opt.zebin", "particles/pvc-O0.dbg", "vadd/opt.spv"]
COLUMNS = ("text_section", "offset", "kernel", "function", "file", "line", "column", "flags")


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The engine and a client of a daemon over that same engine."""
    folder = tmp_path_factory.mktemp("daemon")
    config = Config(limits=Limits(), store=folder / "store", address=f"unix:{folder}/s", grace=1.0)
    with Engine(Store(config.store, config.limits, durable=False), config.limits) as engine:
        daemon = build_daemon(engine, config)
        with listening(daemon.server, config.address) as address, Client(address, timeout=60) as client:
            daemon.server.start()
            yield engine, client
            daemon.stop(1)


@pytest.fixture(params=FILES)
def data(request):
    return (SAMPLES / request.param).read_bytes()


def test_a_module_is_described_and_read_as_in_process(both, data):
    engine, client = both
    module = client.add(data, "sample")
    assert module == engine.module(module.sha256)
    assert client.missing([module.sha256]) == []
    assert module in [client.module(record.sha256) for record in client.modules()]
    for each in module.objects:
        assert client.object_data(module.sha256, each.path) == engine.object_data(module.sha256, each.path)
    with pytest.raises(ObjectNotFound):
        client.object_data(module.sha256, "not/there")


def test_the_line_tables_are_those_of_the_engine(both, data):
    engine, client = both
    digest = client.add(data).sha256
    mine, theirs = list(engine.lines(digest)), list(client.lines(digest))
    assert len(mine) == len(theirs)
    for one, other in zip(mine, theirs, strict=True):
        assert (one.path, one.target, list(one.text_sections), list(one.strings)) == (
            other.path, other.target, list(other.text_sections), list(other.strings),
        )  # fmt: skip
        for name in COLUMNS:
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_every_instruction_of_every_kernel_has_the_frames_it_has_in_process(both, data):
    engine, client = both
    module, exact = client.add(data), 0
    for each in module.objects:
        for kernel in each.kernels:
            offsets = np.arange(0, max(kernel.size, 8) + 16, 8, dtype=np.uint64)
            how = {"kernel": kernel.name, "path": each.path}
            mine = engine.symbolize_column(module.sha256, offsets, **how)
            assert list(client.symbolize_column(module.sha256, offsets, **how)) == list(mine)
            exact += sum(answer.reason is Reason.EXACT and bool(answer.frames) for answer in mine)
            some = [ByKernel(kernel.name, int(offset)) for offset in offsets[:40]]
            some += [BySection(kernel.section_index, kernel.offset), ByAddress(0), ByKernel("no such kernel", 0)]
            mine = engine.symbolize(module.sha256, some, each.path)
            assert list(client.symbolize(module.sha256, some, each.path)) == list(mine)
    assert exact > 0


def test_an_address_is_looked_for_in_all_code_objects(both, data):
    engine, client = both
    digest = client.add(data).sha256
    addresses = np.arange(0, 4096, 4, dtype=np.uint64)
    assert list(client.symbolize_column(digest, addresses)) == list(engine.symbolize_column(digest, addresses))


def test_an_offset_beyond_every_kernel_of_a_name_is_outside_alone_and_among_others(both):
    engine, client = both
    digest = client.add((SAMPLES.parents[1] / "amdgpu/bin/host").read_bytes()).sha256
    queries = [ByKernel("_Z5shadePfPKfi", offset) for offset in (0x99999, 0x10)]
    for symbolizer in (engine, client):
        together = list(symbolizer.symbolize(digest, queries))
        assert [answer.reason for answer in together] == [Reason.OUTSIDE_TEXT, Reason.AMBIGUOUS]
        assert [len(answer.candidates) for answer in together] == [0, 2]
        assert [symbolizer.symbolize_one(digest, query) for query in queries] == together


@pytest.mark.parametrize("name", ["raycast/dg2-opt.dbg", "particles/dg2-opt.dbg"])
def test_contradictory_debug_data_is_answered_as_in_process_also_as_written(both, name):
    """One by one, many queries, and a column, each with both readings."""
    engine, client = both
    module = client.add((SAMPLES / name).read_bytes())
    assert any("contradict" in note or "line rows reach" in note for item in module.objects for note in item.notes)
    kernel = next(kernel for item in module.objects for kernel in item.kernels if kernel.name in ("raycast", "move"))
    offsets = np.arange(0, kernel.size, 8, dtype=np.uint64)
    queries = [ByKernel(kernel.name, int(offset)) for offset in offsets]
    reasons = {}
    for written in (False, True):
        mine = list(engine.symbolize(module.sha256, queries, as_written=written))
        assert list(client.symbolize(module.sha256, queries, as_written=written)) == mine
        column = client.symbolize_column(module.sha256, offsets, kernel=kernel.name, as_written=written)
        assert list(column) == mine
        few = queries[13:15]
        assert list(client.symbolize(module.sha256, few, as_written=written)) == mine[13:15]
        reasons[written] = {answer.reason for answer in mine}
    assert Reason.CONTRADICTORY in reasons[False]
    assert not reasons[True] & {Reason.CONTRADICTORY, Reason.INFERRED}
    assert [client.symbolize_one(module.sha256, query) for query in queries[:20]] == list(
        engine.symbolize(module.sha256, queries[:20])
    )


def test_broken_modules_are_refused_and_leave_nothing(both):
    """Random bytes, and a sample cut short at many places: a refusal or a module, and the daemon goes on."""
    engine, client = both
    whole = (SAMPLES / FILES[0]).read_bytes()
    broken = [
        np.random.default_rng(5).bytes(5000),
        b"",
        *(whole[:end] for end in range(64, len(whole), len(whole) // 20)),
    ]
    for data in broken:
        before = {record.sha256 for record in engine.modules()}
        try:
            client.add(data)
        except SymdError as error:
            assert isinstance(error, InvalidInput), error  # noqa: PT017 - some are still readable
            assert {record.sha256 for record in engine.modules()} == before
    with pytest.raises(ModuleNotFound):
        client.module("0" * 64)
    assert client.add(whole).objects
