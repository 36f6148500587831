"""python -m gpulab.artifacts: build the lab's artifacts, all or some."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from gpulab.artifacts.builder import Builder, ensure, store
from gpulab.releases import TITLES, USUAL, Releases, known
from gpusmith.errors import GpusmithError


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; 0 if everything is there, 3 if something could not be built."""
    parser = argparse.ArgumentParser(prog="python -m gpulab.artifacts", description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the names, and build nothing")
    parser.add_argument("--only", metavar="NAME", action="append", help="build only this; may be repeated")
    for name in TITLES:
        parser.add_argument(
            f"--{name}",
            choices=known(name),
            default=getattr(USUAL, name),
            help="minor release (default: %(default)s)",
        )
    options = parser.parse_args(arguments)
    chosen = Releases(**{name: getattr(options, name) for name in TITLES})
    try:
        if options.list:
            print("\n".join(Builder(store(), chosen).names()))
            return 0
        artifacts = ensure(options.only, chosen=chosen)
    except GpusmithError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    for name in ("apt_root", "apt_key", "registry_root", "node_image", "depot_image"):
        print(f"{name}: {getattr(artifacts, name)}")
    for name, version in artifacts.versions.items():
        print(f"version {name}: {version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
