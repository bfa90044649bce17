"""Writing a budget file: nothing is lost between writers, and a kill leaves the old file or the new one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_budgetfile import DESIGN, HEAD

from dpbudget.budgetfile import BudgetFileError, load, read
from dpbudget.budgetfile.edit import append_release
from dpbudget.budgetfile.store import create, update
from dpbudget.errors import InputError

APPEND = """
import sys
from dpbudget.budgetfile.edit import append_release
from dpbudget.budgetfile import load
from dpbudget.budgetfile.store import update
path, name, limit = sys.argv[1], sys.argv[2], float(sys.argv[3])
def change(text):
    spent = sum(entry.parameters["rho"] for entry in load(text, filename=path).releases)
    if spent + 1 > limit:
        raise SystemExit(3)
    return append_release(text, {"name": name, "status": "spent", "mechanism": "zcdp", "rho": 1})
update(path, change)
"""
ENDLESS = """
import sys
from dpbudget.budgetfile.store import update
path, count = sys.argv[1], 0
while True:
    count += 1
    update(path, lambda text: "".join(f"# {count}\\n" for _ in range(20000)))
"""


def files(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def writers(path: Path, count: int, limit: float) -> list[int]:
    started = [
        subprocess.Popen([sys.executable, "-c", APPEND, str(path), f"run {index}", str(limit)])
        for index in range(count)
    ]
    return [process.wait(timeout=300) for process in started]


def together(tmp_path: Path, count: int) -> None:
    path = tmp_path / "b.toml"
    path.write_text(HEAD)
    limit = count - 5
    codes = writers(path, count, limit)
    entries = load(read(path), filename="b.toml").releases
    assert sorted(codes) == [0] * limit + [3] * 5
    assert {entry.name for entry in entries} == {f"run {index}" for index, code in enumerate(codes) if code == 0}
    assert len(entries) == limit
    assert files(tmp_path) == ["b.toml"]


def test_writers_at_once_lose_nothing_and_never_overspend(tmp_path: Path) -> None:
    together(tmp_path, 30)


@pytest.mark.slow
def test_two_hundred_writers_at_once(tmp_path: Path) -> None:
    together(tmp_path, 200)


def test_a_kill_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    path.write_text("# 0\n" * 20000)
    for attempt in range(6):
        process = subprocess.Popen([sys.executable, "-c", ENDLESS, str(path)])
        before, deadline = path.stat().st_mtime_ns, time.monotonic() + 60
        while path.stat().st_mtime_ns == before and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(0.003 * attempt)  # the kill falls on another part of a write each time
        process.send_signal(signal.SIGKILL)
        process.wait()
        lines = read(path).splitlines()
        assert len(lines) == 20000
        assert len(set(lines)) == 1
    # What a killed writer left behind neither blocks nor outlives the next one.
    update(path, lambda text: text + "# more\n")
    assert files(tmp_path) == ["b.toml"]


def test_a_change_that_raises_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    path.write_text(DESIGN)
    before = path.stat()
    with pytest.raises(InputError):
        update(path, lambda text: append_release(text, {"name": "a", "rho": float("nan")}))
    with pytest.raises(ZeroDivisionError):
        update(path, lambda text: str(1 / 0))
    with pytest.raises(BudgetFileError, match="larger than 1 MB"):
        update(path, lambda text: "#" * 1_000_001)
    with pytest.raises(BudgetFileError, match="not UTF-8"):
        update(path, lambda text: "\ud800")
    update(path, lambda text: text)
    assert (path.read_text(), path.stat().st_ino, path.stat().st_mtime_ns) == (
        DESIGN,
        before.st_ino,
        before.st_mtime_ns,
    )
    assert files(tmp_path) == ["b.toml"]


def test_permissions_links_and_bytes_are_kept(tmp_path: Path) -> None:
    real = tmp_path / "real.toml"
    real.write_bytes(b"\xef\xbb\xbfa = 1\r\n")
    real.chmod(0o640)
    link = tmp_path / "link.toml"
    link.symlink_to("real.toml")
    assert update(link, lambda text: text + "b = 2\r\n") == "\ufeffa = 1\r\nb = 2\r\n"
    assert link.is_symlink()
    assert real.read_bytes() == b"\xef\xbb\xbfa = 1\r\nb = 2\r\n"
    assert real.stat().st_mode & 0o7777 == 0o640


def test_what_cannot_be_updated(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path in (tmp_path, tmp_path / "none", fifo, loop, "", "a\0b", tmp_path / ("x" * 300)):
        with pytest.raises(BudgetFileError):
            update(path, lambda text: text)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_file_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    path.write_text(DESIGN)
    path.chmod(0o444)
    with pytest.raises(BudgetFileError, match="read-only"):
        update(path, lambda text: "")


def test_create(tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    create(path, DESIGN)
    assert path.read_text() == DESIGN
    with pytest.raises(BudgetFileError, match="exists already"):
        create(path, "")
    assert path.read_text() == DESIGN
    create(path, HEAD, overwrite=True)
    assert path.read_text() == HEAD
    with pytest.raises(BudgetFileError, match="cannot be written"):
        create(tmp_path / "none" / "b.toml", "")
    for folder in (tmp_path, ".", "..", "/"):
        for overwrite in (False, True):
            with pytest.raises(BudgetFileError, match="is a folder"):
                create(folder, "", overwrite=overwrite)
    assert files(tmp_path) == ["b.toml"]
