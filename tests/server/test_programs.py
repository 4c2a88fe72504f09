"""Programs that know nothing of symd's Python: stubs made from the protos, reflection alone, and the health probe."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import resources
from pathlib import Path

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.rpc import status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_tools import protoc

from symd.server.server import methods, services
from tests.server.fakes import GOOD

PROTOS = Path(__file__).parents[2] / "protos"

PLAIN = """
import hashlib, sys
import grpc
from symd.v1 import location_pb2 as l, module_service_pb2 as m, module_service_pb2_grpc, query_pb2 as q
from symd.v1 import symbol_service_pb2 as s, symbol_service_pb2_grpc

assert m.__file__.startswith(sys.path[0]), m.__file__  # generated beside this program
address, path = sys.argv[1:]
data = open(path, "rb").read()
digest = hashlib.sha256(data).hexdigest()
name = f"modules/{digest}"
with grpc.insecure_channel(address) as channel:
    modules = module_service_pb2_grpc.ModuleServiceStub(channel)
    symbols = symbol_service_pb2_grpc.SymbolServiceStub(channel)
    assert list(modules.FindMissingModules(m.FindMissingModulesRequest(modules=[name])).missing_modules) == [name]
    parts = [m.UploadModuleRequest(header=m.UploadHeader(sha256=digest, size_bytes=len(data), label="plain"))]
    parts += [m.UploadModuleRequest(chunk=data[at : at + 1000]) for at in range(0, len(data), 1000)]
    assert modules.UploadModule(iter(parts)).module.name == name
    for kernel in modules.ListKernels(m.ListKernelsRequest(module=name)).kernels:
        query = q.Query(function_offset=q.FunctionOffset(function=kernel.name, offset=0x40))
        for answer in symbols.Symbolize(s.SymbolizeRequest(module=name, queries=[query])).answers:
            for frame in answer.frames:
                reason = l.Reason.Name(answer.reason)
                print(kernel.name, reason, frame.function, frame.file, frame.line, frame.column, frame.inlined)
"""


def test_a_client_made_from_the_protos_uploads_and_symbolizes(running, tmp_path):
    """protoc here, the program in a folder and a process of its own, where no symd but the generated one is found."""
    well_known = resources.files("grpc_tools") / "_proto"
    google_rpc = Path(status_pb2.__file__).parents[2]
    outputs = [f"--python_out={tmp_path}", f"--grpc_python_out={tmp_path}"]
    sources = [str(path) for path in PROTOS.rglob("*.proto")]
    assert protoc.main(["protoc", f"-I{PROTOS}", f"-I{well_known}", f"-I{google_rpc}", *outputs, *sources]) == 0
    for package in ("symd", "symd/v1"):
        (tmp_path / package / "__init__.py").touch()
    (tmp_path / "client.py").write_text(PLAIN)
    (tmp_path / "module.bin").write_bytes(GOOD)
    command = [sys.executable, "client.py", running.address, "module.bin"]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "vadd REASON_EXACT helper /src/vadd.cl 3 23 True",
        "vadd REASON_EXACT vadd /src/vadd.cl 10 0 False",
    ]


@pytest.fixture
def reflected(channel):
    database = ProtoReflectionDescriptorDatabase(channel)
    return database, DescriptorPool(database)


def call(channel, pool, method, **fields):
    """One unary call, with nothing known but what reflection told."""
    service, _, name = method.rpartition(".")
    method = pool.FindServiceByName(service).methods_by_name[name]
    request = GetMessageClass(method.input_type)(**fields)
    path = f"/{method.containing_service.full_name}/{method.name}"
    response = GetMessageClass(method.output_type)
    return channel.unary_unary(
        path, request_serializer=type(request).SerializeToString, response_deserializer=response.FromString
    )(request)


def test_reflection_tells_every_service_and_every_method(reflected):
    database, pool = reflected
    texts = (path.read_text() for path in PROTOS.rglob("*.proto"))
    written = {
        f"{package}.{name}"
        for text in texts
        for package in re.findall(r"^package ([\w.]+);", text, re.MULTILINE)
        for name in re.findall(r"^service (\w+)", text, re.MULTILINE)
    }
    assert len(written) >= 3
    assert set(database.get_services()) == written | {
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
        "grpc.reflection.v1.ServerReflection",
    }
    told = {
        method.full_name
        for name in database.get_services()
        if not name.startswith("grpc.")
        for method in pool.FindServiceByName(name).methods
    }
    assert told == set(methods())


def test_reflection_is_served_in_version_1_and_describes_itself(channel, reflected):
    """The messages of both versions are the same bytes: a client of version 1 is one that calls the other service."""
    _, pool = reflected
    service = pool.FindServiceByName("grpc.reflection.v1.ServerReflection")
    method = service.methods_by_name["ServerReflectionInfo"]
    assert (method.input_type.full_name, method.client_streaming, method.server_streaming) == (
        "grpc.reflection.v1.ServerReflectionRequest",
        True,
        True,
    )
    ask, answer = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    call = channel.stream_stream(
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        request_serializer=ask.SerializeToString,
        response_deserializer=answer.FromString,
    )
    requests = [ask(list_services=""), ask(file_containing_symbol="symd.v1.SymbolService"), ask(file_by_filename="no")]
    listed, file, missing = call(iter(requests))
    assert "symd.v1.SymbolService" in {each.name for each in listed.list_services_response.service}
    assert any(b"symbol_service.proto" in each for each in file.file_descriptor_response.file_descriptor_proto)
    assert missing.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]


def test_a_client_that_knows_reflection_alone_gets_frames(channel, reflected, running):
    running.engine.add(GOOD, "by hand")
    _, pool = reflected
    (module,) = call(channel, pool, "symd.v1.ModuleService.ListModules").modules
    (kernel,) = call(channel, pool, "symd.v1.ModuleService.ListKernels", module=module.name).kernels
    queries = [{"function_offset": {"function": kernel.name, "offset": 0x40}}, {"address": 1 << 40}]
    answers = call(channel, pool, "symd.v1.SymbolService.Symbolize", module=module.name, queries=queries).answers
    reasons = pool.FindEnumTypeByName("symd.v1.Reason").values_by_number
    assert [reasons[answer.reason].name for answer in answers] == ["REASON_EXACT", "REASON_OUTSIDE_TEXT"]
    assert [(frame.function, frame.line, frame.inlined) for frame in answers[0].frames] == [
        ("helper", 3, True),
        ("vadd", 10, False),
    ]


@pytest.mark.parametrize("service", ["", *(service.full_name for service in services()), "grpc.health.v1.Health"])
def test_the_health_probe_finds_every_service_serving(channel, service):
    response = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service))
    assert response.status == health_pb2.HealthCheckResponse.SERVING


def test_the_health_probe_is_told_of_a_service_that_is_not_there(channel):
    probe = health_pb2_grpc.HealthStub(channel)
    with pytest.raises(grpc.RpcError) as caught:
        probe.Check(health_pb2.HealthCheckRequest(service="symd.v1.Nothing"))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    watch = probe.Watch(health_pb2.HealthCheckRequest(service="symd.v1.Nothing"))
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    watch.cancel()


def test_many_watches_do_not_take_the_threads_of_the_calls(channel):
    probe = health_pb2_grpc.HealthStub(channel)
    watches = [probe.Watch(health_pb2.HealthCheckRequest(service="")) for _ in range(10)]  # of 4 + 3 threads
    for watch in watches:
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
    assert probe.Check(health_pb2.HealthCheckRequest(service=""), timeout=5).status == 1
    for watch in watches:
        watch.cancel()
