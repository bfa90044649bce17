"""Softmax regression; logistic regression is its two-class case. Gradients of single records without storing them.

The gradient of one record is the outer product of its features x (a constant 1 appended) and its residual p - y, so that its
norm is |x| |p - y|, and a weighted sum of such gradients is one matrix product (Goodfellow 2015, arXiv:1510.01799).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbudget.simulate.data import Array, Data


@dataclass(frozen=True)
class Table:
    """Records as the model sees them. inputs: (n, d + 1), the last column 1.  targets: (n, k), one-hot.  lengths: (n,)."""

    inputs: Array
    targets: Array
    lengths: Array

    @classmethod
    def of(cls, data: Data) -> Table:
        inputs = np.hstack([data.features, np.ones((len(data), 1))])
        targets = np.eye(len(data.classes))[data.labels]
        return cls(inputs, targets, np.sqrt(np.einsum("ij,ij->i", inputs, inputs)))

    def __len__(self) -> int:
        return len(self.lengths)

    def take(self, rows: NDArray[np.int64]) -> Table:
        return Table(self.inputs[rows], self.targets[rows], self.lengths[rows])

    @property
    def shape(self) -> tuple[int, int]:
        """Of the weights: (d + 1, k)."""
        return self.inputs.shape[1], self.targets.shape[1]


def residuals(weights: Array, table: Table) -> Array:
    """Softmax probabilities less the one-hot labels, shape (n, k)."""
    logits = table.inputs @ weights
    logits -= logits.max(axis=1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    logits -= table.targets
    return logits


def gradient_norms(residual: Array, table: Table) -> Array:
    """L2 norm of every record's gradient, shape (n,)."""
    return np.asarray(table.lengths * np.sqrt(np.einsum("ij,ij->i", residual, residual)))


def accuracy(weights: Array, table: Table) -> float:
    right = (table.inputs @ weights).argmax(axis=1) == table.targets.argmax(axis=1)
    return float(right.mean())


def loss(weights: Array, table: Table) -> float:
    """Mean cross-entropy in nats."""
    logits = table.inputs @ weights
    highest = logits.max(axis=1)
    total = highest + np.log(np.exp(logits - highest[:, None]).sum(axis=1))
    return float((total - np.einsum("ij,ij->i", logits, table.targets)).mean())
