#!/usr/bin/python3
"""dkms of the gpusmith lab: "builds" simulated modules by writing the kernel's name into ready-made objects.

What it keeps on disk, and what its subcommands refuse, are those of dkms 3, which tests/long/test_build_once.py tries.
Kernels that come and go reach it by the hooks beside this file.
Each build, and nothing else, adds a line to COMPILED and its machine's name to the modules that it makes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(os.environ.get("SIMGPU_TEST_ROOT") or "/")
TREE = ROOT / "var/lib/dkms"
SOURCES = ROOT / "usr/src"
KERNELS = ROOT / "lib/modules"
SETTINGS = ROOT / "etc/dkms"
COMPILED = ROOT / "var/log/simgpu-compiled.jsonl"
MARKS = {
    "vermagic": b"vermagic=@VERMAGIC",
    "compiled_on": b"compiled_on=@COMPILED",
}
EXCLUDED = 77


class DkmsError(Exception):
    """It ends with this status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def sources(module: str, version: str) -> Path:
    """Where a package puts the objects of one version."""
    return SOURCES / f"{module}-{version}"


def names(folder: Path) -> list[str]:
    """The modules that a folder of objects makes."""
    return sorted(path.name.removesuffix(".simulated.o") for path in folder.glob("*.simulated.o"))


def target(kernel: str) -> Path:
    """Where a kernel looks for them."""
    return KERNELS / kernel / "updates" / "dkms"


def built(module: str, version: str, kernel: str) -> Path:
    """The folder whose existence says that a version was built for a kernel."""
    return TREE / module / version / kernel / platform.machine()


def active(module: str, kernel: str) -> Path:
    """The link that says which version is installed for a kernel."""
    return TREE / module / f"kernel-{kernel}-{platform.machine()}"


def is_installed(module: str, version: str, kernel: str) -> bool:
    """Whether it is this version that is installed."""
    link = active(module, kernel)
    return link.is_symlink() and str(link.readlink()).split("/")[0] == version


def is_excluded(module: str, version: str, kernel: str) -> bool:
    """Whether dkms.conf, or a file of an administrator beside it, keeps a module from being built for a kernel."""
    own = sources(module, version) / "dkms.conf"
    beside = [SETTINGS / f"{module}.conf", SETTINGS / f"{module}-{version}.conf"]
    beside.append(SETTINGS / f"{module}-{version}-{kernel}.conf")
    text = "".join(f". '{path}'\n" for path in (own, *beside) if path.exists())
    done = subprocess.run(
        ["sh", "-c", f'{text}printf %s "$BUILD_EXCLUSIVE_KERNEL"'], capture_output=True, text=True, check=True
    )
    return bool(done.stdout) and not re.search(done.stdout, kernel)


def add(module: str, version: str) -> None:
    """Make a version known."""
    if not names(sources(module, version)):
        raise DkmsError(2, f"Could not find module source directory {sources(module, version)}.")
    link = TREE / module / version / "source"
    if link.is_symlink():
        raise DkmsError(3, f"DKMS tree already contains: {module}/{version}")
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(sources(module, version))


def filled(data: bytes, kernel: str) -> bytes:
    """A ready-made object with what only its build knows."""
    words = {
        "vermagic": f"{kernel} SMP preempt mod_unload modversions ",
        "compiled_on": platform.node(),
    }
    for key, mark in MARKS.items():
        start = data.find(mark)
        if start < 0:
            continue
        end = data.index(b"\0", start)
        text = f"{key}={words[key]}".encode()
        if len(text) > end - start:
            raise DkmsError(10, f"'{words[key]}' is too long for a simulated module.")
        data = data[:start] + text.ljust(end - start, b"\0") + data[end:]
    return data


