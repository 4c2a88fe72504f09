"""A small profile that expands, or that would be written with many frames, is refused by the name of a limit, in every format."""

from __future__ import annotations

import gzip
import json

import pytest

from symd import profiles
from symd.config import Limits
from symd.errors import LimitExceeded, Malformed
from symd.profiles import Options, profile_format
from symd.profiles.profile_format import MEMBERS_A_RECORD
from tests.profiles.modules import SAMPLES
from tests.wire import length_field, number_field

MANY = 5000
MANY_RECORDS = {
    "pprof": length_field(6, b"") + length_field(4, b"\x08\x01\x18\x05") * MANY,
    "one message of pprof": length_field(6, b"") + length_field(4, number_field(1, 1) * MANY * 4),
    "otlp": length_field(2, length_field(5, b"") + length_field(2, b"") * MANY),
    "otlp-json": b'{"dictionary":{"locationTable":[' + b"{}," * MANY * 16 + b"{}]}}",
    "att": b'{"code":['
    + b"[0,0,0,0,0,0]," * MANY * 4
    + b'[]],"header":"ISA, _, LineNumber, Source, Codeobj, Vaddr, Hit"}',
    "proton": b'[{"frame":{"name":"a"},"children":[' + b"{}," * MANY * 16 + b"{}]}]",
    "perfetto": length_field(1, number_field(10, 1)) * MANY,
    "folded": b"main;k+0x1 5\n" * MANY,
    "unitrace": b"Kernel, IP[Address], Active[Events]\n" + b'"k", 0x8, 1\n' * MANY,
    "cupti": b'{"cubinCrc":1,"pcOffset":2,"functionName":"f"}\n' * MANY,
    "one record of cupti": b'{"cubinCrc":1,"pcOffset":2,"x":[' + b"{}," * MANY * 16 + b"1]}\n",
    "rocprofv3": b'{"rocprofiler-sdk-tool":[{"metadata":[' + b"{}," * MANY * 16 + b"1]}]}",
}
SYMBOLIZED = (
    "kernels.pb.gz",
    "kernels.otlp",
    "stacks.folded",
    "stalls.csv",
    "records.jsonl",
    "pc_sampling.json",
    "kernels.otlp.json",
    "code.json",
    "stacks.pftrace",
)


@pytest.mark.parametrize("name", MANY_RECORDS)
def test_more_records_than_are_taken_are_refused_before_they_are_kept(resolver, name, monkeypatch):
    data = MANY_RECORDS[name]
    assert profiles.symbolize(data, resolver).data is data
    form = name.rpartition(" of ")[2].replace("rocprofv3", "rocprofv3-json")
    monkeypatch.setattr(profile_format, "PROFILE_RECORDS", 1000)
    with pytest.raises(LimitExceeded, match="more than 1000 fields") as caught:
        profiles.symbolize(data, resolver, name=form)
    assert caught.value.metadata == {"limit": "profile_records", "value": "1000"}


