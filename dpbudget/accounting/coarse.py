"""Thousands of different mechanisms between two ledgers of a few: one that costs at least as much, one at most.

The time of every engine grows with the number of different mechanisms: a noise schedule that changes at each of 100,000
steps would take an hour. Here neighbouring mechanisms share the dearest, and the cheapest, parameters among them.
Less noise is dearer, since noise can be added to an output afterwards. A larger rate, and a larger chance to tell the
truth, is dearer: H_y(P || Q) >= (1 - y)_+ is jointly convex, and the pair of a rate r q is the mixture r (P, Q) +
(1 - r) (R, R) of that of the rate q with one that reveals nothing. Where a group of records is protected, more of them
take part at a larger rate, in the stochastic order, and the events that decide are half lines, likelier the more do. A
larger epsilon or delta is dearer by definition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dpbudget.accounting.ledger import Ledger
from dpbudget.errors import NotCertified
from dpbudget.model import (
    ZCDP,
    ApproxDP,
    Gaussian,
    Guarantee,
    Interval,
    Kind,
    Laplace,
    Mechanism,
    PureDP,
    RandomizedResponse,
    Release,
    SampledGaussian,
    Sampling,
)

MOST = 256
"""So many different mechanisms are composed as they are."""
WIDTHS = tuple(1e-4 * 2**k for k in range(21))
"""Parameters are neighbours if their logarithms lie in one cell of such a grid; the finest that suffices is taken."""
LESS_IS_DEARER = ("noise_multiplier", "scale")
ADD_UP = (Gaussian, ZCDP)
PARAMETERS: Mapping[type, tuple[str, ...]] = {
    SampledGaussian: ("noise_multiplier", "sampling_rate"),
    Laplace: ("scale",),
    PureDP: ("epsilon",),
    ApproxDP: ("epsilon", "delta"),
    RandomizedResponse: ("truth_probability",),
}


def _parameters(mechanism: Mechanism) -> tuple[str, ...]:
    """The parameters that may move, with everything else fixed: none where no order is proven."""
    if isinstance(mechanism, SampledGaussian):
        ordered = mechanism.sampling is Sampling.POISSON and mechanism.max_batch is None
        return PARAMETERS[SampledGaussian] if ordered else ()
    return PARAMETERS.get(type(mechanism), ())


def around(ledger: Ledger) -> tuple[Ledger, Ledger]:
    """(dearer, cheaper) of at most MOST different mechanisms; both the ledger itself where it has no more.

    Plain Gaussians and zCDP releases do not count: they add up to one. Raises NotCertified where no grid suffices.
    """
    crowd = [item for item in ledger.counts if not isinstance(item[0], ADD_UP)]
    if len(crowd) <= MOST:
        return ledger, ledger
    rest = [Release(*item) for item in ledger.counts if isinstance(item[0], ADD_UP)]
    for width in WIDTHS:
        cells: dict[tuple[object, ...], list[tuple[Mechanism, int]]] = {}
        for mechanism, count in crowd:
            cells.setdefault(_cell(mechanism, width), []).append((mechanism, count))
        if len(cells) <= MOST:
            dearer = [_merged(group, dear=True) for group in cells.values()]
            cheaper = [_merged(group, dear=False) for group in cells.values()]
            return Ledger.of([*rest, *dearer], ledger.adjacency), Ledger.of([*rest, *cheaper], ledger.adjacency)
    raise NotCertified(
        f"{len(crowd):,} different releases are more than can be composed",
        hint="Make releases equal: round noise down, rates and epsilons up.",
    )


def _cell(mechanism: Mechanism, width: float) -> tuple[object, ...]:
    """Which mechanisms may share parameters; one alone where none of its parameters may move."""
    names = _parameters(mechanism)
    if not names:
        return (mechanism,)
    values = [float(getattr(mechanism, name)) for name in names]
    places = [math.floor(math.log(value) / width) if value > 0 else None for value in values]
    fixed: dict[str, Any] = dict.fromkeys(names, 0.0)
    return (replace(mechanism, **fixed), *places)


def _merged(group: list[tuple[Mechanism, int]], *, dear: bool) -> Release:
    first = group[0][0]
    chosen: dict[str, Any] = {}
    for name in _parameters(first):
        values = [getattr(mechanism, name) for mechanism, _ in group]
        chosen[name] = min(values) if dear == (name in LESS_IS_DEARER) else max(values)
    return Release(replace(first, **chosen), sum(count for _, count in group))


def between(ledger: Ledger, ask: Callable[[Ledger], Guarantee]) -> Guarantee:
    """What `ask` proves of the ledger: directly, or by the two around it where it has too many different mechanisms."""
    dearer, cheaper = around(ledger)
    above = ask(dearer)
    if dearer is cheaper or above.kind is not Kind.INTERVAL:
        return above
    below, upper = ask(cheaper).value.lower, above.value.upper
    middle = (below + upper) / 2 if below is not None and upper is not None and math.isfinite(upper) else None
    return replace(above, value=Interval(below, upper, middle), detail={"gap": "numerical", "met_tolerance": False})
