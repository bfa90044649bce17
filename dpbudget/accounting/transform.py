"""The characteristic function of the tilted loss along the contour, and the trapezoid sum that turns it into delta."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbudget.accounting.core import Core
from dpbudget.accounting.cumulant import Quadrature
from dpbudget.accounting.saddle import Cut, NoConvergence, Nodes, Saddle

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

MAX_WORK = 400_000_000  # nodes in x times nodes in y
DECAYED = 32.0  # the integrand is over where it has fallen by e^-32


def _tilted(nodes: Quadrature, t: float) -> tuple[Array, Array, Array]:
    """The tilted law on the nodes that matter: probabilities p', losses, losses around their mean; shapes (n,)."""
    exponent = t * nodes.loss + nodes.log_weight
    with np.errstate(under="ignore"):
        p = np.exp(exponent - np.max(exponent))
    p /= np.sum(p)
    keep = p > 1e-24
    p, loss = p[keep], nodes.loss[keep]
    return p, loss, loss - p @ loss


def _log_turn(real: Array, imag: Array) -> Complex:
    """log(1 + real + i imag); the modulus is floored at 1e-8, far below what a sum of steps can see."""
    size = 0.5 * np.log1p(np.maximum(2.0 * real + real * real + imag * imag, -1.0 + 1e-16))
    return np.asarray(size + 1j * np.arctan2(imag, 1.0 + real))


def _log_rest(share: Complex) -> Complex:
    """log(1 - share), where a share of exactly 1 leaves 1e-16."""
    return np.asarray(np.log1p(np.where(share == 1.0, -1.0 + 1e-16, -share)))


def _log_outside(cores: Complex) -> Complex:
    """log(1 - e^cores), floored at log 1e-300."""
    left = -np.expm1(cores)
    return np.asarray(np.log(np.where(left == 0.0, 1e-300, left)))


def _phase(parts: Nodes, t: float, y: Array, core: Core | None = None) -> Complex:
    """K(t + iy) - K(t) - iy K'(t), shape of y, with small absolute error also after 1e9 steps.

    With p' the tilted law and d = L - E_{p'}[L]: log(1 + E_{p'}[e^{iyd} - 1]), where e^{ia} - 1 = -2 sin^2(a/2) + 2i
    sin(a/2) cos(a/2) has no cancellation. With a core, log(M^T - M_core^T) in place of log M^T.
    """
    total = np.zeros(y.size, dtype=np.complex128)
    cores = np.zeros(y.size, dtype=np.complex128)
    for j, (nodes, count) in enumerate(parts):
        p, loss, d = _tilted(nodes, t)
        half = np.multiply.outer(y / 2.0, d)
        sine = np.sin(half)
        real, imag = -2.0 * np.square(sine), 2.0 * (sine * np.cos(half))
        turn = np.asarray(real @ p + 1j * (imag @ p), dtype=np.complex128)
        total += count * _log_turn(turn.real, turn.imag)
        if core is not None:
            rest = p * core.outside(loss, j)
            cores += count * _log_rest(((1.0 + real + 1j * imag) @ rest) / (1.0 + turn))
    return total if core is None else total + _log_outside(cores)


def _phase_grid(parts: Nodes, t: float, y: Array, step: float, core: Core | None) -> Complex:
    """_phase on equidistant y, as a product of two thin matrices: e^{i(a B + b)} = e^{iaB} e^{ib}.

    Absolute error about 1e-16 times the number of steps.
    """
    inner = math.ceil(math.sqrt(y.size))
    outer = math.ceil(y.size / inner)
    low, high = step * np.arange(inner), y[0] + step * inner * np.arange(outer)
    total = np.zeros(y.size, dtype=np.complex128)
    cores = np.zeros(y.size, dtype=np.complex128)
    for j, (nodes, count) in enumerate(parts):
        p, loss, d = _tilted(nodes, t)
        rest = p * core.outside(loss, j) if core is not None else p[:0]
        whole = np.zeros((outer, inner), dtype=np.complex128)
        outside = np.zeros((outer, inner), dtype=np.complex128)
        for i in range(0, d.size, 4096):
            rows = slice(i, i + 4096)
            left = np.exp(1j * np.multiply.outer(high, d[rows]))
            right = np.exp(1j * np.multiply.outer(d[rows], low))
            whole += (left * p[rows]) @ right
            if core is not None:
                outside += (left * rest[rows]) @ right
        flat = whole.ravel()[: y.size] - np.sum(p)
        total += count * _log_turn(flat.real, flat.imag)
        if core is not None:
            cores += count * _log_rest(outside.ravel()[: y.size] / (1.0 + flat))
    return total if core is None else total + _log_outside(cores)


def _atoms_survive(parts: Nodes, t: float, core: Core | None) -> bool:
    """Whether the characteristic function may come back however far y goes: the atoms' share of the tilted law, to the T.

    With a core, atoms inside it are gone with it, so that only atoms outside matter.
    """
    share, outside = 0.0, core is None
    for j, (nodes, count) in enumerate(parts):
        exponent = t * nodes.loss + nodes.log_weight
        with np.errstate(under="ignore"):
            p = np.exp(exponent - np.max(exponent))
        at = p[p.size - nodes.atoms :]
        share += count * math.log(max(float(np.sum(at)) / float(np.sum(p)), 1e-300))
        if core is not None and nodes.atoms > 0:
            outside = outside or bool(np.any(at * core.outside(nodes.loss[-nodes.atoms :], j) > 1e-18 * np.sum(p)))
    return outside and share > -DECAYED


