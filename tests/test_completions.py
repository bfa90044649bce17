"""The completion scripts, in the real shells: what TAB inserts and offers, from the committed files."""

from __future__ import annotations

import fcntl
import importlib
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from dpbudget.cli import app
from dpbudget.model import Adjacency, Sampling
from dpbudget.render import FORMATS

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "completions"
SHOW, ALL = "\x18p", "\x18a"  # keys bound below: print the line as it stands; insert every candidate

BASHRC = """\
PS1='READY> '
bind 'set bell-style none' 'set enable-bracketed-paste off'
bind '"\\C-xa": insert-completions'
bind -x '"\\C-xp": printf "<<<%s>>>" "$READLINE_LINE"'
{prepare}
"""
ZSHRC = """\
PS1='READY> '
bindkey -e
show() {{ print -rn -- "<<<$BUFFER>>>" }}
zle -N show
bindkey '^Xp' show
zle -C all complete-word _generic
bindkey '^Xa' all
zstyle ':completion:all:*' completer _all_matches _complete
zstyle ':completion:all:*' insert true
zstyle ':completion:all:*' verbose no
{prepare}
"""
AUTOLOADED = "fpath=({0} $fpath); autoload -Uz compinit; compinit -u -D"
SOURCED = "autoload -Uz compinit; compinit -u -D; source {0}/_dpbudget"


class Terminal:
    """An interactive shell behind a pseudo-terminal."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._terminal, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 250, 0, 0))
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "ZDOTDIR": str(folder)}
        self._process = subprocess.Popen(
            command, stdin=inner, stdout=inner, stderr=inner, cwd=folder, start_new_session=True,
            env={**environment, "TERM": "vt100", "LC_ALL": "C"},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(inner)
        self._seen = b""
        self.until("READY> ")

    def until(self, mark: str, seconds: float = 20) -> str:
        end = time.monotonic() + seconds
        while mark.encode() not in self._seen:
            if not time.monotonic() < end:
                raise AssertionError(f"{mark!r} did not come; so far: {self._seen!r}")
            if select.select([self._terminal], [], [], 0.2)[0]:
                self._seen += os.read(self._terminal, 65536)
        before, _, self._seen = self._seen.partition(mark.encode())
        return before.decode(errors="replace").replace("\0", "")

    def press(self, keys: str) -> tuple[str, str]:
        """What was drawn meanwhile, and the line that stands there afterwards; then the line is cleared."""
        os.write(self._terminal, (keys + SHOW).encode())
        drawn, line = self.until("<<<"), self.until(">>>")
        os.write(self._terminal, b"\x05\x15")
        return drawn, line

    def tab(self, typed: str) -> str:
        return self.press(typed + "\t")[1]

    def offers(self, typed: str) -> set[str]:
        """Every candidate for the last word, without the = or comma that zsh adds and takes back."""
        before = typed.rpartition(" ")[0]
        line = self.press(typed + ALL)[1]
        assert line.startswith(before)
        return {word.rstrip("=,") for word in line.removeprefix(before).split()} - {typed.rpartition(" ")[2]}

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)


def folder_with_files(folder: Path) -> Path:
    for name in ("my notes.csv", "other.csv", "other.toml"):
        (folder / name).touch()
    return folder


def start(shell: str, folder: Path, prepare: str = "") -> Terminal:
    """A shell that has read the committed script, or `prepare` instead, and no configuration of the machine's."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    folder_with_files(folder)
    if shell == "bash":
        (folder / "bashrc").write_text(BASHRC.format(prepare=prepare or f"source {SCRIPTS}/dpbudget.bash"))
        return Terminal(["bash", "--noprofile", "--rcfile", str(folder / "bashrc"), "-i"], folder)
    (folder / ".zshrc").write_text(ZSHRC.format(prepare=prepare or AUTOLOADED.format(SCRIPTS)))
    return Terminal(["zsh", "-d", "-i"], folder)


