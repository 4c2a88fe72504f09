"""rocpd databases of rocprofv3, which have no program counters: they are recognized so that the refusal can explain
itself.

Source: ROCm/rocm-systems, rocprofiler-sdk/source/share/rocprofiler-sdk-rocpd/rocpd_tables.sql (schema 3): kernels,
dispatches, code objects and counters, and no table of samples of instructions; no release of rocprofv3 writes PC
samples into one."""

from __future__ import annotations

from symd.errors import Unsupported
from symd.profiles.profile_format import Options, Symbolized
from symd.profiles.resolver import Resolver

NAME = "rocpd"
MAGIC = b"SQLite format 3\0"
TABLE = b"rocpd_"


def claims(data: bytes) -> bool:
    """An SQLite database with a table of this family in its schema, which is on its first pages."""
    return data.startswith(MAGIC) and TABLE in data[: 1 << 20]


def symbolize(data: bytes, resolver: Resolver, options: Options) -> Symbolized:  # noqa: ARG001 - a refusal needs nothing
    """Raises Unsupported: there is no address to look up."""
    raise Unsupported(
        "a rocpd database has kernels and their times, and no PC samples: there is nothing to look up",
        where="the profile",
        hint="sample with rocprofv3 --pc-sampling-method … --output-format json",
    )
