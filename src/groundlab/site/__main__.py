"""`python -m groundlab.site OUT [--limit N]`: what `nox -s site` calls."""

import argparse
import sys
from pathlib import Path

from groundlab.core.errors import GroundlabError
from groundlab.site.build import build

if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m groundlab.site", description="Make the site of this clone.")
    parser.add_argument("out", type=Path, help="the folder of the site")
    parser.add_argument("--limit", type=int, help="at most so many claims, worlds, modules and notebooks")
    options = parser.parse_args()
    try:
        print(f"{build(options.out, options.limit)} pages: {options.out / 'index.html'}")
    except GroundlabError as error:
        sys.exit(str(error))
