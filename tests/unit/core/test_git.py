"""What git says, and what stands in for it."""

from groundlab.core import git, storage


def test_an_unpacked_archive_says_its_commit_in_its_crate(tmp_path, monkeypatch):
    entities = [{"@id": "./"}, {"@id": "src/", "identifier": "0123abcd"}]
    storage.write_json(tmp_path / "ro-crate-metadata.json", {"@graph": entities})
    monkeypatch.setattr(git, "find_root", lambda: tmp_path)
    assert git.facts.__wrapped__() == {"commit": "0123abcd", "dirty": False}
