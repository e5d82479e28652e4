"""`groundlab bench devices` counts what an update makes the two sides wait for."""

from device_runs import GRID, LM

from groundlab.bench import traffic


def test_waits_and_copies_of_an_update_are_counted_alike_every_time(models, monkeypatch):
    settings = LM | {"model": models["t5"]}
    monkeypatch.setattr(traffic, "RUNS", {"glam": ("glam", GRID, settings)})
    first, again = traffic.bench_traffic(), traffic.bench_traffic()
    assert first == again and [each.name for each in first] == ["glam: the CPU waits", "glam: copies to the device"]
    gradient_steps = 2  # of an update of LM
    assert all(each.value > gradient_steps for each in first)
