"""A request is held by whoever needs it, and by nobody who waits for its answer."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from symd.config import Limits
from symd.server.answering import _run_handler
from symd.server.call import Call
from symd.server.config import Right
from symd.server.messages import TakenOnce


class Message:
    """Something of which can be seen whether anybody holds it."""


def test_a_message_is_taken_once() -> None:
    arrived = TakenOnce("message")
    assert (arrived.is_taken, arrived.peek()) == (False, "message")
    assert (arrived.take(), arrived.is_taken) == ("message", True)
    for again in (arrived.take, arrived.peek):
        with pytest.raises(IndexError):
            again()
    arrived.put_back("message")
    assert (arrived.take(), arrived.is_taken) == ("message", True)


def test_bytes_go_once_they_are_read_and_the_request_once_its_handler_lets_go_of_it() -> None:
    service: Any = SimpleNamespace(config=SimpleNamespace(limits=Limits()))
    held: dict[str, weakref.ref[Message]] = {}

    def read(data: Message) -> Message:
        held["bytes"] = weakref.ref(data)
        return Message()

    def handle(_service: object, request: Message, _call: Call) -> bytes:
        assert held["bytes"]() is None
        request_ref = weakref.ref(request)
        assert request_ref() is request
        del request
        assert request_ref() is None
        return b"response"

    method: Any = SimpleNamespace(read=read, handle=handle)
    arrived: Any = TakenOnce(Message())
    assert _run_handler(method, service, arrived, Call("x", Right.READ, "p", None)) == b"response"
