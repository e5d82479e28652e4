"""The comparison with minigrid counts nothing when all is equal, and notices every kind of difference."""

import numpy as np
import pytest

from groundlab import worlds
from groundlab.core.errors import GroundlabError
from groundlab.papers import registry
from groundlab.papers.worlds import minigrid_parity
from groundlab.worlds.adapters.minigrid_package import package_ids

WORLD = "BabyAI-PutNextLocal-v0"


def test_it_runs_on_every_level_that_minigrid_has_too():
    (method,) = [method for _, method in registry.named("facts")]
    assert set(registry.worlds_of(method)) == {*worlds.names("grid")} & {*package_ids()}
    with pytest.raises(GroundlabError, match="does not run on"):
        registry.check_world("facts", "BabyAI-MixedTrainLocal-v0")


def test_our_levels_are_minigrids_state_for_state():
    counts = minigrid_parity.compare(WORLD, 400)
    assert counts["states"] == 400 and counts["episodes"] >= 3
    assert not any(count for name, count in counts.items() if "mismatches" in name)


def test_minigrid_is_silent_while_it_is_compared(capfd):
    minigrid_parity.compare("BabyAI-GoToObj-v0", 200)
    assert capfd.readouterr().out == ""


def _disturb(monkeypatch, field: str) -> None:
    """Let our engine's steps differ in one field."""
    step = minigrid_parity.worlds.GridEnv.step

    def wrong(self, action):
        observation, reward, terminated, truncated, info = step(self, action)
        if field == "grid":
            self.grids.cells[0, 1, 1, 2] ^= 1
        elif field == "image":
            observation["image"] = observation["image"] ^ np.uint8(1)
        elif field == "direction":
            observation["direction"] = (observation["direction"] + 1) % 4
        elif field == "mission":
            observation["mission"] += "!"
        return observation, reward + (field == "reward") * 1e-15, terminated, truncated ^ (field == "end"), info

    monkeypatch.setattr(minigrid_parity.worlds.GridEnv, "step", wrong)


@pytest.mark.parametrize("field", minigrid_parity.FIELDS)
def test_a_difference_in_any_field_is_counted(monkeypatch, field):
    _disturb(monkeypatch, field)
    counts = minigrid_parity.compare("BabyAI-GoToObj-v0", 20)
    assert counts["mismatches"] == counts[f"{field}_mismatches"] > 0
