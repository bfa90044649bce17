"""Writing a budget file: two writers at once lose nothing, a kill at any moment leaves the old file or the new one."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from errno import EACCES, ELOOP
from pathlib import Path

from dpbudget.budgetfile.document import BudgetFileError, Problem
from dpbudget.budgetfile.reading import MAX_BYTES, decode
from dpbudget.errors import InputError
from dpbudget.files import instead


def update(path: str | os.PathLike[str], change: Callable[[str], str]) -> str:
    """Replace the text of a file by change(text), and return the new text.

    The file is locked, then read, so that `change` sees what every earlier writer wrote; whatever `change` raises
    leaves the file as it is. A symbolic link stays a link; permissions are kept. Waits while another writer works.
    Raises BudgetFileError where the file cannot be read or written.
    """
    name = _name(path)
    try:
        real = _resolved(name)
        with _locked(real) as descriptor:
            before = _read(descriptor, name)
            after = change(before)
            if after != before:
                if not os.access(real, os.W_OK):
                    raise PermissionError(EACCES, "the file is read-only")
                _replace(real, _encoded(after, name), os.fstat(descriptor))
    except OSError as error:
        way_out = instead(path) or ("dpbudget init starts one." if isinstance(error, FileNotFoundError) else "")
        raise BudgetFileError(
            [Problem(name, 0, f"cannot be changed: {error.strerror or error}", suggestion=way_out)]
        ) from None
    return after


def create(path: str | os.PathLike[str], text: str, *, overwrite: bool = False) -> None:
    """Write a file that does not exist yet, or any with `overwrite`. Raises BudgetFileError."""
    name = _name(path)
    target = Path(name)
    try:
        if target.is_dir():
            raise FileExistsError
        if overwrite and target.exists():
            update(path, lambda _: text)
            return
        temporary = _temporary(target, f".{os.getpid()}")
        temporary.unlink(missing_ok=True)
        try:
            _write(temporary, _encoded(text, name), None)
            os.link(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
        _sync(target.parent)
    except FileExistsError:
        message, way_out = ("is a folder", "") if target.is_dir() else ("exists already", "Pass --force to replace it.")
        raise BudgetFileError([Problem(name, 0, message, suggestion=way_out)]) from None
    except OSError as error:
        raise BudgetFileError([Problem(name, 0, f"cannot be written: {error.strerror or error}")]) from None


def _name(path: str | os.PathLike[str]) -> str:
    name = os.fspath(path)
    if not name or "\0" in name:
        raise BudgetFileError([Problem(name or "''", 0, "is not a file name")])
    return name


def _resolved(name: str) -> Path:
    try:
        return Path(name).resolve(strict=True)
    except RuntimeError:  # a loop of links, before Python 3.13
        raise OSError(ELOOP, os.strerror(ELOOP)) from None


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    """An open descriptor of the file that the path names, under an exclusive lock.

    The lock is on the file itself, so that nothing is left lying about. A writer replaces the file; whoever waited
    for the old one then holds the lock of a file that has no name any more, and starts again with the new one.
    """
    try:
        import fcntl
    except ImportError:  # pragma: no cover
        raise InputError("", "files can be locked on Unix only", hint="Edit the file by hand.") from None
    while True:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _same(descriptor, path):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _read(descriptor: int, name: str) -> str:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise BudgetFileError([Problem(name, 0, "is not a file")])
    with os.fdopen(descriptor, "rb", closefd=False) as stream:
        data = stream.read(MAX_BYTES + 1)
    return decode(data, filename=name)


def _temporary(path: Path, suffix: str = "") -> Path:
    return path.with_name(f".{path.name}{suffix}.dpbudget-tmp")


def _encoded(text: str, name: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    decode(data, filename=name)  # the limits that hold for reading it back
    return data


def _replace(path: Path, data: bytes, old: os.stat_result) -> None:
    # Only the holder of the lock uses this name: what is there was left by a writer that was killed.
    temporary = _temporary(path)
    temporary.unlink(missing_ok=True)
    try:
        _write(temporary, data, old)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    # From here on the next writer may hold the lock and use the same name.
    temporary.replace(path)
    _sync(path.parent)


def _write(path: Path, data: bytes, like: os.stat_result | None) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666 if like is None else 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        if like is not None:
            if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
                with contextlib.suppress(PermissionError):
                    os.fchown(descriptor, like.st_uid, like.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
        os.fsync(descriptor)


def _sync(directory: Path) -> None:
    """Make the rename itself durable; where a directory cannot be opened for that, the file is still whole."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
