"""Reading the plain data in a pickle or a PyTorch checkpoint without executing anything that it names.

pickletools only splits the bytes into opcodes. The interpreter below builds lists, tuples, dicts and scalars; whatever
would import or call something becomes an `Opaque`, which remembers names and arguments and does nothing. Time and
memory are linear in the number of opcodes, which is bounded: containers are shared, never copied, hashed or printed.
"""

from __future__ import annotations

import io
import pickletools
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from dpbudget.errors import InputError
from dpbudget.files import instead

MAX_BYTES = 64_000_000
MAX_OPCODES = 1_000_000
MAX_DIRECTORY = 16_000_000
PICKLES_IN_A_FILE = 5  # the old format of torch.save: magic number, version, system, object, keys of the storages


@dataclass(slots=True, eq=False)
class Opaque:
    """Something that unpickling would have imported, called or fetched."""

    name: str
    args: object = None
    state: object = None
    items: dict[object, object] = field(default_factory=dict)


class PickleError(ValueError):
    """The bytes are not a pickle that can be read safely."""


def load_checkpoint(path: Path) -> Iterator[object]:
    """The objects in a file of torch.save (zip or older) or pickle.dump. Raises InputError where it cannot be read."""
    try:
        yield from _objects(_pickle_bytes(path))
    except (ValueError, zipfile.BadZipFile, zlib.error, struct.error, RuntimeError, EOFError) as error:
        # RuntimeError: an encrypted member, or a compression that zipfile does not know.
        raise InputError("", f"{path.name!r} is not a checkpoint that can be read: {error}") from None
    except OSError as error:
        raise InputError("", f"{path.name!r} cannot be read: {error.strerror or error}", hint=instead(path)) from None


def _pickle_bytes(path: Path) -> bytes:
    with path.open("rb") as stream:
        if stream.read(4) == b"PK\x03\x04":
            return _zip_member(stream)
        stream.seek(0)
        # Storages may follow the pickles of the older format.
        return stream.read(MAX_BYTES)


def _zip_member(stream: io.BufferedReader) -> bytes:
    _check_directory(stream)
    with zipfile.ZipFile(stream) as archive:
        found = [info for info in archive.infolist() if info.filename.split("/")[-1] == "data.pkl"]
        if len(found) != 1:
            raise PickleError(f"{len(found)} entries named data.pkl in the zip file, not one")
        if found[0].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise PickleError("data.pkl is compressed in an unusual way")
        with archive.open(found[0]) as member:
            data = member.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise PickleError("data.pkl is larger than 64 MB")
    return data


def _check_directory(stream: io.BufferedReader) -> None:
    """zipfile reads the whole directory into memory: refuse one that announces itself as huge."""
    end = stream.seek(0, io.SEEK_END)
    stream.seek(max(0, end - 66_000))
    tail = stream.read()
    sizes = [0]
    if 0 <= (at := tail.rfind(b"PK\x05\x06")) <= len(tail) - 22:
        size = struct.unpack_from("<I", tail, at + 12)[0]
        sizes += [size] if size != 0xFFFFFFFF else []
    if 0 <= (at := tail.rfind(b"PK\x06\x06")) <= len(tail) - 56:
        sizes.append(struct.unpack_from("<Q", tail, at + 40)[0])
    if max(sizes) > MAX_DIRECTORY:
        raise PickleError("the directory of the zip file is too large")


def _objects(data: bytes) -> Iterator[object]:
    stream = io.BytesIO(data)
    budget = MAX_OPCODES
    for _ in range(PICKLES_IN_A_FILE):
        if stream.tell() >= len(data):
            return
        machine = _Machine()
        budget = machine.run(stream, budget)
        yield machine.result


def loads(data: bytes) -> object:
    """The plain data of one pickle. Raises PickleError."""
    machine = _Machine()
    machine.run(io.BytesIO(data), MAX_OPCODES)
    return machine.result


LITERALS = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
EMPTY: dict[str, Callable[[], object]] = {
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": list,
}
IGNORED = {"PROTO", "FRAME", "READONLY_BUFFER"}
PUTS = {"PUT", "BINPUT", "LONG_BINPUT"}
GETS = {"GET", "BINGET", "LONG_BINGET"}


