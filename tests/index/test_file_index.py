"""The index of one file in a process that answers a few questions: SPIR-V inside a container is decoded for whoever names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from symd.config import Limits
from symd.formats import containers
from symd.index.module import decoded_objects, described
from symd.index.module_tables import DecodedObject
from symd.index.partial import MAX_PARTIAL_QUERIES, FileIndex
from symd.model.addresses import ByAddress, ObjectAddress
from symd.model.answers import Reason
from symd.model.identities import Digest
from symd.query.symbolize import symbolize
from tests.hostile.wrappers import in_archive, in_zebin

SPIRV = (Path(__file__).parents[2] / "samples/spirv/bin/inline.O2.ocl-100.spv").read_bytes()
IMAGES = 20
MANY = MAX_PARTIAL_QUERIES + 1


def file_index(data: bytes) -> FileIndex:
    unpacked = containers.unpack(data, Limits())
    undecoded = [DecodedObject(code, None) for code in unpacked.objects]
    return FileIndex(unpacked.objects, described(data, Digest("0" * 64), unpacked, undecoded), Limits())


def addresses(count: int) -> list[ByAddress]:
    return [ByAddress(ObjectAddress(4 * number)) for number in range(count)]


@pytest.mark.parametrize("count", [1, MANY])
@pytest.mark.parametrize("container", [in_archive, in_zebin])
def test_spirv_in_a_container_is_not_decoded_for_addresses(container: object, count: int) -> None:
    index = file_index(container(*[SPIRV] * IMAGES)).for_queries(addresses(count))  # type: ignore[operator]
    assert not index.columns.object_rows.any()


def test_it_is_decoded_for_its_path() -> None:
    objects = containers.unpack(in_archive(*[SPIRV] * IMAGES), Limits()).objects
    (alone,) = decoded_objects(objects[:1])
    rows = len(alone.debug.rows)  # type: ignore[union-attr]
    for count, expected in ((1, [0, rows, *[0] * (IMAGES - 2)]), (MANY, [rows] * IMAGES)):
        asked = addresses(count)
        index = file_index(in_archive(*[SPIRV] * IMAGES))
        found = index.for_queries(asked, "m1")
        assert found.columns.object_rows.tolist() == expected
        assert Reason.EXACT in {answer.reason for answer in symbolize(found, addresses(len(SPIRV) // 4), "m1")}
        assert {answer.reason for answer in symbolize(index.for_queries(asked), asked)} == {Reason.OUTSIDE_TEXT}
