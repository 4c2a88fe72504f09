"""The client gives the engine's answers in the engine's words, and its errors as the engine's classes."""

from __future__ import annotations

import hashlib
import inspect
import subprocess
import sys
import time

import numpy as np
import pytest

import symd
import symd.client
from symd import Client, errors
from symd.api import Symbolizer
from symd.model.addresses import ByAddress, ByKernel, BySection
from symd.model.answers import Answers, Locations, TextSection
from symd.model.grabs import GrabRequest
from tests.server.fakes import AMBIGUOUS, CANDIDATES, DIGEST, GOOD, line_table, summary

ABSENT = "0" * 64


def test_the_client_has_every_verb_of_the_engine_with_the_same_parameters():
    verbs = {name: verb for name, verb in vars(Symbolizer).items() if not name.startswith("_") and callable(verb)}
    assert len(verbs) >= 9
    for name, verb in verbs.items():
        assert inspect.signature(getattr(Client, name)) == inspect.signature(verb), name


def test_importing_symd_imports_no_grpc():
    code = "import sys, symd; assert 'grpc' not in sys.modules and 'numpy' not in sys.modules; symd.Client; assert 'grpc' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError):
        symd.nothing  # noqa: B018


@pytest.mark.parametrize("is_packed", [True, False])
def test_a_module_is_sent_once_and_described_as_the_engine_does(client, running, is_packed, monkeypatch):
    running.engine.is_packed = is_packed
    if is_packed:
        monkeypatch.setattr(client._calls.stubs.modules, "ListKernels", None)
    assert client.missing([ABSENT, DIGEST]) == [ABSENT, DIGEST]
    assert client.add(GOOD, "vadd.bin") == summary(GOOD)
    assert client.missing([ABSENT, DIGEST]) == [ABSENT]
    running.engine.add = None  # whoever sends it again fails
    assert client.add(GOOD) == summary(GOOD)
    assert client.module(DIGEST) == summary(GOOD)
    assert client.object_data(DIGEST, "") == GOOD


def test_a_module_larger_than_a_chunk_is_sent_in_several(client):
    data = b"FAKE" + bytes(2_999_000)
    assert client.add(data).size == len(data)
    assert client.object_data(hashlib.sha256(data).hexdigest(), "") == data


def test_many_digests_are_asked_for_in_pieces(client, running, monkeypatch):
    monkeypatch.setattr(symd.client, "MAX_NAMES_PER_CALL", 3)
    running.engine.add(GOOD)
    digests = [f"{number:064x}" for number in range(10)]
    assert client.missing([*digests[:5], DIGEST, *digests[5:]]) == digests
    assert client.missing([]) == []


def test_the_catalogue_and_long_lists_are_read_to_the_end(client, running, monkeypatch):
    monkeypatch.setattr("symd.server.paging.DEFAULT_PAGE_SIZE", 2)
    for number in range(5):
        running.engine.add(b"FAKE" + bytes([number]), f"{number}")
    assert list(client.modules()) == list(running.engine.modules())
    running.engine.add(GOOD)
    assert client.module(DIGEST) == summary(GOOD)


def test_queries_of_all_kinds_are_answered_as_by_the_engine(client, running):
    running.engine.add(GOOD)
    queries = [
        ByKernel("vadd", 0x40),
        BySection(".text.vadd", 0x3F),
        BySection(2, 0x1FF),
        ByAddress(0x150),
        ByAddress(2**64 - 1),
        ByKernel("nobody", 0),
        ByAddress(AMBIGUOUS),
    ]
    answers = client.symbolize(DIGEST, queries)
    assert isinstance(answers, Answers)
    assert list(answers) == list(running.engine.symbolize(DIGEST, queries))
    assert answers[6].candidates == CANDIDATES
    for query in queries:
        expected = running.engine.symbolize(DIGEST, [query])
        assert list(client.symbolize(DIGEST, [query])) == list(expected)
        assert client.symbolize_one(DIGEST, query) == expected[0]
    assert list(client.symbolize(DIGEST, [])) == []


