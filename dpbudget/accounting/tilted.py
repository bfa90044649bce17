"""A part under the tilt e^{tL}: its cumulants, its characteristic function, and the tilt that suits a delta or an epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbudget.accounting.discretise import ROUND
from dpbudget.accounting.pair import Array
from dpbudget.accounting.quadrature import Nodes, place_nodes, refine_panels

DRIFT = 0.1
"""Log of the error of M(t) where it only normalises the budget of what is left out."""


class TooRough(Exception):
    """The characteristic function does not decay soon enough; the lattice has to answer."""


def log_gmax(t: float) -> float:
    """log max_s e^{-ts} (1 - e^{-s}) = t log t - (1 + t) log(1 + t)."""
    return float(-t * np.log1p(1 / t) - np.log1p(t))


@dataclass(frozen=True)
class Tilted:
    """One part at a tilt t: normalised masses, centred losses and the cumulants that the bounds need.

    log_moment: log E[e^{tL}] over the truncated part; moment_error bounds the error of its T-fold multiple.
    phase_slope: the error of E_t[e^{iy(L - mean)}] is at most |y| * phase_slope (round-off).
    """

    nodes: Nodes
    weight: Array
    centred: Array
    mean: float
    variance: float
    log_moment: float
    moment_error: float
    phase_slope: float


def tilt_nodes(nodes: Nodes, t: float) -> Tilted:
    """log E[e^{tL}] as log1p of E[expm1(tL)]: no cancellation however close to 1 the moment is."""
    loss, mass, n = nodes.loss, nodes.mass, nodes.count
    per_sum = ROUND * (loss.size + 32)
    with np.errstate(under="ignore", over="ignore"):
        top = max(0.0, float((t * loss).max()) - 600.0)
        grown = mass * np.exp(t * loss - top)
        change = mass * np.expm1(t * loss) if top == 0.0 else grown
        if top == 0.0:
            excess = float(change.sum()) - (1.0 - nodes.finite)
            log_moment = float(np.log1p(excess))
            moment = 1.0 + excess
        else:
            moment = float(grown.sum())
            log_moment = top + float(np.log(moment))
        each = nodes.rounding + per_sum + 8 * ROUND * (1 + t * np.abs(loss))
        blur = float(np.abs(change) @ each) + nodes.dropped + 4 * ROUND * abs(1 - nodes.finite)
    weight = grown / moment
    mean = float(weight @ loss)
    centred = loss - mean
    spread = np.abs(centred)
    slope = float(
        weight @ (spread * (nodes.rounding + per_sum + 16 * ROUND * (1 + t * np.abs(loss))) + 4 * ROUND * np.abs(loss))
    ) + 4 * ROUND * abs(mean)
    return Tilted(nodes, weight, centred, mean, float(weight @ centred**2), log_moment, n * blur / moment * 1.01, slope)


def settled(part: Nodes, t: float, steps: int) -> Tilted:
    """The part at tilt t, on panels that give its moment so well that all steps together move M(t) by e^DRIFT at most."""
    tilted = tilt_nodes(part, t)
    allowed = tilted.log_moment + float(np.log(min(1e-9, 0.5 * DRIFT / steps)))
    edges, log_error = refine_panels(part.pair, part.edges, t, 0.0, allowed)
    if not log_error <= allowed:
        raise TooRough
    if edges.size == part.edges.size:
        return tilted
    return tilt_nodes(place_nodes(part.pair, part.count, edges), t)


def characteristic(part: Tilted, y: Array) -> NDArray[np.complex128]:
    """E_t[e^{iy(L - mean)}] - 1 at each y, by half angles: relative to the deviation, not to 1."""
    half = y[:, None] * (part.centred / 2)
    sine, cosine = np.sin(half), np.cos(half)
    out = np.empty(y.size, dtype=np.complex128)
    out.real = -2 * ((sine * sine) @ part.weight)
    out.imag = 2 * ((sine * cosine) @ part.weight)
    return out


def characteristic_grid(part: Tilted, step: float, count: int) -> NDArray[np.complex128]:
    """`characteristic` at 0, step, 2 step, ...: e^{i(a+b)} - 1 = (e^{ia} - 1) e^{ib} + (e^{ib} - 1) as one product."""
    grid = step * np.arange(count, dtype=np.float64)
    if count < 24:
        return characteristic(part, grid)
    block = int(np.ceil(np.sqrt(count)))
    blocks = -(-count // block)
    coarse = _turns(part.centred, step * block * np.arange(blocks, dtype=np.float64))
    fine = _turns(part.centred, grid[:block])
    out = ((coarse + 1) * part.weight) @ fine.T + (coarse @ part.weight)[:, None]
    return np.asarray(out.ravel()[:count])


def _turns(angle: Array, y: Array) -> NDArray[np.complex128]:
    """e^{i y angle} - 1, shape (y, angle), relative to its own size."""
    half = y[:, None] * (angle / 2)
    sine, cosine = np.sin(half), np.cos(half)
    out = np.empty(half.shape, dtype=np.complex128)
    out.real = -2 * sine * sine
    out.imag = 2 * sine * cosine
    return out


def find_tilt(parts: Sequence[Nodes], log_delta: float | None, epsilon: float | None) -> float:
    """The t of the best Chernoff bound: t K' - K + log(1 + t) = -log delta, or K' + log(t / (1 + t)) = epsilon.

    Newton in log t inside a bracket. Its accuracy does not matter for the validity of the bounds.
    """
    loss = np.concatenate([part.loss for part in parts])
    counts = np.concatenate([np.full(part.loss.size, float(part.count)) for part in parts])
    splits = np.cumsum([0] + [part.loss.size for part in parts])
    mass = np.concatenate([part.mass for part in parts])
    spread = float(np.sqrt((counts * mass) @ loss**2))
    with np.errstate(divide="ignore"):
        log_mass = np.log(mass)
    drop = 30.0 if log_delta is None else -log_delta
    low, high, u = -np.inf, np.inf, float(np.log(np.sqrt(2 * drop) / max(spread, 1e-300)))
    for _ in range(60):
        t = float(np.exp(u))
        k = slope = curve = 0.0
        for j, part in enumerate(parts):
            section = slice(splits[j], splits[j + 1])
            x = loss[section]
            exponent = log_mass[section] + t * x  # in logarithms: a large t leaves only nodes of next to no mass
            top = float(exponent.max())
            with np.errstate(under="ignore"):
                w = np.exp(exponent - top)
            total = float(w.sum())
            mean = float(w @ x) / total
            k += part.count * (top + float(np.log(total)))
            slope += part.count * mean
            curve += part.count * float(w @ (x - mean) ** 2) / total
        if log_delta is not None:
            value = t * slope - k + float(np.log1p(t)) + log_delta
            steep = t * (t * curve + 1 / (1 + t))
        else:
            value = slope + float(np.log(t / (1 + t))) - (epsilon or 0.0)
            steep = t * curve + 1 / (1 + t)
        if value > 0:
            high = min(high, u)
        else:
            low = max(low, u)
        step = value / max(steep, 1e-300)
        if log_delta is not None and value > log_delta / 2:
            ratio = (value - log_delta) / -log_delta  # Newton on the logarithm: psi grows like t^2
            step = np.log(ratio) * (value - log_delta) / max(steep, 1e-300)
        following = u - float(np.clip(step, -3.0, 3.0))
        if not (low < following < high):
            following = (low + high) / 2 if np.isfinite(low + high) else following
        if abs(following - u) < 1e-4:
            return float(np.exp(following))
        u = following
    return float(np.exp(u))
