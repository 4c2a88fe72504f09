"""An engine without a parser: modules are bytes that begin with "FAKE", and its one code object's locations are written
out below, so that a test knows every answer by hand."""

from __future__ import annotations

import hashlib
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from queue import SimpleQueue

import numpy as np

from symd.errors import (
    BuildFailed,
    DriverCrashed,
    HashMismatch,
    KernelNotFound,
    Malformed,
    ModuleNotFound,
    NoDebugData,
    ObjectNotFound,
    UnknownFormat,
)
from symd.index.summary import pack
from symd.model.addresses import ByAddress, ByKernel, BySection, SectionOffset
from symd.model.answers import Answers, Candidate, Locations, Reason, TextSection
from symd.model.cancellation import check_cancelled
from symd.model.grabs import Grabbed
from symd.model.line_tables import LineLevel, LineTable
from symd.model.summaries import ContainerSummary, KernelSummary, ModuleRecord, ModuleSummary, ObjectSummary
from symd.rpc.wire.fields import chunks_of
from tests.builders.index_file import compress

STRINGS = ("", "vadd", "helper", "/src/vadd.cl", "unused", "_Z6helperi", "/src/inc.h")

#        reason             kernel function linkage file line column inlined parent
TABLE = (
    (0, 0, 0, 0, 0, 0, 0, 0, 0),
    (Reason.EXACT, 1, 1, 0, 3, 8, 15, 0, 0),  # 1: vadd at 8:15
    (Reason.EXACT, 1, 1, 0, 3, 10, 0, 0, 0),  # 2: vadd calls at 10
    (Reason.EXACT, 1, 2, 5, 3, 3, 23, 1, 2),  # 3: helper inlined into 2
    (Reason.GAP, 1, 0, 0, 0, 0, 0, 0, 0),  # 4: nothing there
    (Reason.OUTSIDE_TEXT, 0, 0, 0, 0, 0, 0, 0, 0),  # 5
    (Reason.AMBIGUOUS, 0, 0, 0, 0, 0, 0, 0, 0),  # 6
    (Reason.EXACT, 0, 4, 0, 6, 1, 1, 0, 0),  # 7: never asked for
    (Reason.UNKNOWN_KERNEL, 0, 0, 0, 0, 0, 0, 0, 0),  # 8
)
KINDS = (np.uint8, *([np.uint32] * 6), np.uint8, np.uint32)
LOCATIONS = Locations(*(np.array(c, k) for c, k in zip(zip(*TABLE, strict=True), KINDS, strict=True)), STRINGS)

PLACES = (TextSection("", ".text.other", 1, 0), TextSection("", ".text.vadd", 2, 0x100))
TEXT = 0x200
"""Bytes of .text.vadd, which begins at object address 0x100 and holds the kernel from its byte 0x10 on."""
KERNEL = 0x10
AMBIGUOUS = 0xA3B
CANDIDATES = (
    Candidate("", ".text.vadd", 2, SectionOffset(0x3B), "vadd"),
    Candidate("", None, 1, SectionOffset(0x3B), None),
)

UNREADABLE = b"FAKE unreadable"
"""How a module begins that was stored and can be read no longer."""
GOOD = b"FAKE" + bytes(range(256)) * 20
DIGEST = hashlib.sha256(GOOD).hexdigest()

FACTS = {"simd_width": 16, "arguments": [{"name": "a", "offset": -1}, None], "ratio": 0.5, "big": 1 << 63, "g": True}


def summary(data):
    kernels = (KernelSummary("vadd", ".text.vadd", 2, KERNEL, TEXT - KERNEL, FACTS),)
    digest = hashlib.sha256(data).hexdigest()
    objects = (
        ObjectSummary("", "igc-elf", "dg2", len(data), digest, "dwarf-4", kernels, {"revision": 3}, ("a note",)),
        ObjectSummary("inner/1", "zebin", None, 7, "0" * 64, "none"),
    )
    containers = (
        ContainerSummary("", "igc-debug", len(data), {"kernel_count": 1}),
        ContainerSummary("inner", "cuda-fatbin", 9, {"entries": [{"kind": "PTX"}]}),
    )
    return ModuleSummary(digest, len(data), "igc-debug", objects, ("take care",), containers)


def line_table(path="", rows=150_000):
    """More rows than fit one chunk, each with its own numbers."""
    at = np.arange(rows, dtype=np.uint32)
    zero = np.zeros(rows, np.uint32)
    return LineTable(
        path, "dg2", zero + 1, at.astype(np.uint64) * 8, zero + 1, zero + 2, zero + 3, at % 5000, at % 80,
        (at % 2).astype(np.uint8), PLACES, STRINGS,
    )  # fmt: skip


class FakeArriving:
    def __init__(self, engine, label):
        self.engine, self.label, self.data = engine, label, b""

    @property
    def size(self):
        return len(self.data)

    def write(self, chunk):
        self.data += chunk

    def commit(self, expected_digest):
        if hashlib.sha256(self.data).hexdigest() != expected_digest:
            raise HashMismatch("other bytes came")
        return self.engine.add(self.data, self.label)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.data = b""


