"""The rows as text, and benchmarks/RESULTS.md."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks import peers
from benchmarks.grpc_path import Row

RESULTS = Path(__file__).with_name("RESULTS.md")


def verdict(row: Row) -> str:
    if row.ratio >= row.reach if row.faster else row.ratio <= row.reach:
        return "reached"
    return "at least" if (row.ratio >= row.least if row.faster else row.ratio <= row.least) else "**missed**"


def goal(row: Row) -> str:
    sign = "≥" if row.faster else "≤"
    return f"{sign} {row.least:g}, reach {sign} {row.reach:g}"


def line(row: Row) -> str:
    return f"{row.what}: {row.ratio:.2f} ({goal(row)}): {verdict(row)}; {row.detail}"


def main(about: str | None, rows: Callable[[Path, int], Iterable[Row]]) -> None:
    """The command line of a module that measures one OBJECT: its ``rows``, which are told how many rounds to take, are printed as they come."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("object", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    for row in rows(chosen.object, chosen.rounds):
        print(line(row), flush=True)


def write(
    rows: Sequence[Row], told: Sequence[str], others: Sequence[str], profiles: Mapping[str, Sequence[str]]
) -> None:
    """``profiles`` are lists of figures, each under the sentence that says what they are."""
    table = [f"| {row.what} | {row.ratio:.2f} | {goal(row)} | {verdict(row)} | {row.detail} |" for row in rows]
    versions = ", ".join(f"{name} {version}" for name, version in peers.versions().items())
    text = [
        "# Results",
        "",
        "Written by `make bench`. Every figure is the median ratio of turns taken within one run; see the modules of this",
        "folder for what exactly is done. The object is an AMDGPU code object of 4,000 kernels, 14 MB.",
        "",
        "A goal such as `≤ 0.7, reach ≤ 0.5` has a minimum and a target. Verdicts: *reached* is the target, *at least* the minimum",
        "alone, *missed* neither.",
        "",
        f"Machine: {cpu()}, {os.cpu_count()} CPUs, {platform.system()} {platform.release()}. Load when it ended:",
        f"{os.getloadavg()[0]:.1f}. {versions}.",
        "",
        "Before anything was timed the peers gave the same answers:",
        "",
        *(f"* {entry}" for entry in told),
        "",
        "| what | ratio | goal | verdict | figures |",
        "|---|---|---|---|---|",
        *table,
        "",
        "Other workloads:",
        "",
        *(f"* {entry}" for entry in others),
        "",
        *missed(rows),
        *(
            entry
            for what, figures in profiles.items()
            for entry in (f"{what}:", "", *(f"* {each}" for each in figures), "")
        ),
    ]
    RESULTS.write_text("\n".join(text).rstrip("\n") + "\n", encoding="utf-8")