@pytest.mark.parametrize("name", MANY_RECORDS)
def test_a_small_file_expands_so_far_and_no_further(resolver, name, monkeypatch):
    data = MANY_RECORDS[name]
    zipped = gzip.compress(data * (1 + (1 << 21) // len(data)))
    monkeypatch.setattr(profile_format, "PROFILE_RATIO", 1)
    with pytest.raises(LimitExceeded, match="expand to more than") as caught:
        profiles.symbolize(zipped, resolver)
    assert caught.value.metadata["limit"] == "profile_ratio"


@pytest.mark.parametrize("name", SYMBOLIZED)
def test_what_is_written_is_bounded(resolver, name):
    """Frames are written wherever their address stands: of a small profile much would become."""
    data = (SAMPLES / name).read_bytes()
    plain = gzip.decompress(data) if name.endswith(".gz") else data
    assert profiles.symbolize(plain, resolver).data != plain
    with pytest.raises(LimitExceeded) as caught:
        profiles.symbolize(plain, resolver, Options(Limits(profile_size=len(plain) + 1)))
    assert caught.value.metadata["limit"] == "profile_size"


SEVERAL = 1000


def otlp_of_many_types(documents: int) -> bytes:
    """Profiles of one sample each, whose values are of a type of their own, in so many documents."""
    strings = ["", *(f"metric {number}" for number in range(SEVERAL))]
    samples = [
        {"sampleType": {"typeStrindex": number}, "samples": [{"stackIndex": 0, "values": ["1"]}]}
        for number in range(1, SEVERAL + 1)
    ]
    dictionary = {"stringTable": strings, "stackTable": [{}]}
    each = len(samples) // documents
    parts = [samples[at : at + each] for at in range(0, len(samples), each)]
    whole = [
        {"resourceProfiles": [{"scopeProfiles": [{"profiles": part}]}], "dictionary": dictionary} for part in parts
    ]
    return "\n".join(map(json.dumps, whole)).encode()


WIDE = {
    "proton": b'[{"frame":{"name":"r"},"children":['
    + b",".join(b'{"frame":{"name":"k"},"metrics":{"m%d":1}}' % number for number in range(SEVERAL))
    + b"]}]",
    "unitrace": b"".join(b'Kernel, IP[Address], M%d[Events]\n"k", 8, 1\n\n' % number for number in range(SEVERAL)),
    "otlp-json": otlp_of_many_types(1),
    "otlp-json, documents": otlp_of_many_types(10),
}
"""Each sample has a value of another type: a table of all is the square of what is read."""


@pytest.mark.parametrize("name", WIDE)
def test_samples_of_many_types_are_no_table_without_bounds(name, monkeypatch):
    most = SEVERAL * SEVERAL // MEMBERS_A_RECORD
    form = name.partition(",")[0]
    whole = profiles.samples(WIDE[name], name=form)
    assert (len(whole.samples), len(whole.value_types)) == (SEVERAL, SEVERAL)
    assert sum(map(sum, (sample.values for sample in whole.samples))) == SEVERAL
    monkeypatch.setattr(profile_format, "PROFILE_RECORDS", most)
    with pytest.raises(LimitExceeded, match="fields or samples"):
        profiles.samples(WIDE[name], name=form)


TINY = {
    "empty": length_field(4, b""),
    "empty, its size in three bytes": b"\x22\x80\x80\x00",
    "within a group": b"\x0b\x22\x00\x0c",
    "after numbers of fixed size": b"\x79" + bytes(8) + b"\x7d" + bytes(4) + b"\x22\x00",
    "labels of one sample": length_field(3, b""),
    "texts": length_field(6, b""),
}


@pytest.mark.parametrize("name", TINY)
def test_messages_are_counted_before_they_are_parsed(name, monkeypatch):
    """What ends too early is refused as damaged by who parses it: these are not parsed."""
    monkeypatch.setattr(profile_format, "PROFILE_RECORDS", 35_000)
    many = TINY[name] * 40_000
    if name == "labels of one sample":
        many = length_field(2, many)
    with pytest.raises(Malformed, match="damaged"):
        profiles.samples(TINY[name] * 10 + b"\x22\x7f", name="pprof")
    with pytest.raises(LimitExceeded, match="more than 35000 fields"):
        profiles.samples(many + b"\x22\x7f", name="pprof")


def test_messages_that_are_not_too_many_are_counted_once():
    """A sample of 40 bytes, a million of them, of which each has a label."""
    sample = length_field(1, b"\x01" * 28) + length_field(2, b"\x05") + length_field(3, number_field(1, 0))
    tables = length_field(6, b"") + length_field(1, b"") + length_field(4, number_field(1, 1))
    assert len(profiles.samples(tables + length_field(2, sample) * 1_000_000, name="pprof").samples) == 1_000_000
