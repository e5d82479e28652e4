"""Which arm a stored run belongs to, and what that is called: what its manifest says, else its config's entry.

    named(paper, "full", facts)      # ("glam/action_space/3", "action_space 3")

Versions that were published before manifests named arms have the names of the entries that planned their runs.
"""

from functools import cache
from typing import Any

from groundlab.core import plugins
from groundlab.core.yaml_files import read_yaml

_MEASURED = {
    "device",
    "layouts",
    "test_layouts",
    "tests",
    "first_finished",
    "probe_template",
    "test_every",
    "curve_layouts",
}
"""Settings that say where a run is made and what is measured, not who acts: entries may have changed in them since."""


def named(paper: str, scale: str, facts: dict[str, Any]) -> tuple[str, str]:
    """(arm, label) of a run that was planned at a scale, by the entry that fits its settings best.

    facts: its method, world and settings. Of a run that no entry planned, the method and no label.
    """
    fits: list[tuple[int, int, dict[str, Any]]] = []
    for entry in _entries(paper, scale):
        if entry["method"] == facts["method"] and facts["world"] in entry["worlds"]:
            equal, other = _compared(entry.get("settings", {}), facts["settings"])
            if other <= _MEASURED:
                fits.append((-len(other), equal, entry))
    if not fits:
        return facts["method"], ""
    *_, entry = max(fits, key=lambda fit: fit[:2])
    return entry.get("arm") or entry["method"], entry.get("label", "")


@cache
def _entries(paper: str, scale: str) -> list[dict[str, Any]]:
    """The entries of a paper's config; none where there is no such file."""
    offered = plugins.load(plugins.PAPERS).get(paper)
    if offered is None or not offered.is_here:
        return []
    file = offered.config_folder / f"{scale}.yaml"
    return read_yaml(file)["runs"] if file.is_file() else []


def _compared(asked: dict[str, Any], stored: dict[str, Any]) -> tuple[int, set[str]]:
    """(how many settings that are asked for a run has, nested ones too; the names of those that it has otherwise)."""
    equal, other = 0, set[str]()
    for name, value in asked.items():
        held = stored.get(name)
        if isinstance(value, dict) and isinstance(held, dict):
            inside, differing = _compared(value, held)
            equal, other = equal + inside, other | differing
        elif held == value:
            equal += 1
        else:
            other.add(name)
    return equal, other
