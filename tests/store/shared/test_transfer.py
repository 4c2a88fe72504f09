"""What one store has comes into another: all of it, once, right, and on from where it was broken off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from symd.engine.engine import Engine
from symd.errors import StoreUnavailable
from symd.index import VERSION
from symd.model.addresses import ByAddress, DeviceAddress, ObjectAddress
from symd.model.contexts import Alias, Context, Load, Segment, Unload
from symd.model.identities import Digest
from symd.store import ModuleStore, Store, maintenance
from symd.store.maintenance import transfer

if TYPE_CHECKING:
    from symd.store.shared.store import SharedStore

SAMPLE = min((Path(__file__).parents[3] / "samples" / "amdgpu" / "bin").glob("*.co"))


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Store]:
    """A store with modules, one of which has an index, with names, and with contexts."""
    with Store(tmp_path / "full") as store:
        digests = [
            Digest(store.put(b"module %d" % number * (number + 1), f"label {number}", "raw")) for number in range(30)
        ]
        engine = Engine(store)
        sample = engine.add(SAMPLE.read_bytes(), "a sample").sha256
        engine.close()
        store.aliases.add([Alias("build-id", f"id {number}", digest) for number, digest in enumerate(digests[:7])])
        first = store.context_log.add(Context(host="a", process=1, attributes={"start": "5"}))
        store.context_log.add(Context(host="b"))
        store.aliases.add([Alias("handle", "0x1", sample, None, first)])
        segments = (Segment(DeviceAddress(0xFFFF_8000_0000_1000), 64, ByAddress(ObjectAddress(0))),)
        store.context_log.record(first, [Load(digests[0], 10, segments, key="k"), Unload("k", 20)])
        store.context_log.record(first, [Load(digest, 30 + at, segments) for at, digest in enumerate(digests[1:5])])
        yield store


@pytest.fixture(params=["folder", "shared"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ModuleStore]:
    if request.param == "folder":
        store: ModuleStore = Store(tmp_path / "empty")
    else:
        open_shared: Callable[..., SharedStore] = request.getfixturevalue("open_shared")
        store = open_shared()
    yield store
    store.close()


def contents(store: ModuleStore) -> dict[str, object]:
    """Everything that a transfer brings, without the times at which things were added."""
    records = store.records(limit=1000)
    contexts = store.context_log.contexts()
    return {
        "modules": {(each.sha256, each.size, each.format, each.label) for each in records},
        "bytes": {each.sha256: bytes(store.data(each.sha256)) for each in records},
        "aliases": {alias for each in records for alias in store.aliases.of(each.sha256)},
        "contexts": {(each.id, str(each.context)) for each in contexts},
        "loads": {each.id: {load for _, load in store.context_log.loads(each.id)} for each in contexts},
        "placed": {each.id: {row[1:] for row in store.context_log.changes(each.id).rows} for each in contexts},
    }


def test_everything_comes(full: Store, empty: ModuleStore, tmp_path: Path):
    done = transfer(full, empty)
    assert contents(empty) == contents(full)
    assert (done.modules, done.there, done.indexes, done.aliases, done.contexts) == (31, 0, 1, 8, 2)
    assert done.module_bytes == full.figures().module_bytes
    assert done.damaged == []
    sample = next(record.sha256 for record in full.records() if record.label == "a sample")
    assert empty.index(sample, VERSION) == full.index(sample, VERSION)


def test_it_comes_back_as_it_was(full: Store, empty: ModuleStore, tmp_path: Path):
    transfer(full, empty)
    with Store(tmp_path / "back") as back:
        transfer(empty, back)
        assert contents(back) == contents(full)


def test_a_second_transfer_brings_nothing_but_what_is_new(full: Store, empty: ModuleStore):
    transfer(full, empty)
    full.put(b"new", "new")
    done = transfer(full, empty)
    assert (done.modules, done.module_bytes, done.there) == (1, 3, 31)
    assert contents(empty) == contents(full)


def test_pages_are_gone_through(full: Store, empty: ModuleStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(maintenance, "PAGE", 2)
    transfer(full, empty)
    assert contents(empty) == contents(full)


class _Interrupted(Store):
    """Gone after a few modules."""

    left = 12

    def data(self, digest: str) -> memoryview:
        self.left -= 1
        if self.left < 0:
            raise StoreUnavailable("gone", hint="wait")
        return super().data(digest)


def test_a_transfer_that_was_broken_off_goes_on(full: Store, empty: ModuleStore):
    with _Interrupted(full.root) as source, pytest.raises(StoreUnavailable, match="gone"):
        transfer(source, empty)
    came = len(empty.records())
    assert 0 < came <= 12
    done = transfer(full, empty)
    assert (done.there, done.modules) == (came, 31 - came)
    assert contents(empty) == contents(full)


def test_a_damaged_module_is_named_and_left_out(full: Store, empty: ModuleStore):
    digest = full.records()[3].sha256
    path = full.root / "modules" / digest[:2] / digest
    path.write_bytes(bytes(path.stat().st_size))
    other = full.records()[4].sha256
    (full.root / "modules" / other[:2] / other).write_bytes(b"")
    done = transfer(full, empty)
    assert set(done.damaged) == {digest, other}
    assert {each.sha256 for each in empty.records()} == {each.sha256 for each in full.records()} - {digest, other}


def test_a_damaged_index_does_not_come(full: Store, empty: ModuleStore):
    sample = next(record.sha256 for record in full.records() if record.label == "a sample")
    path = full.root / "index" / str(VERSION) / sample[:2] / f"{sample}.idx"
    path.write_bytes(path.read_bytes()[:-100])
    assert transfer(full, empty).indexes == 0
    assert empty.index(sample, VERSION) is None


def test_it_says_how_far_it_is(full: Store, empty: ModuleStore):
    told: list[tuple[int, int]] = []
    transfer(full, empty, lambda done, of: told.append((done, of)))
    size = full.figures().module_bytes
    assert told[-1] == (size, size)
    assert told == sorted(told)
    assert len(told) == 31


def test_those_who_follow_the_other_store_hear_of_each_module(full: Store, empty: ModuleStore):
    before = empty.module_log.end()
    transfer(full, empty)
    assert empty.module_log.added_after(before) == {record.sha256 for record in full.records()}
