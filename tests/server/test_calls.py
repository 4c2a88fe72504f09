"""Each RPC over a real socket: what it answers, and how it refuses."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import grpc
import numpy as np
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.wrappers_pb2 import StringValue
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from symd import __version__
from symd.engine.engine import Engine
from symd.errors import BadQuery, ModuleNotFound
from symd.model.answers import Answers
from symd.model.arguments import ColumnQuestion
from symd.model.summaries import ModuleRecord
from symd.rpc.wire.answers import from_columns
from symd.rpc.wire.failures import from_status
from symd.rpc.wire.modules import from_facts
from symd.server.paging import DEFAULT_PAGE_SIZE, PAGE_BYTES, slice_page, to_token, written_page
from symd.server.rpc import module_service
from symd.server.work_queues import Work
from symd.store import Store, rows
from symd.v1 import module_pb2, server_service_pb2, server_service_pb2_grpc
from symd.v1 import module_service_pb2 as m
from symd.v1 import query_pb2 as q
from symd.v1 import symbol_service_pb2 as s
from symd.v1.module_service_pb2_grpc import ModuleServiceStub
from symd.v1.symbol_service_pb2_grpc import SymbolServiceStub
from tests.server.conftest import LIMITS
from tests.server.fakes import AMBIGUOUS, DIGEST, GOOD, LOCATIONS, PLACES, UNREADABLE

NAME = f"modules/{DIGEST}"
C = grpc.StatusCode


@pytest.fixture
def modules(channel):
    return ModuleServiceStub(channel)


@pytest.fixture
def symbols(channel, running):
    running.engine.add(GOOD)
    return SymbolServiceStub(channel)


def refusal(call):
    """(code, reason, metadata) of the failure that ``call`` ends with."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    status = rpc_status.from_call(caught.value)
    assert status is not None, caught.value
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert info.domain == "symd"
    return caught.value.code(), info.reason, dict(info.metadata)


def upload(data, digest=None, size=None, chunk=1 << 20, label="a.bin"):
    digest = digest or hashlib.sha256(data).hexdigest()
    yield m.UploadModuleRequest(
        header=m.UploadHeader(sha256=digest, size_bytes=len(data) if size is None else size, label=label)
    )
    for start in range(0, len(data), chunk):
        yield m.UploadModuleRequest(chunk=data[start : start + chunk])


def test_an_upload_is_asked_for_sent_and_then_there(modules, running):
    ask = m.FindMissingModulesRequest(modules=["modules/" + "0" * 64, NAME])
    assert list(modules.FindMissingModules(ask).missing_modules) == list(ask.modules)
    module = modules.UploadModule(upload(GOOD, chunk=1000)).module
    assert (module.name, module.size_bytes, module.format, module.label) == (NAME, len(GOOD), "igc-debug", "a.bin")
    assert (module.contents.code_object_count, module.contents.kernel_count) == (2, 1)
    assert list(modules.FindMissingModules(ask).missing_modules) == ["modules/" + "0" * 64]
    assert running.engine.data[DIGEST] == GOOD
    assert running.engine.labels[DIGEST] == "a.bin"


@pytest.mark.parametrize(
    ("parts", "code", "reason"),
    [
        (lambda: upload(GOOD, digest="0" * 64), C.INVALID_ARGUMENT, "HASH_MISMATCH"),
        (lambda: upload(GOOD, size=len(GOOD) + 1), C.INVALID_ARGUMENT, "HASH_MISMATCH"),
        (lambda: upload(GOOD, size=len(GOOD) - 1), C.INVALID_ARGUMENT, "HASH_MISMATCH"),
        (lambda: upload(GOOD, digest="A" * 64), C.INVALID_ARGUMENT, "BAD_QUERY"),
        (lambda: upload(b"\x93random"), C.INVALID_ARGUMENT, "UNKNOWN_FORMAT"),
        (lambda: upload(b""), C.INVALID_ARGUMENT, "UNKNOWN_FORMAT"),
        (lambda: iter(()), C.INVALID_ARGUMENT, "INVALID_INPUT"),
        (lambda: list(upload(GOOD))[1:], C.INVALID_ARGUMENT, "INVALID_INPUT"),
        (lambda: [*upload(GOOD), *upload(GOOD)], C.INVALID_ARGUMENT, "INVALID_INPUT"),
        (lambda: [m.UploadModuleRequest()], C.INVALID_ARGUMENT, "INVALID_INPUT"),
        (lambda: upload(GOOD, size=LIMITS.module_size + 1), C.RESOURCE_EXHAUSTED, "LIMIT_EXCEEDED"),
        (lambda: upload(bytes(2 << 20), chunk=(1 << 20) + 1), C.RESOURCE_EXHAUSTED, "LIMIT_EXCEEDED"),
    ],
)
def test_a_wrong_upload_is_refused_by_name_and_leaves_nothing(modules, running, parts, code, reason):
    got, why, metadata = refusal(lambda: modules.UploadModule(iter(parts())))
    assert (got, why) == (code, reason)
    assert metadata["message"]
    assert running.engine.data == {}
    assert modules.UploadModule(upload(GOOD)).module.name == NAME  # and the daemon goes on


