"""Provenance for archives: `ro-crate-metadata.json` in each version, a Process Run Crate made from its manifest.

    write_archive(folder, commit, date)      # in an unpacked commit, as `nox -s archive` does: all of them
    write(folder)                            # of one version

It says in JSON-LD (https://w3id.org/ro/wfrun/process/0.5) what manifest.json says: one action a run, which software of
which commit made it, on which machine, when, and the SHA-256 of what else a version holds. Records of runs are sealed
by their own manifests; the crate stands outside all seals, because it can be made again from what they guard.
The library `rocrate` would write the descriptor and the context, ten lines of these; what each entity says is ours.
"""

import datetime
import json
import mimetypes
from pathlib import Path
from typing import Any

from groundlab import __version__
from groundlab.core import manifests, storage
from groundlab.core.manifests import MANIFEST, Manifest
from groundlab.core.storage import digest_bytes

CRATE = "ro-crate-metadata.json"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
_RO_CRATE = "https://w3id.org/ro/crate/1.1"
_CONTEXT = ["https://w3id.org/ro/crate/1.1/context", "https://w3id.org/ro/terms/workflow-run/context"]
_LICENCE = "https://spdx.org/licenses/MIT"
_AUTHORS = "#authors"
_TYPES = {".gz": "application/gzip", ".yaml": "application/yaml", ".ipynb": "application/x-ipynb+json"}
Entity = dict[str, Any]


def write(version: Path) -> Path:
    """Write the crate of a version from its manifest, packed records and all; returns its path."""
    text = json.dumps(content(version), ensure_ascii=False, separators=(",", ":"))  # machines read it: no white space
    storage.write_atomic(version / CRATE, text + "\n")
    return version / CRATE


def content(version: Path) -> Entity:
    """The crate as JSON-LD: every run that is there is a folder and the action that made it, all else is a file."""
    manifest = manifests.read_version(version)
    runs = [run for run in manifest["runs"] if run["folder"] and (version / run["folder"]).is_dir()]
    found = (path for path in version.rglob("*") if path.is_file() and path.name != CRATE)
    others = sorted(path for path in found if "runs" not in path.relative_to(version).parts[:2])
    files = [_file(version, path) for path in others]
    folders = [_folder(run) for run in runs]
    actions = [_whole(manifest, files), *(_action(manifest, version, run) for run in runs)]
    read = [
        manifest["inputs"],
        *((manifests.read_run(version / run["folder"]) or {}).get("inputs", {}) for run in runs),
    ]
    inputs = [
        {"@id": _input(pair), "@type": "PropertyValue", "name": pair[0], "value": f"sha256:{pair[1]}"}
        for pair in sorted({pair for each in read for pair in each.items()})
    ]
    graph = [_DESCRIPTOR, _root(manifest, [*folders, *files], actions), _PROCESS_RUN_CRATE, _MIT, _OURSELVES]
    graph += [_software(manifest), *_packages(manifest), *inputs, *folders, *files, *actions]
    return {"@context": _CONTEXT, "@graph": graph}


def write_archive(home: Path, commit: str, date: str) -> None:
    """Write the crates of every version of an unpacked repository, then its own. See `of_archive`."""
    for file in home.glob(f"results/*/{MANIFEST}"):
        write(file.parent)
    storage.write_atomic(home / CRATE, json.dumps(of_archive(home, commit, date)))


def of_archive(home: Path, commit: str, date: str) -> Entity:
    """The crate of a whole repository: its code, and every version of its results, which has a crate of its own.

    date: of the commit, ISO 8601. `core.git` reads the commit from here where there is no git.
    """
    crates = sorted((home / "results").glob(f"*/{CRATE}"))
    parts, inner = [_CODE | {"version": __version__, "identifier": commit}], list[Entity]()
    for file in crates:
        manifest, name = manifests.read_version(file.parent), file.parent.relative_to(home).as_posix()
        about = f"{len(manifest['runs'])} runs of {', '.join(manifest['papers'])} at scale {manifest['scale']}"
        parts.append(
            {"@id": f"{name}/", "@type": "Dataset", "name": f"groundlab results {manifest['version']}"}
            | {"description": about, "conformsTo": _link(_RO_CRATE), "subjectOf": _link(f"{name}/{CRATE}")}
        )
        inner.append({"@id": f"{name}/{CRATE}", "@type": "CreativeWork", "encodingFormat": "application/ld+json"})
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"groundlab {__version__}",
        "description": "Four ways in which a language model helps an agent learn to act, rebuilt: begin at README.md.",
        "datePublished": date,
        **_RIGHTS,
        "hasPart": [_link(part["@id"]) for part in parts],
    }
    return {"@context": _CONTEXT, "@graph": [_DESCRIPTOR, root, _MIT, _OURSELVES, *parts, *inner]}


def _link(*ids: str) -> Any:
    links = [{"@id": each} for each in ids]
    return links[0] if len(links) == 1 else links