class _Machine:
    """The stack machine of pickle, with inert objects in place of imports and calls."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.result: object = None

    def run(self, stream: io.BytesIO, budget: int) -> int:
        """Execute up to STOP; return what is left of the budget of opcodes."""
        handlers = self.handlers()
        try:
            for opcode, argument, _ in pickletools.genops(stream):
                budget -= 1
                if budget < 0:
                    raise PickleError("more opcodes than a checkpoint has")
                if opcode.name == "STOP":
                    self.result = self.stack.pop()
                    return budget
                handlers[opcode.name](argument)
        except PickleError:
            raise
        except (IndexError, KeyError, TypeError, AttributeError):
            raise PickleError("the pickle is damaged") from None
        except (ValueError, OverflowError, MemoryError) as error:  # of pickletools
            raise PickleError(f"not a pickle: {str(error)[:80]}") from None
        raise PickleError("the pickle does not end")

    def handlers(self) -> dict[str, Callable[[Any], None]]:
        """What to do by the name of the opcode. Each takes the opcode's argument, None where it has none."""
        own = {name[3:].upper(): getattr(self, name) for name in dir(self) if name.startswith("op_")}
        constants = {name: partial(self.push_constant, value) for name, value in CONSTANTS.items()}
        empty = {name: partial(self.push_new, make) for name, make in EMPTY.items()}
        return {
            **dict.fromkeys(LITERALS, self.push),
            **dict.fromkeys(PUTS, self.put),
            **dict.fromkeys(GETS, self.get),
            **dict.fromkeys(IGNORED, self.ignore),
            **constants,
            **empty,
            **own,
        }

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def push_constant(self, value: Any, _: None) -> None:
        self.stack.append(value)

    def push_new(self, make: Callable[[], object], _: None) -> None:
        self.stack.append(make())

    def ignore(self, _: Any) -> None:
        pass

    def put(self, index: int) -> None:
        if not 0 <= index < 2**32:  # larger ones could be chosen to collide in the memo
            raise PickleError("the pickle is damaged")
        self.memo[index] = self.stack[-1]

    def get(self, index: int) -> None:
        self.stack.append(self.memo[index])

    def op_mark(self, _: None) -> None:
        self.marks.append(self.stack)
        self.stack = []

    def above_mark(self) -> list[Any]:
        above, self.stack = self.stack, self.marks.pop()
        return above

    def op_pop(self, _: None) -> None:
        if self.stack:
            self.stack.pop()
        else:
            self.above_mark()

    def op_pop_mark(self, _: None) -> None:
        self.above_mark()

    def op_dup(self, _: None) -> None:
        self.stack.append(self.stack[-1])

    def op_memoize(self, _: None) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def op_tuple(self, _: None) -> None:
        self.push(tuple(self.above_mark()))

    def op_tuple1(self, _: None) -> None:
        self.small_tuple(1)

    def op_tuple2(self, _: None) -> None:
        self.small_tuple(2)

    def op_tuple3(self, _: None) -> None:
        self.small_tuple(3)

    def small_tuple(self, size: int) -> None:
        if len(self.stack) < size:
            raise IndexError
        self.stack[-size:] = [tuple(self.stack[-size:])]

    def op_list(self, _: None) -> None:
        self.push(self.above_mark())

    op_frozenset = op_list

    def op_dict(self, _: None) -> None:
        items = self.above_mark()
        self.push({})
        self.set_items(items)

    def op_append(self, _: None) -> None:
        value = self.stack.pop()
        self.extend([value])

    def op_appends(self, _: None) -> None:
        self.extend(self.above_mark())

    op_additems = op_appends

    def extend(self, values: list[Any]) -> None:
        if isinstance(self.stack[-1], list):
            self.stack[-1].extend(values)

    def op_setitem(self, _: None) -> None:
        value = self.stack.pop()
        key = self.stack.pop()
        self.set_items([key, value])

    def op_setitems(self, _: None) -> None:
        self.set_items(self.above_mark())

    def set_items(self, flat: list[Any]) -> None:
        target = self.stack[-1]
        items = target.items if isinstance(target, Opaque) else target
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            # Other keys are not looked for, and their hashes can be chosen to collide or to take exponential time.
            if isinstance(key, str):
                items[key] = value

    def op_global(self, names: str) -> None:
        self.push(Opaque(names.replace(" ", ".", 1)))

    def op_stack_global(self, _: None) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if not (isinstance(name, str) and isinstance(module, str)):
            raise TypeError
        self.push(Opaque(f"{module}.{name}"))

    def op_reduce(self, _: None) -> None:
        args, function = self.stack.pop(), self.stack.pop()
        self.push(Opaque(_name(function), args))

    op_newobj = op_reduce

    def op_newobj_ex(self, _: None) -> None:
        self.stack.pop()
        self.op_reduce(None)

    def op_inst(self, names: str) -> None:
        self.push(Opaque(names.replace(" ", ".", 1), tuple(self.above_mark())))

    def op_obj(self, _: None) -> None:
        function, *args = self.above_mark()
        self.push(Opaque(_name(function), tuple(args)))

    def op_build(self, _: None) -> None:
        state = self.stack.pop()
        if isinstance(self.stack[-1], Opaque):
            self.stack[-1].state = state

    def op_binpersid(self, _: None) -> None:
        self.stack.pop()
        self.push(Opaque("persistent id"))

    def op_persid(self, _: str) -> None:
        self.push(Opaque("persistent id"))

    def op_ext1(self, _: int) -> None:
        self.push(Opaque("extension"))

    op_ext2 = op_ext4 = op_ext1

    def op_next_buffer(self, _: None) -> None:
        self.push(Opaque("buffer"))


def _name(function: object) -> str:
    return function.name if isinstance(function, Opaque) else "?"


NUMPY_SCALARS = {"f8": "<d", "f4": "<f", "i8": "<q", "i4": "<i"}


def numpy_scalar(value: Opaque) -> float | int | None:
    """The number in a pickled little-endian NumPy scalar (such as one from numpy.linspace); None for all else."""
    if not (value.name.endswith("multiarray.scalar") and isinstance(value.args, tuple) and len(value.args) == 2):
        return None
    dtype, data = value.args
    if isinstance(data, Opaque) and data.name == "_codecs.encode" and isinstance(data.args, tuple):
        # Protocol 2 has no bytes: they are written as text that an encoder would turn back.
        text = data.args[0] if data.args else None
        data = text.encode("latin-1", "ignore") if isinstance(text, str) else None
    if not (isinstance(dtype, Opaque) and isinstance(dtype.args, tuple) and isinstance(data, bytes)):
        return None
    code = dtype.args[0] if dtype.args else None
    order = dtype.state[1] if isinstance(dtype.state, tuple) and len(dtype.state) > 1 else None
    form = NUMPY_SCALARS.get(code) if isinstance(code, str) and order == "<" else None
    if form is None or len(data) != struct.calcsize(form):
        return None
    number: float | int = struct.unpack(form, data)[0]
    return number
