"""The table of formats: each sample is claimed by its own reader alone, and no bytes upset any."""

from __future__ import annotations

import gzip
import pkgutil
from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd import profiles
from symd.config import Limits
from symd.errors import LimitExceeded, Malformed, UnknownFormat
from symd.profiles import FORMATS, Options, foreign, profile_format
from tests.profiles.modules import SAMPLES

REFUSED = foreign.ROCPD, foreign.ROCPROFV3_CSV
OF = {
    "kernels.pb.gz": "pprof", "kernels.otlp": "otlp", "stalls.csv": "unitrace", "pc_sampling.json": "rocprofv3-json",
    "pc_sampling.csv": "rocprofv3-csv", "records.jsonl": "cupti", "stacks.folded": "folded",
    "kernels.otlp.json": "otlp-json", "cuda_pc.otlp": "otlp", "code.json": "att",
    "proton.hatchet": "proton", "dispatches.db": "rocpd", "stacks.pftrace": "perfetto",
}  # fmt: skip


def plain(name):
    data = (SAMPLES / name).read_bytes()
    return gzip.decompress(data) if name.endswith(".gz") else data


@pytest.mark.parametrize("name", OF)
def test_a_sample_is_claimed_by_its_format(name):
    assert OF[name] == profiles.identify(plain(name)).NAME
    claiming = [module.NAME for module in FORMATS if module.claims(plain(name))]
    assert claiming[0] == OF[name]
    assert set(claiming) <= {OF[name], "folded"}


def test_every_format_module_stands_in_the_table_once():
    found = (import_module(f"symd.profiles.{info.name}") for info in pkgutil.iter_modules(profiles.__path__))
    modules = {module.__name__ for module in found if hasattr(module, "NAME") and hasattr(module, "claims")}
    assert sorted(module.__name__ for module in FORMATS if module not in REFUSED) == sorted(modules)
    assert len({module.NAME for module in FORMATS}) == len(FORMATS)
    assert {*OF.values()} == {module.NAME for module in FORMATS}


@given(st.binary(max_size=64))
def test_claims_never_raises(data):
    for module in FORMATS:
        assert module.claims(data) in (True, False)


def test_a_name_that_no_format_has_is_refused(resolver):
    with pytest.raises(UnknownFormat, match=r"'perf' is not a profile format \(known formats: rocprofv3-json, "):
        profiles.symbolize(b"", resolver, name="perf")


def test_a_bomb_is_stopped_before_it_is_in_memory(resolver):
    bomb = gzip.compress(bytes(1 << 24))
    with pytest.raises(LimitExceeded, match="profile_"):
        profiles.symbolize(bomb, resolver, Options(Limits(profile_size=1 << 20)))
    with pytest.raises(LimitExceeded, match="expand to more than"):
        profiles.symbolize(gzip.compress(bytes(1 << 26)), resolver)


@pytest.mark.parametrize("cut", [2, 9, 30, -1, -8])
def test_a_cut_gzip_stream_is_refused(resolver, cut):
    with pytest.raises(Malformed, match="gzip"):
        profiles.symbolize((SAMPLES / "kernels.pb.gz").read_bytes()[:cut], resolver)


@given(st.lists(st.binary(max_size=100), min_size=1, max_size=4))
def test_members_of_a_gzip_file_follow_one_another(parts):
    data = b"".join(gzip.compress(part) for part in parts)
    assert profile_format.expand(data, Limits()) == gzip.decompress(data) == b"".join(parts)


def test_the_same_content_is_compressed_to_the_same_bytes():
    assert profile_format.compress(b"abc")[4:8] == bytes(4), "MTIME (RFC 1952, 2.3.1): no time stamp"
    assert gzip.decompress(profile_format.compress(b"abc")) == b"abc"
