"""``HOST:PORT`` as users write it, for every room that takes one."""

import pytest

from symd.rpc.addresses import host_and_port, is_loopback

HUGE = "9" * 5000
"""Python makes no number of so many digits."""
WRONG = [
    "",
    "8080",
    ":8080",
    "host",
    "host:",
    "host:x",
    "host:-1",
    "host:70000",
    "host:\uff11\uff12",
    f"host:{HUGE}",
    "[]:1",
]


@pytest.mark.parametrize("address", WRONG, ids=lambda text: text[:20])
def test_what_is_no_host_and_port(address: str) -> None:
    assert host_and_port(address) is None


def test_host_and_port() -> None:
    assert host_and_port("host:65535") == ("host", 65535)
    assert host_and_port("[::1]:0") == ("[::1]", 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.255.0.9", "localhost", "[::1]"])
def test_what_this_machine_alone_reaches(host: str) -> None:
    assert is_loopback(f"{host}:1")


NOT_LOOPBACK = ["host", "0.0.0.1", "1270.0.0.1", "127.0.0.1.example", "127.999.1.1", "127.1", "10.127.0.1", "[::]"]


@pytest.mark.parametrize("host", NOT_LOOPBACK)
def test_what_others_may_reach(host: str) -> None:
    assert not is_loopback(f"{host}:1")
