# cython: language_level=3, boundscheck=True, wraparound=False
"""The word stream of a SPIR-V module (SPIR-V 1.6, 2.3): where instructions begin, and those of some kind. Words are
u32; an instruction is its number."""

from __future__ import annotations

from array import array
from collections.abc import Container

import cython


def split(words: array[int], first: int) -> tuple[array[int], array[int], array[int], int]:
    """The instructions from the word ``first`` on, as equally long columns: the word at which each begins (u32), opcode
    and count of words (u16 each). Last is the word behind them: that of an instruction that has no words or more than
    there are, or the number of all words."""
    stream = cython.declare(cython.const[cython.uint][::1])
    stream = words
    end: cython.Py_ssize_t = len(words)
    at: cython.Py_ssize_t = first
    size: cython.Py_ssize_t = 0
    number: cython.Py_ssize_t = 0
    while at < end:
        size = stream[at] >> 16
        if not size or size > end - at:
            break
        number += 1
        at += size
    count: cython.Py_ssize_t = number
    columns = array("I", bytes(4 * count)), array("H", bytes(2 * count)), array("H", bytes(2 * count))
    starts = cython.declare(cython.uint[::1])
    opcodes = cython.declare(cython.ushort[::1])
    counts = cython.declare(cython.ushort[::1])
    starts, opcodes, counts = columns
    at = first
    for number in range(count):
        starts[number] = cython.cast(cython.uint, at)
        opcodes[number] = cython.cast(cython.ushort, stream[at] & 0xFFFF)
        size = stream[at] >> 16
        counts[number] = cython.cast(cython.ushort, size)
        at += size
    return (*columns, int(at))


def by_opcode(opcode: array[int]) -> tuple[array[int], array[int]]:
    """(the numbers, u32, of all instructions in the order of their opcodes, for each opcode up to one above the highest
    where its first one stands there, u32)."""
    opcodes = cython.declare(cython.const[cython.ushort][::1])
    opcodes = opcode
    number: cython.Py_ssize_t
    highest: cython.Py_ssize_t = 0
    which: cython.Py_ssize_t
    for number in range(len(opcodes)):
        highest = max(highest, opcodes[number])
    firsts = array("I", bytes(4 * (highest + 2)))
    first = cython.declare(cython.uint[::1])
    first = firsts
    order = array("I", bytes(4 * len(opcode)))
    ordered = cython.declare(cython.uint[::1])
    ordered = order
    for number in range(len(opcodes)):
        first[opcodes[number] + 1] += 1
    for which in range(1, highest + 2):
        first[which] += first[which - 1]
    for number in range(len(opcodes)):
        which = opcodes[number]
        ordered[first[which]] = cython.cast(cython.uint, number)
        first[which] += 1  # then it is where the next opcode's begin
    for which in range(highest + 1, 0, -1):
        first[which] = first[which - 1]
    first[0] = 0
    return order, firsts


def of_sets(
    words: array[int], start: array[int], count: array[int], numbers: array[int], sets: Container[int], wanted: bytes
) -> array[int]:
    """The numbers (u32, as ``numbers``) of the OpExtInst that are instructions of one of these sets, by id, and not 0
    in ``wanted``, a table by the number that an instruction has in its set; empty, it is one of all."""
    stream = cython.declare(cython.const[cython.uint][::1])
    starts = cython.declare(cython.const[cython.uint][::1])
    counts = cython.declare(cython.const[cython.ushort][::1])
    the_numbers = cython.declare(cython.const[cython.uint][::1])
    table = cython.declare(cython.const[cython.uchar][::1])
    stream, starts, counts, the_numbers, table = words, start, count, numbers, wanted
    found = array("I")
    at: cython.Py_ssize_t
    number: cython.Py_ssize_t
    operation: cython.uint
    known: cython.uint = 0  # no id
    is_known: cython.bint = False
    for at in range(len(the_numbers)):
        number = the_numbers[at]
        if counts[number] < 5:
            continue
        operation = stream[starts[number] + 4]
        if len(table) and (operation >= len(table) or not table[operation]):
            continue
        if stream[starts[number] + 3] != known:
            known = stream[starts[number] + 3]
            is_known = known in sets
        if is_known:
            found.append(number)
    return found
