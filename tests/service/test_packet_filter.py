"""The packet filter against the kernel's own sockets: whoever is dropped cannot connect, everybody else can."""

from __future__ import annotations

import socket
from contextlib import closing, contextmanager
from ipaddress import IPv4Address, IPv6Network

import pytest

from symd.service import packet_filter
from symd.service.shut_out import NETWORKS, network_of

MOST_INSTRUCTIONS = 4096
"""BPF_MAXINSNS of linux/bpf_common.h."""
DROPPED_WITHIN = 0.3
"""Seconds after which a packet that was dropped is believed to be. On loopback one that was not is answered at once."""


@contextmanager
def listener(family, address):
    with socket.socket(family) as made:
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        try:
            made.bind((address, 0))
        except OSError:
            pytest.skip(f"this machine has no {address}")
        made.listen()
        yield made


def connects(listening, host, source):
    """Whether somebody at ``source`` can connect to ``host``."""
    where = host, listening.getsockname()[1]
    try:
        with closing(socket.create_connection(where, DROPPED_WITHIN, source_address=(source, 0))):
            return True
    except TimeoutError:
        return False


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::")])
def test_an_ipv4_address_is_dropped_by_sockets_of_both_kinds(family, address):
    with listener(family, address) as listening:
        packet_filter.drop(listening, [IPv4Address("127.0.0.1")])
        assert not connects(listening, "127.0.0.1", "127.0.0.1")
        assert connects(listening, "127.0.0.1", "127.0.0.2")
        packet_filter.drop(listening, [IPv4Address("127.0.0.2"), IPv4Address("10.0.0.7")])
        assert connects(listening, "127.0.0.1", "127.0.0.1")
        assert not connects(listening, "127.0.0.1", "127.0.0.2")
        packet_filter.drop(listening, [])
        assert connects(listening, "127.0.0.1", "127.0.0.2")
        packet_filter.drop(listening, [])


def test_an_ipv6_network_is_dropped_and_ipv4_is_not():
    with listener(socket.AF_INET6, "::") as listening:
        packet_filter.drop(listening, [IPv6Network("2001:db8::/64"), network_of("::1")])
        assert not connects(listening, "::1", "::1")
        assert connects(listening, "127.0.0.1", "127.0.0.1")
        packet_filter.drop(listening, [IPv6Network("2001:db8::/64"), IPv6Network("0:0:0:1::/64")])
        assert connects(listening, "::1", "::1")


def test_as_many_networks_as_may_be_shut_out_fit():
    networks = [IPv6Network((number << 64, 64)) for number in range(1, NETWORKS)]
    assert len(packet_filter.program([*networks, network_of("::1")])) <= MOST_INSTRUCTIONS * 8
    with listener(socket.AF_INET6, "::") as listening:
        packet_filter.drop(listening, [*networks, network_of("::1")])
        assert not connects(listening, "::1", "::1")
        assert connects(listening, "127.0.0.1", "127.0.0.1")


def test_of_more_than_the_kernel_takes_the_last_are_dropped(monkeypatch):
    attach, tried = packet_filter._attach, []

    def small(listening, instructions):
        tried.append(len(instructions))
        if len(tried) < 3:
            raise OSError(packet_filter.errno.ENOMEM, "no memory")
        attach(listening, instructions)

    monkeypatch.setattr(packet_filter, "_attach", small)
    with listener(socket.AF_INET, "127.0.0.1") as listening:
        packet_filter.drop(listening, [IPv4Address(f"127.0.0.{number}") for number in range(1, 9)])
        assert connects(listening, "127.0.0.1", "127.0.0.6")
        assert not connects(listening, "127.0.0.1", "127.0.0.7")
        assert not connects(listening, "127.0.0.1", "127.0.0.8")


def test_what_the_kernel_refuses_leaves_no_older_filter_behind(monkeypatch):
    with listener(socket.AF_INET, "127.0.0.1") as listening:
        packet_filter.drop(listening, [IPv4Address("127.0.0.1")])
        monkeypatch.setattr(packet_filter, "program", lambda _: b"\xff" * 8)
        with pytest.raises(OSError, match="Invalid argument"):
            packet_filter.drop(listening, [IPv4Address("127.0.0.2")])
        assert connects(listening, "127.0.0.1", "127.0.0.1")


def test_another_error_of_the_kernel_is_raised():
    with socket.socket(socket.AF_INET) as closed:
        closed.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            packet_filter.drop(closed, [IPv4Address("127.0.0.1")])
