"""The additions that CONTRIBUTING.md shows, made in this process through the registries."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import contracts
from contracts import ADD

from dpbudget.accounting import account, accountants, pairs
from dpbudget.cli import options, shell
from dpbudget.model import Release
from dpbudget.render import numbers, plain, style
from dpbudget.report import Report

TEXT = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_shown_additions_work(monkeypatch) -> None:
    names: dict[str, Any] = {**vars(pairs), **vars(accountants), **vars(options), "numbers": numbers, "plain": plain}
    names |= {"Style": style.Style, "Report": Report, "shell": shell}
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", TEXT, re.MULTILINE)
    code = "\n".join(textwrap.dedent(block) for block in blocks)
    exec(code.replace('Accountant("pure"', 'PURE, = Accountant("pure"'), names)
    monkeypatch.setitem(account.ACCOUNTANTS, "pure", names["PURE"])
    ledger = account.Ledger.of([Release(names["Geometric"](5.0), 10)], ADD)
    for name in ("pld", "rdp", "pure"):
        contracts.of_its_kind(account.epsilon(ledger, 1e-6, accountant=name), name)
    assert float(account.epsilon(ledger, 0.5, accountant="pure")) == 2.0
    contracts.keeps_its_side("line", names["render"])
    assert names["accountants"].__doc__
