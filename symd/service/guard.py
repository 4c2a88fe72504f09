"""The one place where an error becomes a status: each call runs inside a guard, which also refuses a call whose deadline has
passed before work begins, and one that may not be made."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import count
from typing import Any

from grpc.aio import BaseError, InternalError
from grpc_status import rpc_status

from symd.errors import DeadlineExceeded, SymdError
from symd.service.audit import CANCELLED, OK, audit
from symd.service.call import Call, CallEnded
from symd.service.doors import Doorkeeper
from symd.service.metrics import Metrics
from symd.service.request_log import log_request
from symd.wire.failures import to_status

log = logging.getLogger("symd.service")

_NUMBERS = count(1)
_NOTHING: Mapping[str, str] = {}

Answer = Callable[[Any, Call], Awaitable[Any]]
"""Takes what grpc.aio gives a handler and the call; returns the response's bytes, or None where it has sent them."""


def guard(
    method: str, answer: Answer, doors: Doorkeeper, metrics: Metrics | None = None
) -> Callable[[Any, Any], Awaitable[Any]]:
    """The handler that grpc.aio calls when the headers of a call come, its message not yet."""

    async def guarded(_requests: Any, context: Any) -> Any:
        call = Call(method, context.peer(), context.time_remaining(), next(_NUMBERS))
        outcome, metadata = CANCELLED, _NOTHING
        try:
            doors.admit(call, context)
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
            found = defect(error)
            outcome, metadata = found.reason, found.metadata
            await fail(context, found)
        else:
            return answered
        finally:
            call.end()
            outcome, metadata = call.ending or (outcome, metadata)
            audit(call, outcome)
            log_request(call, outcome, metadata.get("id", ""))
            if metrics is not None:
                metrics.ended(call, outcome, metadata.get("limit", ""))

    return guarded


async def fail(context: Any, error: SymdError) -> None:
    """End the call with the error's status and details. gRPC would log it, whole, where a caller has left meanwhile."""
    try:
        await context.abort_with_status(rpc_status.to_status(to_status(error)))
    except InternalError:
        raise asyncio.CancelledError from None
    raise AssertionError("abort returned")


def defect(error: Exception) -> SymdError:
    """What the caller learns of an exception nobody expected: an id under which the log has all of it."""
    number = uuid.uuid4().hex[:12]
    log.error("defect %s", number, exc_info=error)
    return SymdError(
        f"symd has a defect (id {number})", hint="the daemon's log has the details", metadata={"id": number}
    )


def check_deadline(call: Call) -> None:
    """Raises ``DeadlineExceeded`` when nobody can be waiting any more: cheap, and done before work begins."""
    remaining = call.time_remaining()
    if remaining is not None and remaining <= 0:
        raise DeadlineExceeded("the deadline passed before the work began", hint="allow more time")


def while_wanted(items: Iterable[Any], call: Call) -> Iterator[Any]:
    """The items, as long as the caller is there and has time left."""
    for item in items:
        if not call.is_active():
            return
        yield item
