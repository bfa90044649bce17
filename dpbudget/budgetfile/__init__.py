"""The budget file: reading and checking it, changing its text, and writing it safely."""

from dpbudget.budgetfile.document import (
    BudgetDocument,
    BudgetFileError,
    BudgetSection,
    DocumentRelease,
    Problem,
    to_releases,
)
from dpbudget.budgetfile.reading import MAX_BYTES, decode, load, read

__all__ = [
    "MAX_BYTES",
    "BudgetDocument",
    "BudgetFileError",
    "BudgetSection",
    "DocumentRelease",
    "Problem",
    "decode",
    "load",
    "read",
    "to_releases",
]
