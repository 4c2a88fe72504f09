"""Build logs of any length."""

from __future__ import annotations

from symd.capture.drivers.loader import MAX_LOG, bounded


def test_a_log_is_kept_as_it_is_up_to_the_bound() -> None:
    assert bounded("") == ""
    assert bounded("x" * MAX_LOG) == "x" * MAX_LOG


def test_a_longer_log_keeps_its_beginning_and_its_end_and_says_what_is_missing() -> None:
    log = "first error\n" + "y" * (50 * MAX_LOG) + "\nlast error"
    kept = bounded(log)
    assert len(kept) < MAX_LOG + 100
    assert kept.startswith("first error\n")
    assert kept.endswith("\nlast error")
    assert f"{len(log) - MAX_LOG} characters" in kept
