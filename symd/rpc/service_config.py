"""What gRPC is told of channels to daemons, in one place: how it connects, notices a daemon that says nothing more, and makes calls again.

A client in any language is to give its channel the same (docs/reliability.md, "Clients", says what comes of it)."""

from __future__ import annotations

import json
from typing import Final

_ONCE: Final = {
    "symd.v1.AliasService": ("DeleteAlias",),
    "symd.v1.ContextService": ("DeleteContext",),
    "symd.v1.ModuleService": ("DeleteModule", "GrabModule"),
}
"""Methods that say something else the second time, or cost much: who calls them decides. Every other one may be made twice."""
_STREAMED: Final = {
    "symd.v1.BreakpointService": ("WatchBreakpoints",),
    "symd.v1.CoreService": ("ReadCore",),
    "symd.v1.ListingService": ("GetListing", "ReadSources"),
    "symd.v1.ModuleService": ("UploadModule", "ReadCodeObject", "WatchModules"),
    "symd.v1.SymbolService": ("SymbolizeStream", "GetLineTable"),
}
"""Methods whose requests or answers are streams: begun anew by gRPC itself, such a call may wait forever, also beyond its deadline (seen with
gRPC 1.85: no connection is left, and the call does not end). ``symd.rpc.retry`` says who begins them anew instead."""
PAUSES: Final = (0.1, 0.4, 1.6, 5.0)
"""Seconds before the second, third, ... attempt of a call, as the retry policy has them (which makes them up to a fifth longer or shorter)."""
SILENT_SECONDS: Final = 40
"""Seconds that one daemon of several may take for one attempt of a call: longer than most of what a daemon does is allowed to take
(``question_seconds``). What takes longer goes on there (an index is finished all the same), so that a later attempt finds it done."""
SERVICE_CONFIG: Final = json.dumps(
    {
        "loadBalancingConfig": [{"round_robin": {}}],
        "methodConfig": [
            {
                "name": [
                    {"service": service, "method": name}
                    for methods in (_ONCE, _STREAMED)
                    for service, names in methods.items()
                    for name in names
                ]
            },
            {
                "name": [{}],
                "retryPolicy": {
                    "maxAttempts": 1 + len(PAUSES),  # gRPC takes no more than 5
                    "initialBackoff": f"{PAUSES[0]}s",
                    "maxBackoff": f"{PAUSES[-1]}s",
                    "backoffMultiplier": 4,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                    "perAttemptRecvTimeout": f"{SILENT_SECONDS}s",
                },
            },
        ],
    }
)
"""The service config of a channel to several daemons (github.com/grpc/grpc/blob/master/doc/service_config.md). None of them waits for a connection (``waitForReady``): a daemon
that is not there is told of, and how it is started."""
KEEPALIVE_SECONDS: Final = 60
"""A connection with calls may be silent so long before the client asks whether the daemon is there."""
ONE: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A daemon that is frozen, or whose machine is gone, closes no connection: a call to it would wait for ever.
    ("grpc.keepalive_time_ms", KEEPALIVE_SECONDS * 1000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.ping_timeout_ms", 20_000),  # of what gRPC asks by itself to measure: keepalive waits for that answer
    ("grpc.http2.max_pings_without_data", 0),
    # A daemon that is started again is found within a second; gRPC by itself would look for it once in two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5000),  # which bounds connecting, and delays nothing after a refusal (gRPC core)
    ("grpc.max_reconnect_backoff_ms", 1000),
)
"""Options of a channel to a daemon alone (grpc/impl/channel_arg_names.h). It has no retry policy: what is wrong with that daemon is told at once,
and a module that ends its worker is not sent to it five times."""
SEVERAL: Final = (
    *ONE,
    ("grpc.service_config", SERVICE_CONFIG),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.per_rpc_retry_buffer_size", 64 << 20),  # a request that does not fit is sent once only
    ("grpc.experimental.enable_hedging", 1),  # without it gRPC 1.85 passes over perAttemptRecvTimeout
)
"""Options of a channel to several daemons."""
