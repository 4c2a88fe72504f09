"""Records of libraries in programs: what is read, and what is refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd.capture.records import RecordEvents, RecordKind, canonical, parse_record
from symd.config import Limits
from symd.errors import LimitExceeded, Malformed, SymdError, Unsupported
from symd.model.captures import (
    CaptureApi,
    CaptureWay,
    FailedBuild,
    ModuleForm,
    ModuleLoaded,
    ModuleUnloaded,
    ProcessEnded,
)
from tests.capture.records_made import (
    BUILD_LOG,
    COMMAND,
    DATA,
    DEBUG_DATA,
    DEVICE,
    FAILED,
    KERNEL,
    NATIVE_BINARY,
    UNLOADED,
    field,
    loaded,
    record,
)

LIMITS = Limits()


def test_everything_that_a_record_says() -> None:
    fields = (
        field(DEVICE, b"Intel(R) Graphics")
        + field(KERNEL, b"vadd", address=0xFFFF_8000_0000_1000)
        + field(KERNEL, "größe".encode())
        + field(BUILD_LOG, b"warning: \xff")
        + field(DATA, b"debug", DEBUG_DATA)
        + field(DATA, b"native", NATIVE_BINARY)
        + field(COMMAND, b"./a\0\0-b c\0")
        + field(99, b"of a later symd")
    )
    read = parse_record(record(fields=fields, api=1, way=2, code=-3, lost=4, handle=2**64 - 1))
    assert read.kind is RecordKind.LOADED
    assert (read.api, read.way) == (CaptureApi.LEVEL_ZERO, CaptureWay.WRAPPER_DRIVER)
    assert (read.process, read.start_time, read.image, read.time) == (100, 5, 1, 1000)
    assert (read.handle, read.code, read.lost) == (2**64 - 1, -3, 4)
    assert read.command == ("./a", "", "-b c")
    assert read.device == "Intel(R) Graphics"
    assert read.kernels == (("vadd", 0xFFFF_8000_0000_1000), ("größe", 0))
    assert read.build_log == "warning: \\xff"
    assert read.data == {ModuleForm.DEBUG_DATA: b"debug", ModuleForm.NATIVE_BINARY: b"native"}


@pytest.mark.parametrize(
    ("data", "error", "said"),
    [
        (b"", Malformed, "does not begin"),
        (b"symd", Malformed, "does not begin"),
        (record(magic=b"sym\0"), Malformed, "does not begin"),
        (record(version=2), Unsupported, "version 2"),
        (record(kind=5), Malformed, "kind 5"),
        (record(api=9), Malformed, "interface 9"),
        (record(way=0), Malformed, "way 0"),
        (record(size=1), Malformed, "1 bytes behind its header, and has 0"),
        (record(size=2**64 - 1), Malformed, "bytes behind its header"),
        (record(fields=b"\0" * 23), Malformed, "cut off at byte 64"),
        (record(fields=field(KERNEL, b"vadd")[:-1]), Malformed, "has 4 bytes, and 3 are left"),
        (record(fields=b"\3\0\0\0\0\0\0\0" + b"\0" * 8 + b"\xff" * 8), Malformed, "are left"),
        (record(fields=field(DATA, b"x", form=7)), Malformed, "unknown form 7"),
    ],
)
def test_what_is_no_record_is_refused_by_name(data: bytes, error: type[SymdError], said: str) -> None:
    with pytest.raises(error, match=said):
        parse_record(data)


def test_more_kernels_than_the_limit_name_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symd.capture.records.CAPTURE_KERNELS", 2)
    with pytest.raises(LimitExceeded) as caught:
        parse_record(record(fields=field(KERNEL, b"k") * 3))
    assert caught.value.metadata == {"limit": "capture_kernels"}


def test_more_fields_than_the_limit_name_the_limit() -> None:
    with pytest.raises(LimitExceeded) as caught:
        parse_record(record(fields=b"\0" * 24 * 1_001))
    assert caught.value.metadata == {"limit": "capture_fields"}
    assert len(parse_record(record(fields=field(KERNEL, b"k") * 1_001)).kernels) == 1_001


def test_a_long_command_line_is_cut_off() -> None:
    assert len(parse_record(record(fields=field(COMMAND, b"\0" * 100_000))).command) == 4096


@given(st.binary(max_size=400), st.integers(0, 500), st.integers(0, 255))
def test_any_bytes_are_a_record_or_an_error_of_symds(tail: bytes, at: int, value: int) -> None:
    whole = bytearray(record(fields=field(KERNEL, b"vadd") + tail))
    whole[at % len(whole)] = value
    for data in (bytes(whole), bytes(whole[: at % len(whole)])):
        with contextlib.suppress(SymdError):
            list(RecordEvents().events(parse_record(data), 1))


def events(*records: bytes, process: int = 7) -> list[object]:
    made = RecordEvents("here")
    return [event for each in records for event in made.events(parse_record(each), process)]


def test_loads_and_unloads_in_order() -> None:
    first, gone, again, ended = events(
        loaded(),
        record(UNLOADED, time=1001),
        record(UNLOADED, time=1002),
        loaded(time=1003),
        record(UNLOADED, image=2, time=1004),
    )
    assert isinstance(first, ModuleLoaded)
    assert (first.form, first.data, first.kernels) == (ModuleForm.NATIVE_BINARY, b"bytes", ("vadd",))
    assert first.process.command == ("./a", "-b")
    assert (first.process.host, first.process.process, first.process.start_time) == ("here", 7, 5)
    assert gone == ModuleUnloaded(first.process, CaptureApi.OPENCL, 0x1000, 1001)
    assert isinstance(again, ModuleLoaded)
    assert ended == ProcessEnded(first.process, 1004)  # the process became another program


def test_a_handle_that_is_loaded_again_was_unloaded() -> None:
    _, gone, second = events(loaded(), loaded(b"other", time=1005))
    assert isinstance(gone, ModuleUnloaded)
    assert gone.time == 1005
    assert isinstance(second, ModuleLoaded)
    assert second.data == b"other"


def test_a_failed_build_and_a_module_without_bytes() -> None:
    [failed] = events(record(FAILED, field(BUILD_LOG, b"no") + field(DEVICE, b"gpu"), code=-11), record())
    assert isinstance(failed, FailedBuild)
    assert (failed.code, failed.build_log, failed.device) == (-11, "no", "gpu")


def test_addresses_are_as_the_driver_writes_them() -> None:
    assert canonical(0x8000_FFBF_0000) == 0xFFFF_8000_FFBF_0000
    assert canonical(0xFFFF_8000_FFBF_0000) == 0xFFFF_8000_FFBF_0000
    assert canonical(0x7FFF_0000_0000) == 0x7FFF_0000_0000


def test_a_record_without_the_programs_number_is_no_other_program() -> None:
    events = RecordEvents()
    told = [
        type(event)
        for number, image in enumerate((1, 0, 1, 2))
        for event in events.events(parse_record(loaded(handle=number, image=image)), 7)
    ]
    assert told == [ModuleLoaded, ModuleLoaded, ModuleLoaded, ProcessEnded, ModuleLoaded]
