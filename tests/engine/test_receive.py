"""Modules that arrive in pieces: whole and readable ones are kept, of all others nothing is."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import HashMismatch, LimitExceeded, UnknownFormat
from symd.store import Store

SAMPLE = (Path(__file__).parents[2] / "samples" / "kernels" / "bin" / "vadd" / "dg2-opt.dbg").read_bytes()
DIGEST = hashlib.sha256(SAMPLE).hexdigest()
NOISE = b"\x93noise" * 50


@pytest.fixture
def engine(tmp_path):
    with Engine(Store(tmp_path / "store", Limits(module_size=1 << 20), durable=False)) as engine:
        yield engine


def files(engine):
    return sorted(path.name for path in engine.store.root.rglob("*") if path.is_file() and "catalogue" not in path.name)


def send(engine, data, digest, label="", size=1000):
    with engine.receive(label) as arriving:
        for start in range(0, len(data), size):
            arriving.write(data[start : start + size])
            assert arriving.size == min(start + size, len(data))
        return arriving.commit(digest)


def test_a_module_in_pieces_is_the_module_in_one(engine, tmp_path):
    summary = send(engine, SAMPLE, DIGEST, "a.dbg")
    with Engine(Store(tmp_path / "other", durable=False)) as other:
        assert other.add(SAMPLE, "a.dbg") == summary
    assert [(record.sha256, record.label, record.format) for record in engine.modules()] == [
        (DIGEST, "a.dbg", "igc-debug")
    ]


def test_other_bytes_than_announced_leave_the_store_as_it_was(engine):
    before = files(engine)
    with pytest.raises(HashMismatch):
        send(engine, SAMPLE[:-1], DIGEST)
    assert (engine.missing([DIGEST]), files(engine)) == ([DIGEST], before)


def test_other_bytes_do_not_harm_the_module_that_is_there(engine):
    engine.add(SAMPLE, "first")
    before = files(engine)
    with pytest.raises(HashMismatch):
        send(engine, NOISE, DIGEST)
    assert files(engine) == before
    assert engine.module(DIGEST).format == "igc-debug"


def test_what_nobody_can_read_goes_again_and_is_remembered(engine):
    digest, before = hashlib.sha256(NOISE).hexdigest(), files(engine)
    errors = []
    for _ in range(2):
        with pytest.raises(UnknownFormat) as caught:
            send(engine, NOISE, digest)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
    assert (engine.missing([digest]), files(engine)) == ([digest], before)
    with pytest.raises(HashMismatch):
        send(engine, SAMPLE, digest)


def test_an_upload_that_breaks_off_leaves_nothing(engine):
    before = files(engine)
    with engine.receive() as arriving:
        arriving.write(SAMPLE)
        assert files(engine) != before
    assert files(engine) == before


def test_more_than_a_module_may_have_is_refused_as_it_comes(engine):
    before = files(engine)
    with engine.receive() as arriving:
        arriving.write(bytes(1 << 20))
        with pytest.raises(LimitExceeded):
            arriving.write(b"one more")
    assert files(engine) == before


def test_sending_again_what_is_there_changes_nothing(engine):
    first = send(engine, SAMPLE, DIGEST, "first")
    assert send(engine, SAMPLE, DIGEST, "second") == first
    assert [record.label for record in engine.modules()] == ["first"]


def test_an_empty_upload_is_no_module(engine):
    digest = hashlib.sha256(b"").hexdigest()
    with pytest.raises(UnknownFormat, match="empty"):
        send(engine, b"", digest)
    assert engine.missing([digest]) == [digest]
