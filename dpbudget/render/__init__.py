"""Output formats: each turns a Report into one string. A new one is a module here, and its name in FORMATS."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import cast

from dpbudget.render.style import Style
from dpbudget.report import Report

Renderer = Callable[[Report, Style], str]
FORMATS = ("text", "json", "markdown", "csv", "value", "statement")


def renderer(form: str) -> Renderer:
    """`render` of the module that is called like the format; only a format that is asked for is imported."""
    return cast(Renderer, import_module(f"dpbudget.render.{form}").render)
