"""Spans: one an RPC, below the caller's, with a child for what a worker did; sent to a collector, or not at all."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from symd import Client
from symd.errors import FailedPrecondition
from symd.server import lifecycle
from symd.server.config import Config
from symd.server.listening import listening
from symd.server.server import build_daemon
from symd.server.spans import Spans
from symd.v1.module_service_pb2 import GetModuleRequest
from symd.v1.module_service_pb2_grpc import ModuleServiceStub
from symd.v1.server_service_pb2 import GetServerInfoRequest
from symd.v1.server_service_pb2_grpc import ServerServiceStub
from tests.server.fakes import DIGEST, GOOD, FakeEngine
from tests.server.test_budgets import eventually

ROOT = Path(__file__).parents[2]
SAMPLE = (ROOT / "samples" / "kernels" / "bin" / "vadd" / "dg2-opt.dbg").read_bytes()
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = ("traceparent", f"00-{TRACE}-{PARENT}-01")


@pytest.fixture
def told():
    return InMemorySpanExporter()


@pytest.fixture
def address(tmp_path, told):
    """A daemon over the fake engine whose spans end up in ``told``."""
    config = Config(store=tmp_path, address=f"unix:{tmp_path}/s", grace=1.0)
    engine, spans = FakeEngine(), Spans(SimpleSpanProcessor(told))
    engine.add(GOOD)
    daemon = build_daemon(engine, config, spans=spans)
    with listening(daemon.server, config.address, daemon.authenticator) as address:
        daemon.server.start()
        yield address
        daemon.stop(0.2)
    spans.close()


def finished(told, count):
    assert eventually(lambda: len(told.get_finished_spans()) == count)
    return told.get_finished_spans()


def test_a_call_is_a_span_below_its_callers(address, told):
    with grpc.insecure_channel(address) as channel:
        ServerServiceStub(channel).GetServerInfo(GetServerInfoRequest(), metadata=(TRACEPARENT,), timeout=20)
    (span,) = finished(told, 1)
    assert (span.name, span.kind) == ("symd.v1.ServerService/GetServerInfo", SpanKind.SERVER)
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)
    assert span.attributes["symd.call.id"] > 0
    assert {name: value for name, value in span.attributes.items() if name != "symd.call.id"} == {
        "rpc.system.name": "grpc",
        "rpc.method": "symd.v1.ServerService/GetServerInfo",
        "rpc.response.status_code": "OK",
        "network.transport": "unix",
    }
    assert span.status.status_code is StatusCode.UNSET
    assert span.resource.attributes["service.name"] == "symd"


@pytest.mark.parametrize("header", [(), (("traceparent", "nonsense"),), (("traceparent-bin", b"\x00\xff"),)])
def test_a_call_of_nobody_who_traces_begins_a_trace(address, told, header):
    with grpc.insecure_channel(address) as channel:
        ServerServiceStub(channel).GetServerInfo(GetServerInfoRequest(), metadata=header, timeout=20)
    (span,) = finished(told, 1)
    assert span.parent is None


def test_an_error_is_told_and_is_a_fault_only_where_it_is_the_daemons(address, told):
    with grpc.insecure_channel(address) as channel:
        stub = ModuleServiceStub(channel)
        for name in (f"modules/{'0' * 64}", "nonsense"):
            with pytest.raises(grpc.RpcError):
                stub.GetModule(GetModuleRequest(module=name), timeout=20)
    missing, nonsense = finished(told, 2)
    assert missing.attributes["rpc.response.status_code"] == "NOT_FOUND"
    assert missing.attributes["error.type"] == "UNKNOWN_MODULE"
    assert missing.attributes["symd.module"] == f"modules/{'0' * 64}"
    assert nonsense.attributes["rpc.response.status_code"] == "INVALID_ARGUMENT"
    assert {each.status.status_code for each in (missing, nonsense)} == {StatusCode.UNSET}
    assert not missing.events


def test_a_defect_is_a_fault(address, told, monkeypatch):
    monkeypatch.setattr(FakeEngine, "module", lambda _self, _digest: 1 // 0)
    with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError):
        ModuleServiceStub(channel).GetModule(GetModuleRequest(module=f"modules/{DIGEST}"), timeout=20)
    (span,) = finished(told, 1)
    assert (span.attributes["rpc.response.status_code"], span.status.status_code) == ("INTERNAL", StatusCode.ERROR)


class Collector(TraceServiceServicer):
    """What an OpenTelemetry collector does first: it takes spans."""

    def __init__(self):
        self.spans, self.resources, self.lock = {}, [], threading.Lock()

    def Export(self, request, context):
        with self.lock:
            for resource in request.resource_spans:
                self.resources.append({each.key: each.value.string_value for each in resource.resource.attributes})
                for scope in resource.scope_spans:
                    self.spans |= {span.span_id: span for span in scope.spans}
        return ExportTraceServiceResponse()


@contextmanager
def collecting():
    server, collector = grpc.server(ThreadPoolExecutor(2)), Collector()
    add_TraceServiceServicer_to_server(collector, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}", collector
    finally:
        server.stop(None).wait()


@contextmanager
def serving(folder, *options, **environment):
    address = f"unix:{folder}/s"
    command = [sys.executable, "-m", "symd", "serve", "--address", address, "--store", f"{folder}/store", *options]
    variables = {**os.environ, **environment}
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline(), process.stderr.read()
        yield address, process
        process.terminate()
        _, log = process.communicate(timeout=60)
        assert process.returncode == 0
        assert "Traceback" not in log


@pytest.mark.parametrize("by", ["--otlp", "OTEL_EXPORTER_OTLP_ENDPOINT"])
def test_a_collector_gets_calls_and_below_them_what_workers_did(tmp_path, by):
    with collecting() as (endpoint, collector):
        options, variables = (["--otlp", endpoint], {}) if by == "--otlp" else ([], {by: endpoint})
        with serving(tmp_path, *options, **variables) as (address, _), Client(address) as client:
            client.add(SAMPLE)
        names = {span.name: span for span in collector.spans.values()}
        children = defaultdict(list)
        for span in collector.spans.values():
            children[span.parent_span_id].append(span.name)
    upload = names["symd.v1.ModuleService/UploadModule"]
    assert children[upload.span_id] == ["worker.index"]
    index = names["worker.index"]
    assert index.trace_id == upload.trace_id
    assert upload.start_time_unix_nano <= index.start_time_unix_nano <= index.end_time_unix_nano
    attributes = {each.key: each.value.string_value for each in upload.attributes}
    assert attributes["symd.module"] == f"modules/{hashlib.sha256(SAMPLE).hexdigest()}"
    assert collector.resources[0]["service.name"] == "symd"


def test_a_collector_that_does_not_answer_holds_nobody_up(tmp_path):
    with serving(tmp_path, "--otlp", "http://127.0.0.1:9") as (address, _), Client(address, timeout=30) as client:
        assert client.add(SAMPLE)


def test_without_the_extra_a_collector_by_name_is_refused_and_one_of_the_environment_passed_over(monkeypatch, caplog):
    monkeypatch.setattr(lifecycle, "_NEEDED", ("nothing.of.the.kind",))
    with pytest.raises(FailedPrecondition, match="not installed") as caught, lifecycle.tracing("http://localhost:4317"):
        pass
    assert "'.[otel]'" in caught.value.hint
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4317")
    with lifecycle.tracing("") as spans:
        assert spans is None
    assert "no spans are sent" in caplog.text


@pytest.mark.parametrize(
    ("name", "value"),
    [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "")],
)
def test_the_environment_turns_spans_off(monkeypatch, name, value):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4317")
    monkeypatch.setenv(name, value)
    with lifecycle.tracing("") as spans:
        assert spans is None


def test_another_protocol_is_refused(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    with pytest.raises(FailedPrecondition, match="not http/protobuf"), lifecycle.tracing("http://localhost:4318"):
        pass
