"""A module that is being added: put, held while it is indexed, admitted at the end, or refused."""

from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import HashMismatch, LimitExceeded, Malformed, ModuleNotFound, Unavailable
from symd.store import ModuleStore, Store

ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, appendix B.1


def test_a_new_module_is_put_and_held_and_at_the_end_admitted(store: ModuleStore):
    begin = store.module_log.end()
    with store.adding(ABC, 1, b"abc", "label") as arrival:
        assert arrival.is_new
        assert arrival.path is not None
        assert arrival.path.read_bytes() == b"abc"
        assert store.usage.is_held(ABC)
        assert store.record(ABC).format == ""
        arrival.format = "zebin"
    assert not store.usage.is_held(ABC)
    assert (store.record(ABC).format, store.record(ABC).label) == ("zebin", "label")
    assert [change.digest for change in store.module_log.after(begin, 9)] == [ABC]


def test_one_whose_format_nobody_says_is_not_admitted(store: ModuleStore):
    with store.adding(ABC, 1, b"abc"):
        pass
    assert store.record(ABC).format == ""


@pytest.mark.parametrize(("error", "is_remembered"), [(Malformed("bad"), True), (Unavailable("later"), False)])
def test_a_new_module_that_cannot_be_indexed_is_refused(store: ModuleStore, error, is_remembered: bool):
    with pytest.raises(type(error)), store.adding(ABC, 1, b"abc"):
        raise error
    assert store.missing([ABC]) == [ABC]
    assert (store.failure(ABC, 1) is not None) == is_remembered


def test_what_is_remembered_of_a_module_is_raised_before_its_bytes_are_put(store: ModuleStore):
    store.remember_failure(ABC, 1, Malformed("bad"))
    with pytest.raises(Malformed), store.adding(ABC, 1, b"abc"):
        pass
    assert store.missing([ABC]) == [ABC]
    with store.adding(ABC, 2, b"abc") as arrival:
        assert arrival.is_new


def test_a_failure_is_raised_until_the_limit_that_it_names_is_raised(tmp_path: Path):
    metadata = {"limit": "object_count", "value": "5"}
    for most, is_raised in ((4, True), (5, True), (6, False)):
        with Store(tmp_path, Limits(object_count=most)) as store:
            store.remember_failure(ABC, 1, LimitExceeded("too many", metadata=metadata))
            if is_raised:
                with pytest.raises(LimitExceeded):
                    store.raise_failure(ABC, 1)
            else:
                store.raise_failure(ABC, 1)


def test_a_module_that_is_there_stays_whatever_ends_it(store: ModuleStore):
    store.put(b"abc", "first")
    with store.adding(ABC, 1, b"abc", "second") as arrival:
        assert (arrival.is_new, arrival.path) == (False, None)
    with pytest.raises(Malformed), store.adding(ABC, 1, b"abc"):
        raise Malformed("bad")
    assert store.record(ABC).label == "first"
    assert store.failure(ABC, 1) is None


def test_an_upload_is_committed_inside(store: ModuleStore):
    with store.writer() as upload, store.adding(ABC, 1) as arrival:
        upload.write(b"abc")
        assert store.missing([ABC]) == [ABC]
        arrival.commit(upload, ABC, "label")
        arrival.format = "spirv"
    assert (store.record(ABC).format, store.data(ABC)) == ("spirv", b"abc")


def test_an_upload_that_is_not_taken_says_nothing_of_the_module(store: ModuleStore):
    """Its error is about other bytes."""
    with store.writer() as upload:
        upload.write(b"others")
        with pytest.raises(HashMismatch), store.adding(ABC, 1) as arrival:
            arrival.commit(upload, ABC, "")
    assert store.failure(ABC, 1) is None
    with pytest.raises(ModuleNotFound):
        store.record(ABC)


def test_the_file_of_an_attempt_is_gone_unless_it_is_kept(store: ModuleStore):
    store.put(b"abc")
    with store.attempt(ABC, 1) as attempt:
        assert attempt.file.path.read_bytes() == b""
    assert not attempt.file.path.exists()
    with store.attempt(ABC, 1) as attempt:
        attempt.file.write(b"index")
        assert store.keep_index(attempt.file, ABC, 1)
    assert not attempt.file.path.exists()
    assert store.index(ABC, 1) == b"index"
