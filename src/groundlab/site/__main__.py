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
    if options.limit is not None and options.limit < 1:
        parser.error(f"expected --limit of at least 1, got {options.limit}; leave it out for all pages")
    try:
        print(f"{build(options.out, options.limit)} pages: {options.out / 'index.html'}")
    except GroundlabError as error:
        sys.exit(str(error))
