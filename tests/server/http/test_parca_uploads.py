"""Parca's upload of debug data, sent with the numbers of its published proto: bytes put together here, no stubs of symd's."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.unknown_fields import UnknownFieldSet

from symd import Client
from tests.server.http.daemon import PATIENCE, SAMPLES, Web, web_daemon
from tests.server.http.real_debuginfod import found
from tests.wire import length_field, number_field

SERVICE = "/parca.debuginfo.v1alpha1.DebuginfoService"
CUBIN = SAMPLES / "cuda" / "bin" / "raycast.sm_90.lines.cubin"
BUILD_ID = "5a" * 20
GRPC_STRATEGY = 1


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with web_daemon(tmp_path_factory.mktemp("daemon"), "--limit", "module_size=2M") as web:
        yield web


class Agent:
    """What Parca's agent does: ask, initiate, upload, finish."""

    def __init__(self, address: str) -> None:
        self.channel = grpc.insecure_channel(address)

    def call(self, method: str, request: bytes) -> bytes:
        return self.channel.unary_unary(f"{SERVICE}/{method}")(request, timeout=PATIENCE)

    def should_initiate(self, build_id: str, *, force: bool = False) -> tuple[bool, str]:
        request = length_field(1, build_id.encode()) + length_field(2, b"hash") + number_field(3, int(force))
        told = values(self.call("ShouldInitiateUpload", request))
        return bool(told.get(1, 0)), told[2].decode()

    def initiate(self, build_id: str, size: int) -> dict[int, object]:
        request = length_field(1, build_id.encode()) + number_field(2, size) + length_field(3, b"hash")
        return values(values(self.call("InitiateUpload", request))[1])

    def upload(self, build_id: str, upload_id: str, pieces: list[bytes]) -> dict[int, object]:
        def messages() -> Iterator[bytes]:
            yield length_field(1, length_field(1, build_id.encode()) + length_field(2, upload_id.encode()))
            for piece in pieces:
                yield length_field(2, piece)

        return values(self.channel.stream_unary(f"{SERVICE}/Upload")(messages(), timeout=PATIENCE))

    def finish(self, build_id: str, upload_id: str) -> bytes:
        return self.call("MarkUploadFinished", length_field(1, build_id.encode()) + length_field(2, upload_id.encode()))


def values(message: bytes) -> dict[int, object]:
    """The fields of a message by number; the last of each."""
    return {each.field_number: each.data for each in UnknownFieldSet(Empty.FromString(message))}


@pytest.fixture
def agent(daemon: Web):
    made = Agent(daemon.address)
    yield made
    made.channel.close()


def pieces(data: bytes, size: int = 1000) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def test_an_agent_uploads_once_and_everybody_finds_it_by_its_build_id(
    daemon: Web, agent: Agent, tmp_path: Path
) -> None:
    data = CUBIN.read_bytes()
    assert agent.should_initiate(BUILD_ID)[0]
    instructions = agent.initiate(BUILD_ID, len(data))
    assert instructions[1].decode() == BUILD_ID
    assert instructions[3] == GRPC_STRATEGY
    upload_id = instructions[2].decode()
    assert upload_id
    with pytest.raises(grpc.RpcError) as refused:
        agent.finish(BUILD_ID, upload_id)
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    assert agent.upload(BUILD_ID, upload_id, pieces(data)) == {1: BUILD_ID.encode(), 2: len(data)}
    assert agent.finish(BUILD_ID, upload_id) == b""
    assert agent.should_initiate(BUILD_ID) == (False, "it is there already")
    assert agent.should_initiate(BUILD_ID.upper())[0] is False
    assert agent.should_initiate(BUILD_ID, force=True)[0]
    with Client(daemon.address) as client:
        told = client.aliases.resolve("build-id", BUILD_ID)
        assert client.module(told.module).format == "cubin"
    assert found(tmp_path, daemon.url, "executable", BUILD_ID) == data


def test_a_build_id_of_go_is_taken_as_it_is(daemon: Web, agent: Agent) -> None:
    name = "SrzHuRTB1qvJ/xyz_-9"
    agent.upload(name, "", [(SAMPLES / "cuda" / "bin" / "saxpy.sm_75.lines.cubin").read_bytes()])
    assert agent.should_initiate(name)[0] is False


