"""What ambiguous device addresses could mean has to find room in an answer."""

from __future__ import annotations

import numpy as np
import pytest

from symd.config import Limits
from symd.engine.contexts.device import AnswerTableBuilder
from symd.errors import LimitExceeded
from symd.model.addresses import (
    ByAddress,
    ByKernel,
    BySection,
    DeviceAddress,
    KernelOffset,
    ObjectAddress,
    SectionOffset,
)
from symd.model.contexts import DeviceAnswers, DeviceCandidate
from symd.model.identities import Digest
from symd.server.batches import check_device_candidates


@pytest.mark.parametrize(
    ("query", "path"),
    [
        (ByKernel("k" * 1000, KernelOffset(0)), None),
        (BySection("s" * 1000, SectionOffset(0)), None),
        (ByAddress(ObjectAddress(0)), "p" * 1000),
    ],
)
def test_candidates_are_counted_with_their_texts(query: ByKernel | BySection | ByAddress, path: str | None) -> None:
    each = DeviceCandidate(DeviceAddress(0), Digest("ab" * 32), path, query)
    column = AnswerTableBuilder(1).answers()
    answers = DeviceAnswers(column, np.zeros(1, np.uint32), np.zeros(1, np.uint64), [], {0: (each,) * 64})
    check_device_candidates(answers, Limits(response_bytes=100_000))
    with pytest.raises(LimitExceeded) as caught:
        check_device_candidates(answers, Limits(response_bytes=60_000))
    assert caught.value.metadata["limit"] == "response_bytes"
