"""Every error of the tree comes back over the wire as itself, within what a trailer holds."""

from __future__ import annotations

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from symd import errors
from symd.rpc.wire.failures import from_status, reason_status, status_reason, to_status
from symd.rpc.wire.fields import bad_field


def tree(cls=errors.SymdError):
    yield cls
    for child in cls.__subclasses__():
        yield from tree(child)


ALL = sorted((cls for cls in tree() if "reason" in vars(cls)), key=lambda cls: cls.__name__)
"""Errors that travel: those with a reason of their own."""


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_an_error_comes_back_as_its_class_with_its_parts(cls):
    error = cls("it is broken", where="a.bin: .text", hint="mend it", metadata={"offset": "12"})
    back = from_status(to_status(error))
    assert type(back) is cls
    assert (back.message, back.where, back.hint, back.metadata) == (
        "it is broken", "a.bin: .text", "mend it", {"offset": "12"},
    )  # fmt: skip


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_the_status_is_the_one_that_the_class_names(cls):
    status = to_status(cls("x"))
    assert grpc.StatusCode[cls.status].value[0] == status.code
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (info.domain, info.reason) == ("symd", cls.reason)


def test_a_build_log_comes_along_as_far_as_there_is_room():
    back = from_status(to_status(errors.BuildFailed("refused", build_log="error: line 3\n")))
    assert back.build_log == "error: line 3\n"
    long = from_status(to_status(errors.BuildFailed("refused", build_log="é" * 100_000)))
    assert long.build_log.startswith("éé")
    assert long.build_log.endswith("...")


def test_a_huge_message_stays_below_what_clients_accept_in_a_trailer():
    huge = errors.KernelNotFound("é" * 9000, where="ä" * 9000, hint="h" * 9000, metadata={"k" * 50: "v" * 9000})
    status = to_status(huge)
    message = 3 * len(status.message.encode())  # percent-encoded at worst
    details = len(status.SerializeToString()) * 4 / 3  # base64
    assert message + details < 8000
    assert from_status(status).message.startswith("éé")


def test_a_reason_of_a_newer_daemon_becomes_what_its_code_means():
    status = to_status(errors.ModuleNotFound("gone"))
    info = error_details_pb2.ErrorInfo(domain="symd", reason="EVAPORATED", metadata={"message": "gone"})
    status.details[0].Pack(info)
    back = from_status(status)
    assert type(back) is errors.NotFound
    assert back.message == "gone"


def test_a_status_without_details_becomes_what_its_code_means():
    back = from_status(status_pb2.Status(code=grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], message="too big"))
    assert type(back) is errors.LimitExceeded
    assert type(from_status(status_pb2.Status(code=99, message="?"))) is errors.SymdError


def details(status, kind):
    """The details of one kind."""
    found = [kind() for _ in status.details]
    return [each for each, detail in zip(found, status.details, strict=True) if detail.Unpack(each)]


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_what_may_do_later_says_when_and_what_never_will_says_which_field(cls):
    status = to_status(cls("x", metadata={"field": "column.values"}))
    later = details(status, error_details_pb2.RetryInfo)
    never = details(status, error_details_pb2.BadRequest)
    assert bool(later) == (cls.status == "UNAVAILABLE" or cls is errors.Busy)
    assert all(each.retry_delay.ToTimedelta().total_seconds() > 0 for each in later)
    assert bool(never) == (cls.status == "INVALID_ARGUMENT")
    for each in never:
        (violation,) = each.field_violations
        assert (violation.field, violation.description, violation.reason) == ("column.values", "x", cls.reason)


def test_a_decoder_names_the_field_that_is_to_blame():
    (request,) = details(to_status(bad_field("column.values", "not a column")), error_details_pb2.BadRequest)
    assert [(each.field, each.description) for each in request.field_violations] == [("column.values", "not a column")]


def test_a_huge_description_of_a_field_stays_below_what_clients_accept_in_a_trailer():
    huge = errors.BadQuery("é" * 9000, where="ä" * 9000, hint="h" * 9000, metadata={"field": "f" * 9000})
    status = to_status(huge)
    assert 3 * len(status.message.encode()) + len(status.SerializeToString()) * 4 / 3 < 8000


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_a_reason_alone_makes_a_status_that_gives_it_back(cls):
    status = reason_status(cls.reason)
    assert (status_reason(status), type(from_status(status))) == (cls.reason, cls)
