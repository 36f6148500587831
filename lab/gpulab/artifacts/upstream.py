"""Files that come from upstream modules or from Debian's packages as they are, so that none is copied into this repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from gpulab.artifacts import debian, golang
from gpulab.artifacts.components import component
from gpulab.progress import run_logged
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.paths import cache_dir


def module_file(name: str, path: str) -> Path:
    """A file of a component's upstream module.

    Raises:
        ToolError: the module could not be had, or has no such file.
    """
    part = component(name)
    command = [golang.find_go(), "mod", "download", "-json", f"{part.upstream}@{part.version}"]
    environment = {**os.environ, **golang.TOOLCHAIN}
    done = subprocess.run(
        command, cwd=part.folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ToolError(f"The Go module '{part.upstream}' could not be downloaded: {done.stderr.strip()}.")
    found = Path(json.loads(done.stdout)["Dir"]) / path
    if not found.is_file():
        raise ToolError(f"The Go module '{part.upstream}' {part.version} has no file '{path}'.")
    return found


def package_file(package: str, path: str, target: Path, suite: str = "bookworm") -> None:
    """Copy one file out of one of Debian's packages, without installing it.

    Args:
        package: the package's name.
        path: the file's path in it, without the leading slash.
        target: where the copy goes.
        suite: Debian's code name.
    """
    log = cache_dir() / "logs" / f"package-{package}.log"
    log.unlink(missing_ok=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        root = Path(folder)
        for name in ("lists/partial", "archives/partial", "etc"):
            (root / name).mkdir(parents=True)
        (root / "etc" / "sources.list").write_text(
            "".join(f"{debian.line(one)}\n" for one in debian.sources_for(suite))
        )
        (root / "status").touch()
        config = root / "apt.conf"
        config.write_text(
            f"{debian.forwarded_options()}\n"
            f'Dir::Etc "{root}/etc"; Dir::Etc::sourceparts "-"; Dir::Etc::parts "-";\n'
            'Dir::Etc::main "-"; Dir::Etc::preferencesparts "-";\n'
            f'Dir::State "{root}"; Dir::State::status "{root}/status"; Dir::Cache "{root}";\n'
            'APT::Sandbox::User "root"; Acquire::Languages "none";\n'
        )
        environment = {"APT_CONFIG": str(config)}
        run_logged(["apt-get", "update"], log, env=environment)
        run_logged(["apt-get", "download", package], log, cwd=root, env=environment)
        archive = next(root.glob(f"{package}_*.deb"))
        run_logged(["dpkg-deb", "--extract", archive, root / "out"], log)
        target.write_bytes((root / "out" / path).read_bytes())
        target.chmod(0o755)


def main() -> int:
    """`package_file` for a script: PACKAGE PATH TARGET SUITE."""
    package, path, target, suite = sys.argv[1:]
    try:
        package_file(package, path, Path(target), suite)
    except GpusmithError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 3
    return 0
