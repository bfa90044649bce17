"""dpbudget compare: one run under every assumption."""

from __future__ import annotations

from dpbudget.cli import shell
from dpbudget.cli.options import DeltaOption, EngineOptions, OutputOptions, RunOptions, words
from dpbudget.errors import InputError
from dpbudget.report import Report


@words(hide=("history", "group_size", "microbatches"))
def compare(run: RunOptions, delta: DeltaOption, engine: EngineOptions, output: OutputOptions) -> None:
    """The same run under every accountant and assumption, side by side.

    dpbudget compare --sigma 1 -q 0.01 -t 1000 -d 1e-5
    """

    def build() -> Report:
        resolved = shell.run_of(run)
        if resolved.history:
            raise InputError(
                "history", "can't be compared: the sampling of one run is", hint="Pass --sigma, -q and -t."
            )
        if resolved.noise_multiplier == 0:
            raise InputError("noise_multiplier", "0 gives no guarantee under any assumption")
        if resolved.group_size != 1 or resolved.microbatches:
            raise InputError("group_size", "and --microbatches are rows of the table already", hint="Drop them.")
        at = shell.one_delta(delta, resolved)
        tolerance = shell.tolerance_of(engine)
        from dpbudget.answers import compare

        return compare.report(resolved, at, accountant=engine.accountant, tolerance=tolerance)

    shell.answer(output, build)
