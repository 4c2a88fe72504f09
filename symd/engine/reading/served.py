"""One question about a module's bytes, answered in another process: the function that a reader calls there, and
questions and answers as bytes that cannot run code where they are read.

The process that reads a module's bytes may do anything that those bytes make it do. Its answer is msgpack: numbers,
texts, bytes, lists. A list that begins with a positive number is a value of the class that ``CLASSES`` has under that
number, followed by its fields; nothing else can be named, and the constructors of these classes only keep their
arguments. An array is one of four types of unsigned integers and its bytes. So the worst that an answer can be is
wrong.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, Final, TypeVar

import msgpack
import numpy as np

from symd.config import Limits
from symd.cores import CodeIdentity, MemoryWindow, SharedFrames, StoppedCore, TextPlace, WaveMemory, WaveRegisters
from symd.engine.reading import ModuleFile, OpenedModules, questions
from symd.engine.reading.questions import MakeIndex, WorkerRequest, WriteObject
from symd.errors import DataLoss
from symd.model import addresses, answers, code, cores, line_tables, sources, variables
from symd.model.summaries import UNPACKING, large_integer

_TUPLE: Final = 0
_ARRAY: Final = 1
_FIRST_CLASS: Final = 2
_DTYPES: Final = {kind: np.dtype(kind) for kind in ("|u1", "<u2", "<u4", "<u8")}

CLASSES: Final[tuple[type[Any], ...]] = (
    ModuleFile,
    *questions.QUESTIONS,
    addresses.ByAddress,
    addresses.ByKernel,
    addresses.BySection,
    answers.Reason,
    answers.TextSection,
    code.CodeKind,
    code.CodeObject,
    code.DebugScheme,
    code.Function,
    code.Kernel,
    code.RelocationScheme,
    code.Section,
    code.Vendor,
    cores.CoreDevice,
    cores.CoreDump,
    cores.CoreFault,
    cores.CoreFrame,
    cores.CoreImage,
    cores.CorePlace,
    cores.CoreStack,
    cores.CoreWave,
    line_tables.CodeSpan,
    line_tables.LineTable,
    SharedFrames,
    sources.TextOrigin,
    sources.SourceText,
    CodeIdentity,
    MemoryWindow,
    StoppedCore,
    TextPlace,
    WaveMemory,
    WaveRegisters,
    variables.LocationDoubt,
    variables.FunctionScope,
    variables.LocationPiece,
    variables.LocationRegister,
    variables.Member,
    variables.PieceKind,
    variables.TypeInfo,
    variables.Variable,
    variables.VariableLocation,
    variables.Visible,
)
"""Everything that may be asked or answered besides numbers, texts, bytes, sequences and arrays. Both sides run this
very module, so that the numbers may change from version to version."""


def _field_names(kind: type[Any]) -> tuple[str, ...]:
    """What the constructor of a class takes."""
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind) if field.init)
    return ("value",) if issubclass(kind, Enum) else tuple(kind._fields)


_NUMBERS: Final = {kind: number for number, kind in enumerate(CLASSES, _FIRST_CLASS)}
_FIELDS: Final = {kind: _field_names(kind) for kind in CLASSES}
_AS_THEY_ARE: Final = frozenset((str, bytes, int, bool, float, type(None)))


def encode(value: object) -> bytes:
    """Raises TypeError for a value of a class that is not in the list."""
    packed: bytes = msgpack.packb(_plain(value), default=_large, unicode_errors="surrogatepass")
    return packed


def _plain(value: Any) -> Any:
    """The value in terms of what msgpack knows, and of integers."""
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    number = _NUMBERS.get(kind)
    return (
        _without_class(value) if number is None else [number, *[_plain(getattr(value, name)) for name in _FIELDS[kind]]]
    )


def _without_class(value: Any) -> Any:
    if isinstance(value, tuple | list):  # most are, and to ask the abstract classes takes longer
        return [_TUPLE, *map(_plain, value)]
    if isinstance(value, np.ndarray):
        return [_ARRAY, value.dtype.str, value.tobytes()]
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, Sequence):
        return [_TUPLE, *map(_plain, value)]
    raise TypeError(f"{type(value).__name__} is not a value that travels")


def _large(value: object) -> Any:
    if isinstance(value, int):
        return msgpack.ExtType(*large_integer(value))
    raise TypeError(f"{type(value).__name__} is not a value that travels")


def decode(data: bytes) -> Any:
    """What ``encode`` made bytes of, with tuples for sequences. Raises DataLoss for bytes that it never makes."""
    try:
        return _value(msgpack.unpackb(data, **UNPACKING))
    except (ValueError, TypeError, LookupError, msgpack.UnpackException) as error:
        raise DataLoss(f"an answer does not read: {error}", where="a reading process") from error


def _value(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {name: _value(each) for name, each in plain.items()}
    if not isinstance(plain, list):
        return plain
    number, *rest = plain
    if number == _TUPLE:
        return tuple(map(_value, rest))
    if number == _ARRAY:
        dtype, content = rest
        return np.frombuffer(content, _DTYPES[dtype])
    if number < _FIRST_CLASS:
        raise ValueError(f"no class has the number {number}")
    return CLASSES[number - _FIRST_CLASS](*map(_value, rest))


T = TypeVar("T")
LARGE_MODULE: Final = 1 << 20
"""The index of a module of more bytes is made by a process that is asked for little else."""
_KEPT_AFTER_INDEX: Final = 4
"""How many modules, those asked about last, stay open when an index was made: uploads come by the thousand, and
nobody asks about most."""
_opened: Final = OpenedModules()


def request(module: ModuleFile, question: WorkerRequest[T]) -> bytes:
    """What ``answer`` is to be called with."""
    return encode((ModuleFile(module.digest, module.path, is_hashed=module.is_hashed), question))


def files(module: ModuleFile, question: WorkerRequest[T]) -> Iterator[tuple[str, int]]:
    """The files whose descriptors go with a ``request``, in this order, and the flags with which to open them; a
    descriptor that ``module`` has is the first."""
    yield module.path, os.O_RDONLY
    if isinstance(question, MakeIndex | WriteObject):
        yield question.into, os.O_RDWR


def answer(data: bytes, limits: Limits, descriptors: Sequence[int]) -> bytes:
    """The answer to a ``request``, as ``encode`` writes it; ``descriptors`` are those of its ``files``. A module stays
    open for the next question, unless it is large and its index was made."""
    module, question = decode(data)
    module = replace(module, descriptor=descriptors[0])
    if isinstance(question, MakeIndex | WriteObject):
        question = replace(question, descriptor=descriptors[1])
    opened = _opened.open(module, limits)
    if not isinstance(question, MakeIndex):
        return encode(question.answer(opened))
    collects = gc.isenabled()  # not in a daemon's process, which looks for garbage while nobody waits
    gc.disable()  # an index of thousands of objects makes hundreds of thousands of values and no garbage: a fifth of its time goes into looking
    try:
        return encode(question.answer(opened))
    finally:
        if collects:
            gc.enable()
        _opened.forget_but(0 if len(opened.data) > LARGE_MODULE else _KEPT_AFTER_INDEX)
