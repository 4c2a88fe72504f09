"""Packets that a listening socket does not take: those from some networks, or of some networks' attempts to connect all but a share, so that a connection
from there costs the kernel a packet and the daemon nothing. A classic BPF program says it (linux/Documentation/networking/filter.rst), which any process may attach to
a socket of its own (socket(7), SO_ATTACH_FILTER).

A connection keeps the program that its listener had when it was made; no packet of its own is one that this program drops."""

from __future__ import annotations

import errno
import socket
import struct
import sys
from array import array
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv6Network
from itertools import islice
from typing import Final, NamedTuple

from symd.server.shut_out import Network

_SO_ATTACH_FILTER: Final = 26
_SO_DETACH_FILTER: Final = 27
"""asm-generic/socket.h"""
_LOAD_WORD: Final = 0x20
_LOAD_BYTE: Final = 0x30
_SHIFT_RIGHT: Final = 0x74
_JUMP: Final = 0x05
_JUMP_IF_EQUAL: Final = 0x15
_JUMP_IF_SET: Final = 0x45
_RETURN: Final = 0x06
"""linux/bpf_common.h: BPF_LD | BPF_W | BPF_ABS and so on; the numbers of a jump say how many instructions are skipped."""
_NETWORK_HEADER: Final = 0xFFF00000
"""SKF_NET_OFF. A TCP socket's filter sees the packet from TCP's header on, and its offsets from here on are those of IP's header."""
_IPV4_SOURCE: Final = 12
_IPV6_SOURCE: Final = 8
"""RFC 791, section 3.1; RFC 8200, section 3."""
_TCP_FLAGS: Final = 13
_SYN: Final = 2
"""RFC 9293, section 3.1. A packet without it that comes to a listening socket ends a handshake whose beginning was taken."""
_RANDOM: Final = 0xFFFFF000 + 56
"""SKF_AD_OFF + SKF_AD_RANDOM: 32 random bits."""
_TAKE: Final = 0xFFFFFFFF
_DROP: Final = 0
NONE: Final = 0
"""The share of a network of which nothing is taken."""

Instruction = tuple[int, int, int, int]
"""struct sock_filter: operation, instructions to skip where a comparison holds and where it does not, operand."""


class _Thinning(NamedTuple):
    """Stands in a program that is being made for the jump to where one packet of so many is taken: how far that is, is known last."""

    share: int


def program(shares: Mapping[Network, int]) -> bytes:
    """Drops packets from these networks: all, or of the attempts to connect all but one of so many (a power of two), by chance. A socket for both kinds
    of IP gets packets of both, and IPv4 ones as such."""
    of_ipv4: list[Instruction | _Thinning] = [(_LOAD_WORD, 0, 0, _NETWORK_HEADER + _IPV4_SOURCE)]
    of_ipv6: list[Instruction | _Thinning] = []
    for network, share in shares.items():
        outcome = (_RETURN, 0, 0, _DROP) if share == NONE else _Thinning(share)
        if isinstance(network, IPv4Address):
            of_ipv4 += [(_JUMP_IF_EQUAL, 0, 1, int(network)), outcome]
        else:
            of_ipv6 += [*_same_prefix(network), outcome]
    of_ipv4.append((_RETURN, 0, 0, _TAKE))
    version: list[Instruction] = [
        (_LOAD_BYTE, 0, 0, _NETWORK_HEADER),
        (_SHIFT_RIGHT, 0, 0, 4),
        (_JUMP_IF_EQUAL, 1, 0, 4),
        (_JUMP, 0, 0, len(of_ipv4)),
    ]
    whole = _with_thinning([*version, *of_ipv4, *of_ipv6, (_RETURN, 0, 0, _TAKE)])
    return b"".join(struct.pack("=HBBI", *each) for each in whole)


def _same_prefix(network: IPv6Network) -> Sequence[Instruction]:
    """Skips the instruction behind these for any other network."""
    first, second = struct.unpack_from(">II", network.network_address.packed)
    return (
        (_LOAD_WORD, 0, 0, _NETWORK_HEADER + _IPV6_SOURCE),
        (_JUMP_IF_EQUAL, 0, 3, first),
        (_LOAD_WORD, 0, 0, _NETWORK_HEADER + _IPV6_SOURCE + 4),
        (_JUMP_IF_EQUAL, 0, 1, second),
    )


def _with_thinning(unfinished: Sequence[Instruction | _Thinning]) -> Sequence[Instruction]:
    """The same with what takes a share behind them, once for each share: as many networks fit as where all is dropped."""
    begin, behind = dict[int, int](), list[Instruction]()
    for each in unfinished:
        if isinstance(each, _Thinning) and each.share not in begin:
            begin[each.share] = len(unfinished) + len(behind)
            behind += _one_of(each.share)
    jumping: list[Instruction] = [
        (_JUMP, 0, 0, begin[each.share] - position - 1) if isinstance(each, _Thinning) else each
        for position, each in enumerate(unfinished)
    ]
    return jumping + behind


def _one_of(share: int) -> Sequence[Instruction]:
    return (
        (_LOAD_BYTE, 0, 0, _TCP_FLAGS),
        (_JUMP_IF_SET, 0, 2, _SYN),
        (_LOAD_WORD, 0, 0, _RANDOM),
        (_JUMP_IF_SET, 1, 0, share - 1),
        (_RETURN, 0, 0, _TAKE),
        (_RETURN, 0, 0, _DROP),
    )


def drop(listener: socket.socket, shares: Mapping[Network, int]) -> None:
    """Let a listening socket take no more than these shares of what comes from these networks, as ``program`` has them, and all from others; of too many
    networks for the kernel's memory for a socket's options (net.core.optmem_max), from the last ones. Raises OSError where the kernel has no such filters."""
    if not sys.platform.startswith("linux"):
        raise OSError(errno.ENOTSUP, "no packet filters are known here")
    if not shares:
        _detach(listener)
        return
    while True:
        try:
            _attach(listener, program(shares))
        except OSError as error:
            if error.errno != errno.ENOMEM or len(shares) < 2:
                _detach(listener)  # else what it drops now it would drop for ever
                raise
            shares = dict(islice(shares.items(), len(shares) // 2, None))
        else:
            return


def _attach(listener: socket.socket, instructions: bytes) -> None:
    held = array("Q", instructions)
    where, count = held.buffer_info()
    listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", count, where))


def _detach(listener: socket.socket) -> None:
    try:
        listener.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)
    except OSError as error:
        if error.errno != errno.ENOENT:  # it has none
            raise
