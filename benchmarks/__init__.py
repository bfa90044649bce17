"""Measurements of dpbudget against other accountants, on the same cases, in one run. Not part of the package."""
