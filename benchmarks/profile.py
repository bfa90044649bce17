"""Where the time of one question goes: python -m benchmarks.profile SIGMA Q STEPS DELTA [--tolerance 1e-5]

Prints the warm time of the whole, of each stage of each direction, and the functions that cost most.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import pstats
import statistics
import time
from collections.abc import Callable
from typing import Any

from dpbudget.accounting import account, contour, lattice
from dpbudget.model import Adjacency, Release, SampledGaussian


def median(call: Callable[[], Any], rounds: int) -> float:
    """Median processor time of a call in milliseconds, after one to warm up."""
    call()
    times = []
    for _ in range(rounds):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return 1000 * statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description=__doc__)
    for name, kind in (("sigma", float), ("rate", float), ("steps", int), ("delta", float)):
        parser.add_argument(name, type=kind)
    parser.add_argument("--tolerance", type=float, default=account.DEFAULT_TOLERANCE)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--lines", type=int, default=25, help="functions to list")
    options = parser.parse_args()

    def ledger() -> account.Ledger:
        releases = [Release(SampledGaussian(options.sigma, options.rate), options.steps)]
        return account.Ledger.of(releases, Adjacency.ADD_OR_REMOVE_ONE)

    def whole() -> Any:
        return account.epsilon(ledger(), options.delta, tolerance=options.tolerance)

    answer = whole()
    print(f"epsilon in [{answer.lower!r}, {answer.upper!r}], estimate {answer.estimate!r}")
    print(f"{median(whole, options.rounds):8.2f} ms  whole answer")
    print(f"{median(lambda: ledger().directions, options.rounds):8.2f} ms  ledger and pairs")
    for name, parts in ledger().directions.items():
        guess = contour.epsilon(parts, options.delta)
        steer = median(lambda p=parts: contour.epsilon(p, options.delta), options.rounds)  # type: ignore[misc]
        print(f"{steer:8.2f} ms  {name}: estimate by contour")

        def certify(parts: Any = parts, guess: float | None = guess) -> lattice.Bracket:
            return lattice.certify_epsilon(parts, options.delta, tolerance=options.tolerance, guess=guess)

        found = certify()
        spent = median(certify, options.rounds)
        print(f"{spent:8.2f} ms  {name}: certificate, width {found.upper - found.lower:.1e}, {dict(found.detail)}")
    profile = cProfile.Profile()
    profile.runcall(whole)
    text = io.StringIO()
    pstats.Stats(profile, stream=text).sort_stats("tottime").print_stats(options.lines)
    kept = (line for line in text.getvalue().splitlines() if line.strip())
    print("\n".join(line.replace(str(account.__file__).rsplit("/", 2)[0], "dpbudget") for line in kept))


if __name__ == "__main__":
    main()
