"""A caller that leaves while its answer is under way is no error of the daemon's: gRPC would log a traceback for each."""

from __future__ import annotations

import asyncio

import pytest
from grpc.aio import InternalError

from symd.errors import BadQuery
from symd.server.config import Right
from symd.server.guard import fail, guard


class Left:
    """What a handler has of a caller to whom nothing can be sent any more."""

    def peer(self) -> str:
        return "unix:"

    def time_remaining(self) -> None:
        return None

    async def abort_with_status(self, _status: object) -> None:
        raise InternalError('Failed "execute_batch"')


class Open:
    """An authenticator that lets everybody in."""

    def admit(self, call: object, context: object) -> None:
        del call, context


async def broken_off(_context: object, _call: object) -> bytes:
    raise InternalError('Failed "execute_batch"')


async def refused(_context: object, _call: object) -> bytes:
    raise BadQuery("no address")


@pytest.mark.parametrize("answer", [broken_off, refused])
def test_a_caller_that_has_left_ends_the_call_quietly(answer) -> None:
    handler = guard("symd.v1.SymbolService.Symbolize", Right.READ, answer, Open())
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(handler(None, Left()))


def test_the_refusal_itself_ends_so() -> None:
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(fail(Left(), BadQuery("no address")))
