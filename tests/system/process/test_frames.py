"""Frames: one kind byte, a length and the payload."""

from __future__ import annotations

import io
import os
import struct

import pytest

from symd.system.process.frames import CALL, read_frame, read_frames, write_frame

FRAME = b"C" + struct.pack("<Q", 6) + b"zeInit"


def test_a_frame_is_one_byte_a_length_and_the_payload() -> None:
    reader, writer = os.pipe()
    try:
        write_frame(writer, CALL, b"zeInit")
        assert os.read(reader, 100) == FRAME
    finally:
        os.close(reader)
        os.close(writer)


def test_what_was_cut_off_is_no_frame() -> None:
    assert read_frames(b"") == []
    for length in range(len(FRAME)):
        assert read_frames(FRAME + FRAME[:length]) == [(CALL, b"zeInit")]
        assert read_frame(io.BytesIO(FRAME[:length]), 100) is None


def test_another_kind_is_refused_where_it_stands() -> None:
    with pytest.raises(ValueError, match="byte 9"):
        read_frames(b"C" + bytes(8) + b"?" + bytes(8))
    with pytest.raises(ValueError, match="no frame"):
        read_frame(io.BytesIO(b"?" + bytes(8)), 100)


def test_a_payload_larger_than_allowed_is_refused_before_it_is_read() -> None:
    assert read_frame(io.BytesIO(FRAME), 6) == (CALL, b"zeInit")
    with pytest.raises(ValueError, match="6 bytes where 5"):
        read_frame(io.BytesIO(FRAME), 5)
