"""One JSON document: full doubles, no NaN or Infinity, no timestamp."""

from __future__ import annotations

import json

from dpbudget.render.style import Style
from dpbudget.report import Report


def render(report: Report, style: Style) -> str:
    return json.dumps(report.document(), indent=2, allow_nan=False) + "\n"
