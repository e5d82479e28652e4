"""The benchmark of large models: it measures what it names, as a share of a peak."""

from groundlab.bench import measurement, models


def test_every_way_of_reading_has_a_rate_and_a_share(monkeypatch):
    monkeypatch.setattr(models, "_SIDE", 64)
    monkeypatch.setattr(measurement, "TURNS", 1)
    monkeypatch.setattr(measurement, "SECONDS", 0.0001)
    tiny = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 10, "num_attention_heads": 2}
    found = models.of_dtype("float32", models.SMOLLM2 | tiny | {"vocab_size": 200, "num_key_value_heads": 1})
    assert [each.unit for each in found] == ["prompts/CPU-s", "%"] * 5
    assert all(each.value > 0 for each in found)