_DESCRIPTOR = {
    **{"@id": CRATE, "@type": "CreativeWork"},
    **{"conformsTo": _link(_RO_CRATE), "about": _link("./")},
}
_PROCESS_RUN_CRATE = {"@id": PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
_MIT = {
    **{"@id": _LICENCE, "@type": "CreativeWork", "name": "MIT License"},
    "description": "The licence of groundlab, its shipped models and its results.",
}
_CODE = {
    **{"@id": "src/", "@type": ["Dataset", "SoftwareSourceCode"], "name": "groundlab"},
    **{"programmingLanguage": "Python", "license": _link(_LICENCE)},
}
_OURSELVES = {"@id": _AUTHORS, "@type": "Organization", "name": "The groundlab authors"}
_RIGHTS = {"license": _link(_LICENCE), "author": _link(_AUTHORS), "publisher": _link(_AUTHORS)}


def _root(manifest: Manifest, parts: list[Entity], actions: list[Entity]) -> Entity:
    papers, git = ", ".join(manifest["papers"]), manifest["git"]
    made = f"made by `{manifest['command']}` at commit {git['commit']}{' with changes' if git['dirty'] else ''}"
    return {
        "@id": "./",
        "@type": "Dataset",
        "name": f"groundlab results {manifest['version']}",
        "description": f"Records, tables and figures of {papers} at scale {manifest['scale']}, {made}.",
        "datePublished": manifest["created"],
        **_RIGHTS,
        "conformsTo": _link(PROFILE),
        "hasPart": [_link(part["@id"]) for part in parts],
        "mentions": [_link(action["@id"]) for action in actions],
    }


def _ourselves(manifest: Manifest) -> str:
    """A package URL: what ran is known by its commit."""
    return f"pkg:generic/groundlab@{manifest['git']['commit']}"


def _software(manifest: Manifest) -> Entity:
    """groundlab as it ran: its commit is its version."""
    return {
        "@id": _ourselves(manifest),
        "@type": "SoftwareApplication",
        "name": "groundlab",
        "version": f"{manifest['package']} ({manifest['git']['commit']})",
        "license": _link(_LICENCE),
        "runtimePlatform": f"Python {manifest['python']}",
        "operatingSystem": manifest["platform"],
        "processorRequirements": f"{manifest['hardware']['cores']} cores of {manifest['hardware']['cpu']}",
        "memoryRequirements": f"{manifest['hardware']['memory_gib']} GiB",
        "softwareRequirements": [_link(package["@id"]) for package in _packages(manifest)],
    }


def _packages(manifest: Manifest) -> list[Entity]:
    """Each by its page on PyPI."""
    return [
        {"@id": page, "@type": "SoftwareApplication", "name": name, "version": version, "url": page}
        for name, version in manifest["packages"].items()
        for page in (f"https://pypi.org/project/{name}/{version}/",)
        if name != "groundlab"
    ]


def _file(version: Path, path: Path) -> Entity:
    data = path.read_bytes()
    kind = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    about = {"encodingFormat": kind, "contentSize": str(len(data)), "sha256": digest_bytes(data)}
    name = path.relative_to(version).as_posix()
    return {"@id": name, "@type": "File", "name": name, **about}


def _folder(run: Entity) -> Entity:
    text = f"Records of {run['method']} on {run['world']}, seed {run['seed']}; {MANIFEST} in it has their SHA-256."
    return {"@id": f"{run['folder']}/", "@type": "Dataset", "name": run["label"], "description": text}


def _whole(manifest: Manifest, files: list[Entity]) -> Entity:
    """How a version was put together: its pages, from its runs and all inputs."""
    return {
        "@id": "#version",
        "@type": "CreateAction",
        "name": manifest["command"],
        "description": f"All runs, then tables, figures and pages; {len(manifest['runs'])} runs.",
        "instrument": _link(_ourselves(manifest)),
        "agent": _link(_AUTHORS),
        "endTime": manifest["created"],
        "actionStatus": "http://schema.org/CompletedActionStatus",
        "object": _link(*map(_input, manifest["inputs"].items())),
        "result": _link(*(file["@id"] for file in files)),
    }


def _input(pair: tuple[str, str]) -> str:
    """Return the identifier of an input by its role and digest: runs may read other files in the same role."""
    return f"#input/{pair[0]}/{pair[1][:12]}"


def _action(manifest: Manifest, version: Path, run: Entity) -> Entity:
    """How a run was made, from the start of its first process to the end of its last."""
    own = manifests.read_run(version / run["folder"]) or {}
    took = [
        (datetime.datetime.fromisoformat(each["started"]), datetime.timedelta(seconds=each.get("wall_seconds", 0.0)))
        for each in own.get("history", [])
    ]
    times = {"startTime": min(took)[0], "endTime": max(start + wall for start, wall in took)} if took else {}
    inputs = [_input(pair) for pair in own.get("inputs", {}).items()]
    seconds = f"{run['wall_seconds']:.1f} s by the clock, {run['cpu_seconds']:.1f} s of CPU"
    return {
        "@id": f"#run/{run['folder']}",
        "@type": "CreateAction",
        "name": f"groundlab run {run['method']} --world {run['world']} --seed {run['seed']}",
        "description": f"{seconds}, {run['peak_memory_mib']:.0f} MiB at most; settings are in config.yaml.",
        "instrument": _link(_ourselves(manifest)),
        "agent": _link(_AUTHORS),
        **{name: time.isoformat(timespec="seconds") for name, time in times.items()},
        "actionStatus": "http://schema.org/CompletedActionStatus",
        **({"object": _link(*inputs)} if inputs else {}),
        "result": _link(f"{run['folder']}/"),
    }