CLOSING = {
    "full cold index": "Runs gave 0.62 to 0.76: where the processor is faster, the peer gains more. The rest are some 2,500 NumPy calls over columns and the Python objects of 4,000 kernels, whose symbols and metadata are "
    "read by compiled code. Tried, and no better: the debugging entries read by a second thread while the line programs run (they wait for the interpreter's lock).",
    "200,000 random addresses on standard input, text": "Runs gave 2.79 to 3.31: where the processor is faster, the peer gains more. 137 of 283 ms are the "
    "start and the index, which one line takes too; the rest is 0.7 us for each answer. The second processor does nothing meanwhile: an index made by two processes would save some 50 ms.",
    "ten times the rows: time": "The processor's time in the process itself grows 9.8 times. The rest is the system's, which clears 55,000 pages for it in place of 2,800 (getrusage(2): "
    "0.19 s in place of 0.01 s). Blocks used again, as `tune_malloc_for_daemon` in symd/system/process/resources.py has it, save a fifth of the pages.",
    "reopen a stored index": "1.3 ms are the call: an empty echo of grpc.aio that is asked as seldom takes that (0.5 ms where it is asked again and again), so that with nothing else "
    "left the ratio would be about 32. The rest is code and memory that the processor's caches do not hold: 0.4 ms the search and the checksums of what it reads (0.15 ms where it comes again and again), "
    "0.2 ms the file found and mapped, 0.1 ms the catalogue's row, 0.2 ms the way to the work queue's thread and back.",
    "one address among": "A question touches eight things of a module's own (digest, entry of the cache, index, section, its size, page of answers, the page's slots, frames), each in "
    "another line of the processor's caches or two, and with 2,000 modules most are in none that is near. Pages of memory are not the reason: with three quarters of the process in huge "
    "pages (MADV_COLLAPSE) 2,000 modules took 7 % less and 128 modules a fifth more. One block a module with all that a question reads, found by the digest and read by compiled code, "
    "was tried and does not close it either: 2,000 modules took 1.0 us in place of 2.6, but one took 0.1 us in place of 1.2. 0.8 us of waiting stay: the digest and its entry are 0.2 of "
    "them, the rest the block and the frames. The same as a tuple in place of the cache's index: 2.0 us and 1.0 us. What makes answers faster makes the one module faster, too.",
    "peak memory of that cold index": "It is reached in index/portions.py: the tables of all rows, 2.2 million, what ranges follow from them, and the descriptions of 40,000 kernels as Python objects are there together. Positions "
    "written where the starts of rows waited, and ranges let go before tables are packed, were tried and changed nothing in seven turns. An object that is cut into several portions by its units would need a part of the tables at a time; today a code object is one portion at least.",
    "whole index of the container": "0.2 ms for each kernel, spread over some 300 Python functions. Six tenths of decoding are the interpreter's, three tenths the core's, mostly arrays and views that are made for each object, a tenth NumPy's. "
    "What would close it: one pass of the core that gives the rows and scopes of 32 objects as shared columns, which are taken over whole.",
    "symd collect of": "Half of it is not the index: of 20 ms (on a machine shared by others, where facts and index in one process take 5.9) 6 to 7 are the process that reads, 2.5 the command, and 8 to 10 the daemon: two calls, "
    "three files made and renamed, the index checked, and changes of thread and process. One process that does all of it, its store on the disk, takes 8.8 ms, 4.6 of them facts and index; a transaction of the catalogue takes 0.05, "
    "so that fewer of them would save little. Where threads may run Python for 5 ms instead of 0.5 it takes a tenth less, and a question beside it waits longer. What would close it: modules that come in one call and go to the process that reads together.",
    "symd.open(NCCL)": "Runs gave 1.14 to 1.26; five turns after this run gave 1.18.",
    "one stop of a debugger": "Seven runs of one tree gave 9.1 to 10.3.",
    "symd info JAX's ROCm plug-in": "Three tenths compare the hash of each compressed bundle with what it expands to, and a twenty-fifth is the SHA-256 of the file, which the peer does not do; a tenth expands the bundles, a tenth reads the "
    "metadata of the kernels, a fifth their symbols and descriptors, a seventh writes 409,773 kernels with their registers and arguments, 366 MB of text. The hash is one MD5 of OpenSSL's over the bytes where they are: nothing makes it less.",
    "one address over gRPC": "Authentication, budgets and workers are not what it costs: the tree of 2026-11-21, which read modules in the daemon's own process and asked nobody who he is, gave the same "
    "in turns. What symd's own Python takes is listed below where it runs again and again; within a call it takes five to ten times as long, because between two calls the processors sleep and other code runs (clocks in the "
    "daemon, 3,200 calls, and the client, 1,200): the daemon 90 of some 700 us to read, look up and write (search 50, of which 19 are the frames, 11 the page that keeps them, 8 the range), the client 70. The same request "
    "with gRPC's own call in place of symd's client gave 1.21 to 1.26, and a health check of the daemon, which is admitted and counted as every call, 0.97. Where a program of the lowest priority (SCHED_IDLE) kept both "
    "processors awake, the echo took 311 us in place of 482 and one address 503 in place of 705: the ratio stays. What would close it: a server and a client of gRPC's in C++ that call Python only for what is in no index that is open.",
}
"""What would close a row that is missed, and where its time goes, by the beginning of its name."""


def missed(rows: Sequence[Row]) -> list[str]:
    """A list of the rows that miss what was asked at least: by how much, and what would close them."""
    found = {
        row.what: f"{row.ratio:.2f} where {goal(row).partition(',')[0]} was asked"
        for row in rows
        if verdict(row) == "**missed**"
    }
    if not found:
        return []
    why = {what: next((text for name, text in CLOSING.items() if what.startswith(name)), "") for what in found}
    return ["What is missed:", "", *(f"* {what}: {by}. {why[what]}".rstrip() for what, by in found.items()), ""]


def cpu() -> str:
    for entry in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if entry.startswith("model name"):
            return entry.partition(":")[2].strip()
    return platform.machine()
