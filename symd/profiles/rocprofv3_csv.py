"""rocprofv3's PC sampling CSV, which has no program counter: it is recognized so that the refusal can explain itself.

Source: ROCprofiler-SDK documentation, "Using PC sampling": the columns are Sample_Timestamp, Exec_Mask, Dispatch_Id,
Instruction, Instruction_Comment, Correlation_Id, and for stochastic sampling stall columns."""

from __future__ import annotations

from symd.errors import Unsupported
from symd.profiles.profile_format import Options, Symbolized
from symd.profiles.resolver import Resolver

NAME = "rocprofv3-csv"


def claims(data: bytes) -> bool:
    header = data[:4096].partition(b"\n")[0]
    return b"Instruction_Comment" in header and b"Exec_Mask" in header


def symbolize(data: bytes, resolver: Resolver, options: Options) -> Symbolized:  # noqa: ARG001 - a refusal needs nothing
    """Raises Unsupported: the text of an instruction is at many addresses, so none can be told from it."""
    raise Unsupported(
        "rocprofv3's PC sampling CSV names instructions and no program counters, so there is nothing to look up",
        where="the profile",
        hint="sample again with rocprofv3 --output-format json",
    )
