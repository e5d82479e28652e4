"""The reference of what other programs import, from docstrings; Sphinx's autodoc reads them."""

import importlib
import re
from pathlib import Path
from typing import Any

from groundlab.site import chosen, links

MODULES = {
    "Worlds": (
        "groundlab.worlds",
        "groundlab.worlds.text",
        "groundlab.worlds.text_env.prompts",
        "groundlab.worlds.facts",
        "groundlab.worlds.adapters",
        "groundlab.worlds.adapters.replies",
    ),
    "Language models and learning": (
        "groundlab.learning.returns",
        "groundlab.learning.credit",
        "groundlab.learning.shaping",
        "groundlab.language.scoring",
        "groundlab.language.chat",
    ),
    "Runs and results": (
        "groundlab.core.seeding",
        "groundlab.lab",
        "groundlab.papers.method",
        "groundlab.papers.episodes",
        "groundlab.report",
        "groundlab.report.statistics",
        "groundlab.report.tables",
    ),
}
NOT_INSTALLED = ("openenv", "trl", "verifiers")
"""What adapters import, and the site is made without."""


def write(source: Path) -> None:
    """Write a page for each module, and their index."""
    parts = ["# Python reference"]
    for heading, modules in MODULES.items():
        named = chosen(modules, 1)
        for module in named:
            text = f"# {module}\n\n```{{eval-rst}}\n.. automodule:: {module}\n```\n"
            links.write(source, f"reference/{module}", text)
        about = {module: (importlib.import_module(module).__doc__ or "").partition("\n")[0] for module in named}
        rows = "\n".join(f"- [`{module}`]({module}.html): {line}" for module, line in about.items())
        toctree = "\n".join(["```{toctree}", ":hidden:", "", *named, "```"])
        parts.append(f"## {heading}\n\n{rows}\n\n{toctree}")
    links.write(source, "reference/index", "\n\n".join(parts) + "\n")


def as_text(app: Any, what: str, name: str, documented: Any, options: Any, lines: list[str]) -> None:
    """Docstrings as Sphinx reads them: in ours, only code in backticks and indented code are markup."""
    text, code = list[str](), False
    for line in lines:
        if line.strip() and line.startswith("    ") != code:
            code = not code
            text += ["", "::", ""] if code else [""]
        escaped = re.sub(r"(`[^`]*`)|([*|\\]|_(?!\w))", lambda found: found[1] or f"\\{found[2]}", line)
        text.append(line if code else escaped)
    lines[:] = text
