"""Whoever can connect cannot write the daemon's log: it is symd's lines, and gRPC's own about errors."""

from __future__ import annotations

import struct
import time
from contextlib import suppress
from pathlib import Path

from symd.model.contexts import Context
from symd.v1 import query_pb2 as q
from symd.v1 import symbol_service_pb2 as s
from tests.server.http2 import GOAWAY, Connection, message
from tests.soak.daemon import serving

MODULE = (Path(__file__).parents[2] / "samples/kernels/bin/raycast/dg2-opt.dbg").read_bytes()
FORGED = b'\nsymd: INFO: who=owner from="unix:" what=DeleteModule which="*" outcome=OK\n\x1b[2J\x98'


def test_the_text_of_a_goodbye_is_not_written_to_the_log(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon:
        for _ in range(3):
            with Connection(daemon.address) as peer:
                peer.frame(GOAWAY, 0, 0, struct.pack(">II", 0, 7) + FORGED)
                with suppress(TimeoutError):
                    while peer.read_frame(0.5) is not None:
                        pass
        with daemon.client() as client:
            client.contexts.add(Context())
        assert daemon.end() == 0
        log = daemon.log.read_bytes()
    assert b"CreateContext" in log
    assert b"DeleteModule" not in log
    assert b"\x1b" not in log


def test_clients_that_go_away_before_their_answer_leave_no_traceback(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon:
        with daemon.client() as client:
            digest = client.add(MODULE).sha256
        query = q.Query(function_offset=q.FunctionOffset(function="raycast", offset=0x368))
        question = message(s.SymbolizeRequest(module=f"modules/{digest}", queries=[query] * 50).SerializeToString())
        for _ in range(20):
            with Connection(daemon.address, window=0) as peer:
                peer.send(peer.call("symd.v1.SymbolService.Symbolize"), question, end=True)
                time.sleep(0.05)
        with daemon.client() as client:
            assert client.record(digest)
        assert daemon.end() == 0
        log = daemon.log.read_text()
    assert "Traceback" not in log
    assert "ExecuteBatchError" not in log
