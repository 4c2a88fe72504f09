"""Files of other profilers that no reader reads: what each is, and which export of its tool has addresses, by the
bytes that it begins with or the heading of its table.

Sources: perf's perf.data-file-format.txt (PERFILE2); Nsight Compute's customization guide, "Report File Format" (NVR);
the schema of nsys export --type sqlite (CUPTI_ACTIVITY_…); the headings of ncu --csv, rocprof and rocprofv3."""

from __future__ import annotations

from symd.profiles.rocpd import MAGIC as SQLITE

_CUPTI = "CUPTI's PC sampling records as JSON lines have addresses"
_ROCPROFV3 = "sample with rocprofv3 --pc-sampling-method … --output-format json"
_TABLE = "symd batch -m FILE IN.parquet OUT.parquet adds lines to a table of addresses"
_CSV = f"{_TABLE}; DuckDB's COPY (FROM 'samples.csv') TO 'samples.parquet' makes Parquet of CSV"
_ADDRESSES = frozenset(("address", "pc", "offset", "addr", "ip"))
"""How columns of addresses are called."""
_HEADINGS = (
    (("Kernel Name", "Metric Name"), "a table of Nsight Compute (ncu --csv), which has no addresses", _CUPTI),
    (("KernelName", "gpu-id"), "a table of rocprof, which has kernels and no addresses", _ROCPROFV3),
    (("Kernel_Name", "Dispatch_Id"), "a table of rocprofv3, which has kernels and no addresses", _ROCPROFV3),
)
"""Columns of a table, what it is, and what to do."""


def described(data: bytes) -> tuple[str, str] | None:
    """What a file of another profiler is, and what to do instead; None for one that is not known."""
    if data.startswith((b"PERFILE2", b"PERFFILE")):
        return (
            "perf.data of Linux perf, which samples the CPU",
            "perf script and stackcollapse-perf.pl make folded stacks of it; its addresses are the CPU's",
        )
    if data.startswith(b"NVR\0"):
        return "a report of Nsight Compute (.ncu-rep), whose format is not read", _CUPTI
    if data.startswith(SQLITE) and b"CUPTI_ACTIVITY" in data[: 1 << 20]:
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
