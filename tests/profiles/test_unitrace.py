"""unitrace's stall sampling CSV: read back with the csv module, compared with LLVM."""

from __future__ import annotations

import csv

import pytest

from symd import profiles
from symd.model.answers import Reason
from symd.profiles import Resolver, unitrace
from tests.profiles.conftest import named_module
from tests.profiles.modules import AMD, FILTERS, ZEBIN, of_kernel


def rows(data):
    lines = data.decode().splitlines()
    start = next(number for number, line in enumerate(lines) if line.lstrip().startswith("Kernel,"))
    return list(csv.DictReader(lines[start:], skipinitialspace=True))


def test_each_row_has_the_line_and_the_users_line_that_llvm_finds(resolver, sample, tmp_path):
    found = rows(profiles.symbolize(sample("stalls.csv"), resolver).data)
    for row, (kernel, offset) in zip(found, [("smooth", 0), ("smooth", 0x290), ("smooth", 0x2E8), ("denoise", 16)]):  # noqa: B905
        frames = of_kernel(kernel, offset, tmp_path)
        (_, file, line, column), user = frames[0], frames[-1]
        assert (row["File"], row["Line"], row["Column"]) == (file, str(line), str(column))
        assert (row["User File"], row["User Line"]) == (user[1], str(user[2]))
        places = [f"({file}:{line}:{column})".replace(":0)", ")") for _, file, line, column in frames]
        assert [part.split(" ", 1)[1] for part in row["Stack"].split(" <- ")] == places
    assert [row["Function"] for row in found] == ["smooth", "mean", "keep", "denoise", "", ""]


def test_what_is_there_stays_and_every_row_has_as_many_cells(resolver, sample):
    before, after = sample("stalls.csv"), profiles.symbolize(sample("stalls.csv"), resolver).data
    for old, new in zip(before.splitlines(), after.splitlines(), strict=True):
        assert new.startswith(old)
    table = list(csv.reader(after.decode().splitlines()[4:], skipinitialspace=True))
    assert {len(row) for row in table} == {len(table[0])}


def test_the_report_names_kernels_that_are_in_no_module(resolver, sample):
    report = profiles.symbolize(sample("stalls.csv"), resolver).report
    assert (report.unit, report.total, report.resolved) == ("rows", 6, 4)
    assert report.unresolved == {Reason.GAP: 1, Reason.UNKNOWN_KERNEL: 1}
    assert report.notes == ("kernel main::{lambda(sycl::_V1::handler&)#1} is in no given module",)


def test_rows_without_an_answer_are_filled_by_a_later_run_with_the_module(engine, sample):
    first = profiles.symbolize(sample("stalls.csv").replace(b"denoise[", b"shade(float*, float const*, int)["),
                               Resolver(engine, [named_module(engine, ZEBIN)]))  # fmt: skip
    later = Resolver(engine, [named_module(engine, ZEBIN), named_module(engine, AMD)])
    second = profiles.symbolize(first.data, later)
    assert (first.report.resolved, second.report.resolved, second.report.already) == (3, 1, 3)
    table = rows(second.data)
    assert table[3]["Function"] == "shade"
    assert {len(row) for row in table} == {len(table[0])}


def test_readable_names_find_mangled_kernels(engine):
    """As demanglers and as profilers write them."""
    resolver = Resolver(engine, [named_module(engine, AMD)])
    for name in ("shade(float*, float const*, int)", "shade(float *, const float *, int)", "shade"):
        data = f'Kernel, IP[Address], Active[Events]\r\n"{name}", 40, 3\r\n'.encode()
        done = profiles.symbolize(data, resolver)
        assert done.report.resolved == 1
        assert done.data.count(b"\r\n") == data.count(b"\n") == done.data.count(b"\n")
        assert rows(done.data)[0]["Line"] == "30"


def test_a_kernel_of_two_modules_is_not_guessed(engine):
    twice = Resolver(engine, [named_module(engine, ZEBIN), named_module(engine, FILTERS / "pvc-opt.dbg")])
    data = b'Kernel, IP[Address], Active[Events]\n"smooth", 10, 3\n'
    done = profiles.symbolize(data, twice)
    assert done.data is data
    assert done.report.unresolved == {Reason.AMBIGUOUS: 1}
    assert done.report.notes == ("kernel smooth is in several given modules",)


def test_every_device_block_and_nothing_else_is_read(resolver):
    data = (
        b'total, 3\n\nKernel, IP[Address], Active[Events]\nsmooth, 0x290, 1\n\n=== Device #1 ===\n"smooth", 290, 1\n'
        b"Kernel, IP[Address], PSDepStall[Events], Active[Events]\n  smooth  , 290, 1, 2\n"
    )  # fmt: skip
    done = profiles.symbolize(data, resolver)
    assert (done.report.total, done.report.resolved) == (2, 2)
    assert b'\n"smooth", 290, 1\n' in done.data


@pytest.mark.parametrize("hostile", [b" " * 200_000, b'"' * 200_000, b'"a' * 100_000, b"a," * 100_000])
def test_odd_rows_cost_no_time(resolver, hostile):
    data = b"Kernel, IP[Address], Active[Events]\n" + hostile + b"\n"
    assert profiles.symbolize(data, resolver, name=unitrace.NAME).report.resolved == 0
