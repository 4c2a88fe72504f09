"""A change whose caller has gone keeps no thread until the catalogue's lock is free."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from symd.engine.engine import Engine
from symd.server.config import Config
from symd.server.listening import listening
from symd.server.server import build_daemon
from symd.server.work_queues import Work
from symd.store import Store, catalogue
from symd.v1 import alias_service_pb2 as a
from symd.v1 import context_service_pb2 as c
from symd.v1 import module_service_pb2 as m
from symd.v1.alias_service_pb2_grpc import AliasServiceStub
from symd.v1.context_pb2 import Context, MapEvent, Unload
from symd.v1.context_service_pb2_grpc import ContextServiceStub
from symd.v1.module_pb2 import Module
from symd.v1.module_service_pb2_grpc import ModuleServiceStub
from tests.server.test_budgets import eventually


def test_a_change_waits_for_the_lock_no_longer_than_its_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "BUSY_SECONDS", 3600.0)
    monkeypatch.setattr("symd.server.work_queues.WRITES", 16)
    config = Config(store=tmp_path, address=f"unix:{tmp_path}/s", grace=1.0)
    with Engine(Store(tmp_path / "store")) as engine, Store(tmp_path / "store") as other:
        daemon = build_daemon(engine, config)
        queue = daemon.work_queues[Work.WRITE]
        with listening(daemon.server, config.address) as address, grpc.insecure_channel(address) as channel:
            daemon.server.start()
            modules, contexts, aliases = (
                stub(channel) for stub in (ModuleServiceStub, ContextServiceStub, AliasServiceStub)
            )
            digest = other.put(b"no module that anything reads")
            name, alias = f"modules/{digest}", a.Alias(kind="kind", key="key", module=f"modules/{digest}")
            made = contexts.CreateContext(c.CreateContextRequest(context=Context(host="h")), timeout=60).context.name
            module = Module(name=name, label="another")
            changes = [
                (contexts.CreateContext, c.CreateContextRequest(context=Context(host="other"))),
                (contexts.RecordEvents, c.RecordEventsRequest(context=made, events=[MapEvent(unload=Unload(key="k", time_ns=1))])),
                (contexts.DeleteContext, c.DeleteContextRequest(context=made)),
                (aliases.CreateAliases, a.CreateAliasesRequest(aliases=[alias])),
                (aliases.DeleteAlias, a.DeleteAliasRequest(kind="kind", key="key")),
                (modules.UpdateModule, m.UpdateModuleRequest(module=module, update_mask=FieldMask(paths=["label"]))),
                (modules.DeleteModule, m.DeleteModuleRequest(module=name)),
            ]  # fmt: skip
            with other._catalogue.writing():
                calls = [method.future(request, timeout=1) for method, request in changes]
                assert eventually(lambda: queue.running > 0)
                assert {call.exception(60).code() for call in calls} <= {
                    grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE
                }  # fmt: skip
                assert eventually(lambda: queue.running == 0)
            assert contexts.RecordEvents(changes[1][1], timeout=60).keys == ["k"]
        daemon.stop(0.2)
