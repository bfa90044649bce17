"""Print the lowest versions that pyproject.toml allows, as constraints for pip: `make test-lowest` installs these."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

BELOW = {
    "click": "8.0.0",  # the lowest that the lowest typer takes
    "pyparsing": "3.0.9",  # of the lowest matplotlib's time: it warns of what later ones have renamed
}


def constraints() -> dict[str, str]:
    """Version by name. A requirement that states anything but a floor, or no floor, is an error."""
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    found = dict(BELOW)
    for requirement in [*project["dependencies"], *extras["plot"], *extras["test"]]:
        if requirement.startswith(f"{project['name']}["):
            continue
        match = re.fullmatch(r"([A-Za-z0-9_.-]+)>=([0-9.]+)", requirement)
        if match is None:
            raise ValueError(f"{requirement}: not a name with a floor")
        found[match[1]] = match[2]
    return found


if __name__ == "__main__":
    print("\n".join(f"{name}=={version}" for name, version in constraints().items()))
