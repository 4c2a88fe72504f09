"""Files of other profilers that no reader reads: what each is, and which export of its tool has addresses, by the
bytes that it begins with or the heading of its table. Two formats of rocprofv3 have a name among the formats, although
they have no program counters: they are recognized so that the refusal can explain itself.

Sources: perf's perf.data-file-format.txt (PERFILE2); Nsight Compute's customization guide, "Report File Format" (NVR);
the schema of nsys export --type sqlite (CUPTI_ACTIVITY_…); the headings of ncu --csv, rocprof and rocprofv3.
ROCprofiler-SDK documentation, "Using PC sampling": the columns of its CSV are Sample_Timestamp, Exec_Mask, Dispatch_Id,
Instruction, Instruction_Comment, Correlation_Id, and for stochastic sampling stall columns. ROCm/rocm-systems,
rocprofiler-sdk/source/share/rocprofiler-sdk-rocpd/rocpd_tables.sql (schema 3): kernels, dispatches, code objects and
counters, and no table of samples of instructions; no release of rocprofv3 writes PC samples into one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from symd.errors import Unsupported
from symd.profiles.profile_format import Options, Symbolized
from symd.profiles.resolver import Resolver

_SQLITE = b"SQLite format 3\0"
_CUPTI = "CUPTI's PC sampling records as JSON lines have addresses"
_ROCPROFV3 = "sample with rocprofv3 --pc-sampling-method … --output-format json"
_TABLE = "symd batch -m FILE IN.parquet OUT.parquet adds lines to a table of addresses"
_FOLDED = "counts by instruction can be given as folded stacks, lines such as [KERNEL+0x40] 12"
_CSV = f"{_FOLDED}; {_TABLE}; DuckDB's COPY (FROM 'samples.csv') TO 'samples.parquet' makes Parquet of CSV"
_ADDRESSES = frozenset(("address", "pc", "offset", "addr", "ip"))
"""How columns of addresses are called."""
_HEADINGS = (
    (("Kernel Name", "Metric Name"), "a table of Nsight Compute (ncu --csv), which has no addresses", _CUPTI),
    (("KernelName", "gpu-id"), "a table of rocprof, which has kernels and no addresses", _ROCPROFV3),
    (("Kernel_Name", "Dispatch_Id"), "a table of rocprofv3, which has kernels and no addresses", _ROCPROFV3),
)
"""Columns of a table, what it is, and what to do."""


@dataclass(slots=True)
class RefusedFormat:
    """A profile format in which there is nothing to look up, for the reason ``why``, and what to do instead."""

    NAME: str
    claims: Callable[[bytes], bool]
    why: str
    hint: str

    def symbolize(self, data: bytes, resolver: Resolver, options: Options) -> Symbolized:
        """Raises Unsupported."""
        del data, resolver, options
        raise Unsupported(self.why, where="the profile", hint=self.hint)


def _is_rocpd(data: bytes) -> bool:
    """An SQLite database with a table of this family in its schema, which is on its first pages."""
    return data.startswith(_SQLITE) and b"rocpd_" in data[: 1 << 20]


def _is_rocprofv3_csv(data: bytes) -> bool:
    header = data[:4096].partition(b"\n")[0]
    return b"Instruction_Comment" in header and b"Exec_Mask" in header


ROCPD = RefusedFormat(
    "rocpd",
    _is_rocpd,
    "a rocpd database has kernels and their times, and no PC samples: there is nothing to look up",
    _ROCPROFV3,
)
ROCPROFV3_CSV = RefusedFormat(
    "rocprofv3-csv",
    _is_rocprofv3_csv,
    "rocprofv3's PC sampling CSV names instructions and no program counters, so there is nothing to look up",
    "sample again with rocprofv3 --output-format json",
)


def described(data: bytes) -> tuple[str, str] | None:
    """What a file of another profiler is, and what to do instead; None for one that is not known."""
    if data.startswith((b"PERFILE2", b"PERFFILE")):
        return (
            "perf.data of Linux perf, which samples the CPU",
            "perf script and stackcollapse-perf.pl make folded stacks of it; its addresses are the CPU's",
        )
    if data.startswith(b"NVR\0"):
        return "a report of Nsight Compute (.ncu-rep), whose format is not read", f"{_FOLDED}; {_CUPTI}"
    if data.startswith(_SQLITE) and b"CUPTI_ACTIVITY" in data[: 1 << 20]:
        return "a database of Nsight Systems, which has kernels and their times, and no addresses in them", _CUPTI
    if data.startswith(b"PAR1"):
        return "a Parquet file", _TABLE
    return _described_table(data[:4096].decode("utf-8", "replace").splitlines())


def _described_table(head: list[str]) -> tuple[str, str] | None:
    """What a table is that begins with these lines."""
    for columns, what, hint in _HEADINGS:
        if any("," in line and all(column in line for column in columns) for line in head):
            return what, hint
    columns_of = {name.strip().strip('"').lower() for name in (head[0] if head else "").replace(";", ",").split(",")}
    if columns_of & _ADDRESSES:
        return "a table with a column of addresses", _CSV
    return None
