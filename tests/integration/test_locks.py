"""pylock.toml (PEP 751) says what the pins say, and says it with hashes."""

import importlib.util
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOCK = tomllib.loads((ROOT / "pylock.toml").read_text())
PACKAGES = {package["name"]: package for package in LOCK["packages"]}


def pins(file: str) -> dict[str, str]:
    """Package -> version of a file of requirements, names as PEP 503 writes them."""
    found = re.findall(r"^([A-Za-z0-9][\w.-]*)==(\S+)", (ROOT / "requirements" / file).read_text(), re.MULTILINE)
    return {re.sub("[-_.]+", "-", name).lower(): version for name, version in found}


def test_the_lock_has_every_pin_and_no_other_version():
    wanted = pins("constraints.txt")
    differing = {
        name: (version, PACKAGES.get(name, {}).get("version"))
        for name, version in wanted.items()
        if name in PACKAGES and PACKAGES[name]["version"] != version
    }
    assert not differing
    assert sorted(set(wanted) - set(PACKAGES)) == ["wheel"], "which builds, and is not needed by what is built"


def test_what_comes_with_torch_for_a_gpu_is_locked_as_in_the_images():
    images, extra = pins("container.lock"), set(PACKAGES) - set(pins("constraints.txt"))
    assert {name: PACKAGES[name]["version"] for name in extra} == {name: images[name] for name in extra}
    assert any(name.startswith("nvidia-") for name in extra)


def test_every_file_of_the_lock_has_a_digest_and_fits_the_reference_machine():
    assert LOCK["lock-version"] == "1.0"
    for name, package in PACKAGES.items():
        files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
        assert files, name
        for file in files:
            assert re.fullmatch("[0-9a-f]{64}", file["hashes"]["sha256"]), name
            assert file["url"].startswith("https://files.pythonhosted.org/"), name
        wheels = [file["url"] for file in package.get("wheels", [])]
        assert not wheels or any(url.endswith(("any.whl", "x86_64.whl")) for url in wheels), name


def test_sessions_install_all_of_the_lock_by_digest_and_torch_only_where_it_is_that_of_the_lock():
    found = importlib.util.spec_from_file_location("noxfile", ROOT / "noxfile.py")
    assert found and found.loader
    sessions = importlib.util.module_from_spec(found)
    found.loader.exec_module(sessions)
    builds, others = sessions.locked(with_torch=True)
    lines = {line.partition("==")[0]: line for line in [*builds, *others]}
    assert list(lines) == ["setuptools", *(name for name in PACKAGES if name != "setuptools")]
    for name, line in lines.items():
        files = PACKAGES[name].get("wheels") or [PACKAGES[name]["sdist"]]
        digests = re.findall(r" --hash=sha256:(\w+)", line)
        assert line.startswith(f"{name}=={PACKAGES[name]['version']} ")
        assert digests == [file["hashes"]["sha256"] for file in files]
    without = [line for part in sessions.locked(with_torch=False) for line in part]
    left_out = {line.partition("==")[0] for line in {*lines.values()} - {*without}}
    assert left_out == {"torch"} | set(PACKAGES) - set(pins("constraints.txt")) - {"setuptools"}
