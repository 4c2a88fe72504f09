"""Whoever can connect cannot write the daemon's log: it is symd's lines, and gRPC's own about errors."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

from symd.model.contexts import Context
from tests.service.http2 import GOAWAY, Connection
from tests.soak.daemon import serving

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
