"""A core dump over the channel is the engine's: faults, stacks, places, frames, waves, values and notes."""

from __future__ import annotations

from pathlib import Path

import pytest

from symd.errors import BadQuery, InvalidInput, Malformed, ModuleNotFound
from symd.model.answers import Frame, Reason
from symd.model.cores import (
    CoreDevice,
    CoreDump,
    CoreFault,
    CoreFrame,
    CoreImage,
    CorePlace,
    CoreStack,
    CoreValue,
    CoreWave,
)
from symd.rpc.wire.cores import from_parts, from_request, to_parts
from symd.v1.core_service_pb2 import CoreStack as CoreStackMessage
from symd.v1.core_service_pb2 import ReadCoreRequest, ReadCoreResponse
from tests.client.test_end_to_end import both  # noqa: F401 - the fixture: an engine and a client of its daemon

SAMPLES = Path(__file__).parents[2] / "samples"
DUMPS = sorted((SAMPLES / "cores" / "bin").iterdir())
CUBIN = SAMPLES / "cuda" / "bin" / "raycast.sm_90.debug.cubin"
EVERYTHING = CoreDump(
    "cuda-core",
    {"driver": "580.65", "flags": 3},
    (CoreDevice(3, "GPU", "sm_90"), CoreDevice(4, "", None)),
    (
        CoreImage("one", "sm_90", ((1, 2), (3, 1 << 63)), "device0.module0", "", "device0.module0", ("a note",)),
        CoreImage("two", None, (), None, "1" * 64, "in/it", bias=1 << 63),
        CoreImage("three", None, (), None),
    ),
    (
        CoreStack(
            3,
            1 << 63,
            "kernel\udc80"[:-1],
            CoreFault(14, "CUDA_EXCEPTION_14", "Warp Illegal Address"),
            True,
            (1 << 64) - 1,
            7,
            (
                CoreFrame(
                    "error_pc", 7, CorePlace(0, 1, 2, "f", 1), Reason.EXACT, (Frame("f", "_f", "a", 1, 2, True),)
                ),
                CoreFrame("pc", 8, None, Reason.OUTSIDE_TEXT),
                CoreFrame(
                    "return", 9, CorePlace(0, 1, 3, "", 3), Reason.NO_LINE, (Frame("g", None, None, 0, 0, False),)
                ),
            ),
            (CoreWave(1, 2, (3, 4, 5), (1 << 64) - 1, (6, 7, 8)), CoreWave(0, 0, None, 0, None)),
            (CoreValue("x", "int", "f", True, "R1", (0, 1), ("1", "2")), CoreValue("", "int", None, False, "", (), ())),
            ("told",),
        ),
        CoreStack(3, None, None, None, False, 0, None, (), ()),
    ),
    ("half a dump",),
)


@pytest.mark.parametrize("dump", DUMPS, ids=lambda path: path.name)
def test_a_dump_over_the_channel_is_the_engines(both, dump):  # noqa: F811
    engine, client = both
    digest = client.add(dump.read_bytes()).sha256
    other = client.add(CUBIN.read_bytes()).sha256
    found = client.core(digest, [other])
    assert found == engine.core(digest, [other])
    assert found.stacks


def test_what_is_refused_over_the_channel(both):  # noqa: F811
    _, client = both
    cubin = client.add(CUBIN.read_bytes()).sha256
    with pytest.raises(InvalidInput, match="not a GPU core dump"):
        client.core(cubin)
    with pytest.raises(ModuleNotFound):
        client.core("0" * 64)
    with pytest.raises(BadQuery):
        client.core("nonsense")


def test_every_field_comes_back():
    assert from_parts(to_parts(EVERYTHING)) == EVERYTHING


def test_requests_and_streams_that_make_no_sense():
    with pytest.raises(BadQuery, match="more than 100"):
        from_request(ReadCoreRequest(module="modules/" + "1" * 64, debug_modules=["modules/" + "2" * 64] * 101))
    with pytest.raises(Malformed):
        from_parts([ReadCoreResponse(stack=CoreStackMessage())])
    with pytest.raises(Malformed):
        from_parts([])