def build(module: str, version: str, kernel: str) -> None:
    """Build one version for one kernel, if that was not done."""
    if built(module, version, kernel).is_dir():
        print(f"Module {module}/{version} already built for kernel {kernel}, skip.")
        return
    if not (TREE / module / version / "source").is_symlink():
        add(module, version)
    if is_excluded(module, version, kernel):
        raise DkmsError(
            EXCLUDED,
            f"The dkms.conf for module {module}/{version} includes a BUILD_EXCLUSIVE directive"
            " which does not match this kernel/arch/config.",
        )
    if not (KERNELS / kernel / "build").exists():
        raise DkmsError(
            21,
            f"Your kernel headers for kernel {kernel} cannot be found at /lib/modules/{kernel}/build.\n"
            f"Please install the linux-headers-{kernel} package "
            "or use the --kernelsourcedir option to tell DKMS where it's located.",
        )
    folder = built(module, version, kernel)
    (folder / "module").mkdir(parents=True)
    (folder / "log").mkdir()
    for name in names(sources(module, version)):
        data = (sources(module, version) / f"{name}.simulated.o").read_bytes()
        (folder / "module" / f"{name}.ko").write_bytes(filled(data, kernel))
    line = {"time": time.time(), "module": module, "version": version, "kernel": kernel}
    COMPILED.parent.mkdir(parents=True, exist_ok=True)
    with COMPILED.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(f"Building module(s)... done. (SIMULATED) {module}/{version}, {kernel}")


def install(module: str, version: str, kernel: str, force: bool = False) -> None:
    """Give a kernel the modules of a version, and build them if need be."""
    build(module, version, kernel)
    if is_installed(module, version, kernel) and not force:
        print(f"Module {module}/{version} already installed on kernel {kernel}, skip.")
        return
    target(kernel).mkdir(parents=True, exist_ok=True)
    for path in sorted((built(module, version, kernel) / "module").glob("*.ko")):
        new = target(kernel) / f"{path.name}.new"
        shutil.copyfile(path, new)
        new.rename(target(kernel) / path.name)
    link = active(module, kernel)
    link.unlink(missing_ok=True)
    link.symlink_to(f"{version}/{kernel}/{platform.machine()}")
    depmod(kernel)
    print(f"{module}/{version}, {kernel}, {platform.machine()}: installed (SIMULATED)")


def depmod(kernel: str) -> None:
    """What modprobe reads."""
    if shutil.which("depmod"):
        subprocess.run(["depmod", "-b", str(ROOT), "-a", kernel], check=False)


def uninstall(module: str, version: str, kernel: str) -> None:
    """Take the modules of a version from a kernel, unless those there are another version's."""
    if not is_installed(module, version, kernel):
        return
    for path in (built(module, version, kernel) / "module").glob("*.ko"):
        (target(kernel) / path.name).unlink(missing_ok=True)
    active(module, kernel).unlink()
    depmod(kernel)


def remove(module: str, version: str) -> None:
    """Remove one version from all kernels."""
    for folder in sorted((TREE / module / version).glob("*/*/module")):
        uninstall(module, version, folder.parents[1].name)
    shutil.rmtree(TREE / module / version, ignore_errors=True)
    if (TREE / module).is_dir() and not any((TREE / module).iterdir()):
        (TREE / module).rmdir()


def kernel_prerm(kernel: str) -> None:
    """A kernel goes, and with it what was built for it."""
    for folder in sorted(TREE.glob(f"*/*/{kernel}")):
        module, version = folder.parts[-3:-1]
        uninstall(module, version, kernel)
        shutil.rmtree(folder)
    for folder in (target(kernel), target(kernel).parent):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def ldtarball(archive: Path, force: bool) -> None:
    """Put built modules of an archive into the tree."""
    with tempfile.TemporaryDirectory() as name:
        subprocess.run(["tar", "-xaf", archive, "-C", name], check=True)
        stub = Path(name) / "dkms_binaries_only"
        if not (stub / "dkms.conf").is_file():
            raise DkmsError(7, f"{archive} is not a valid DKMS tarball.")
        found = dict(re.findall(r'(?m)^(PACKAGE_\w+)="?([^"\n]*)"?$', (stub / "dkms.conf").read_text()))
        module, version = found["PACKAGE_NAME"], found["PACKAGE_VERSION"]
        if (TREE / module / version / "source").is_symlink() and not force:
            raise DkmsError(8, f"{module}/{version} is already added!")
        for folder in sorted(Path(name).glob("dkms_main_tree/*/*")):
            place = TREE / module / version / folder.parent.name / folder.name
            if place.is_dir() and not force:
                print(f"{place} already exists. Skipping...")
                continue
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(folder, place)
        # As the real one, which then adds what may be there.
        add(module, version)