def test_a_limit_is_named_in_the_refusal(modules):
    _, _, metadata = refusal(lambda: modules.UploadModule(upload(GOOD, size=1 << 40)))
    assert (metadata["limit"], metadata["value"]) == ("module_size", str(LIMITS.module_size))


def test_an_upload_that_is_cancelled_leaves_nothing_and_frees_its_slot(modules, running):
    for _ in range(5):  # more than there are slots
        sent = threading.Event()

        over = threading.Event()

        def parts(sent=sent, over=over):
            yield from list(upload(GOOD, chunk=1000))[:-1]
            sent.set()
            over.wait(60)

        call = modules.UploadModule.future(parts())
        assert sent.wait(60)
        call.cancel()
        over.set()
        until = time.monotonic() + 60
        while running.daemon.work_queues[Work.UPLOAD].running:
            assert time.monotonic() < until
            time.sleep(0.01)
    assert running.engine.data == {}
    assert modules.UploadModule(upload(GOOD)).module.name == NAME


def test_containers_come_in_pages_with_their_facts(modules, running):
    running.engine.add(GOOD)
    assert modules.GetModule(m.GetModuleRequest(module=NAME)).module.contents.container_count == 2
    first = modules.ListContainers(m.ListContainersRequest(module=NAME, page_size=1))
    assert [(each.path, each.format, each.facts[0].name) for each in first.containers] == [
        ("", "igc-debug", "kernel_count")
    ]
    ask = m.ListContainersRequest(module=NAME, page_size=1, page_token=first.next_page_token)
    second = modules.ListContainers(ask)
    assert ([each.path for each in second.containers], second.next_page_token) == (["inner"], "")


def test_a_page_of_large_entries_is_shorter_and_the_list_goes_on() -> None:
    names = [str(number) * 1_000_000 for number in range(8)]
    told, token, pages = [], "", 0
    while token or not pages:
        page, token = slice_page(names, "list", 1000, token, lambda name: StringValue(value=name))
        assert 0 < sum(each.ByteSize() for each in page) <= PAGE_BYTES
        told += [each.value for each in page]
        pages += 1
    assert (told, pages) == (names, 3)
    alone, _ = slice_page(["x" * (PAGE_BYTES + 1)] * 2, "list", 1000, "", lambda name: StringValue(value=name))
    assert len(alone) == 1


def test_a_page_is_written_an_entry_at_a_time() -> None:
    """As messages, the entries of 40 pages took the daemon's own process past its bound."""
    made: list[int] = []

    def respond(items: Sequence[int], token: str) -> m.ListKernelsResponse:
        made.append(len(items))
        kernels = [module_pb2.Kernel(name=str(each) * 1_000_000) for each in items]
        return m.ListKernelsResponse(kernels=kernels, next_page_token=token)

    told, token, pages = "", "", 0
    while token or not pages:
        page = m.ListKernelsResponse.FromString(written_page(range(8), "list", 1000, token, respond))
        told += "".join(each.name[0] for each in page.kernels)
        assert page.ByteSize() <= PAGE_BYTES + 100
        token = page.next_page_token
        pages += 1
    assert (told, pages, set(made)) == ("01234567", 3, {0, 1})
    assert written_page((), "list", 0, "", respond) == b""
    assert len(m.ListKernelsResponse.FromString(written_page(range(8), "list", 2, "", respond)).kernels) == 2


