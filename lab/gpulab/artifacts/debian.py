"""Root file systems of Debian, made by mmdebstrap with the mirrors that this machine itself uses."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpulab.artifacts.sources import IMAGES
from gpulab.artifacts.store import Inputs, Store
from gpulab.progress import run_logged
from gpusmith import yaml_text
from gpusmith.errors import ToolError
from gpusmith.paths import cache_dir

RECIPE = 2  # raise when the commands below change what comes out
TAR = "rootfs.tar"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
FORGET_MIRROR = 'cd "$1/etc/apt" && rm -f apt.conf.d/99mmdebstrap sources.list sources.list.d/*'
# What of the host's apt configuration is about reaching its mirrors; the rest is the host's own taste.
FORWARDED = re.compile(
    r'^(Acquire::(?:Check-Valid-Until|Check-Date|Retries|https?::.*Proxy.*) ".+";)$', re.MULTILINE
)


@dataclass(frozen=True)
class Source:
    """One apt source of this machine."""

    uri: str
    suite: str
    components: tuple[str, ...]


@dataclass(frozen=True)
class Rootfs:
    """One root file system, as lab/images/rootfs.yml describes it.

    Attributes:
        name: its key in that file.
        suite: Debian's code name.
        variant: mmdebstrap's variant.
        packages: what is installed besides the variant's own packages.
        excluded: paths that dpkg does not unpack.
        unpacked: the result is a folder, not a tar.
    """

    name: str
    suite: str
    variant: str
    packages: tuple[str, ...]
    excluded: tuple[str, ...] = ()
    unpacked: bool = False

    def inputs(self) -> Inputs:
        """What decides its content; Debian's point releases do not."""
        return {
            "recipe": RECIPE,
            "suite": self.suite,
            "variant": self.variant,
            "packages": list(self.packages),
            "excluded": list(self.excluded),
            "unpacked": self.unpacked,
            # Only where there are any to make relative.
            **({"links": "relative"} if self.unpacked else {}),
        }


def load(name: str) -> Rootfs:
    """The description of one root file system; one that is 'like' another has that one's packages before its own."""
    path = IMAGES / "rootfs.yml"
    described = yaml_text.load(path.read_text())
    entry = described.get(name)
    if entry is None:
        raise ToolError(f"'{path}' describes no root file system '{name}'.")
    model = described[entry["like"]] if "like" in entry else {}
    whole = {**model, **entry}
    packages = [*model.get("packages", ()), *entry.get("packages", ())]
    return Rootfs(
        name=name,
        suite=whole["suite"],
        variant=whole["variant"],
        packages=tuple(package for package in packages if package not in whole.get("without", ())),
        excluded=tuple(whole.get("excluded", ())),
        unpacked=bool(whole.get("unpacked", False)),
    )


def build(store: Store, rootfs: Rootfs) -> Path:
    """The tar file, or the folder if it is unpacked.

    Raises:
        ToolError: no mirror is configured, or mmdebstrap failed; names the log.
    """

    def bootstrap(folder: Path) -> None:
        target = folder / ("rootfs" if rootfs.unpacked else TAR)
        options = folder / "apt.conf"
        options.write_text(forwarded_options())
        # mmdebstrap unpacks below TMPDIR: inside the unfinished folder a killed run is swept with it.
        work = folder / "tmp"
        work.mkdir()
        work.chmod(0o1777)
        folder.chmod(0o755)
        # In root mode mmdebstrap mounts the host's /dev and /dev/shm below its target. In a mount namespace of its own these are
        # gone with it, however it ends; otherwise whoever sweeps up after a killed run would delete through them.
        command = [
            *("unshare", "--mount", "--propagation", "private", "--"),
            "mmdebstrap",
            "--mode=root",
            f"--variant={rootfs.variant}",
            f"--format={'directory' if rootfs.unpacked else 'tar'}",
        ]
        command += [
            f"--include={','.join(rootfs.packages)}",
            f"--aptopt={options}",
            '--aptopt=APT::Install-Recommends "false"',
        ]
        command += [f"--dpkgopt=path-exclude={path}" for path in rootfs.excluded]
        if rootfs.variant != "extract":
            # Machines get packages from the lab's depot only; the builder's mirror is none of their business.
            command.append(f"--customize-hook={FORGET_MIRROR}")
        command += [rootfs.suite, str(target), *(line(source) for source in sources_for(rootfs.suite))]
        log = cache_dir() / "logs" / f"rootfs-{rootfs.name}.log"
        log.unlink(missing_ok=True)
        run_logged(
            command,
            log,
            env={"TMPDIR": str(work), "LC_ALL": "C.UTF-8"},
            hint="Does 'apt-get update' work on this machine?",
        )
        work.rmdir()
        options.unlink()
        if rootfs.unpacked:
            make_links_relative(target)

    label = f"Debian '{rootfs.suite}' root file system '{rootfs.name}' ({len(rootfs.packages)} packages and what they need)"
    folder = store.get(f"rootfs-{rootfs.name}", rootfs.inputs(), bootstrap, label)
    return folder / ("rootfs" if rootfs.unpacked else TAR)


