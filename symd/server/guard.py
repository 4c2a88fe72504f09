"""The guard around each call, the one place where an error becomes a status. It also refuses a call whose deadline has
passed before work begins, and one without the right.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from grpc.aio import BaseError, InternalError
from grpc_status import rpc_status

from symd.config import Limits
from symd.errors import DeadlineExceeded, SymdError
from symd.model.cancellation import cancelled_by
from symd.rpc.wire.failures import to_status
from symd.server.authentication import Authenticator
from symd.server.call import Call, CallEnded, next_number
from symd.server.config import Right
from symd.server.logs import CANCELLED, OK, audit, defect, log_request
from symd.server.metrics import Metrics
from symd.server.waiting import with_question_limit
from symd.store.catalogue import is_locked

if TYPE_CHECKING:
    from symd.server.spans import Spans

log = logging.getLogger("symd.server")

_NO_RETRY: Final = ("grpc-retry-pushback-ms", "-1")

_NOTHING: Mapping[str, str] = {}

Answer = Callable[[Any, Call], Awaitable[Any]]
"""Takes what grpc.aio gives a handler and the call; returns the response's bytes, or None where it has sent them."""


def guard(
    method: str,
    right: Right,
    answer: Answer,
    authenticator: Authenticator,
    metrics: Metrics | None = None,
    spans: Spans | None = None,
) -> Callable[[Any, Any], Awaitable[Any]]:
    """The handler that grpc.aio calls when the headers of a call come, its message not yet; ``right`` is what a client
    needs."""

    async def guarded(_requests: Any, context: Any) -> Any:
        call = Call(method, right, context.peer(), context.time_remaining(), next_number())
        outcome, metadata = CANCELLED, _NOTHING
        if spans is not None:
            spans.begin(call, context.invocation_metadata() or ())
        try:
            authenticator.admit(call, context)
            answered = await answer(context, call)
            outcome = OK
        except SymdError as error:
            outcome, metadata = error.reason, error.metadata
            await fail(context, error)
        except InternalError:
            raise asyncio.CancelledError from None  # nothing can be sent: the caller has left
        except BaseError:
            raise  # the call has ended; gRPC knows
        except CallEnded:
            raise asyncio.CancelledError from None  # likewise: what ended it has told the caller why
        except Exception as error:  # noqa: BLE001 - the last guard: logged whole, and the caller gets its id
            found = defect(error, log)
            outcome, metadata = found.reason, found.metadata
            await fail(context, found)
        else:
            return answered
        finally:
            call.end()
            outcome, metadata = call.ending or (outcome, metadata)
            audit(call, outcome)
            _tell(call, outcome, metadata, metrics, spans)

    return guarded


def _tell(call: Call, outcome: str, metadata: Mapping[str, str], metrics: Metrics | None, spans: Spans | None) -> None:
    """Tell of a call that has ended."""
    log_request(call, outcome, metadata.get("id", ""))
    if spans is not None:
        spans.end(call, outcome)
    if metrics is not None:
        metrics.ended(call, outcome, metadata.get("limit", ""))


def status_of(error: SymdError) -> Any:
    """The ``grpc.Status`` that a call ends with. Where it waited in vain for the catalogue's lock the client is told
    not to send it again by itself (gRFC A6): it would wait for as long."""
    status = rpc_status.to_status(to_status(error))
    if is_locked(error):
        return status._replace(trailing_metadata=(*status.trailing_metadata, _NO_RETRY))
    return status


async def fail(context: Any, error: SymdError) -> None:
    """End the call with the error's status and details. gRPC would log it, whole, where a caller has left meanwhile;
    and it keeps what it is told with, for longer than the call lasts, and by the frames of a traceback the request."""
    without_frames(error)
    try:
        await context.abort_with_status(status_of(error))
    except InternalError:
        raise asyncio.CancelledError from None
    raise AssertionError("abort returned")


def without_frames(error: BaseException) -> None:
    """Let go of the frames that the error and what led to it passed through, with all that they hold."""
    cause: BaseException | None = error
    while cause is not None:
        cause.__traceback__ = None
        cause = cause.__cause__ or cause.__context__


def check_deadline(call: Call) -> None:
    """Raises ``DeadlineExceeded`` when nobody can be waiting any more: cheap, and done before work begins."""
    remaining = call.time_remaining()
    if remaining is not None and remaining <= 0:
        raise DeadlineExceeded("the deadline passed before the work began", hint="allow more time")


def cancelled_with_call(call: Call, limits: Limits) -> AbstractContextManager[None]:
    """Inside, a question that may take long ends between its steps, in a thread of its work queue: with ``CallEnded``
    once nobody waits, ``DeadlineExceeded``, and ``LimitExceeded`` where it takes longer than ``question_seconds``."""
    return cancelled_by(with_question_limit(limits, partial(check_call_active, call)))


def check_call_active(call: Call) -> None:
    """Raises ``CallEnded`` where nobody waits for the call any more, and ``DeadlineExceeded``; for work that has a
    time limit of its own."""
    if not call.is_active():
        raise CallEnded
    check_deadline(call)
