"""A module's description in one message: what the index has, as the index reads it.

Modules as messages.
"""

from __future__ import annotations

import msgpack
import numpy as np
import pytest
from hypothesis import given

from symd.errors import Malformed
from symd.index.summary import pack, unpack
from symd.model.identities import Digest
from symd.model.summaries import ModuleRecord, ModuleSummary
from symd.rpc.wire import modules
from symd.rpc.wire.modules import MOST_PACKED, from_module, from_packed, to_module, to_packed
from symd.v1.module_pb2 import PackedDescription
from tests.builders.index_file import compress
from tests.index.test_summary import FACTS, MODULE, OBJECT, with_facts


def sent(packed: bytes) -> PackedDescription:
    message = to_packed(compress(packed).tobytes())
    assert message is not None
    return PackedDescription.FromString(message.SerializeToString())


@given(FACTS)
def test_it_says_what_the_index_says(facts):
    packed = pack(with_facts(facts))
    found, expected = from_packed(sent(packed)), unpack(packed)
    assert found == expected
    assert repr(found.objects[0].kernels[0].facts) == repr(expected.objects[0].kernels[0].facts)


def test_whole_numbers_of_more_than_64_bits():
    packed = pack(with_facts({"n": [1 << 70, -(1 << 64)]}))
    assert from_packed(sent(packed)) == unpack(packed)


def test_what_has_no_target_and_no_section():
    bare = MODULE._replace(objects=(OBJECT._replace(target=None, kernels=(OBJECT.kernels[0]._replace(section=None),)),))
    assert from_packed(sent(pack(bare))) == bare


def test_a_form_that_this_client_does_not_know_is_left_alone():
    assert from_packed(PackedDescription(version=99, data=b"anything")) is None


def test_one_that_is_large_is_not_sent():
    assert to_packed(bytes(MOST_PACKED + 1)) is None
    assert to_packed(None) is None


def test_one_that_unpacks_to_more_than_a_client_reads(monkeypatch):
    """Nobody sends it: the client refused the module with it."""
    message = sent(pack(MODULE))
    monkeypatch.setattr(modules, "MOST_UNPACKED", 50)
    with pytest.raises(Malformed, match="no believable size"):
        from_packed(message)
    assert to_packed(message.data) is None


def _changed(fields):
    """A summary with one field of another type, at every place."""
    if isinstance(fields, list):
        for at, each in enumerate(fields):
            for other in _changed(each):
                yield [*fields[:at], other, *fields[at + 1 :]]
    elif not isinstance(fields, dict):
        yield 1.5


def test_fields_of_other_types_are_refused():
    changed = list(_changed(msgpack.unpackb(pack(MODULE))))
    assert len(changed) == 19
    for each in changed:
        with pytest.raises(Malformed, match="does not read"):
            from_packed(sent(msgpack.packb(each)))


def test_damaged_bytes_end_in_a_named_error():
    chance, whole = np.random.default_rng(3), compress(pack(MODULE)).tobytes()
    refused = 0
    for _ in range(2000):
        data = bytearray(whole)
        for at in chance.integers(0, len(data), chance.integers(1, 4)):
            data[at] = chance.integers(256)
        try:
            from_packed(PackedDescription(version=1, data=bytes(data)))
        except Malformed:
            refused += 1
    assert refused > 100
    for size in range(len(whole)):
        with pytest.raises(Malformed):
            from_packed(PackedDescription(version=1, data=whole[:size]))


DIGEST = Digest("ab" * 32)


def test_a_module_that_the_catalogue_has_not_admitted_yet_has_the_format_that_was_found():
    """Two clients send the same module, and one is answered between the other's index and its entry."""
    message = to_module(ModuleRecord(DIGEST, 100, "", "", 1.0), ModuleSummary(DIGEST, 100, "zebin"))
    assert message.format == "zebin"
    assert from_module(message, (), (), ()).format == "zebin"
    assert to_module(ModuleRecord(DIGEST, 100, "zebin", "", 1.0)).format == "zebin"
