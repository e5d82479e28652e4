"""Write `ro-crate-metadata.json` at the top of an unpacked commit: its code, and how each version of results was made.

    python tools/crate.py FOLDER COMMIT DATE        # as `nox -s archive` does; needs the package rocrate

`core.git` reads the commit from the entity `src/`, where git is missing. Runs are described by `version.json`.
"""

# pyright: reportMissingImports=false
import json
import sys
from pathlib import Path

from rocrate.model import ContextEntity
from rocrate.rocrate import ROCrate

PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
LICENCE = "https://spdx.org/licenses/MIT"


def write(home: Path, commit: str, date: str) -> None:
    """Write the crate of the repository in `home`; date: of the commit, ISO 8601."""
    crate = ROCrate(gen_preview=False)
    crate.name = f"groundlab at commit {commit}"
    crate.description = "Four ways in which a language model helps an agent learn to act, rebuilt: begin at README.md."
    crate.datePublished, crate.license = date, LICENCE
    profile = ContextEntity(crate, PROFILE, {"@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"})
    authors = ContextEntity(crate, "#authors", {"@type": "Organization", "name": "The groundlab authors"})
    crate.add(profile, authors)
    crate.root_dataset["conformsTo"], crate.root_dataset["author"] = profile, authors
    code = {"@type": ["Dataset", "SoftwareSourceCode"], "name": "groundlab", "programmingLanguage": "Python"}
    crate.add_dataset(dest_path="src", properties={**code, "license": LICENCE, "identifier": commit})
    for file in sorted((home / "results").glob("*/version.json")):
        _add_version(crate, file.parent.relative_to(home).as_posix(), json.loads(file.read_text()))
    crate.metadata.write(home)


def _add_version(crate: ROCrate, folder: str, manifest: dict) -> None:
    """A version as a dataset, with the command, the commit and the machine that made it."""
    git, about = manifest["git"], f"{manifest['totals']['finished']} runs of {', '.join(manifest['papers'])}"
    properties = {"name": f"groundlab results {manifest['version']}", "datePublished": manifest["created"]}
    result = crate.add_dataset(
        dest_path=folder, properties={**properties, "description": f"{about} at scale {manifest['scale']}"}
    )
    software = {
        "@type": "SoftwareApplication",
        "name": "groundlab",
        "version": f"{manifest['package']} ({git['commit']}{' with changes' if git['dirty'] else ''})",
        "runtimePlatform": f"Python {manifest['python']}",
        "operatingSystem": manifest["platform"],
        "processorRequirements": f"{manifest['hardware']['cores']} cores of {manifest['hardware']['cpu']}",
        "softwareRequirements": [f"{name} {version}" for name, version in manifest["packages"].items()],
    }
    tool = crate.add(ContextEntity(crate, f"pkg:generic/groundlab@{git['commit']}", software))
    properties = {"name": manifest["command"], "endTime": manifest["created"], "agent": {"@id": "#authors"}}
    action = crate.add_action(tool, identifier=f"#{folder}", result=[result], properties=properties)
    crate.root_dataset.append_to("mentions", action)


if __name__ == "__main__":
    write(Path(sys.argv[1]), *sys.argv[2:])
