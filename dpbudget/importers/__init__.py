"""Releases from what other tools wrote: Opacus and Flower accountant states, CSV files of sigma, q, steps."""

from dpbudget.importers.history import csv, read_history
from dpbudget.importers.imported import ImportedState
from dpbudget.importers.states import flower, opacus

__all__ = ["ImportedState", "csv", "flower", "opacus", "read_history"]
