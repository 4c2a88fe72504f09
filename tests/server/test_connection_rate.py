"""Strangers that connect without end: of their attempts to connect a share is taken, until they come less often; whoever is let in does not count."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager, suppress

import grpc

from symd.config import Limits
from symd.server.connection_rate import PERIOD, SETTLING, STEPS, Arrival, ConnectionRate
from symd.server.peer_names import Remote
from symd.server.shut_out import NETWORKS, network_of
from symd.v1.symbol_service_pb2_grpc import SymbolServiceStub
from tests.server.test_budgets import ONE, eventually
from tests.server.test_connections import TOKEN, ask, eventually_asked, served, user
from tests.server.test_shut_out import LONG, SHORT, connects, opened

HERE, THERE = network_of("10.0.0.7"), network_of("10.0.0.8")
SECONDS = 10.0
THINNED = "took fewer connections: one in 4 of 127.0.0.1"
SHOWN = (("authorization", f"Bearer {TOKEN}"),)


def arrivals(ports, network=HERE):
    return [Arrival(Remote(str(network), port), network) for port in ports]


def counted(most=100):
    return ConnectionRate(Limits(unknown_connection_rate=most, refused_seconds=SECONDS))


def test_a_network_is_beyond_the_limit_with_all_that_came_from_it():
    rate = counted()
    assert not rate.beyond(arrivals(range(60)) + arrivals(range(60), THERE), (), 5.0)
    assert not rate.beyond(arrivals(range(60, 100)), (), 5.1)
    assert not rate.shares
    assert rate.beyond(arrivals([100]), (), 5.2) == {HERE}
    assert rate.shares == {HERE: STEPS[0]}


def test_who_comes_less_often_is_not_beyond_it():
    rate = counted()
    for number in range(20):
        assert not rate.beyond(arrivals(range(100 * number, 100 * number + 100)), (), 5.0 + PERIOD * number)


def test_whoever_is_let_in_does_not_count():
    rate, clients = counted(), arrivals(range(90))
    assert not rate.beyond(clients, (), 5.0)
    assert not rate.beyond(arrivals(range(90, 180)), {each.remote for each in clients}, 5.1)
    assert rate.beyond(arrivals(range(180, 191)), (), 5.2)


def test_the_share_grows_smaller_step_by_step_while_as_many_come():
    rate, now = counted(), 5.0
    for share in (*STEPS, STEPS[-1]):
        assert rate.beyond(arrivals(range(101)), (), now) == {HERE}
        assert rate.shares == {HERE: share}
        assert not rate.beyond(arrivals(range(500)), (), now + SETTLING / 2)  # the kernel had them ready
        now += SETTLING


def test_it_goes_back_step_by_step():
    rate = counted()
    rate.beyond(arrivals(range(101)), (), 5.0)
    rate.beyond(arrivals(range(101)), (), 6.0)
    shares = []
    for seconds in (SECONDS - 0.1, SECONDS, 2 * SECONDS - 0.1, 2 * SECONDS):
        rate.beyond((), (), 6.0 + seconds)
        shares.append(rate.shares.get(HERE))
    assert shares == [STEPS[1], STEPS[0], STEPS[0], None]


def test_no_more_networks_than_a_filter_has_room_for():
    rate = counted(1)
    networks = [network_of(f"10.0.{number >> 8}.{number & 255}") for number in range(NETWORKS + 5)]
    for network in networks:
        rate.beyond(arrivals(range(2), network), (), 5.0)
    assert list(rate.shares) == networks[5:]


@contextmanager
def storm(address):
    """A stranger's connections, each closed at once, until it is left."""
    over = threading.Event()

    def go_on():
        while not over.is_set():
            with suppress(OSError), opened(address):
                pass

    threads = [threading.Thread(target=go_on) for _ in range(4)]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        over.set()
        for each in threads:
            each.join()


def test_a_storm_is_thinned_and_whoever_was_let_in_or_comes_from_elsewhere_is_answered(tmp_path, caplog):
    with served(tmp_path, unknown_connection_rate=30, refused_seconds=LONG) as address, user(address) as before:
        assert ask(before)
        with storm(address):
            assert eventually(lambda: THINNED in caplog.text)
            assert eventually(lambda: not all(connects(address) for _ in range(20)))  # one in 4 does
            assert connects(address, "127.0.0.2")
            assert ask(before)
        assert "more than 30 came in four seconds on which nobody was let in (unknown_connection_rate)" in caplog.text


def test_afterwards_all_of_the_address_are_taken_again(tmp_path, caplog):
    with served(tmp_path, unknown_connection_rate=30, refused_seconds=SHORT) as address:
        with storm(address):
            assert eventually(lambda: THINNED in caplog.text)
        with user(address) as newly:
            assert eventually_asked(newly)


def test_a_pool_of_200_clients_that_comes_again_and_again_is_not_thinned(tmp_path, caplog):
    with served(tmp_path, unknown_connections=1000, client_connections=1000) as address:
        for _ in range(4):
            with ExitStack() as stack:
                stubs = [SymbolServiceStub(stack.enter_context(channel(address, number))) for number in range(200)]
                asked = [stub.Symbolize.future(ONE, metadata=SHOWN, wait_for_ready=True) for stub in stubs]
                assert all(each.result().answers for each in asked)
    assert THINNED not in caplog.text


def channel(address, number):
    """One with a connection of its own."""
    return grpc.insecure_channel(address, (("grpc.use_local_subchannel_pool", 1), ("number", number)))