def make_links_relative(root: Path) -> None:
    """Let a folder's absolute links lead to what they mean when it is a root.

    A linker that follows /lib64/ld-linux-x86-64.so.2 below its sysroot would else take the C library of the machine it runs on.
    """
    for path in root.rglob("*"):
        if path.is_symlink() and (target := path.readlink()).is_absolute():
            inside = root / target.relative_to("/")
            path.unlink()
            path.symlink_to(os.path.relpath(inside, path.parent))


def sources_for(
    suite: str, etc_apt: Path = Path("/etc/apt"), os_release: Path = Path("/etc/os-release")
) -> list[Source]:
    """This machine's Debian sources, with its code name replaced by another suite's.

    Raises:
        ToolError: this machine has no Debian source.
    """
    found = re.search(r"^VERSION_CODENAME=(\S+)$", os_release.read_text(), re.MULTILINE)
    codename = found[1].strip('"') if found else ""
    own = {codename, f"{codename}-updates", f"{codename}-security"} if codename else set()
    # Only Debian's own archive has these suites with 'main'; other vendors' repositories are left out by that.
    picked = [source for source in configured(etc_apt) if source.suite in own and "main" in source.components]
    if not picked:
        raise ToolError(
            f"No apt source for Debian '{codename or '?'}' was found in '{etc_apt}'.",
            "The lab's images are made from the Debian mirror that this machine uses.",
        )
    return [Source(source.uri, source.suite.replace(codename, suite, 1), ("main",)) for source in picked]


def line(source: Source) -> str:
    """The source in apt's one-line form, checked with Debian's keyring."""
    return f"deb [signed-by={KEYRING}] {source.uri} {source.suite} {' '.join(source.components)}"


def configured(etc_apt: Path) -> list[Source]:
    """Every enabled binary source below /etc/apt, from both of apt's formats."""
    found: list[Source] = []
    lists = [etc_apt / "sources.list", *sorted((etc_apt / "sources.list.d").glob("*.list"))]
    for path in (path for path in lists if path.is_file()):
        for text in path.read_text().splitlines():
            parts = re.match(r"\s*deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+(\S+)\s+([^#]+)", text)
            if parts:
                found.append(Source(parts[1], parts[2], tuple(parts[3].split())))
    for path in sorted((etc_apt / "sources.list.d").glob("*.sources")):
        for stanza in re.split(r"\n\s*\n", path.read_text()):
            found += _from_stanza(_fields(stanza))
    return found


def _fields(stanza: str) -> Mapping[str, Sequence[str]]:
    fields: dict[str, list[str]] = {}
    current: list[str] = []
    for text in stanza.splitlines():
        if text.startswith("#"):
            continue
        values = text
        if not text[:1].isspace() and ":" in text:
            name, _, values = text.partition(":")
            current = fields.setdefault(name.strip().lower(), [])
        current += values.split()
    return fields


def _from_stanza(fields: Mapping[str, Sequence[str]]) -> list[Source]:
    if "deb" not in fields.get("types", ()) or list(fields.get("enabled", ["yes"])) == ["no"]:
        return []
    components = tuple(fields.get("components", ()))
    return [
        Source(uri, suite, components) for uri in fields.get("uris", ()) for suite in fields.get("suites", ())
    ]


def forwarded_options() -> str:
    """The host's apt options that its mirrors need (proxy, validity), in apt's syntax."""
    dumped = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout
    return "\n".join(["# from the building machine", *FORWARDED.findall(dumped), ""])
