"""--limit NAME=VALUE: units, ranges, names, and limits that contradict each other."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from symd.cli.options import limit_contradictions, limits_of
from symd.config import MIB, Limits


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("module_size=4", 4),
        ("module_size=64K", 64 << 10),
        ("module_size=1.5M", 3 << 19),
        ("module_size=4GiB", 4 << 30),
        ("module_size=64 MiB", 64 << 20),
        ("store_size=2T", 2 << 40),
        ("free_disk=0", 0),
        ("aliases=0", 0),
        ("batch=4M", 4_000_000),
        ("connections=2K", 2000),
        ("build_seconds=90", 90.0),
        ("build_seconds=90s", 90.0),
        ("build_seconds=1.5min", 90.0),
        ("idle_seconds=2h", 7200.0),
        ("keepalive_seconds=250ms", 0.25),
        ("idle_seconds=1d", 86400.0),
    ],
)
def test_a_value_has_the_units_of_what_its_limit_counts(text: str, value: float) -> None:
    name = text.partition("=")[0]
    found = getattr(limits_of((text,)), name)
    assert (found, type(found)) == (value, type(getattr(Limits(), name)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("module_size", "write NAME=VALUE"),
        ("module_size=", "module_size: '' is not a size; write bytes, or with K, M, G or T"),
        ("module_size=much", "from 1 B to 1024 TiB"),
        ("module_size=0", "module_size: '0' is out of range; from 1 B to 1024 TiB"),
        ("module_size=-4", "is not a size"),
        ("module_size=4s", "is not a size"),
        ("module_size=0.5", "out of range"),
        ("module_size=1.5", "is not a whole number"),
        ("connections=1e30", "connections: '1e30' is not a number; write a whole number"),
        (f"connections={10**30}", "out of range; from 1 to 2,147,483,647"),
        ("connections=9" + "9" * 400, "out of range"),
        ("build_seconds=0", "out of range; from 0.001 s to 2,000,000 s"),
        ("build_seconds=4K", "is not a time; write seconds, or with ms, s, min, h or d"),
        ("build_memory=1M", "out of range; from 128 MiB"),
        ("modul_size=4", "there is no limit 'modul_size'; did you mean module_size"),
        ("MODULE_SIZE=4", "there is no limit 'MODULE_SIZE'; did you mean module_size"),
        ("zzz=4", "docs/reliability.md lists them, such as module_size"),
        ("build=4", "did you mean build_"),
    ],
)
def test_what_is_no_value_is_refused_with_what_may_be_written(text: str, said: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        limits_of((text,))
    assert said in caught.value.message


def test_the_defaults_do_not_contradict_each_other() -> None:
    assert not [*limit_contradictions(Limits())]


def test_contradictions_name_both_limits_and_their_values() -> None:
    (one,) = limit_contradictions(Limits(bytes_in_flight=90 * MIB))
    assert one.startswith("client_bytes_in_flight (96 MiB) is more than bytes_in_flight (90 MiB): ")
    of_two = [*limit_contradictions(Limits(store_size=5, response_bytes=100 * MIB))]
    assert [each.partition(": ")[2] for each in of_two] == [
        "a response that is allowed is refused as BUSY, always",
        "a module that is allowed does not fit into the store",
    ]


def test_the_page_of_the_limits_is_named_where_it_is() -> None:
    """A wheel has it elsewhere than a checkout."""
    with pytest.raises(click.BadParameter) as caught:
        limits_of(("zzz=4",))
    said = str(caught.value)
    page = Path(said.partition("; ")[2].partition(" lists them")[0])
    assert "`store_size`" in page.read_text()
    assert page.is_absolute()
