"""containerd: its effective configuration, and whether it runs with it."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import fnmatch
import glob
import hashlib
import os
import re
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping, Sequence

from gpusmith.probe import cri, trust
from gpusmith.probe.commands import Command, find_program
from gpusmith.probe.cri import Cri
from gpusmith.probe.files import read_text
from gpusmith.probe.managed import MARK

ROOT_FILE = "/etc/containerd/config.toml"
# Where module containerd_config merges all settings of the CRI plugin for containerd 1.x; the last one of its folder.
MERGED_NAME = "zz-gpusmith-merged.toml"
CRI_OF_1 = "io.containerd.grpc.v1.cri"
# Module containerd_config notes there the digest of the configuration that it started containerd with.
CONTAINERD_NOTE = "/run/gpusmith/containerd-started-with"
# What role containerd puts into the environment of its service, and the drop-in that names it.
ENVIRONMENT = (
    "/etc/default/gpusmith-containerd",
    "/etc/systemd/system/containerd.service.d/gpusmith-environment.conf",
)


@dataclass(frozen=True)
class Effective:
    """Settings that matter, of the effective configuration; None where it could not be read."""

    runtime_nvidia: bool | None = None
    runtime_binary: str | None = None
    systemd_cgroup: bool | None = None
    cdi: bool | None = None
    cri_disabled: bool | None = None
    default_runtime: str | None = None
    default_binary: str | None = None
    cdi_spec_dirs: tuple[str, ...] | None = None
    cni_folders: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Registries:
    """What the site's own files say of registries.

    Attributes:
        config_path: folders with a folder for each registry, divided by colons.
        inline: the file that has mirrors or certificates itself: containerd takes those and folders only without each other.
    """

    config_path: str | None = None
    inline: str | None = None


@dataclass(frozen=True)
class Containerd:
    """What tells whether the running containerd has the configuration that its files give.

    Attributes:
        digest: of the effective configuration.
        start_digest: of that, with what the service gets in its environment.
        config_changed_unix: when the youngest file was changed.
        noted_digest: `start_digest` of what it was last started with by a role.
        noted_unix: when that was noted.
        root_schema: that the root file states; None if it states none, or there is none.
        registries: what the site has set of them.
        merge_outdated: whether the merged file that containerd 1.x needs has not what the others say.
        runtime_binary_found: whether the program of runtime 'nvidia' is there; None if it has none of its own.
    """

    version: str | None = None
    root_schema: int | None = None
    cri: Cri = field(default_factory=Cri)
    effective: Effective = field(default_factory=Effective)
    digest: str | None = None
    start_digest: str | None = None
    config_changed_unix: float | None = None
    noted_digest: str | None = None
    noted_unix: float | None = None
    runtime_binary_found: bool | None = None
    registries: Registries = field(default_factory=Registries)
    merge_outdated: bool = False


def load_toml(text: str) -> dict[str, Any]:
    """A TOML file; `ValueError` if it is none."""
    if sys.version_info >= (3, 11):
        from tomllib import loads
    else:  # what the controller sends along
        from tomli import loads
    return loads(text)


def parse_toml(text: str) -> dict[str, Any]:
    """A TOML file; empty if it is none."""
    try:
        return load_toml(text)
    except ValueError:
        return {}


def _dig(tree: Any, *keys: str) -> Any:
    for key in keys:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def read_files(root: str, planned: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """Content of the root file and of all that it imports, directly or by another file, in containerd's order.

    Args:
        root: path of the root file.
        planned: files that are to have this content, or not to be there.
    """
    planned = planned or {}
    found: dict[str, str] = {}
    waiting = [root]
    while waiting:
        path = waiting.pop(0)
        content = planned[path] if path in planned else _content(path)
        if path in found or content is None:
            continue
        found[path] = content
        for pattern in parse_toml(content).get("imports") or []:
            whole = os.path.normpath(os.path.join(os.path.dirname(path), str(pattern)))
            waiting += sorted({*glob.glob(whole), *fnmatch.filter(planned, whole)})
    return found


def _content(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError):
        return None


def of_others(root: str, files: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """What files say that are not ours, by path. Our root file has no settings: what is there was added by somebody else."""
    mark = MARK.decode()
    return {
        path: parse_toml(text) for path, text in files.items() if path == root or not text.startswith(mark)
    }


def in_force(others: Mapping[str, dict[str, Any]], version: str) -> dict[str, dict[str, Any]]:
    """Those of the site's files that count for the CRI plugin: 1.x takes the last one that has any settings of it."""
    if not version.startswith("1."):
        return dict(others)
    found = [path for path, tree in others.items() if _dig(tree, "plugins", CRI_OF_1)]
    return {path: others[path] for path in found[-1:]}