@pytest.mark.parametrize(
    ("build_id", "data", "code"),
    [
        ("aa" * 20, [b"no module at all"], grpc.StatusCode.INVALID_ARGUMENT),
        ("bb" * 20, [], grpc.StatusCode.INVALID_ARGUMENT),
        ("", [b"x"], grpc.StatusCode.INVALID_ARGUMENT),
        ("cc" * 3000, [b"x"], grpc.StatusCode.INVALID_ARGUMENT),
        ("dd" * 20, [b"x" * (1 << 20)] * 3, grpc.StatusCode.RESOURCE_EXHAUSTED),
    ],
)
def test_what_cannot_be_kept_is_refused_and_nothing_is_left(
    daemon: Web, agent: Agent, build_id: str, data: list[bytes], code: grpc.StatusCode
) -> None:
    before = len(json.loads(daemon.ask("api/modules")[2])["modules"])
    with pytest.raises(grpc.RpcError) as refused:
        agent.upload(build_id, "", data)
    assert refused.value.code() is code, refused.value.details()
    assert len(json.loads(daemon.ask("api/modules")[2])["modules"]) == before
    if 0 < len(build_id) < 4096:
        assert agent.should_initiate(build_id)[0]


@pytest.mark.parametrize("kind", [2, 3])
def test_archives_of_sources_and_source_maps_are_not_wanted(agent: Agent, kind: int) -> None:
    told = values(agent.call("ShouldInitiateUpload", length_field(1, b"11" * 20) + number_field(4, kind)))
    assert told.get(1, 0) == 0


def test_so_large_an_upload_is_refused_before_it_is_sent(agent: Agent) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        agent.initiate("ee" * 20, 3 << 20)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_an_upload_begins_with_its_info_and_has_it_once(agent: Agent) -> None:
    call = agent.channel.stream_unary(f"{SERVICE}/Upload")
    info = length_field(1, length_field(1, b"ff" * 20))
    for messages in ([length_field(2, b"bytes")], [info, info], []):
        with pytest.raises(grpc.RpcError) as refused:
            call(iter(messages), timeout=PATIENCE)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


PYROSCOPE = "/debuginfo.v1alpha1.DebuginfoService/Upload"


def pyroscope(agent: Agent, file: bytes, chunks: list[bytes]) -> list[dict[int, object]]:
    """What the server answers to a client of Pyroscope's: the file's metadata, then chunks where they are wanted."""
    answered: queue.Queue[bool] = queue.Queue()

    def messages() -> Iterator[bytes]:
        yield length_field(1, length_field(1, file))
        if answered.get(timeout=PATIENCE):
            yield from (length_field(2, length_field(1, chunk)) for chunk in chunks)

    answers = []
    for message in agent.channel.stream_stream(PYROSCOPE)(messages(), timeout=PATIENCE):
        answers.append(values(values(message)[1]))
        answered.put(bool(answers[0].get(1, 0)))
    return answers


def test_pyroscopes_profilers_upload_in_one_stream(daemon: Web, agent: Agent, tmp_path: Path) -> None:
    data = (SAMPLES / "cuda" / "bin" / "tonemap.sm_75.lines.cubin").read_bytes()
    file = length_field(1, b"77" * 20) + length_field(3, b"88" * 16) + length_field(4, b"tonemap")
    [first] = pyroscope(agent, file, pieces(data))
    assert first[1] == 1
    assert found(tmp_path, daemon.url, "executable", "77" * 20) == data
    assert found(tmp_path, daemon.url, "executable", "88" * 16) == data
    [again] = pyroscope(agent, file, pieces(data))
    assert (again.get(1, 0), again[2]) == (0, b"it is there already")


@pytest.mark.parametrize(("file", "chunks"), [(b"", []), (length_field(1, b"99" * 20), [b"no module"])])
def test_what_pyroscopes_profilers_cannot_have_kept(agent: Agent, file: bytes, chunks: list[bytes]) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        pyroscope(agent, file, chunks)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