def test_the_catalogue_comes_in_pages(modules, running):
    contents = [b"FAKE" + bytes([number]) for number in range(7)]
    for data in contents:
        running.engine.add(data, f"label {data[-1]}")
    seen, token = [], ""
    for _ in range(4):
        page = modules.ListModules(m.ListModulesRequest(page_size=2, page_token=token))
        seen += page.modules
        token = page.next_page_token
    assert token == ""
    assert len(seen) == 7
    assert {each.label for each in seen} == {f"label {number}" for number in range(7)}
    assert len(modules.ListModules(m.ListModulesRequest()).modules) == 7


def test_a_page_of_modules_is_read_from_where_the_last_one_ended(modules, running, monkeypatch):
    for data in [b"FAKE" + bytes([number]) for number in range(7)]:
        running.engine.add(data)
    records, asked = running.engine.records, []

    def noted(after, inline):
        asked.append((after, inline))
        return records(after, inline)

    monkeypatch.setattr(running.engine, "records", noted)
    first = modules.ListModules(m.ListModulesRequest(page_size=2))
    modules.ListModules(m.ListModulesRequest(page_token=first.next_page_token))
    last = list(running.engine.modules())[1]
    assert asked == [((float("-inf"), ""), 3), ((last.create_time, last.sha256), DEFAULT_PAGE_SIZE + 1)]


@pytest.mark.parametrize(
    ("asked", "answered", "read"),
    [(0, 1000, [1001]), (1, 1, [2]), (999, 999, [1000]), (1000, 1000, [1001]), (1001, 1001, [1001, 1001])],
)
def test_a_page_of_modules_reads_one_row_more_than_it_answers(tmp_path, monkeypatch, asked, answered, read):
    with Engine(Store(tmp_path / "store")) as engine:
        with engine.store._catalogue.writing() as connection:
            for number in range(2100):
                rows.insert(connection, ModuleRecord(f"{number:064x}", 1, "", "", float(number)))
        records, counted = engine.store.records, []

        def noted(after, limit):
            found = records(after, limit)
            counted.append(len(found))
            return found

        monkeypatch.setattr(engine.store, "records", noted)
        page = module_service.list_modules(SimpleNamespace(engine=engine), m.ListModulesRequest(page_size=asked), None)
    assert (len(page.modules), counted) == (answered, read)
    assert page.next_page_token


def test_a_module_gets_another_label_and_nothing_else_of_it_can_be_changed(modules, running):
    running.engine.add(GOOD, "before")
    asked = module_pb2.Module(name=NAME, label="after")
    changed = modules.UpdateModule(m.UpdateModuleRequest(module=asked, update_mask=FieldMask(paths=["label"]))).module
    assert (changed.label, changed.size_bytes, changed.HasField("contents")) == ("after", len(GOOD), False)
    assert modules.GetModule(m.GetModuleRequest(module=NAME)).module.label == "after"
    modules.UpdateModule(m.UpdateModuleRequest(module=module_pb2.Module(name=NAME)))
    assert [each.label for each in modules.ListModules(m.ListModulesRequest()).modules] == [""]
    wrong = m.UpdateModuleRequest(module=asked, update_mask=FieldMask(paths=["label", "format"]))
    assert refusal(lambda: modules.UpdateModule(wrong))[:2] == (C.INVALID_ARGUMENT, "INVALID_INPUT")
    missing = m.UpdateModuleRequest(module=module_pb2.Module(name="modules/" + "0" * 64))
    assert refusal(lambda: modules.UpdateModule(missing))[:2] == (C.NOT_FOUND, "UNKNOWN_MODULE")


def test_a_module_that_is_deleted_is_gone(modules, running):
    running.engine.add(GOOD)
    modules.DeleteModule(m.DeleteModuleRequest(module=NAME))
    for call in (modules.DeleteModule, modules.GetModule):
        assert refusal(lambda call=call: call(m.GetModuleRequest(module=NAME)))[:2] == (C.NOT_FOUND, "UNKNOWN_MODULE")
    assert list(modules.FindMissingModules(m.FindMissingModulesRequest(modules=[NAME])).missing_modules) == [NAME]


