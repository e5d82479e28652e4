"""The executed notebooks of the published results as pages: text, code and outputs, without a kernel.

The cell in which the laboratory gave a notebook its folder is left out.
"""

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

from groundlab.core import storage
from groundlab.core.errors import GroundlabError
from groundlab.core.manifests import read_reference
from groundlab.site import chosen, links

_PICTURE = re.compile(r"data:image/png;base64,([A-Za-z0-9+/=\s]+)")


def write(site: links.Links) -> None:
    """Write a page for each that reference.json names, and their index. Raises GroundlabError where nothing is."""
    results = site.root / "results"
    pages = [
        (paper, scale, notebook)
        for paper, scales in read_reference(results).items()
        for scale, version in scales.items()
        for notebook in sorted((results / version / paper / "executed").glob("*.ipynb"))
    ]
    if not pages:
        raise GroundlabError(f"{results} names no published notebooks; publish a version: groundlab figures --publish")
    pages, rows = chosen(pages, 1), []
    names = [f"notebooks/{notebook.stem}-{scale}" for _, scale, notebook in pages]
    for name in names:
        links.write(site.source, name, "")
    for (paper, scale, notebook), name in zip(pages, names, strict=True):
        text = "\n\n".join(_cells(storage.read_json(notebook)["cells"], site.source / "_static"))
        text = site.markdown(text, f"notebooks/{notebook.name}", name)
        links.write(site.source, name, text, orphan=True)
        title = re.search("^# (.*)$", text, re.MULTILINE)
        rows.append(f"| [{title[1] if title else notebook.stem}]({Path(name).name}.html) | {paper} | {scale} |")
    head = "# Executed notebooks\n\n| notebook | paper | scale |\n|---|---|---|\n"
    links.write(site.source, "notebooks/index", head + "\n".join(rows) + "\n")


def _cells(cells: list[dict[str, Any]], static: Path) -> list[str]:
    """The Markdown of each cell and output."""
    parts = []
    for cell in cells:
        text = "".join(cell["source"])
        if "injected-parameters" in cell["metadata"].get("tags", []) or not text.strip():
            continue
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"````python\n{text}\n````")
        parts += [_output(output, static) for output in cell["outputs"]]
    return parts


def pictures_as_files(text: str, static: Path, address: str) -> str:
    """HTML with its pictures as files of `static`, which has this address on the page: equal ones are one file."""

    def as_file(match: re.Match[str]) -> str:
        data = base64.b64decode(match[1])
        name = f"{hashlib.sha256(data).hexdigest()[:16]}.png"
        (static / "pictures").mkdir(exist_ok=True)
        (static / "pictures" / name).write_bytes(data)
        return f"{address}/pictures/{name}"

    return _PICTURE.sub(as_file, text)


def _output(output: dict[str, Any], static: Path) -> str:
    """An output as Markdown: its HTML with pictures as files, its Markdown, or its text."""
    data = {kind: "".join(text) for kind, text in output.get("data", {}).items() if kind.startswith("text/")}
    if "text/html" in data:
        one_block = re.sub(r"\n\s*\n", "\n", pictures_as_files(data["text/html"], static, "../_static"))
        return f'<div class="output">{one_block}</div>'
    return data.get("text/markdown") or f"````none\n{data.get('text/plain', ''.join(output.get('text', '')))}\n````"