class FakeEngine:
    def __init__(self):
        self.unwanted = SimpleQueue()
        self.waiting = threading.Semaphore(0)
        self.data = {}
        self.labels = {}
        self.hold = threading.Event()
        self.hold.set()
        self.grabs = []
        self.is_packed = True

    def missing(self, digests):
        return [digest for digest in digests if digest not in self.data]

    def add(self, data, label=""):
        if not data.startswith(b"FAKE"):
            raise UnknownFormat("no reader claims these bytes", hint="see `symd info --help` for what is read")
        digest = hashlib.sha256(data).hexdigest()
        self.labels.setdefault(digest, label)
        self.data.setdefault(digest, data)
        return summary(data)

    def receive(self, label=""):
        return FakeArriving(self, label)

    def grab(self, request):
        self.grabs.append(request)
        if request.data == b"slow":
            self.waiting.release()
            try:
                for _ in range(1200):
                    check_cancelled()
                    time.sleep(0.05)
            except Exception:
                self.unwanted.put(True)
                raise
            self.unwanted.put(False)
        if request.data == b"bad":
            raise BuildFailed("the compiler refused", build_log="error: é\n" * 100_000, where="dg2")
        if request.data == b"crash":
            raise DriverCrashed("zeModuleCreate died of SIGSEGV", where="libze_intel_gpu.so.1")
        if request.data == b"bare":
            raise NoDebugData("the driver has no debug data")
        module = self.add(GOOD, request.label)
        return module, Grabbed(GOOD, b"N" * 3_000_000, ("vadd", "other"), "log\n", "NEO", "Arc")

    def modules(self):
        """By time and then by digest, as the store has it; two share a time."""
        records = [
            ModuleRecord(digest, len(data), "igc-debug", self.labels[digest], 1700000000.125 + number // 2)
            for number, (digest, data) in enumerate(self.data.items())
        ]
        yield from sorted(records, key=lambda record: (record.create_time, record.sha256))

    def records(self, after, inline):
        assert inline > 0
        return (record for record in self.modules() if (record.create_time, record.sha256) > after)

    def record(self, digest):
        for record in self.modules():
            if record.sha256 == digest:
                return record
        raise ModuleNotFound(f"no module {digest}", hint="send it first", metadata={"module": f"modules/{digest}"})

    def relabel(self, digest, label):
        self.record(digest)
        self.labels[digest] = label
        return self.record(digest)

    def remove(self, digest):
        self.record(digest)
        del self.data[digest], self.labels[digest]

    def module(self, digest):
        self.record(digest)
        if self.data[digest].startswith(UNREADABLE):
            raise Malformed("its tables contradict each other", where="fake.bin", hint="build it again")
        return summary(self.data[digest])

    def packed_summary(self, digest):
        return compress(pack(self.module(digest))).tobytes() if self.is_packed else None

    def object_pieces(self, digest, path, size):
        yield from chunks_of(self.object_data(digest, path), size)

    def object_data(self, digest, path):
        self.module(digest)
        if path:
            raise ObjectNotFound(f"no code object {path!r}")
        return self.data[digest]

    def lines(self, digest, path=None, level=LineLevel.SOURCE, within=None):
        self.module(digest)
        if level is LineLevel.PTX:
            yield replace(line_table(), text=np.arange(150_000, dtype=np.uint32) % 7)
            return
        yield line_table()
        yield line_table("inner/1", 0)

    stored_lines = lines

    def symbolize(self, digest, queries, path=None, *, as_written=False, with_ranges=False):
        def value(query):
            match query:
                case ByAddress(address):
                    return address - 0x100 if address != AMBIGUOUS else AMBIGUOUS
                case ByKernel("vadd", offset):
                    return offset + KERNEL
                case BySection(".text.vadd" | 2, offset):
                    return offset
                case ByKernel("boom", _):
                    raise ZeroDivisionError("a secret of the daemon")
                case ByKernel("nowhere", _):
                    raise KernelNotFound("no kernel " + "nowhere " * 10_000)
            return None

        return self._answers(digest, [value(query) for query in queries])

    def symbolize_one(self, digest, query, path=None):
        return self.symbolize(digest, [query], path)[0]

    def answer_from_open_index(self, digest, query, path=None):
        return self.symbolize_one(digest, query, path) if self.hold.is_set() else None

    def answer_from_index_file(self, digest, query, path=None):
        return None

    def is_open(self, digest):
        return digest in self.data

    def without_waiting(self):
        return nullcontext()

    def symbolize_column(self, digest, values, *, kernel=None, section=None, path=None, as_written=False):
        if kernel is not None:
            return self.symbolize(digest, [ByKernel(kernel, int(v)) for v in values], path)
        if section is not None:
            return self.symbolize(digest, [BySection(section, int(v)) for v in values], path)
        return self.symbolize(digest, [ByAddress(int(v)) for v in values], path)

    def _answers(self, digest, offsets):
        self.module(digest)
        self.hold.wait(20)
        inside = [at is not None and 0 <= at < TEXT for at in offsets]
        candidates = {number: CANDIDATES for number, at in enumerate(offsets) if at == AMBIGUOUS}
        return Answers(
            np.array([self.location(at) for at in offsets], np.uint32),
            np.array([2 if ok else 0 for ok in inside], np.uint32),
            np.array([at if ok else 0 for at, ok in zip(offsets, inside, strict=True)], np.uint64),
            LOCATIONS,
            PLACES,
            candidates,
        )

    @staticmethod
    def location(at):
        """.text.vadd: vadd for 0x40 bytes, helper for 0x40, then a gap."""
        if at is None:
            return 8
        if at == AMBIGUOUS:
            return 6
        if not 0 <= at < TEXT:
            return 5
        return 1 if at < 0x40 else 3 if at < 0x80 else 4
