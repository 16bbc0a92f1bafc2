"""Makes the weights that come with the package from a tested run.

Takes the run's last checkpoint, config and scores, and writes graphalgo/pretrained/NAME.
graphalgo/weights.py says what is in it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from graphalgo.errors import InputError
from graphalgo.shipping import ship
from graphalgo.weights import FOLDER


def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ship",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run_dir", type=Path, metavar="RUN", help="a run folder that has been tested")
    parser.add_argument("name", metavar="NAME", help="lower-case letters, digits and underscores")
    parser.add_argument("--about", default="", help="a sentence on what the model does, for its card")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where (default: the package)")
    args = parser.parse_args(argv)
    import clrs_bridge  # noqa: F401  (what configs name)
    import search_bench  # noqa: F401

    try:
        print(ship(args.run_dir, args.name, args.folder, args.about))
    except InputError as error:
        print(f"benchmarks.ship: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
