"""Records of published versions are packed: they read as before and keep their seals."""

import shutil

import pytest

from groundlab.core import seals, storage
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
