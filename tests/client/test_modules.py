"""Modules get other labels and are taken away, in-process and over the channel alike; replicas answer each other's clients."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from symd import Client
from symd.config import Limits
from symd.engine.engine import Engine
from symd.engine.reading.questions import InProcessReader
from symd.errors import ModuleNotFound
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.answers import Reason
from symd.model.contexts import Alias, Context, Load
from symd.rpc.wire import location_tables
from symd.server.config import Config
from symd.server.listening import listening
from symd.server.server import build_daemon
from symd.store import Store

BIN = Path(__file__).parents[2] / "samples/kernels/bin"
VADD = (BIN / "vadd/skl-O0.dbg").read_bytes()
RAYCAST = (BIN / "raycast/dg2-opt.dbg").read_bytes()


@contextmanager
def running(folder):
    config = Config(store=folder / "store", address=f"unix:{folder}/s", grace=1.0)
    with Engine(Store(config.store, config.limits, durable=False), config.limits) as engine:
        daemon = build_daemon(engine, config)
        with listening(daemon.server, config.address) as address, Client(address, timeout=60) as client:
            daemon.server.start()
            yield engine, client
            daemon.stop(1)


@pytest.fixture(params=["engine", "client"])
def both(request, tmp_path):
    """(the one that is asked, the engine behind it)."""
    with running(tmp_path) as (engine, client):
        yield engine if request.param == "engine" else client, engine


def test_a_label_changes_and_nothing_else(both):
    asked, _ = both
    digest = asked.add(VADD, "before").sha256
    before = asked.record(digest)
    after = asked.relabel(digest, "å new one")
    assert (before.label, after) == ("before", before._replace(label="å new one"))
    assert [asked.record(digest), *asked.modules()] == [after, after]
    assert asked.add(VADD, "ignored") == asked.module(digest)
    assert asked.record(digest) == after
    for ask in (asked.record, asked.remove, lambda unknown: asked.relabel(unknown, "x")):
        with pytest.raises(ModuleNotFound):
            ask("0" * 64)


def test_a_module_that_is_removed_is_forgotten_even_when_it_is_open(both):
    asked, engine = both
    digest, other = asked.add(VADD).sha256, asked.add(RAYCAST).sha256
    query = ByKernel("vadd", KernelOffset(0))
    assert asked.symbolize_one(digest, query).reason is Reason.EXACT
    asked.aliases.add([Alias("build-id", "1", digest), Alias("build-id", "2", other)])
    asked.remove(digest)
    for ask in (asked.module, asked.record, asked.remove, lambda gone: asked.symbolize_one(gone, query)):
        with pytest.raises(ModuleNotFound):
            ask(digest)
    assert [each.sha256 for each in asked.modules()] == [other]
    assert asked.missing([digest, other]) == [digest]
    assert asked.aliases.resolve("build-id", "1") is None
    assert asked.aliases.resolve("build-id", "2") is not None
    assert not [path for path in engine.store.root.rglob("*") if digest in path.name]
    assert asked.add(VADD).sha256 == digest
    assert asked.symbolize_one(digest, query).reason is Reason.EXACT


def test_loads_of_a_removed_module_stay_told(both):
    asked, _ = both
    digest, context = asked.add(VADD).sha256, asked.contexts.add(Context())
    asked.contexts.record(context, [Load(digest, 1, load_base=0)])
    address = np.array([0], np.uint64)
    before = asked.contexts.symbolize(context, address)[0]
    asked.remove(digest)
    assert asked.contexts.symbolize(context, address)[0].answer.reason is Reason.UNKNOWN_MODULE
    assert len(list(asked.contexts.loads(context))) == 1
    asked.add(VADD)
    assert asked.contexts.symbolize(context, address)[0] == before


def test_a_module_that_is_removed_while_it_is_indexed_does_not_come_back(tmp_path):
    begun, go_on = threading.Event(), threading.Event()

    class Slow(InProcessReader):
        def ask(self, module, question):
            begun.set()
            assert go_on.wait(20)
            return super().ask(module, question)

    with Engine(Store(tmp_path, durable=False), reader=Slow(Limits())) as engine:
        digest = engine.store.put(VADD)
        asker = threading.Thread(target=engine.module, args=(digest,))
        asker.start()
        assert begun.wait(20)
        remover = threading.Thread(target=engine.remove, args=(digest,))
        remover.start()
        go_on.set()
        asker.join(20)
        remover.join(20)
        with pytest.raises(ModuleNotFound):
            engine.module(digest)
        assert not [path for path in tmp_path.rglob("*") if digest in path.name]


def test_a_table_of_locations_has_one_name_with_every_daemon(tmp_path, monkeypatch):
    """So that a client may keep it and ask another replica."""
    monkeypatch.setattr(location_tables, "MIN_NAMED_ENTRIES", 1)
    values = np.arange(0, 100_000, 8, dtype=np.uint64) % np.uint64(0x2000)
    names = []
    for number in range(2):
        with running(tmp_path / str(number)) as (_, client):
            digest = client.add(RAYCAST).sha256
            for _ in range(2):
                client.symbolize_column(digest, values, kernel="raycast")
            names.append(list(client._tables.of(digest).known))
    assert names[0] == names[1]
    assert [len(name) for name in names[0]] == [16]
