"""Output formats: each renderer turns a Report into one string. Add a format by adding a function to RENDERERS."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dpbudget.render import csv, json, markdown, statement, text, value
from dpbudget.render.style import Style
from dpbudget.report import Report

RENDERERS: Mapping[str, Callable[[Report, Style], str]] = {
    "text": text.render,
    "json": json.render,
    "markdown": markdown.render,
    "csv": csv.render,
    "value": value.render,
    "statement": statement.render,
}
