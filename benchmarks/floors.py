"""What dpbudget's simulations take over the work that none of them can avoid: random numbers and matrix products."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Job = Callable[[], object]
CHUNK = 1 << 15  # values at a time, which stay in the cache
SAMPLES, STEPS = 2000, 1000
RECORDS, FEATURES, CLASSES, UPDATES = 4000, 64, 10, 150


def monte_carlo() -> tuple[Job, Job]:
    """Losses in both directions; unavoidable are a normal, an exponential and a logarithm for every step of one."""
    from dpbudget.montecarlo import sampling

    plans = [sampling.plan([sampling.Phase(1.0, 0.01, STEPS)], 1.8282, name) for name in sampling.DIRECTIONS]

    def ours() -> None:
        for plan in plans:
            sampling.sample_direction(plan, np.random.default_rng(0), samples=SAMPLES // 2, confidence=0.99)

    def bare() -> None:
        rng = np.random.default_rng(0)
        for _ in range(SAMPLES * STEPS // CHUNK):
            z = rng.standard_normal(CHUNK)
            np.expm1(z, out=z)
            np.log1p(z, out=z)

    return ours, bare


def training(batch: int) -> tuple[Job, Job]:
    """DP-SGD on a linear model; unavoidable are its two matrix products, the exponentials, norms and noise."""
    from dpbudget.simulate import data, dpsgd, model

    rng = np.random.default_rng(10)
    names = tuple("abcdefghij"[:CLASSES])
    inputs = rng.standard_normal((RECORDS, FEATURES))
    records = model.Table.of(data.Data(inputs, rng.integers(CLASSES, size=RECORDS), names, ()))
    rate = batch / RECORDS
    recipe = dpsgd.Recipe(
        noise_multiplier=1.0, clip_norm=1.0, rate=rate, batch_size=batch, steps=UPDATES, normaliser=float(batch),
        learning_rate=0.5,
    )  # fmt: skip

    def bare() -> None:
        weights = np.zeros((FEATURES + 1, CLASSES))
        for _ in range(UPDATES):
            rows = np.flatnonzero(rng.random(RECORDS) < rate)
            x, y = records.inputs[rows], records.targets[rows]
            residual = np.exp(x @ weights) - y
            norms = np.sqrt((x * x).sum(axis=1) * (residual * residual).sum(axis=1))
            total = x.T @ (residual * (1 / np.maximum(1.0, norms))[:, None])
            weights -= 0.0 * (total + rng.standard_normal(total.shape))

    return lambda: dpsgd.train(records, recipe, rng), bare


def measure(rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """{job: {"ours", "bare"}}, medians of processor seconds of alternating runs after one to warm up."""
    jobs = {
        f"privacy losses, {SAMPLES} samples of {STEPS} steps": monte_carlo(),
        f"DP-SGD, {UPDATES} steps, batch 64": training(64),
        f"DP-SGD, {UPDATES} steps, batch 512": training(512),
    }
    found = {}
    for name, pair in jobs.items():
        times: tuple[list[float], list[float]] = ([], [])
        for turn in range(2 * rounds + 1):
            for job, kept in zip(pair, times, strict=True):
                start = time.process_time()
                job()
                if turn:
                    kept.append(time.process_time() - start)
        found[name] = {"ours": statistics.median(times[0]), "bare": statistics.median(times[1])}
        say(name)
    return found