def test_a_module_that_cannot_be_read_says_why(modules, running):
    name = "modules/" + running.engine.add(UNREADABLE).sha256
    module = modules.GetModule(m.GetModuleRequest(module=name)).module
    error = from_status(module.failure)
    assert (module.HasField("contents"), error.reason, error.where) == (False, "MALFORMED", "fake.bin")
    wrong = m.ListCodeObjectsRequest(module=name)
    assert refusal(lambda: modules.ListCodeObjects(wrong))[:2] == (C.INVALID_ARGUMENT, "MALFORMED")


def blamed(call):
    """The fields that a failure blames."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    request = error_details_pb2.BadRequest()
    assert any(detail.Unpack(request) for detail in rpc_status.from_call(caught.value).details)
    return [violation.field for violation in request.field_violations]


def test_a_refusal_names_the_field(modules, symbols):
    assert blamed(lambda: modules.ListModules(m.ListModulesRequest(page_size=-1))) == ["page_size"]
    foreign = {"page_token": "x"}
    assert blamed(lambda: modules.ListModules(m.ListModulesRequest(**foreign))) == ["page_token"]
    assert blamed(lambda: modules.ListKernels(m.ListKernelsRequest(module="x"))) == ["module"]
    assert blamed(lambda: modules.FindMissingModules(m.FindMissingModulesRequest(modules=["x"]))) == ["modules"]
    assert blamed(lambda: list(modules.GrabModule(m.GrabModuleRequest()))) == ["api"]
    assert blamed(lambda: symbols.Symbolize(s.SymbolizeRequest(module=NAME, queries=[q.Query()]))) == ["queries[0]"]
    column = s.SymbolizeRequest(module=NAME, packed_queries=q.PackedQueries(values=b"123", count=1))
    assert blamed(lambda: symbols.Symbolize(column)) == ["packed_queries.values"]


def test_a_page_is_not_shifted_by_what_is_removed(modules, running):
    contents = [b"FAKE" + bytes([number]) for number in range(5)]
    for data in contents:
        running.engine.add(data)
    everything = [each.sha256 for each in modules.ListModules(m.ListModulesRequest()).modules]
    page = modules.ListModules(m.ListModulesRequest(page_size=2))
    del running.engine.data[everything[1]]
    rest = modules.ListModules(m.ListModulesRequest(page_token=page.next_page_token))
    assert {each.sha256 for each in rest.modules} <= set(everything[2:])


@pytest.mark.parametrize(
    "fields",
    [
        {"page_token": "nonsense"},
        {"page_token": "WzFd"},  # [1]
        {"page_token": "WyJtb2R1bGVzIiwieCJd"},  # ["modules","x"]
        {"page_token": "\u20ac"},
        {"page_token": to_token("modules", "nan " + "0" * 64)},
        {"page_token": to_token("modules", "0.0 x")},
        {"page_token": to_token("modules", "0.0 \ud800")},
        {"page_size": -1},
    ],
)
def test_a_wrong_page_is_refused(modules, fields):
    assert refusal(lambda: modules.ListModules(m.ListModulesRequest(**fields)))[:2] == (C.INVALID_ARGUMENT, "BAD_QUERY")


def test_a_module_is_described_with_its_code_objects_and_kernels(modules, running):
    running.engine.add(GOOD)
    module = modules.GetModule(m.GetModuleRequest(module=NAME)).module
    assert list(module.contents.notes) == ["take care"]
    objects = modules.ListCodeObjects(m.ListCodeObjectsRequest(module=NAME, page_size=1))
    assert [(each.path, each.target, each.debug, each.kind) for each in objects.code_objects] == [
        ("", "dg2", module_pb2.DEBUG_SCHEME_DWARF_4, module_pb2.CODE_KIND_MACHINE)
    ]
    token = objects.next_page_token
    objects = modules.ListCodeObjects(m.ListCodeObjectsRequest(module=NAME, page_token=token))
    assert [(each.path, each.HasField("target")) for each in objects.code_objects] == [("inner/1", False)]
    assert objects.next_page_token == ""
    (kernel,) = modules.ListKernels(m.ListKernelsRequest(module=NAME)).kernels
    assert (kernel.name, kernel.section, kernel.section_index, kernel.section_offset) == ("vadd", ".text.vadd", 2, 16)
    assert {fact.name: fact.value.WhichOneof("kind") for fact in kernel.facts} == {
        "simd_width": "integer", "arguments": "list", "ratio": "number", "big": "large", "g": "boolean",
    }  # fmt: skip
    (as_json,) = modules.ListKernels(m.ListKernelsRequest(module=NAME, facts_as_json=True)).kernels
    assert json.loads(as_json.facts_json) == from_facts(kernel.facts)
    assert (kernel.facts_json, list(as_json.facts)) == ("", [])
    assert not modules.ListKernels(m.ListKernelsRequest(module=NAME, code_object="inner/1")).kernels
    wrong = m.ListKernelsRequest(module=NAME, code_object="elsewhere")
    assert refusal(lambda: modules.ListKernels(wrong))[:2] == (C.NOT_FOUND, "UNKNOWN_OBJECT")
    foreign = m.ListKernelsRequest(module=NAME, page_token=token)
    assert refusal(lambda: modules.ListKernels(foreign))[:2] == (C.INVALID_ARGUMENT, "BAD_QUERY")


@pytest.mark.parametrize(
    "ask",
    [
        lambda stub, name: stub.GetModule(m.GetModuleRequest(module=name)),
        lambda stub, name: stub.ListCodeObjects(m.ListCodeObjectsRequest(module=name)),
        lambda stub, name: stub.ListKernels(m.ListKernelsRequest(module=name)),
        lambda stub, name: list(stub.ReadCodeObject(m.ReadCodeObjectRequest(module=name))),
    ],
)
def test_a_module_that_is_not_there_is_not_found_and_a_wrong_name_is_invalid(modules, ask):
    missing = "modules/" + "0" * 64
    code, reason, metadata = refusal(lambda: ask(modules, missing))
    assert (code, reason, metadata["module"]) == (C.NOT_FOUND, "UNKNOWN_MODULE", missing)
    assert metadata["hint"] == "send it first"
    assert refusal(lambda: ask(modules, "0" * 64))[:2] == (C.INVALID_ARGUMENT, "BAD_QUERY")


def test_an_object_comes_in_chunks(modules, running):
    data = b"FAKE" + bytes(2_500_000)
    name = "modules/" + running.engine.add(data).sha256
    chunks = [each.chunk for each in modules.ReadCodeObject(m.ReadCodeObjectRequest(module=name))]
    assert b"".join(chunks) == data
    assert [len(chunk) for chunk in chunks] == [1 << 20, 1 << 20, len(data) - (2 << 20)]
    wrong = m.ReadCodeObjectRequest(module=name, code_object="x")
    assert refusal(lambda: list(modules.ReadCodeObject(wrong)))[:2] == (C.NOT_FOUND, "UNKNOWN_OBJECT")


def grab(**fields):
    return m.GrabModuleRequest(api=m.DRIVER_API_OPENCL, kind=m.INPUT_KIND_SOURCE, **fields)


def test_a_grab_answers_with_log_result_and_bytes_in_that_order(modules, running):
    parts = list(modules.GrabModule(grab(data=b"k", include_bytes=True, simulate="dg2", label="mine")))
    kinds = [part.WhichOneof("part") for part in parts]
    assert kinds == ["build_log", "result", "debug_data", "native", "native", "native"]
    assert parts[1].result.module.name == NAME
    assert list(parts[1].result.kernels) == ["vadd", "other"]
    assert b"".join(part.native for part in parts) == b"N" * 3_000_000
    (seen,) = running.engine.grabs
    assert (seen.api, seen.kind, seen.simulate, seen.driver, seen.timeout) == ("opencl", "source", "dg2", "", 60)
    kinds = [part.WhichOneof("part") for part in modules.GrabModule(grab(data=b"k"))]
    assert kinds == ["build_log", "result"]


def test_a_grab_gets_no_more_time_than_its_call(modules, running):
    list(modules.GrabModule(grab(data=b"k", timeout=Duration(seconds=500)), timeout=7))
    list(modules.GrabModule(grab(data=b"k", timeout=Duration(seconds=2, nanos=500_000_000)), timeout=7))
    first, second = running.engine.grabs
    assert 1 < first.timeout < 7.5
    assert second.timeout == 2.5


@pytest.mark.parametrize("how", ["cancelled", "late", "disconnected"])
def test_a_grab_whose_caller_has_gone_is_ended(running, how):
    with grpc.insecure_channel(running.address) as channel:
        call = ModuleServiceStub(channel).GrabModule(grab(data=b"slow"), timeout=1 if how == "late" else 60)
        assert running.engine.waiting.acquire(timeout=30)
        if how == "cancelled":
            call.cancel()
        if how == "disconnected":
            channel.close()
        assert running.engine.unwanted.get(timeout=30)


def test_a_build_that_fails_sends_its_whole_log_first(modules):
    log = []
    with pytest.raises(grpc.RpcError) as caught:
        log.extend(part.build_log for part in modules.GrabModule(grab(data=b"bad")))
    assert caught.value.code() is C.INVALID_ARGUMENT
    assert "".join(log) == "error: é\n" * 100_000


@pytest.mark.parametrize(
    ("request_", "code", "reason"),
    [
        (grab(data=b"bad"), C.INVALID_ARGUMENT, "BUILD_FAILED"),
        (grab(data=b"crash"), C.FAILED_PRECONDITION, "DRIVER_CRASHED"),
        (grab(data=b"bare"), C.FAILED_PRECONDITION, "NO_DEBUG_DATA"),
        (grab(timeout=Duration(seconds=-1)), C.INVALID_ARGUMENT, "INVALID_INPUT"),
        (grab(timeout=Duration(nanos=-1)), C.INVALID_ARGUMENT, "INVALID_INPUT"),
        (m.GrabModuleRequest(), C.INVALID_ARGUMENT, "INVALID_INPUT"),
    ],
)
def test_a_grab_that_fails_says_why(modules, request_, code, reason):
    assert refusal(lambda: list(modules.GrabModule(request_)))[:2] == (code, reason)


def test_one_address_is_answered_in_rows(symbols):
    queries = [
        q.Query(function_offset=q.FunctionOffset(function="vadd", offset=0x40)),
        q.Query(section_offset=q.SectionOffset(section_index=2, offset=0x3F)),
        q.Query(address=0x190),
        q.Query(address=1 << 63),
        q.Query(function_offset=q.FunctionOffset(function="nobody")),
        q.Query(address=AMBIGUOUS),
    ]
    answers = symbols.Symbolize(s.SymbolizeRequest(module=NAME, queries=queries)).answers
    assert [answer.reason for answer in answers] == [1, 1, 4, 5, 8, 7]
    assert [frame.function for frame in answers[0].frames] == ["helper", "vadd"]
    assert [(frame.function, frame.line) for frame in answers[1].frames] == [("vadd", 8)]
    assert answers[2].section == ".text.vadd"
    assert not answers[2].frames
    assert [each.section for each in answers[5].candidates] == [".text.vadd", ""]


def test_a_column_is_answered_in_columns(symbols):
    values = np.arange(0, 0x400, dtype="<u8")
    request = s.SymbolizeRequest(
        module=NAME, packed_queries=q.PackedQueries(values=values.tobytes(), count=len(values))
    )
    columns = symbols.Symbolize(request).packed_answers
    answers = from_columns(columns, ColumnQuestion(values, ()))
    assert [answer.reason.name for answer in answers].count("EXACT") == 0x80
    assert answers[0x150].frames[0].function == "helper"
    assert answers[0x150].address == 0x150
    request.form = s.ANSWER_FORM_ROWS
    rows = symbols.Symbolize(request).answers
    assert [row.reason for row in rows] == [answer.reason for answer in answers]


def test_a_client_that_keeps_no_tables_gets_each_answers_own(symbols, running):
    locations = replace(LOCATIONS, **{
        name: np.resize(getattr(LOCATIONS, name), 2000) for name in LOCATIONS.__match_args__ if name != "strings"
    })  # fmt: skip
    one = np.ones(2000, np.uint32)
    answers = Answers(one, one, one.astype(np.uint64), locations, PLACES)
    running.engine.symbolize_column = lambda *_, **__: answers
    request = s.SymbolizeRequest(module=NAME, packed_queries=q.PackedQueries(values=bytes(8 * 2000), count=2000))
    assert [symbols.Symbolize(request).packed_answers.locations.count for _ in range(3)] == [2, 2, 2]
    request.keeps_tables = True
    assert symbols.Symbolize(request).packed_answers.locations.count == 2  # met for the first time
    whole = symbols.Symbolize(request).packed_answers.locations
    assert whole.count == 2000
    request.known_table_ids.append(whole.id)
    assert symbols.Symbolize(request).packed_answers.locations == type(whole)(id=whole.id)


def test_queries_are_answered_in_columns_when_asked(symbols):
    request = s.SymbolizeRequest(module=NAME, queries=[q.Query(address=0x150)], form=s.ANSWER_FORM_PACKED)
    response = symbols.Symbolize(request)
    assert not response.answers
    assert from_columns(response.packed_answers)[0].frames[0].line == 3


@pytest.mark.parametrize(
    ("request_", "code", "reason"),
    [
        (s.SymbolizeRequest(module="modules/" + "0" * 64), C.NOT_FOUND, "UNKNOWN_MODULE"),
        (s.SymbolizeRequest(), C.INVALID_ARGUMENT, "BAD_QUERY"),
        (s.SymbolizeRequest(module=NAME, queries=[q.Query()]), C.INVALID_ARGUMENT, "BAD_QUERY"),
        (
            s.SymbolizeRequest(module=NAME, packed_queries=q.PackedQueries(values=b"123")),
            C.INVALID_ARGUMENT,
            "BAD_QUERY",
        ),
        (
            s.SymbolizeRequest(module=NAME, packed_queries=q.PackedQueries(values=b"123", count=1)),
            C.INVALID_ARGUMENT,
            "BAD_QUERY",
        ),
        (
            s.SymbolizeRequest(module=NAME, queries=[q.Query(address=1)], packed_queries=q.PackedQueries(count=1)),
            C.INVALID_ARGUMENT,
            "INVALID_INPUT",
        ),
        (
            s.SymbolizeRequest(module=NAME, packed_queries=q.PackedQueries(values=bytes(5001), count=5001)),
            C.RESOURCE_EXHAUSTED,
            "LIMIT_EXCEEDED",
        ),
        (s.SymbolizeRequest(module=NAME, queries=[q.Query(address=1)] * 5001), C.RESOURCE_EXHAUSTED, "LIMIT_EXCEEDED"),
    ],
)
def test_a_batch_that_cannot_be_served_is_refused_by_name(symbols, request_, code, reason):
    assert refusal(lambda: symbols.Symbolize(request_))[:2] == (code, reason)


def test_a_defect_is_internal_with_an_id_and_leaks_nothing(symbols, caplog):
    request = s.SymbolizeRequest(module=NAME, queries=[q.Query(function_offset=q.FunctionOffset(function="boom"))])
    code, reason, metadata = refusal(lambda: symbols.Symbolize(request))
    assert (code, reason) == (C.INTERNAL, "INTERNAL")
    assert "secret" not in str(metadata)
    (record,) = [record for record in caplog.records if metadata["id"] in record.getMessage()]
    assert record.exc_info
    assert "secret" in str(record.exc_info[1])


def test_a_message_of_any_length_still_arrives_as_a_refusal(symbols):
    request = s.SymbolizeRequest(module=NAME, queries=[q.Query(function_offset=q.FunctionOffset(function="nowhere"))])
    assert refusal(lambda: symbols.Symbolize(request))[:2] == (C.NOT_FOUND, "UNKNOWN_KERNEL")


def test_a_stream_answers_each_batch_with_its_id_and_outlives_a_bad_one(symbols):
    def batches():
        for number, name in enumerate([NAME, "modules/" + "0" * 64, "?", NAME]):
            batch = s.SymbolizeRequest(module=name, queries=[q.Query(address=0x150)])
            yield s.SymbolizeStreamRequest(id=100 + number, request=batch)

    responses = list(symbols.SymbolizeStream(batches()))
    assert [response.id for response in responses] == [100, 101, 102, 103]
    assert [response.WhichOneof("outcome") for response in responses] == ["response", "failure", "failure", "response"]
    assert responses[3].response.answers[0].frames[0].function == "helper"
    missing, wrong = from_status(responses[1].failure), from_status(responses[2].failure)
    assert (responses[1].failure.code, type(missing)) == (C.NOT_FOUND.value[0], ModuleNotFound)
    assert (missing.hint, type(wrong)) == ("send it first", BadQuery)


def test_streams_beyond_the_bound_are_refused_while_single_calls_go_on(symbols, running):
    ends = [threading.Event() for _ in range(3)]

    def idle(end):
        yield s.SymbolizeStreamRequest(id=1, request=s.SymbolizeRequest(module=NAME))
        end.wait(10)

    calls = [symbols.SymbolizeStream(idle(end)) for end in ends]
    for call in calls:
        next(call)
    assert refusal(lambda: list(symbols.SymbolizeStream(iter(()))))[:2] == (C.RESOURCE_EXHAUSTED, "BUSY")
    assert symbols.Symbolize(s.SymbolizeRequest(module=NAME, queries=[q.Query(address=0x150)])).answers
    for end in ends:
        end.set()
    for call in calls:
        assert list(call) == []
    assert list(symbols.SymbolizeStream(iter(()))) == []


def test_a_line_table_comes_in_chunks_below_the_default_limit(symbols):
    chunks = list(symbols.GetLineTable(s.GetLineTableRequest(module=NAME)))
    headers = [chunk.header for chunk in chunks if chunk.HasField("header")]
    assert [(each.code_object, each.row_count) for each in headers] == [("", 150_000), ("inner/1", 0)]
    assert sum(chunk.rows.count for chunk in chunks) == 150_000
    first = next(chunk.rows for chunk in chunks if chunk.rows.count)
    width = len(first.line) // first.count
    assert np.frombuffer(first.line, f"<u{width}").tolist() == [at % 5000 for at in range(first.count)]
    missing = s.GetLineTableRequest(module="modules/" + "0" * 64)
    assert refusal(lambda: list(symbols.GetLineTable(missing)))[:2] == (C.NOT_FOUND, "UNKNOWN_MODULE")


def test_a_deadline_that_passes_ends_the_call_and_not_the_daemon(symbols, running):
    running.engine.hold.clear()
    request = s.SymbolizeRequest(module=NAME, queries=[q.Query(address=0x150)])
    with pytest.raises(grpc.RpcError) as caught:
        symbols.Symbolize(request, timeout=0.2)
    assert caught.value.code() is C.DEADLINE_EXCEEDED
    running.engine.hold.set()
    assert symbols.Symbolize(request, timeout=60).answers


def test_the_daemon_tells_its_limits(channel):
    stub = server_service_pb2_grpc.ServerServiceStub(channel)
    info = stub.GetServerInfo(server_service_pb2.GetServerInfoRequest()).info
    assert (info.max_module_bytes, info.max_chunk_bytes, info.max_batch, info.max_streams) == (
        3 << 20,
        1 << 20,
        5000,
        3,
    )
    assert info.max_request_bytes == 64 << 20
    assert info.version == __version__
    assert {"symd.v1.SymbolService", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"} <= {*info.services}
    assert {"zebin", "amdgpu", "cubin", "spirv"} <= {*info.formats}
    assert list(info.apis) == [m.DRIVER_API_LEVEL_ZERO, m.DRIVER_API_OPENCL]
    assert {"skl", "dg2", "bmg"} <= {*info.simulated_products}
    assert [each.name for each in info.disassemblers] == ["IGA", "LLVM", "nvdisasm", "SPIRV-Tools"]
    limits = {each.name: each for each in info.limits}
    assert {*limits} == {*LIMITS._fields, "streams", "watches", "client_watches"}
    assert limits["module_size"].amount == LIMITS.module_size
    assert limits["build_seconds"].duration.ToTimedelta().total_seconds() == LIMITS.build_seconds


def test_a_message_beyond_the_limit_is_refused(symbols, running):
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(running.address, options=options) as wide:
        request = s.SymbolizeRequest(module=NAME, packed_queries=q.PackedQueries(values=bytes(65 << 20)))
        with pytest.raises(grpc.RpcError) as caught:
            SymbolServiceStub(wide).Symbolize(request)
    assert caught.value.code() is C.RESOURCE_EXHAUSTED
    assert symbols.Symbolize(s.SymbolizeRequest(module=NAME, queries=[q.Query(address=0x150)])).answers


def test_what_is_read_on_the_event_loop_is_small(channel):
    """A health or reflection request is a name; a large one would hold up every other call while it is read."""
    large = b"\x0a\x88\x27" + b"x" * 5000
    health = channel.unary_unary("/grpc.health.v1.Health/Check")
    reflection = channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
    for call in (lambda: health(large, timeout=20), lambda: list(reflection(iter([large]), timeout=20))):
        code, reason, _ = refusal(call)
        assert (code, reason) == (C.INVALID_ARGUMENT, "MALFORMED")
    assert health(b"", timeout=20)
