"""Records of published versions are packed: they read as before, keep their seals, and damage is seen."""

import shutil

import pytest

from groundlab.core import seals, storage
from groundlab.core.errors import GroundlabError
from groundlab.lab import comparison, run_folder, versions

NAMES = ("metrics.jsonl", "evaluation.json")


@pytest.fixture
def version(finished, tmp_path):
    """A folder laid out as a version, with two equal runs; the first is packed."""
    for name in ("packed", "plain"):
        shutil.copytree(finished, tmp_path / name / "mediator" / "runs" / "always-0")
    versions.pack_records(tmp_path / "packed")
    return tmp_path


def _run(version, name):
    return version / name / "mediator" / "runs" / "always-0"


def test_packed_records_replace_plain_ones_read_alike_and_keep_their_seals(version):
    packed, plain = _run(version, "packed"), _run(version, "plain")
    assert not any((packed / name).exists() for name in NAMES)
    assert [storage.read_bytes(packed / name) for name in NAMES] == [(plain / name).read_bytes() for name in NAMES]
    assert seals.digests_of(packed) == seals.digests_of(plain) and run_folder.status_of(packed) == "finished"
    compared = comparison.compare(version / "packed", version / "plain")
    assert (len(compared.equal), compared.differing) == (1, [])


def test_packing_again_after_a_kill_gives_the_same_bytes(version):
    storage.write_atomic(_run(version, "plain") / "metrics.jsonl.gz", b"half")
    versions.pack_records(version / "plain")
    packed = [(_run(version, name) / "metrics.jsonl.gz").read_bytes() for name in ("packed", "plain")]
    assert packed[0] == packed[1] and run_folder.status_of(_run(version, "plain")) == "finished"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("where", [0, 12, -3, None])
def test_a_byte_that_flips_and_a_packed_record_that_is_cut_are_seen(version, name, where):
    file = _run(version, "packed") / f"{name}.gz"
    content = bytearray(file.read_bytes())
    if where is not None:
        content[where] ^= 0xFF
    file.write_bytes(bytes(content[:20] if where is None else content))
    assert name in run_folder.damage_of(file.parent, run_folder.read_manifest(file.parent))
    with pytest.raises(GroundlabError, match=name):
        comparison.compare(version / "packed", version / "plain")
