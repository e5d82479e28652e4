"""Records of published versions are packed: they read as before, keep their seals, and damage is seen."""

import gzip
import shutil
from pathlib import Path

import pandas as pd
import pytest

from groundlab.core import manifests, seals, storage
from groundlab.core.errors import GroundlabError
from groundlab.lab import comparison, run_folder, versions
from groundlab.report import records

RESULTS = Path(__file__).parents[3] / "results"
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


def test_packed_records_replace_plain_ones_and_read_alike(version):
    packed, plain = _run(version, "packed"), _run(version, "plain")
    assert not any((packed / name).exists() for name in NAMES)
    assert all((packed / f"{name}.gz").is_file() for name in NAMES)
    assert storage.read_json(packed / NAMES[1]) == storage.read_json(plain / NAMES[1])
    assert storage.read_lines(packed / NAMES[0]) == storage.read_lines(plain / NAMES[0])


def test_packing_changes_no_seal_and_no_comparison(version):
    packed, plain = _run(version, "packed"), _run(version, "plain")
    assert seals.digests_of(packed) == seals.digests_of(plain)
    assert run_folder.status_of(packed) == "finished"
    compared = comparison.compare(version / "packed", version / "plain")
    assert (len(compared.equal), compared.differing) == (1, [])


def test_packing_twice_gives_the_same_bytes(version):
    before = (_run(version, "packed") / "metrics.jsonl.gz").read_bytes()
    versions.pack_records(version / "plain")
    assert (_run(version, "plain") / "metrics.jsonl.gz").read_bytes() == before


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("where", [0, 12, -3])
def test_a_byte_that_flips_in_a_packed_record_is_seen(version, name, where):
    file = _run(version, "packed") / f"{name}.gz"
    content = bytearray(file.read_bytes())
    content[where] ^= 0xFF
    file.write_bytes(bytes(content))
    assert name in run_folder.damage_of(file.parent, run_folder.read_manifest(file.parent))
    with pytest.raises(GroundlabError, match=name):
        comparison.compare(version / "packed", version / "plain")


def test_a_packed_record_that_is_cut_or_gone_is_seen(version):
    folder = _run(version, "packed")
    file = folder / "evaluation.json.gz"
    file.write_bytes(file.read_bytes()[:20])
    assert list(run_folder.damage_of(folder, run_folder.read_manifest(folder))) == ["evaluation.json"]
    file.unlink()
    assert run_folder.damage_of(folder, run_folder.read_manifest(folder)) == {"evaluation.json": "is missing"}


def test_a_kill_between_writing_and_removing_loses_nothing(version):
    folder = _run(version, "plain")
    storage.write_atomic(folder / "metrics.jsonl.gz", b"half")
    assert run_folder.status_of(folder) == "finished"
    versions.pack_records(version / "plain")
    assert run_folder.status_of(folder) == "finished" and not (folder / "metrics.jsonl").exists()


def test_a_published_version_reads_and_verifies_as_well_with_unpacked_records(tmp_path):
    """As in the tarball of `nox -s archive`, where xz packs all of them together."""
    every = [RESULTS / name for name in manifests.published_versions(RESULTS)]
    packed = min(every, key=lambda each: (each / "manifest.json").stat().st_size)
    plain = shutil.copytree(packed, tmp_path / packed.name)
    files = list(plain.glob("*/runs/*/*.gz"))
    for file in files:
        file.with_suffix("").write_bytes(gzip.decompress(file.read_bytes()))
        file.unlink()
    assert len(files) > 100 and not list(plain.rglob("*.gz"))
    first, second = records.load(packed), records.load(plain)
    for name in ("runs", "evaluations", "curves", "tests"):
        pd.testing.assert_frame_equal(getattr(second, name), getattr(first, name))
    checked = {folder.relative_to(plain): manifest for folder, manifest in manifests.check_runs(plain).items()}
    assert checked == {folder.relative_to(packed): facts for folder, facts in manifests.check_runs(packed).items()}
    record = next(plain.glob("*/runs/*/evaluation.json"))
    record.write_bytes(record.read_bytes() + b"\n")
    with pytest.raises(GroundlabError, match=record.name):
        manifests.check_runs(plain)
