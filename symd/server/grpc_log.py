"""What gRPC's own server would write into the daemon's log: a traceback for each client that goes away while its response is being
sent. That a client went away is no error of the daemon; who wants to know reads ``outcome`` in the lines of requests."""

from __future__ import annotations

import logging

from grpc.aio import BaseError

LOGGER = "grpc._cython.cygrpc"


class NoVanishedClients(logging.Filter):
    """Leaves out what is about a call that has ended."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is about anything else."""
        kind = record.exc_info[0] if record.exc_info else None
        return kind is None or not issubclass(kind, BaseError)


def leave_out_vanished_clients() -> None:
    """From here on, in this process. Saying it again changes nothing."""
    logger = logging.getLogger(LOGGER)
    if not any(isinstance(each, NoVanishedClients) for each in logger.filters):
        logger.addFilter(NoVanishedClients())