def merged_settings(root: str, files: Mapping[str, str]) -> dict[str, Any] | None:
    """All settings of the CRI plugin in one, as containerd 1.x needs them; None if no file of ours has any, or no other has.

    Of a plugin 1.x takes the settings of the last file that has any (https://github.com/containerd/containerd/issues/5837),
    so these are those of the site's last file, and ours above them.
    """
    others = of_others(root, files)
    own = [
        parse_toml(text)
        for path, text in files.items()
        if path not in others and os.path.basename(path) != MERGED_NAME
    ]
    ours = [found for tree in own for found in [_dig(tree, "plugins", CRI_OF_1)] if found]
    theirs = [found for tree in others.values() for found in [_dig(tree, "plugins", CRI_OF_1)] if found]
    if not ours or len([*ours, *theirs]) == 1:
        return None
    merged: dict[str, Any] = {}
    for settings in [*theirs[-1:], *ours]:
        merged = _above(merged, settings)
    return merged


def _above(below: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with others above them, table by table."""
    both = {
        key: _above(below[key], value)
        if isinstance(value, dict) and isinstance(below.get(key), dict)
        else value
        for key, value in settings.items()
    }
    return {**below, **both}


def merge_outdated(root: str, version: str, files: Mapping[str, str]) -> bool:
    """Whether the merged file has not what the others say, or is there and not needed."""
    there = [text for path, text in files.items() if os.path.basename(path) == MERGED_NAME]
    found = _dig(parse_toml(there[0]), "plugins", CRI_OF_1) if there else None
    wanted = merged_settings(root, files) if version.startswith("1.") else None
    return bool(found != wanted)


def read_registries(others: Mapping[str, dict[str, Any]]) -> Registries:
    """What the site has set of registries; of two files the later one wins, as with containerd."""
    folders = inline = None
    for path, tree in others.items():
        for plugin in (CRI_OF_1, "io.containerd.cri.v1.images"):
            registry = _dig(tree, "plugins", plugin, "registry") or {}
            folders = registry.get("config_path") or folders
            certificates = [_dig(row, "tls") for row in (registry.get("configs") or {}).values()]
            inline = path if registry.get("mirrors") or any(certificates) else inline
    return Registries(folders, inline)


def read_containerd_dump(text: str) -> Effective:
    """The settings that matter, from an effective configuration of schema version 2, 3 or 4."""
    tree = parse_toml(text)
    plugins = tree.get("plugins") or {}
    cri = plugins.get("io.containerd.cri.v1.runtime") or plugins.get(CRI_OF_1) or {}
    runtimes = _dig(cri, "containerd", "runtimes") or {}
    nvidia = runtimes.get("nvidia") if isinstance(runtimes, dict) else None
    default = _dig(cri, "containerd", "default_runtime_name") or "runc"
    groups = [
        bool(_dig(runtimes, name, "options", "SystemdCgroup"))
        for name in ("nvidia", default)
        if isinstance(runtimes, dict) and name in runtimes
    ]
    disabled = tree.get("disabled_plugins") or []
    folders = cri.get("cdi_spec_dirs")
    # Newer releases have a list, and may show the single one as well, empty.
    plugins_in = _dig(cri, "cni", "bin_dirs") or _dig(cri, "cni", "bin_dir") or ()
    return Effective(
        runtime_nvidia=nvidia is not None,
        runtime_binary=_dig(nvidia, "options", "BinaryName"),
        systemd_cgroup=bool(groups) and all(groups),
        cdi=bool(cri.get("enable_cdi")),
        default_runtime=str(default),
        default_binary=_dig(runtimes, default, "options", "BinaryName") or None,
        cdi_spec_dirs=tuple(folders) if folders else None,
        cni_folders=((plugins_in,) if isinstance(plugins_in, str) else tuple(plugins_in)) or None,
        cri_disabled=any(str(name) == "cri" or "cri" in str(name).split(".") for name in disabled),
    )


def digest(dump: str, more: str = "") -> str:
    """Of an effective configuration, with more that counts; 1.x lists the files that it read in another order each time."""

    def ordered(line: re.Match[str]) -> str:
        return f"imports = [{', '.join(sorted(line.group(1).split(', ')))}]"

    # 2.x, whose order is that of the files, quotes otherwise.
    text = re.sub(r"^imports = \[(\".*\")\]$", ordered, dump, count=1, flags=re.MULTILINE)
    return hashlib.sha256((text + more).encode()).hexdigest()


def start_digest(dump: str, environment: Sequence[str] = ENVIRONMENT) -> str:
    """Of all that a start of containerd goes by.

    Its effective configuration, files of its environment that are there, and the authorities that we brought to the trust store,
    which a program in Go reads once.
    """
    trusted = sorted(trust.gather().authorities.values())
    return digest(dump, "".join([*(read_text(path) or "" for path in environment), *trusted]))


def changed_unix() -> float | None:
    """When the youngest file was changed that a start goes by."""
    return newest([ROOT_FILE, *glob.glob("/etc/containerd/conf.d/*.toml"), *ENVIRONMENT, trust.STAMP])


def schema_of_file(text: str | None) -> int | None:
    """The `version` that a root file states."""
    matched = re.search(r"^\s*version\s*=\s*(\d+)", text or "", re.MULTILINE)
    return int(matched.group(1)) if matched else None


def ask() -> tuple[Command, Command, Command]:
    """Ask containerd for its effective configuration, its version and the state of its CRI plugin."""
    return Command("containerd", "config", "dump"), Command("containerd", "--version"), Command(*cri.LIST)


def newest(paths: Iterable[str]) -> float | None:
    """Unix time at which the youngest of these files was changed; None if there are none."""
    found = None
    for path in paths:
        with suppress(OSError):
            found = max(found or 0.0, os.stat(path).st_mtime)
    return found


def gather(asked: tuple[Command, Command, Command], errors: list[str]) -> Containerd:
    """What containerd of this machine works with."""
    dump, version, plugins = asked
    text = dump.output(errors)
    words = (version.output(errors) or "").split()
    numbers = [word.lstrip("v") for word in words if re.match(r"^v?\d+\.\d+", word)]
    files = read_files(ROOT_FILE)
    effective = read_containerd_dump(text) if text else Effective()
    binary = effective.runtime_binary
    # A containerd that is down or not there is no error of the probe: its service says so.
    unasked: list[str] = []
    listed = plugins.output(unasked)
    return Containerd(
        version=numbers[0] if numbers else None,
        root_schema=schema_of_file(read_text(ROOT_FILE)),
        cri=cri.read_plugins(listed)
        if listed is not None
        else Cri(error="; ".join(unasked) or "there is no 'ctr'"),
        effective=effective,
        digest=digest(text) if text else None,
        start_digest=start_digest(text) if text else None,
        config_changed_unix=changed_unix(),
        noted_digest=read_text(CONTAINERD_NOTE),
        noted_unix=newest([CONTAINERD_NOTE]),
        registries=read_registries(in_force(of_others(ROOT_FILE, files), numbers[0] if numbers else "")),
        merge_outdated=bool(numbers) and merge_outdated(ROOT_FILE, numbers[0], files),
        runtime_binary_found=find_program(str(binary)) is not None if binary else None,
    )
