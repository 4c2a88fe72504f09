"""The packet filter against the kernel's own sockets: whoever is dropped cannot connect, of who is thinned a share can, everybody else can."""

from __future__ import annotations

import socket
from contextlib import ExitStack, closing, contextmanager
from ipaddress import IPv4Address, IPv6Network

import pytest

from symd.server import packet_filter
from symd.server.connection_rate import STEPS
from symd.server.shut_out import NETWORKS, network_of

MOST_INSTRUCTIONS = 4096
"""BPF_MAXINSNS of linux/bpf_common.h."""
DROPPED_WITHIN = 0.3
"""Seconds after which a packet that was dropped is believed to be. On loopback one that was not is answered at once."""
HARDLY_EVER = 1 << 31
"""The share of a network of which one attempt in so many is taken."""


def all_of(*networks):
    """Nothing is taken of these."""
    return dict.fromkeys(networks, packet_filter.NONE)


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
        packet_filter.drop(listening, all_of(IPv4Address("127.0.0.1")))
        assert not connects(listening, "127.0.0.1", "127.0.0.1")
        assert connects(listening, "127.0.0.1", "127.0.0.2")
        packet_filter.drop(listening, all_of(IPv4Address("127.0.0.2"), IPv4Address("10.0.0.7")))
        assert connects(listening, "127.0.0.1", "127.0.0.1")
        assert not connects(listening, "127.0.0.1", "127.0.0.2")
        packet_filter.drop(listening, all_of())
        assert connects(listening, "127.0.0.1", "127.0.0.2")
        packet_filter.drop(listening, all_of())


def test_an_ipv6_network_is_dropped_and_ipv4_is_not():
    with listener(socket.AF_INET6, "::") as listening:
        packet_filter.drop(listening, all_of(IPv6Network("2001:db8::/64"), network_of("::1")))
        assert not connects(listening, "::1", "::1")
        assert connects(listening, "127.0.0.1", "127.0.0.1")
        packet_filter.drop(listening, all_of(IPv6Network("2001:db8::/64"), IPv6Network("0:0:0:1::/64")))
        assert connects(listening, "::1", "::1")


def test_as_many_networks_as_may_be_shut_out_fit():
    networks = [IPv6Network((number << 64, 64)) for number in range(1, NETWORKS)]
    assert len(packet_filter.program(all_of(*networks, network_of("::1")))) <= MOST_INSTRUCTIONS * 8
    with listener(socket.AF_INET6, "::") as listening:
        packet_filter.drop(listening, all_of(*networks, network_of("::1")))
        assert not connects(listening, "::1", "::1")
        assert connects(listening, "127.0.0.1", "127.0.0.1")


def test_as_many_fit_of_which_a_share_is_taken():
    networks = [IPv6Network((number << 64, 64)) for number in range(1, NETWORKS)]
    shares = {network: STEPS[number % len(STEPS)] for number, network in enumerate(networks)}
    with listener(socket.AF_INET6, "::") as listening:
        packet_filter.drop(listening, shares | {network_of("::1"): HARDLY_EVER})
        assert not connects(listening, "::1", "::1")
        assert connects(listening, "127.0.0.1", "127.0.0.1")
        packet_filter.drop(listening, shares | {network_of("::1"): 1})
        assert connects(listening, "::1", "::1")


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::")])
def test_shares_of_several_networks_are_told_apart(family, address):
    shares = {IPv4Address("127.0.0.1"): HARDLY_EVER, IPv6Network("2001:db8::/64"): 4, IPv4Address("127.0.0.2"): 1}
    with listener(family, address) as listening:
        packet_filter.drop(listening, shares | all_of(IPv4Address("127.0.0.3")))
        taken = [connects(listening, "127.0.0.1", f"127.0.0.{number}") for number in (1, 2, 3, 4)]
        assert taken == [False, True, False, True]


def test_of_two_attempts_one_is_taken_by_chance():
    with listener(socket.AF_INET, "127.0.0.1") as listening, ExitStack() as stack:
        listening.listen(400)
        packet_filter.drop(listening, {IPv4Address("127.0.0.1"): 2})
        trying = [stack.enter_context(socket.socket()) for _ in range(400)]
        for each in trying:
            each.setblocking(False)
            each.connect_ex(listening.getsockname())
        assert (
            100 < sum(map(is_connected, trying)) < 300
        )  # else a coin fell the same way in three quarters of 400 throws


def is_connected(connection):
    try:
        connection.getpeername()
    except OSError:
        return False
    return True


def test_what_comes_on_a_connection_that_was_taken_is_taken_too():
    with listener(socket.AF_INET, "127.0.0.1") as listening:
        packet_filter.drop(listening, {IPv4Address("127.0.0.1"): 1})
        with socket.create_connection(listening.getsockname()) as connection, listening.accept()[0] as accepted:
            packet_filter.drop(listening, {IPv4Address("127.0.0.1"): HARDLY_EVER})
            for _ in range(100):
                connection.sendall(b"a")
                assert accepted.recv(1) == b"a"


def test_of_more_than_the_kernel_takes_the_last_are_dropped(monkeypatch):
    attach, tried = packet_filter._attach, []

    def small(listening, instructions):
        tried.append(len(instructions))
        if len(tried) < 3:
            raise OSError(packet_filter.errno.ENOMEM, "no memory")
        attach(listening, instructions)

    monkeypatch.setattr(packet_filter, "_attach", small)
    with listener(socket.AF_INET, "127.0.0.1") as listening:
        packet_filter.drop(listening, all_of(*(IPv4Address(f"127.0.0.{number}") for number in range(1, 9))))
        assert connects(listening, "127.0.0.1", "127.0.0.6")
        assert not connects(listening, "127.0.0.1", "127.0.0.7")
        assert not connects(listening, "127.0.0.1", "127.0.0.8")


def test_what_the_kernel_refuses_leaves_no_older_filter_behind(monkeypatch):
    with listener(socket.AF_INET, "127.0.0.1") as listening:
        packet_filter.drop(listening, all_of(IPv4Address("127.0.0.1")))
        monkeypatch.setattr(packet_filter, "program", lambda _: b"\xff" * 8)
        with pytest.raises(OSError, match="Invalid argument"):
            packet_filter.drop(listening, all_of(IPv4Address("127.0.0.2")))
        assert connects(listening, "127.0.0.1", "127.0.0.1")


def test_another_error_of_the_kernel_is_raised():
    with socket.socket(socket.AF_INET) as closed:
        closed.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            packet_filter.drop(closed, all_of(IPv4Address("127.0.0.1")))