@pytest.fixture(scope="module", params=["bash", "zsh"])
def terminal(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    shell = start(request.param, tmp_path_factory.mktemp(request.param))
    yield shell
    shell.close()


def fish(line: str, folder: Path, script: Path = SCRIPTS / "dpbudget.fish") -> dict[str, str]:
    """The candidates for the last word of the line, each with its description."""
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    home = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), "XDG_DATA_HOME": str(folder / "data")}
    done = subprocess.run(
        ["fish", "-c", "source $argv[1]; complete -C $argv[2]", str(script), line],
        cwd=folder, env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **home},
        capture_output=True, text=True, check=True, timeout=20,
    )  # fmt: skip
    assert not done.stderr
    return {name: help for name, _, help in (found.partition("\t") for found in done.stdout.splitlines())}


def generator(monkeypatch: pytest.MonkeyPatch, module: str) -> Any:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module(f"generator.{module}")


def leaves(command: Any, path: str) -> Iterator[tuple[str, set[str]]]:
    """Each command, as it is typed, with the names of its options: read without the generator, whose mistakes count."""
    for name, below in getattr(command, "commands", {}).items():
        shown = [p for p in below.params if not getattr(p, "hidden", False)]
        yield f"{path} {name}", {n for p in shown for n in p.opts if n[0] == "-"} | {"-h", "--help"}
        yield from leaves(below, f"{path} {name}")


COMMAND_LINE: Any = typer.main.get_command(app)
NAMES = dict(leaves(COMMAND_LINE, "dpbudget"))
ACCOUNTANTS = "pld rdp rdp-classic moments basic strong kov kov-exact zcdp gdp-clt rule-of-thumb all"
CLOSED = {
    "--sampling": {str(value) for value in Sampling},
    "--adjacency": {str(value) for value in Adjacency},
    "--format": set(FORMATS),
    "--unit": {"example", "client", "user"},
    "--loader": {"exact", "opacus", "tf-privacy"},
    "--noise-on": {"sum", "mean"},
    "--accountant": set(ACCOUNTANTS.split()),
}


