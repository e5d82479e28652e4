"""Croissant metadata (MLCommons, version 1.0): what a data set is, its files with their SHA-256, its columns.

describe("name", "what it is", [File("steps.jsonl", "application/jsonlines", sha256)], columns)
describe_shipped(Path("src/groundlab/assets/knowledge"))       # what assets/knowledge/croissant.json holds

Search engines for data and `mlcroissant` read it. Columns are listed for JSON lines only; else the files.
`mlcroissant` writes the same, but needs pandas, scipy and rdflib, and the worlds' installation exports without them.
Source: docs.mlcommons.org/croissant, the format's specification.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from groundlab.assets import read_text
from groundlab.core import storage
from groundlab.core.storage import digest_bytes

_CONTEXT = json.loads(read_text("croissant-context.json"))  # as the specification prints it
_LICENCE = "https://spdx.org/licenses/MIT.html"


class File(NamedTuple):
    """A file of a data set; `name` is its path from the metadata."""

    name: str
    encoding: str
    sha256: str


class Column(NamedTuple):
    """A column of a file of JSON lines; `type` is one of schema.org's."""

    name: str
    type: str
    meaning: str


def describe(name: str, about: str, files: Sequence[File], columns: Sequence[Column] = ()) -> dict[str, Any]:
    """The metadata as JSON-LD. columns: of the first file, which is one of JSON lines."""
    metadata = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": name,
        "description": about,
        "license": _LICENCE,
        "version": "1.0.0",
        "distribution": [
            {
                **{"@type": "cr:FileObject", "@id": file.name, "name": file.name, "contentUrl": file.name},
                **{"encodingFormat": file.encoding, "sha256": file.sha256},
            }
            for file in files
        ],
    }
    if columns:
        fields = [
            {
                **{"@type": "cr:Field", "@id": f"steps/{column.name}", "name": column.name},
                **{"description": column.meaning, "dataType": column.type},
                "source": {"fileObject": {"@id": files[0].name}, "extract": {"column": column.name}},
            }
            for column in columns
        ]
        metadata["recordSet"] = [{"@type": "cr:RecordSet", "@id": "steps", "name": "steps", "field": fields}]
    return metadata


def describe_shipped(folder: Path) -> dict[str, Any]:
    """The metadata of the knowledge paper's stored episodes: every folder of `folder` that has a card."""
    files, worlds = [], []
    for card in sorted(folder.glob("*/card.json")):
        facts = storage.read_json(card)
        files.append(File(f"{card.parent.name}/arrays.npz", "application/x-npz", facts["sha256"]))
        files.append(File(f"{card.parent.name}/card.json", "application/json", digest_bytes(card.read_bytes())))
        worlds.append(f"{facts['episodes']} episodes ({facts['steps']:,} steps) of {facts['world']}")
    about = f"{' and '.join(worlds)}, played by agents with curiosity at three moments of their training"
    return describe("groundlab-knowledge", about, files)
