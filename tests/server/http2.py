"""HTTP/2 by hand (RFC 9113, RFC 7541): a client that does what no library lets a client do."""

from __future__ import annotations

import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
ACK, END_STREAM, END_HEADERS = 1, 1, 4
INITIAL_WINDOW_SIZE = 4
FRAME = 16384
"""The largest frame that every peer takes."""


def literal(name, value):
    """A header as it is, without index and without Huffman code."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def message(data, *, compressed=False):
    """A gRPC message with its prefix."""
    return struct.pack(">BI", compressed, len(data)) + data


def frame(kind, flags, stream, payload=b""):
    """A frame's bytes."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def headers(method, *further):
    """What a call of the method begins with."""
    service, _, name = method.rpartition(".")
    fields = (
        (":method", "POST"), (":scheme", "http"), (":path", f"/{service}/{name}"), (":authority", "localhost"),
        ("content-type", "application/grpc"), ("te", "trailers"), *further,
    )  # fmt: skip
    return b"".join(literal(*each) for each in fields)


class Connection:
    """To a daemon's Unix socket, or over one that is connected. ``window`` is how much of each stream the daemon may send unasked."""

    def __init__(self, address, *, window=65535, speak=True):
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(10)
            self.socket.connect(address.removeprefix("unix:"))
        else:
            self.socket = address
        self.next_stream = 1
        self.received = b""
        self.initial_window = 65535
        self.window = {0: 65535}
        self.ending = None
        if speak:
            self.socket.sendall(PREFACE)
            self.frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, window))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.socket.close()

    def frame(self, kind, flags, stream, payload=b""):
        self.socket.sendall(frame(kind, flags, stream, payload))

    def call(self, method, *further):
        """Open a call by its headers alone; the stream's number."""
        stream, self.next_stream = self.next_stream, self.next_stream + 2
        self.frame(HEADERS, END_HEADERS, stream, headers(method, *further))
        return stream

    def send(self, stream, data, *, end=False):
        self.frame(DATA, END_STREAM if end else 0, stream, data)

    def push(self, stream, data):
        """Send as fast as the daemon's windows allow (RFC 9113, section 6.9), until it ends the call; how many bytes it took."""
        self.window.setdefault(stream, self.initial_window)
        sent = 0
        while sent < len(data):
            room = min(self.window[0], self.window[stream], FRAME, len(data) - sent)
            if room > 0:
                self.send(stream, data[sent : sent + room])
                sent += room
                self.window[0] -= room
                self.window[stream] -= room
                continue
            frame = self.read_frame(60)
            if frame is None or (frame[2] == stream and frame[0] in (HEADERS, RST_STREAM)):
                self.ending = frame
                break
            kind, flags, where, payload = frame
            if kind == WINDOW_UPDATE:
                self.window[where] = self.window.get(where, self.initial_window) + int.from_bytes(payload, "big")
            elif kind == SETTINGS and not flags & ACK:
                for at in range(0, len(payload), 6):
                    name, value = struct.unpack_from(">HI", payload, at)
                    if name == INITIAL_WINDOW_SIZE:
                        self.window[stream] += value - self.initial_window
                        self.initial_window = value
        return sent

    def read_frame(self, seconds=60):
        """(kind, flags, stream, payload) of the next frame; None when the daemon has closed. Raises TimeoutError."""
        self.socket.settimeout(seconds)
        head = self._read(9)
        if head is None:
            return None
        size = int.from_bytes(head[:3], "big")
        kind, flags, stream = struct.unpack(">BBI", head[3:])
        payload = self._read(size) if size else b""
        if kind == SETTINGS and not flags & ACK:
            self.frame(SETTINGS, ACK, 0)
        if kind == PING and not flags & ACK:
            self.frame(PING, ACK, 0, payload)
        return kind, flags, stream, payload

    def endings(self, count, seconds=60):
        """What ``count`` calls end with: the last headers' raw bytes by stream."""
        found = {}
        while len(found) < count:
            frame = self.read_frame(seconds)
            assert frame is not None, f"the daemon closed after {len(found)} of {count} calls"
            kind, flags, stream, payload = frame
            if kind == RST_STREAM:
                found.setdefault(stream, b"RST")
            elif kind == HEADERS and flags & END_STREAM:
                found[stream] = payload
        return found

    def is_closed(self, seconds=60):
        """Whether the daemon closes the connection within ``seconds``, whatever it says before."""
        try:
            while self.read_frame(seconds) is not None:
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        return True

    def _read(self, size):
        while len(self.received) < size:
            data = self.socket.recv(1 << 16)
            if not data:
                return None
            self.received += data
        taken, self.received = self.received[:size], self.received[size:]
        return taken