def test_a_batch_of_addresses_travels_as_a_column(client, running):
    running.engine.add(GOOD)
    running.engine.symbolize_column, seen = counted(running.engine.symbolize_column)
    queries = [ByAddress(at) for at in range(0, 0x400, 3)]
    answers = client.symbolize(DIGEST, queries)
    assert len(seen) == 1
    assert list(answers) == list(running.engine.symbolize(DIGEST, queries))
    with pytest.raises(errors.BadQuery):
        client.symbolize(DIGEST, [ByAddress(1 << 64), ByAddress(0)])


def counted(function):
    seen = []

    def call(*args, **kwargs):
        seen.append(args)
        return function(*args, **kwargs)

    return call, seen


@pytest.mark.parametrize("which", [{}, {"kernel": "vadd"}, {"section": ".text.vadd"}, {"section": 2}, {"kernel": "x"}])
def test_a_column_is_answered_as_by_the_engine(client, running, which):
    running.engine.add(GOOD)
    values = np.arange(0x400, dtype=np.uint64)
    answers = client.symbolize_column(DIGEST, values, **which)
    assert list(answers) == list(running.engine.symbolize_column(DIGEST, values, **which))
    assert (answers.location.dtype, answers.text_section.dtype, answers.offset.dtype) == (
        np.uint32,
        np.uint32,
        np.uint64,
    )


def test_a_column_beyond_the_limit_travels_in_batches_the_daemon_takes(client, running, monkeypatch):
    """The daemon takes 5000 addresses a batch."""
    monkeypatch.setattr(symd.client, "MAX_ADDRESSES_PER_CALL", 6000)
    running.engine.add(GOOD)
    values = np.random.default_rng(7).integers(0, 0x400, 12_345).astype(np.uint64)
    running.engine.symbolize_column, seen = counted(running.engine.symbolize_column)
    answers = client.symbolize_column(DIGEST, values)
    assert [len(args[1]) for args in seen] == [5000, 5000, 2345]
    assert list(answers) == list(running.engine.symbolize_column(DIGEST, values))
    with pytest.raises(errors.ModuleNotFound):
        client.symbolize_column(ABSENT, values)
    with pytest.raises(errors.BadQuery):
        client.symbolize_column(DIGEST, values, kernel="\ud800")


def large_answers(count):
    """Answers to offsets below ``count`` in one section: each has a line of its own."""
    number = np.arange(count, dtype=np.uint32)
    zero, ones = np.zeros(count, np.uint32), np.ones(count, np.uint8)
    table = Locations(ones, zero, zero + 1, zero, zero + 2, number, zero, ones * 0, zero, ("", "f", "/src/f.cl"))

    def ask(_digest, values, **_):
        place = np.ones(len(values), np.uint32)
        return Answers(
            values.astype(np.uint32), place, values.astype(np.uint64), table, (TextSection("", ".text", 1, 0),)
        )

    return ask


@pytest.mark.parametrize("unary", [6000, 1000])
def test_a_table_of_locations_is_fetched_once(client, running, monkeypatch, unary):
    """In one call or as a stream of batches, which is what more than ``unary`` addresses travel as."""
    monkeypatch.setattr(symd.client, "MAX_ADDRESSES_PER_CALL", unary)
    running.engine.symbolize_column = ask = large_answers(3000)
    values = np.random.default_rng(3).integers(1, 3000, 5000).astype(np.uint64)
    calls = [client.symbolize_column(DIGEST, values) for _ in range(4)]
    for answers in calls:
        assert answers.locations.line[answers.location].tolist() == values.tolist()
        assert answers.offset.tolist() == values.tolist()
        assert answers[17] == ask(DIGEST, values)[17]
    assert calls[3].locations is calls[2].locations
    assert len(calls[3].locations) == 3000


