"""A daemon over the fake engine as a process: `python -m tests.server.daemon ADDRESS[,ADDRESS] [GRACE]` prints each address
when it is ready."""

from __future__ import annotations

import sys
from pathlib import Path

from symd.errors import SymdError
from symd.server.config import Config, ListenConfig
from symd.server.lifecycle import serve
from tests.server.fakes import GOOD, FakeEngine


def main(address, grace="5"):
    engine = FakeEngine()
    engine.add(GOOD)
    first, *others = address.split(",")
    addresses = (first, *others) if others else ()
    config = Config(
        store=Path("/nonexistent"),
        address=first,
        addresses=addresses,
        grace=float(grace),
        streams=3,
        listen=ListenConfig(insecure=True),
    )
    try:
        return serve(config, engine, ready=lambda bound: print(bound, flush=True))
    except SymdError as error:
        print(f"{error.reason}: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