def test_committed_files_are_what_the_command_line_generates() -> None:
    done = subprocess.run([sys.executable, SCRIPTS / "generate.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, f"run `make completions`:\n{done.stdout[-2000:]}{done.stderr}"


@pytest.mark.parametrize("script", ["dpbudget.bash", "_dpbudget", "dpbudget.fish"])
def test_scripts_start_no_program_and_hold_no_machine_path(script: str) -> None:
    text = (SCRIPTS / script).read_text(encoding="utf-8")
    assert "python" not in text.lower()
    assert str(ROOT) not in text
    assert text.splitlines()[0]  # compinit passes over a file whose first line is empty
    assert (script == "_dpbudget") == (text.splitlines()[0] == "#compdef dpbudget")


@pytest.mark.parametrize("typed, line", [
    ("dpbudget eps", "dpbudget epsilon "),
    ("dpbudget --ver", "dpbudget --version "),
    ("dpbudget epsilon --samp", "dpbudget epsilon --sampling"),
    ("dpbudget epsilon --sampling p", "dpbudget epsilon --sampling poisson "),
    ("dpbudget epsilon --sampling=p", "dpbudget epsilon --sampling=poisson "),
    ("dpbudget epsilon -s 1 -f j", "dpbudget epsilon -s 1 -f json "),
    ("dpbudget epsilon --unit=user --sampling b", "dpbudget epsilon --unit=user --sampling balls-in-bins "),
    ("dpbudget epsilon --sigma 0.8:2:7 --format m", "dpbudget epsilon --sigma 0.8:2:7 --format markdown "),
    ("dpbudget epsilon --output my", r"dpbudget epsilon --output my\ notes.csv "),
    ("dpbudget epsilon --output=my", r"dpbudget epsilon --output=my\ notes.csv "),
    ('dpbudget epsilon --history "my', 'dpbudget epsilon --history "my notes.csv" '),
    ("dpbudget epsilon --sigma ", "dpbudget epsilon --sigma "),  # a number: no files are offered
    ("dpbudget epsilon --json > my", r"dpbudget epsilon --json > my\ notes.csv "),
    ("/opt/bin/dpbudget eps", "/opt/bin/dpbudget epsilon "),
])  # fmt: skip
def test_tab_inserts(terminal: Terminal, typed: str, line: str) -> None:
    assert terminal.tab(typed) == line


def test_tab_offers_every_command(terminal: Terminal) -> None:
    assert terminal.offers("dpbudget ") == set(COMMAND_LINE.commands)
    assert terminal.offers("dpbudget --") == {"--version", "--help"}


@pytest.mark.parametrize("option", CLOSED)
def test_tab_offers_a_closed_set(terminal: Terminal, option: str) -> None:
    assert terminal.offers(f"dpbudget epsilon {option} ") == CLOSED[option]
    found = terminal.offers(f"dpbudget epsilon {option}=")
    assert {word.removeprefix(f"{option}=") for word in found} == CLOSED[option]


def test_tab_offers_every_option_of_every_command(terminal: Terminal) -> None:
    for command, names in NAMES.items():
        assert terminal.offers(f"{command} -") == names, command


def test_tab_continues_a_list(terminal: Terminal) -> None:
    assert terminal.tab("dpbudget epsilon -a pld,mo").rstrip(" ,") == "dpbudget epsilon -a pld,moments"
    assert terminal.tab("dpbudget epsilon --accountant=pld,mo").rstrip(" ,").endswith("=pld,moments")
    assert terminal.offers("dpbudget epsilon -a pld,k") == {"pld,kov", "pld,kov-exact"}


def test_bash_where_the_equals_sign_splits_no_word(tmp_path: Path) -> None:
    shell = start("bash", tmp_path, f'COMP_WORDBREAKS=${{COMP_WORDBREAKS//[=:]/}}; source "{SCRIPTS}/dpbudget.bash"')
    assert shell.tab("dpbudget epsilon --sampling=p") == "dpbudget epsilon --sampling=poisson "
    assert shell.tab("dpbudget epsilon --accountant=pld,mo") == "dpbudget epsilon --accountant=pld,moments "
    shell.close()


@pytest.mark.parametrize("prepare", [AUTOLOADED, SOURCED], ids=["autoloaded", "sourced"])
@pytest.mark.parametrize("typed, line", [
    ("dpbudget eps", "dpbudget epsilon "),
    ("dpbudget epsilon --sampling p", "dpbudget epsilon --sampling poisson "),
])  # fmt: skip
def test_zsh_answers_the_very_first_tab(tmp_path: Path, prepare: str, typed: str, line: str) -> None:
    shell = start("zsh", tmp_path, prepare.format(SCRIPTS))
    assert shell.tab(typed) == line
    shell.close()


def test_zsh_sourced_from_its_own_folder(tmp_path: Path) -> None:
    """There the sourced file has the function's name, and must not take itself for autoloaded."""
    shell = start("zsh", tmp_path, f"autoload -Uz compinit; compinit -u -D; cd {SCRIPTS}; source _dpbudget; cd -")
    assert shell.tab("dpbudget eps") == "dpbudget epsilon "
    shell.close()


def test_zsh_shows_the_help_beside_the_names(tmp_path: Path) -> None:
    shell = start("zsh", tmp_path)
    assert "What a training run costs: epsilon at a delta." in shell.press("dpbudget e\t")[0]
    assert "Chance of a record to be in a batch." in shell.press("dpbudget epsilon --samp\t\t")[0]
    shell.close()


def test_fish_commands_and_options(tmp_path: Path) -> None:
    assert fish("dpbudget eps", tmp_path) == {"epsilon": "What a training run costs: epsilon at a delta."}
    assert set(fish("dpbudget ", tmp_path)) == set(COMMAND_LINE.commands)
    for command, names in NAMES.items():
        found = fish(f"{command} -", tmp_path)
        assert set(found) == names, command
        assert all(found.values()), command


@pytest.mark.parametrize("option", CLOSED)
def test_fish_closed_sets(tmp_path: Path, option: str) -> None:
    assert set(fish(f"dpbudget epsilon {option} ", tmp_path)) == CLOSED[option]
    assert set(fish(f"dpbudget epsilon {option}=", tmp_path)) == {f"{option}={value}" for value in CLOSED[option]}


def test_fish_lists_files_and_numbers(tmp_path: Path) -> None:
    folder_with_files(tmp_path)
    assert set(fish("dpbudget epsilon -a pld,k", tmp_path)) == {"pld,kov", "pld,kov-exact"}
    assert set(fish("dpbudget epsilon --accountant=pld,k", tmp_path)) == {
        "--accountant=pld,kov", "--accountant=pld,kov-exact"}  # fmt: skip
    assert set(fish("dpbudget epsilon -o o", tmp_path)) == {"other.csv", "other.toml"}
    assert set(fish("dpbudget epsilon --output=my", tmp_path)) == {"--output=my notes.csv"}
    assert fish("dpbudget epsilon --sigma ", tmp_path) == {}
    assert fish("dpbudget epsilon --sampling delta --max-e", tmp_path)  # a value is not taken for the command


HOSTILE = 'It\'s [a]: `b` $HOME "c" \\d'


def small_app() -> typer.Typer:
    """What the command line does not have, or not in every version: arguments, groups, hostile help."""
    small = typer.Typer(add_completion=False, rich_markup_mode=None)
    group = typer.Typer(rich_markup_mode=None)

    @small.command("check")
    def check(file: Annotated[str, typer.Argument(metavar="FILE.toml")]) -> None:
        """It's 100 % [bracketed]: `a` $HOME "quoted" \\ back."""

    @small.command("import")
    def import_(
        kind: Annotated[str, typer.Argument(metavar="opacus|flower|csv")],
        states: Annotated[list[str], typer.Argument(metavar="FILE")],
        noise: Annotated[str, typer.Option("--noise", help=HOSTILE, metavar="a:b")] = "",
    ) -> None:
        """Read states."""

    @group.callback(invoke_without_command=True)
    def simulate(sigma: Annotated[str, typer.Option("--sigma", "-s", metavar="NUMBER")] = "") -> None:
        """Run it."""

    @group.command("federated")
    def federated(mode: Annotated[str, typer.Option("--mode", metavar="fast|slow")] = "fast") -> None:
        """Together."""

    small.add_typer(group, name="simulate")
    small.callback()(lambda: None)
    return small


SMALL = [
    ("dpbudget check oth", {"other.csv", "other.toml"}),
    ("dpbudget import ", {"opacus", "flower", "csv"}),
    ("dpbudget import csv oth", {"other.csv", "other.toml"}),
    ("dpbudget import csv other.csv oth", {"other.csv", "other.toml"}),
    ("dpbudget simulate fed", {"federated"}),
    ("dpbudget simulate -s 1 fed", {"federated"}),
    ("dpbudget simulate --sigma federated federated --mode ", {"fast", "slow"}),
    ("dpbudget import --no", {"--noise"}),
]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_arguments_groups_and_hostile_help(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shell: str) -> None:
    render: Callable[[Any], str] = generator(monkeypatch, shell).render
    script = tmp_path / ("_dpbudget" if shell == "zsh" else "dpbudget.bash")
    script.write_text(render(generator(monkeypatch, "tree").root(small_app())))
    terminal = start(shell, tmp_path, AUTOLOADED.format(tmp_path) if shell == "zsh" else f"source {script}")
    for typed, wanted in SMALL:
        assert terminal.offers(typed) == wanted, typed
    if shell == "zsh":
        assert HOSTILE in terminal.press("dpbudget import --\t\t")[0]
        assert "It's 100 % [bracketed]: `a` $HOME" in terminal.press("dpbudget \t\t")[0]
    terminal.close()


def test_arguments_groups_and_hostile_help_in_fish(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = folder_with_files(tmp_path) / "small.fish"
    script.write_text(generator(monkeypatch, "fish").render(generator(monkeypatch, "tree").root(small_app())))
    for typed, wanted in SMALL:
        assert wanted <= set(fish(typed, tmp_path, script)), typed
    assert fish("dpbudget import --no", tmp_path, script) == {"--noise": HOSTILE}


def test_no_value_is_offered_that_the_help_does_not_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed set stands in the help too, whole or with "...": whoever reads the help knows what TAB knows."""
    for command in generator(monkeypatch, "tree").root().walk():
        for parameter in (*command.options, *command.arguments):
            told = f"{parameter.metavar} {parameter.help}"
            missing = [choice for choice in parameter.choices if choice not in told]
            assert not missing or "..." in told, (command.path, parameter.names, missing)
