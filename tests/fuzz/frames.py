"""Connections by hand: messages that are half sent, sizes and compression that lie, streams left idle, frames in an order that
no library sends. Nothing is expected of the answers; whoever calls looks whether the daemon still serves others."""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Sequence
from contextlib import suppress

from tests.fuzz.messages import Words
from tests.server.http2 import DATA, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE, Connection, message

_KINDS = (DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, 9, 250)
_PATIENCE = 0.05
"""Seconds to wait for each frame of the daemon."""


def converse(dice: random.Random, address: str, methods: Sequence[str], words: Words) -> None:
    """One connection with a few calls, left in whatever state it is in."""
    speak = dice.random() < 15 / 16
    with suppress(OSError), Connection(address, window=dice.choice((0, 1, 65535, (1 << 31) - 1)), speak=speak) as peer:
        streams = []
        for _ in range(dice.randint(1, 4)):
            further = dice.choice(
                ((), (("grpc-encoding", "gzip"),), (("grpc-timeout", "1m"),), (("grpc-encoding", "x"),))
            )
            streams.append(peer.call(dice.choice(methods), *further))
            for _ in range(dice.randint(0, 3)):
                _one(dice, peer, streams, words)
        for _ in range(4):
            if peer.read_frame(_PATIENCE) is None:
                return


def _one(dice: random.Random, peer: Connection, streams: Sequence[int], words: Words) -> None:
    """A message or a part of one, or a frame that fits nothing."""
    if dice.random() < 1 / 4:
        stream = dice.choice((0, *streams, 2, 999, (1 << 31) - 1))
        peer.frame(dice.choice(_KINDS), dice.randrange(256), stream, dice.randbytes(dice.choice((0, 4, 8, 6, 100))))
        return
    content = words.pick(dice).encode("utf-8", "replace") + dice.randbytes(dice.choice((0, 3, 40)))
    whole = dice.choice(
        (
            message(content),
            message(gzip.compress(content), compressed=True),
            message(gzip.compress(bytes(1 << 22)), compressed=True),
            struct.pack(">BI", dice.randrange(3), dice.choice((0, 1 << 20, (1 << 32) - 1))) + content,
        )
    )
    cut = len(whole) if dice.random() < 1 / 2 else dice.randint(0, len(whole))
    peer.send(dice.choice(streams), whole[:cut], end=dice.random() < 1 / 3)
