"""Bounds that no operator sets, set by tests in the modules that check them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from symd.config import Limits
from symd.server import answering, batches, messages, server, standard_services, waiting, work_queues

MODULES = (answering, batches, messages, waiting, standard_services, server, work_queues)


@contextmanager
def bounded(**values: Any) -> Iterator[Limits]:
    """Limits of these values. A bound that is none of the limits has its value for a daemon of this process, while this lasts."""
    limits = {name: values.pop(name) for name in Limits._fields if name in values}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            (module,) = (each for each in MODULES if name.upper() in vars(each))
            patch.setattr(module, name.upper(), value)
        yield Limits(**limits)