def states(module: str, version: str) -> list[tuple[str, str, str, str]]:
    """Module, version, kernel and state; a version that is only known has no kernel."""
    found = []
    for link in sorted(TREE.glob("*/*/source")):
        name, number = link.parents[1].name, link.parent.name
        if (module and name != module) or (version and number != version):
            continue
        kernels = sorted(folder.parents[1].name for folder in link.parent.glob("*/*/module"))
        for kernel in kernels:
            state = "installed" if is_installed(name, number, kernel) else "built"
            found.append((name, number, kernel, state))
        if not kernels:
            found.append((name, number, "", "added"))
    return found


def status(module: str, version: str) -> None:
    """List what is known."""
    for name, number, kernel, state in states(module, version):
        print(f"{name}/{number}{f', {kernel}, {platform.machine()}' if kernel else ''}: {state}")


def autoinstall(kernel: str) -> int:
    """Build and install for a kernel what is known; one that may not be built is left out."""
    result = 0
    for name, number in sorted({row[:2] for row in states("", "")}):
        try:
            install(name, number, kernel)
        except DkmsError as error:
            if error.status != EXCLUDED:
                print(f"Error! {error}", file=sys.stderr)
                result = 11
    return result


def postinst(module: str, version: str, kernel: str) -> None:
    """As DKMS's common.postinst: without headers, and where a build is excluded, the package is installed and has no module."""
    if (TREE / module / version).exists():
        print(f"Removing old {module}/{version} DKMS files...")
        remove(module, version)
    add(module, version)
    if not (KERNELS / kernel / "build").exists():
        print(
            f"Module build for kernel {kernel} was skipped since the\n"
            "kernel headers for this kernel do not seem to be installed."
        )
        return
    try:
        install(module, version, kernel)
    except DkmsError as error:
        if error.status != EXCLUDED:
            raise
        print("Skipped.")


ACTIONS = (
    *("add", "build", "install", "autoinstall", "uninstall", "remove", "status", "postinst", "ldtarball"),
    *("kernel_postinst", "kernel_prerm"),
)


def act(options: argparse.Namespace, module: str, version: str) -> int:
    """Do one of ACTIONS; returns the exit status of dkms."""
    if options.action == "status":
        status(module, version)
    elif options.action in ("autoinstall", "kernel_postinst"):
        return autoinstall(options.k)
    elif options.action == "kernel_prerm":
        kernel_prerm(options.k)
    elif options.action == "ldtarball":
        ldtarball(Path(options.archive), options.force)
    elif not module or not version:
        raise DkmsError(1, "Arguments <module> and <module-version> are not specified.")
    elif options.action == "add":
        add(module, version)
    elif options.action == "build":
        build(module, version, options.k)
    elif options.action == "install":
        install(module, version, options.k, options.force)
    elif options.action == "uninstall":
        uninstall(module, version, options.k)
    elif options.action == "remove":
        remove(module, version)
    else:
        postinst(module, version, options.k)
    return 0


def main(words: list[str] | None = None) -> int:
    """The program."""
    parser = argparse.ArgumentParser(prog="dkms")
    parser.add_argument("action", nargs="?", choices=ACTIONS)
    parser.add_argument("what", nargs="?", default="")
    parser.add_argument("-m", default="")
    parser.add_argument("-v", default="")
    parser.add_argument("-k", "--kernelver", dest="k", default=os.uname().release)
    parser.add_argument("--archive", default="")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--force", action="store_true")
    parser.add_argument("-q", action="store_true")
    parser.add_argument("--version", "-V", action="store_true")
    options = parser.parse_args(words)
    if options.version or not options.action:
        print("dkms-3.2.2 (SIMULATED, gpusmith lab)")
        return 0
    module, _, version = options.what.partition("/")
    try:
        return act(options, options.m or module, options.v or version)
    except DkmsError as error:
        print(f"Error! {error}", file=sys.stderr)
        return error.status


if __name__ == "__main__":
    sys.exit(main())