def test_queries_beyond_a_message_travel_in_pieces(client, running, monkeypatch):
    monkeypatch.setattr(symd.client, "MAX_QUERIES_PER_CALL", 10)
    running.engine.add(GOOD)
    queries = [ByKernel("vadd", at) for at in range(0, 0x200, 16)] + [ByAddress(AMBIGUOUS)]
    assert list(client.symbolize(DIGEST, queries)) == list(running.engine.symbolize(DIGEST, queries))


def test_line_tables_arrive_whole(client, running):
    running.engine.add(GOOD)
    first, second = client.lines(DIGEST)
    mine = line_table()
    for name in ("text_section", "offset", "kernel", "function", "file", "line", "column", "flags"):
        np.testing.assert_array_equal(getattr(first, name), getattr(mine, name))
    assert (second.path, len(second)) == ("inner/1", 0)


def test_a_grab_brings_the_module_and_what_the_driver_gave(client):
    module, grabbed = client.grab(GrabRequest("opencl", "source", b"k", label="mine", timeout=5))
    assert module == summary(GOOD)
    assert (grabbed.debug_data, grabbed.native) == (GOOD, b"N" * 3_000_000)
    assert (grabbed.kernels, grabbed.build_log, grabbed.driver, grabbed.device) == (
        ("vadd", "other"),
        "log\n",
        "NEO",
        "Arc",
    )


def test_a_failed_build_carries_its_log_whole(client):
    with pytest.raises(errors.BuildFailed) as caught:
        client.grab(GrabRequest("opencl", "source", b"bad"))
    assert caught.value.build_log == "error: é\n" * 100_000
    assert caught.value.where == "dg2"


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda c: c.module(ABSENT), errors.ModuleNotFound),
        (lambda c: c.module("nonsense"), errors.BadQuery),
        (lambda c: c.missing(["nonsense"]), errors.BadQuery),
        (lambda c: c.add(b"\x93 random"), errors.UnknownFormat),
        (lambda c: c.add(bytes(4 << 20)), errors.LimitExceeded),
        (lambda c: c.object_data(ABSENT, ""), errors.ModuleNotFound),
        (lambda c: list(c.lines(ABSENT)), errors.ModuleNotFound),
        (lambda c: c.symbolize(ABSENT, [ByAddress(1)]), errors.ModuleNotFound),
        (lambda c: c.grab(GrabRequest("opencl", "source", b"crash")), errors.DriverCrashed),
        (lambda c: c.grab(GrabRequest("opencl", "source", b"bare")), errors.NoDebugData),
        (lambda c: c.grab(GrabRequest("metal", "source", b"")), errors.InvalidInput),
    ],
)
def test_a_refusal_arrives_as_the_engines_own_class(client, ask, error):
    with pytest.raises(errors.SymdError) as caught:
        ask(client)
    assert type(caught.value) is error
    assert caught.value.__cause__ is None


def test_where_nobody_listens_the_error_says_what_to_do(tmp_path):
    with Client(f"unix:{tmp_path}/none") as client, pytest.raises(errors.ServerUnavailable) as caught:
        client.server_info()
    assert "symd daemon start" in str(caught.value)
    assert f"{tmp_path}/none" in str(caught.value)


def test_a_timeout_ends_the_call(client, running):
    running.engine.add(GOOD)
    running.engine.hold.clear()
    with pytest.raises(errors.DeadlineExceeded):
        client.with_timeout(0.2).symbolize(DIGEST, [ByAddress(1)])
    running.engine.hold.set()
    assert client.symbolize(DIGEST, [ByAddress(1)])


def test_an_abandoned_stream_frees_its_slot(client, running):
    running.engine.add(GOOD)
    for _ in range(8):  # the daemon has 3 slots
        tables = client.lines(DIGEST)
        next(tables)
        tables.close()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                list(client.lines(DIGEST))
                break
            except errors.LimitExceeded:
                time.sleep(0.02)
        else:
            pytest.fail("the slot was not freed")
