"""What `check` tells a CI service beside its report: annotations, a job summary, outputs; also when it fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpbudget.cli import streams
from dpbudget.errors import DpbudgetError, InputError

if TYPE_CHECKING:
    from dpbudget.budgetfile.document import BudgetDocument
    from dpbudget.report import Report


@dataclass(frozen=True)
class Channels:
    """Where else the verdict goes. Files are appended to: other steps of the job write to them too."""

    annotate: bool
    summary: Path | None
    outputs: Path | None
    digits: int

    def report(self, report: Report, document: BudgetDocument, text: str) -> None:
        """A verdict was reached. `text` is the budget file, to find lines in."""
        from dpbudget.budgetfile.tomlscan import scan
        from dpbudget.render import github, numbers, renderer
        from dpbudget.render.style import Style

        if self.annotate:
            lines = {("", ""): scan(text).line("budget", "epsilon")}
            for entry in document.releases:
                lines |= {(entry.name, key): at for key, at in (entry.lines or {}).items()}
                lines[entry.name, ""] = entry.line
            streams.tell(github.render(report, annotated(document.filename), lines, self.digits))
        if self.summary is not None:
            markdown = renderer("markdown")(report, Style(digits=self.digits))
            self._append("summary", self.summary, f"### Privacy budget\n\n{markdown}\n")
        if self.outputs is not None:
            epsilon = numbers.quantity(report.value, self.digits)
            self._append("outputs", self.outputs, f"verdict={report.result['verdict']}\nepsilon={epsilon}\n")

    @contextmanager
    def failure(self) -> Iterator[None]:
        """Tell of an error on every channel, and let it pass."""
        try:
            yield
        except DpbudgetError as error:
            self._fail(error)
            raise

    def _fail(self, error: DpbudgetError) -> None:
        from dpbudget.render import github
        from dpbudget.render.markdown import escape

        problems = getattr(error, "problems", ())
        if self.annotate and problems:
            for problem in problems:
                message = str(problem).removeprefix(f"{problem.file}:{problem.line}: ")
                at = annotated(problem.file)
                streams.tell(github.line("error", message, file=at, at=problem.line))
        elif self.annotate:
            streams.tell(github.line("error", f"{error} {error.hint}".strip()))
        if self.summary is not None:
            told = error.message.split("\n") if problems else [f"{error} {error.hint}".strip()]
            items = "\n".join(f"- {escape(line)}" for line in told)
            self._append("summary", self.summary, f"### Privacy budget\n\n**no verdict**\n\n{items}\n\n")
        if self.outputs is not None:
            self._append("outputs", self.outputs, "verdict=error\nepsilon=\n")

    def _append(self, option: str, path: Path, text: str) -> None:
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise InputError(option, f"{path} can't be written: {error.strerror}") from None


def annotated(file: str) -> str:
    """The file as annotations name it: relative to the working directory; empty for standard input."""
    path = Path(file)
    if file == "<stdin>":
        return ""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
