"""Times on the wire, against Protocol Buffers' own conversions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from symd.rpc.wire.fields import from_time, to_duration, to_timestamp


@pytest.mark.parametrize("seconds", [0, 1, 0.999_999_999_9, 1_763_800_000.123_456, -1.5])
def test_a_timestamp_is_the_moment_that_protocol_buffers_say(seconds):
    message = to_timestamp(seconds)
    assert 0 <= message.nanos < 1_000_000_000
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    assert abs(message.ToDatetime(UTC) - moment) <= timedelta(microseconds=1)
    assert from_time(message) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize("seconds", [0, 0.25, 120.0, 59.999_999_999_9])
def test_a_duration_is_as_long_as_protocol_buffers_say(seconds):
    message = to_duration(seconds)
    assert abs(message.ToTimedelta() - timedelta(seconds=seconds)) <= timedelta(microseconds=1)
    assert from_time(message) == pytest.approx(seconds)