def _reach(cut: Cut, t: float, unit: float, core: Core | None) -> float:
    """A y beyond which the integrand has fallen by e^-DECAYED, from a scan of powers of 1.3 upwards from `unit`."""
    if _atoms_survive(cut.nodes(t, t), t, core):
        raise NoConvergence
    y = unit * 1.3 ** np.arange(-4.0, 4.0)
    start = float(_phase(cut.nodes(t, t), t, np.zeros(1), core)[0].real)
    for _ in range(12):
        nodes = cut.nodes(t, float(y[-1]))
        size = _phase(nodes, t, y, core).real
        size = size - 0.5 * (np.log1p(np.square(y / t)) + np.log1p(np.square(y / (1.0 + t))))
        alive = np.flatnonzero(size > start - DECAYED)
        last = int(alive[-1]) + 1 if alive.size else 0
        if last <= y.size - 2:
            return float(y[last])
        y = y * 1.3**y.size
    raise NoConvergence


@dataclass(frozen=True)
class Contour:
    """exp of the transform on the nodes z = t + iy, y = 0, step, 2 step, ...; serves every epsilon near `centre`."""

    t: float
    centre: float
    height: float
    z: Complex
    log_integrand: Complex
    step: float
    core: Core | None

    def trusted(self, epsilon: float, log_delta: float) -> bool:
        """Whether what the core was assumed to contribute holds at this epsilon and delta."""
        return self.core is None or self.core.negligible(epsilon, log_delta)

    def log_delta(self, epsilon: float) -> tuple[float, float, float]:
        """log delta of the part without infinite loss, its derivative in epsilon, and the change on half the nodes."""
        exponent = self.log_integrand - self.z * (epsilon - self.centre)
        if not exponent[0].real < 600.0:
            raise NoConvergence
        terms = np.exp(exponent)
        terms[0] *= 0.5
        value = float(np.sum(terms.real))
        coarse = 2.0 * float(np.sum(terms[::2].real))
        slope = -float(np.sum((terms * self.z).real))
        if self.core is not None and self.core.above:
            surely, fall = self.core.contribution(epsilon, self.height)
            value, coarse, slope = value + surely / self.step, coarse + surely / self.step, slope + fall / self.step
        if not value > 0.0:
            raise NoConvergence
        shift = self.height + math.log(value * self.step / math.pi)
        return shift, slope / value, abs(coarse / value - 1.0)


def contour_around(cut: Cut, saddle: Saddle, spread: float, core: Core | None) -> Contour:
    """Nodes around the saddle point: period `spread` * (24 sqrt(F'') + 45 / t) in epsilon."""
    t, centre = saddle.t, saddle.epsilon
    value, slope, _ = cut.real(t)
    step = 2.0 * math.pi / (spread * (24.0 * math.sqrt(saddle.curvature) + 45.0 / t))
    end = _reach(cut, t, 1.0 / math.sqrt(saddle.curvature), core)
    if not (end / step + 2.0) * max(nodes.loss.size for nodes, _ in cut.nodes(t, end)) <= MAX_WORK:
        raise NoConvergence
    y = step * np.arange(end // step + 2.0)
    phase = np.concatenate([_phase_block(cut, t, block, step, core) for block in _octaves(y)])
    z: Complex = np.asarray(t + 1j * y, dtype=np.complex128)
    log_integrand = phase + 1j * y * (slope - centre) - np.log(z) - np.log1p(z)
    contour = Contour(t, centre, value - t * centre, z, log_integrand, step, core)
    _check_panels(cut, contour, phase)
    return contour


def _octaves(y: Array) -> list[Array]:
    """y split where it passes a power of 2, so that each block needs one quadrature."""
    cuts = np.searchsorted(y, 2.0 ** np.arange(1.0, max(2.0, math.log2(y[-1]))))
    return [block for block in np.split(y, cuts) if block.size]


def _phase_block(cut: Cut, t: float, y: Array, step: float, core: Core | None) -> Complex:
    nodes = cut.nodes(t, float(y[-1]))
    if y.size < 64 or sum(count for _, count in nodes) > 100_000:
        return np.concatenate([_phase(nodes, t, part, core) for part in np.array_split(y, 1 + y.size // 512)])
    return _phase_grid(nodes, t, y, step, core)


def _check_panels(cut: Cut, contour: Contour, phase: Complex) -> None:
    """Raise NoConvergence unless panels half as long agree at a sample of the nodes, and the last nodes have decayed."""
    size = np.exp(contour.log_integrand)
    allowed = 1e-9 * abs(float(np.sum(size.real)))
    index = np.unique(np.geomspace(1, phase.size - 1, 8).astype(np.int64))
    wrong = 0.0
    for i, before in zip(index, [0, *index[:-1]], strict=True):
        y = float(contour.z[i].imag)
        fine = _phase(cut.nodes(contour.t, 2.0 * y + 4.0), contour.t, np.array([y]), contour.core)[0]
        wrong += float(abs(size[i] * np.expm1(fine - phase[i]))) * (i - before)
    if not wrong + float(np.max(np.abs(size[-2:]))) * phase.size <= allowed:
        raise NoConvergence
