"""Any sequence of calls behaves like a dict."""

import hashlib
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from symd.errors import HashMismatch, Malformed, ModuleNotFound, SymdError, Unsupported
from symd.model.contexts import Alias
from symd.store import Store

DATA = st.sampled_from([b"", b"a", b"b", b"abc" * 1000])
VERSIONS = st.sampled_from([1, 2])


class StoreMachine(RuleBasedStateMachine):
    """A store beside plain dicts: modules, indexes, failures, aliases."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.store = Store(self.root, durable=False)
        self.modules: dict[str, tuple[bytes, str]] = {}
        self.indexes: dict[tuple[str, int], bytes] = {}
        self.failures: dict[tuple[str, int], SymdError] = {}
        self.aliases: dict[str, str] = {}

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.root)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = Store(self.root, durable=False)
        assert self.store.recovery == type(self.store.recovery)()

    @rule(data=DATA, label=st.sampled_from(["x", "y"]), streamed=st.booleans())
    def put(self, data: bytes, label: str, streamed: bool) -> None:
        digest = hashlib.sha256(data).hexdigest()
        if streamed:
            with self.store.writer() as upload:
                upload.write(data)
                upload.commit(digest, label)
        else:
            self.store.put(data, label)
        self.modules.setdefault(digest, (data, label))

    @rule(data=DATA)
    def put_with_the_wrong_hash(self, data: bytes) -> None:
        with self.store.writer() as upload:
            upload.write(data)
            with pytest.raises(HashMismatch):
                upload.commit("0" * 64)

    @rule(data=DATA)
    def remove(self, data: bytes) -> None:
        digest = hashlib.sha256(data).hexdigest()
        if digest not in self.modules and not any(failed == digest for failed, _ in self.failures):
            with pytest.raises(ModuleNotFound):
                self.store.remove(digest)
            return
        self.store.remove(digest)
        self.modules.pop(digest, None)
        for table in (self.indexes, self.failures):
            for key in [key for key in table if key[0] == digest]:
                del table[key]
        self.aliases = {key: value for key, value in self.aliases.items() if value != digest}

    @rule(data=DATA, version=VERSIONS, index=DATA)
    def put_index(self, data: bytes, version: int, index: bytes) -> None:
        digest = hashlib.sha256(data).hexdigest()
        if digest not in self.modules:
            with pytest.raises(ModuleNotFound):
                self.store.put_index(digest, version, index)
            return
        self.store.put_index(digest, version, index)
        self.indexes[digest, version] = index
        for older in range(version + 1):
            self.failures.pop((digest, older), None)
            assert self.store.failure(digest, older) is None

    @rule(data=DATA, version=VERSIONS, error=st.sampled_from([Malformed("m", where="w"), Unsupported("u", hint="h")]))
    def fail(self, data: bytes, version: int, error: SymdError) -> None:
        digest = hashlib.sha256(data).hexdigest()
        self.store.remember_failure(digest, version, error)
        self.failures[digest, version] = error

    @rule(data=DATA, key=st.sampled_from(["k", "l"]))
    def alias(self, data: bytes, key: str) -> None:
        digest = hashlib.sha256(data).hexdigest()
        if digest in self.modules:
            self.store.aliases.add([Alias("build-id", key, digest)])
            self.aliases[key] = digest

    @invariant()
    def equals_the_model(self) -> None:
        if not hasattr(self, "store"):
            return
        assert {r.sha256: r.label for r in self.store.records()} == {d: label for d, (_, label) in self.modules.items()}
        for digest, (data, _) in self.modules.items():
            assert self.store.data(digest) == data
            for version in (1, 2):
                assert self.store.index(digest, version) == self.indexes.get((digest, version))
        for (digest, version), expected in self.failures.items():
            failure = self.store.failure(digest, version)
            assert (type(failure), str(failure)) == (type(expected), str(expected))
        for key in ("k", "l"):
            found = self.store.aliases.resolve("build-id", key)
            assert (found.module if found else None) == self.aliases.get(key)
        assert not list((self.root / "incoming").iterdir())


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
