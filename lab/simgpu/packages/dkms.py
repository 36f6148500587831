#!/usr/bin/python3
"""dkms of the gpusmith lab: "builds" simulated modules by writing the kernel's name into ready-made objects."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

TREE = Path("/var/lib/dkms")
MARK = b"vermagic=@VERMAGIC"


def sources(module: str, version: str) -> Path:
    """Where a package puts the objects of one version."""
    return Path("/usr/src") / f"{module}-{version}"


def names(folder: Path) -> list[str]:
    """The modules that a folder of objects makes."""
    return sorted(path.name.removesuffix(".simulated.o") for path in folder.glob("*.simulated.o"))


def target(kernel: str) -> Path:
    """Where a kernel looks for them."""
    return Path("/lib/modules") / kernel / "updates" / "dkms"


def record(module: str, version: str, kernel: str) -> Path:
    """The folder whose existence says that a version was built for a kernel."""
    return TREE / module / version / kernel / platform.machine()


def build(module: str, version: str, kernel: str) -> int:
    """Build and install one version for one kernel; returns the exit status of dkms."""
    folder = sources(module, version)
    if not names(folder):
        print(f"Error! Could not find module source directory {folder}.", file=sys.stderr)
        return 2
    if not (Path("/lib/modules") / kernel / "build").exists():
        print(
            f"Error! Your kernel headers for kernel {kernel} cannot be found at /lib/modules/{kernel}/build.\n"
            f"Please install the linux-headers-{kernel} package "
            "or use the --kernelsourcedir option to tell DKMS where it's located.",
            file=sys.stderr,
        )
        return 21
    target(kernel).mkdir(parents=True, exist_ok=True)
    for name in names(folder):
        data = (folder / f"{name}.simulated.o").read_bytes()
        start = data.index(MARK)
        end = data.index(b"\0", start)
        magic = f"vermagic={kernel} SMP preempt mod_unload modversions ".encode()
        if len(magic) > end - start:
            print(f"Error! The kernel name {kernel} is too long for a simulated module.", file=sys.stderr)
            return 10
        new = target(kernel) / f"{name}.ko.new"
        new.write_bytes(data[:start] + magic.ljust(end - start, b"\0") + data[end:])
        new.rename(target(kernel) / f"{name}.ko")
    record(module, version, kernel).mkdir(parents=True, exist_ok=True)
    subprocess.run(["depmod", "-a", kernel], check=False)
    print(f"{module}/{version}, {kernel}, {platform.machine()}: installed (SIMULATED)")
    return 0


def made_from(source: Path, built: Path) -> bool:
    """Whether a module was made from these sources, and not from another version's that was installed over it."""
    if not source.is_file() or not built.is_file():
        return False
    data = source.read_bytes()
    start = data.index(MARK)
    end = data.index(b"\0", start)
    there = built.read_bytes()
    return len(there) == len(data) and there[:start] == data[:start] and there[end:] == data[end:]


def remove(module: str, version: str) -> int:
    """Remove one version from all kernels."""
    for folder in sorted((TREE / module / version).glob("*/*")):
        kernel = folder.parent.name
        for name in names(sources(module, version)):
            built = target(kernel) / f"{name}.ko"
            # rpm removes the old package after the new one was installed, whose modules stay.
            if made_from(sources(module, version) / f"{name}.simulated.o", built):
                built.unlink()
        subprocess.run(["depmod", "-a", kernel], check=False)
    shutil.rmtree(TREE / module / version, ignore_errors=True)
    return 0


def status(module: str, version: str) -> int:
    """List what was built."""
    for folder in sorted(TREE.glob("*/*/*/*")):
        kernel, machine = folder.parent.name, folder.name
        name, number = folder.parents[2].name, folder.parents[1].name
        if (not module or name == module) and (not version or number == version):
            print(f"{name}/{number}, {kernel}, {machine}: installed")
    return 0


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(prog="dkms")
    parser.add_argument(
        "action",
        nargs="?",
        choices=["add", "build", "install", "autoinstall", "remove", "status", "postinst"],
    )
    parser.add_argument("what", nargs="?", default="")
    parser.add_argument("-m", default="")
    parser.add_argument("-v", default="")
    parser.add_argument("-k", default=os.uname().release)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--force", action="store_true")
    parser.add_argument("-q", action="store_true")
    parser.add_argument("--version", "-V", action="store_true")
    options = parser.parse_args()
    if options.version or not options.action:
        print("dkms-3.2.2 (SIMULATED, gpusmith lab)")
        return 0
    module, _, version = options.what.partition("/")
    module, version = options.m or module, options.v or version
    if options.action == "status":
        return status(module, version)
    if options.action == "autoinstall":
        result = 0
        for folder in sorted(Path("/usr/src").glob("*-*")):
            if names(folder):
                name, _, number = folder.name.rpartition("-")
                result |= build(name, number, options.k)
        return result
    if not module or not version:
        print("Error! Arguments <module> and <module-version> are not specified.", file=sys.stderr)
        return 1
    if options.action == "remove":
        return remove(module, version)
    if options.action == "postinst":
        # As DKMS's common.postinst: without headers the package is installed and has no module.
        if not (Path("/lib/modules") / options.k / "build").exists():
            print(
                f"Module build for kernel {options.k} was skipped since the\n"
                "kernel headers for this kernel do not seem to be installed."
            )
            return 0
        return build(module, version, options.k)
    return build(module, version, options.k) if options.action in ("build", "install") else 0


if __name__ == "__main__":
    sys.exit(main())
