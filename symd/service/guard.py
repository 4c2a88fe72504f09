"""The one place where an error becomes a status: each handler runs inside a guard for its kind of call, which also refuses a
call whose deadline has passed before work begins."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

import grpc
from grpc_status import rpc_status

from symd.errors import DeadlineExceeded, SymdError
from symd.service.service_context import ServiceContext
from symd.wire.failures import to_status

log = logging.getLogger("symd.service")

Handler = Callable[[ServiceContext, Any, grpc.ServicerContext], Any]
"""Takes the service's context, the request (or an iterator of them) and the call; returns the response (or an iterator)."""


def unary(handler: Handler, service: ServiceContext) -> Callable[[Any, grpc.ServicerContext], Any]:
    """A handler that returns one response."""

    def guarded(request: Any, call: grpc.ServicerContext) -> Any:
        try:
            check_deadline(call)
            return handler(service, request, call)
        except SymdError as error:
            fail(call, error)
        except grpc.RpcError:
            raise  # the caller is gone; gRPC knows
        except Exception as error:  # noqa: BLE001 - the last guard: logged whole, and the caller gets its id
            fail(call, defect(error))

    return guarded


def streaming(handler: Handler, service: ServiceContext) -> Callable[[Any, grpc.ServicerContext], Iterator[Any]]:
    """A handler that returns an iterator of responses."""

    def guarded(request: Any, call: grpc.ServicerContext) -> Iterator[Any]:
        try:
            check_deadline(call)
            yield from handler(service, request, call)
        except SymdError as error:
            fail(call, error)
        except grpc.RpcError:
            raise  # the caller is gone; gRPC knows
        except Exception as error:  # noqa: BLE001 - as above
            fail(call, defect(error))

    return guarded


def fail(call: grpc.ServicerContext, error: SymdError) -> NoReturn:
    """End the call with the error's status and details."""
    call.abort_with_status(rpc_status.to_status(to_status(error)))
    raise AssertionError("abort returned")


def defect(error: Exception) -> SymdError:
    """What the caller learns of an exception nobody expected: an id under which the log has all of it."""
    number = uuid.uuid4().hex[:12]
    log.error("defect %s", number, exc_info=error)
    return SymdError(
        f"symd has a defect (id {number})", hint="the daemon's log has the details", metadata={"id": number}
    )


def check_deadline(call: grpc.ServicerContext) -> None:
    """Raises ``DeadlineExceeded`` when nobody can be waiting any more: cheap, and done before work begins."""
    remaining = call.time_remaining()
    if remaining is not None and remaining <= 0:
        raise DeadlineExceeded("the deadline passed before the work began", hint="allow more time")


def while_wanted(items: Iterable[Any], call: grpc.ServicerContext) -> Iterator[Any]:
    """The items, as long as the caller is there and has time left."""
    for item in items:
        if not call.is_active():
            return
        yield item
