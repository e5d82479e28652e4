"""Install what pylock.toml locks into the Python that runs this; it needs pip and nothing else.

    python requirements/install.py here      for nox: by digest on Python 3.11 and x86_64 Linux, elsewhere by version
    python requirements/install.py cuda      for an image: all by digest, torch from PyPI with NVIDIA's libraries
    python requirements/install.py cpu       for an image: torch, at its locked version, from the index $TORCH_INDEX
    python requirements/install.py index     as cpu, with the libraries that this torch asks for, e.g. of CUDA 12
    python requirements/install.py export    write requirements/constraints.txt, the versions, for other Pythons

Where torch comes from another index than PyPI, it and its libraries have other files: these have no digest in the lock.
Further words are options of `pip install`.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "requirements" / "constraints.txt"
HEADER = "# The versions of pylock.toml without torch's GPU libraries, for `pip install -c`; `nox -s lock` writes it\n"
GPU_LIBRARIES = ("nvidia-", "cuda-", "triton")
FITS = (sys.version_info[:2], sys.platform, platform.machine()) == ((3, 11), "linux", "x86_64")


def packages() -> list[dict[str, Any]]:
    """Return the packages of pylock.toml, one table each."""
    return tomllib.loads((ROOT / "pylock.toml").read_text())["packages"]


def constraints() -> str:
    """The content of requirements/constraints.txt."""
    kept = [each for each in packages() if not each["name"].startswith(GPU_LIBRARIES)]
    return HEADER + "".join(f"{each['name']}=={each['version']}\n" for each in kept)


def requirement(package: dict[str, Any]) -> str:
    """One locked package as a line for pip, with the digests of its wheels, or of its source where it has none."""
    files = package.get("wheels") or [package["sdist"]]
    marker = f" ; {package['marker']}" if "marker" in package else ""
    digests = "".join(f" --hash=sha256:{file['hashes']['sha256']}" for file in files)
    return f"{package['name']}=={package['version']}{marker}{digests}\n"


def install_locked(torch_too: bool, options: list[str]) -> None:
    """Install by digest; setuptools first, as it builds what has no wheel."""
    lines = {each["name"]: requirement(each) for each in packages()}
    if not torch_too:
        lines = {name: line for name, line in lines.items() if not name.startswith(("torch", *GPU_LIBRARIES))}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "locked.txt")
        for part in ([lines.pop("setuptools")], lines.values()):
            file.write_text("".join(part))
            pip("install", *options, "--require-hashes", "--no-deps", "--no-build-isolation", "-r", str(file))


def pip(*words: str) -> None:
    """Run pip of this Python; end with its exit code where it fails."""
    if code := subprocess.run([sys.executable, "-m", "pip", *words]).returncode:
        sys.exit(code)


def has_other_sources() -> bool:
    """Return True if pip here uses other indexes than PyPI: torch may then be another build."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    settings = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return re.search(r"\.(index-url|extra-index-url|find-links)=", settings) is not None


def install_here(options: list[str]) -> None:
    """Install for nox; $GROUNDLAB_TORCH_INDEX, when set, is where torch comes from."""
    index, pins = os.environ.get("GROUNDLAB_TORCH_INDEX", ""), ("-c", str(CONSTRAINTS))
    if FITS:
        install_locked(not (index or has_other_sources()), options)
    else:
        pip("install", *options, *pins, "setuptools")
    pip("install", *options, *pins, "torch", *(("--extra-index-url", index) if index else ()))


def install_in_image(torch: str, options: list[str]) -> None:
    """Install for an image: `torch` is cuda, cpu or index."""
    install_locked(torch == "cuda", options)
    if torch != "cuda":
        (version,) = [each["version"] for each in packages() if each["name"] == "torch"]
        alone = ("--no-deps",) if torch == "cpu" else ()
        pip("install", *options, *alone, "--index-url", os.environ["TORCH_INDEX"], f"torch=={version}")
    pip("check")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["here", "cuda", "cpu", "index", "export"])
    given, options = parser.parse_known_args()
    if given.what == "export":
        CONSTRAINTS.write_text(constraints())
    elif given.what == "here":
        install_here(options)
    else:
        install_in_image(given.what, options)


if __name__ == "__main__":
    main()
