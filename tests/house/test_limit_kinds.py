"""What each limit of symd/config.py counts is what its default looks like, and the default may be written with --limit."""

from __future__ import annotations

from dataclasses import fields

import pytest

from symd.cli.options import COUNT, SIZE, TIME, limit_kind, limit_range, limit_text, limits_of
from symd.config import MIB, Limits
from symd.server import work_queues
from symd.server.config import Config
from symd.server.work_queues import Work

NAMES = Limits._fields


@pytest.mark.parametrize("name", NAMES)
def test_every_default_is_allowed_and_of_the_kind_that_it_looks_like(name: str) -> None:
    value = Limits()._asdict()[name]
    lowest, highest = limit_range(name)
    assert lowest <= value <= highest
    assert (limit_kind(name) is TIME) == isinstance(value, float)
    assert (limit_kind(name) is SIZE) == (limit_kind(name) is not TIME and value >= MIB and value % MIB == 0)
    assert getattr(limits_of((f"{name}={limit_text(name, value).replace(',', '')}",)), name) == value


def test_every_kind_is_met() -> None:
    assert {limit_kind(name).what for name in NAMES} == {SIZE.what, COUNT.what, TIME.what}


def test_work_queues_name_bounds_that_there_are() -> None:
    """Their errors say so; ``workers``, ``streams`` and ``watches`` are options of their own."""
    fixed = {name.lower() for name in vars(work_queues) if name.isupper()}
    assert {str(work) for work in Work} <= {*NAMES, *fixed, *(field.name for field in fields(Config))}
