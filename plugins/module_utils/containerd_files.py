"""What containerd's files have to be, beside those of the site: root file, drop-ins, the merged file of containerd 1.x, registries."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.module_utils import containerd
from ansible_collections.gpusmith.gpu.plugins.module_utils.files import mode_of, read

FOLDER = Path("/etc/containerd")
ROOT = FOLDER / "config.toml"
# The root file before the first change.
KEPT = FOLDER / "config.toml.before-gpusmith"
# All settings of the CRI plugin, where containerd reads one file's only.
MERGED = FOLDER / "conf.d" / "zz-gpusmith-merged.toml"
# They may have passwords of registries, and show up in no diff.
PRIVATE = (KEPT, MERGED)
HOSTS = "hosts.toml"


def mode_to_make(path: Path) -> int | None:
    """Of a file that is not there yet: what has been kept is no more readable than where it was."""
    return {KEPT: mode_of(ROOT), ROOT: mode_of(KEPT), MERGED: 0o600}.get(path)


def other_drop_ins(path: Path) -> dict[Path, str]:
    """Our drop-ins beside one, with their content."""
    texts = {other: read(other) or "" for other in path.parent.glob("*.toml") if other not in (path, MERGED)}
    return {other: text for other, text in texts.items() if text.startswith(containerd.OURS)}


def without(path: Path) -> dict[Path, str | None]:
    """What the files have to be without a drop-in; with the last one of ours the root file goes back to what it was."""
    if other_drop_ins(path):
        return {path: None}
    return {path: None, ROOT: containerd.restored(read(ROOT), read(KEPT)), KEPT: None, MERGED: None}


def wanted(params: Mapping[str, Any], path: Path, version: str) -> dict[Path, str | None]:
    """What the files have to be, by path; nothing is written before all of it is known.

    Raises:
        ConfigError: the site's configuration cannot be completed.
    """
    if params["state"] == "present":
        text = read(ROOT)
        root, schema = containerd.root_file(text, version)
        images = beside_the_site(params["images"], params["registries"], root, version)
        drop_in = containerd.drop_in(schema, params["name"], params["runtime"], images)
        is_first = (
            not KEPT.exists() and text not in (None, root) and not str(text).startswith(containerd.OURS)
        )
        files = {**({KEPT: text} if is_first else {}), ROOT: root, path: drop_in}
        files.update(
            {
                other: containerd.in_schema(schema, other.stem, theirs)
                for other, theirs in other_drop_ins(path).items()
            }
        )
    else:
        files = without(path)
    files[MERGED] = merged(files, version)
    return {**files, **registries(params["registries"], params["state"])}


def merged(files: Mapping[Path, str | None], version: str) -> str | None:
    """The file that containerd 1.x needs beside ours.

    Raises:
        ConfigError: another file would be read behind it, and hide all of it.
    """
    from gpusmith.probe.containerd import CRI_OF_1, merged_settings, parse_toml, read_files

    if containerd.schema_of_release(version) > 2:
        return None
    planned = {**{str(path): text for path, text in files.items()}, str(MERGED): containerd.OURS}
    there = read_files(str(ROOT), planned)
    settings = merged_settings(str(ROOT), there)
    if settings is None or str(MERGED) not in there:
        return None
    order = list(there)
    for path in order[order.index(str(MERGED)) + 1 :]:
        if CRI_OF_1 in (parse_toml(there[path]).get("plugins") or {}):
            raise containerd.ConfigError(
                f"'{path}' sets the CRI plugin, and is read after ours: containerd {version} reads the last such file only."
                f" Import it before '{containerd.IMPORTS}', or give it a name that sorts before '{MERGED.name}'."
            )
    text: str = containerd.merged(settings)
    return text


def overrides(effective: str) -> list[str]:
    """Who else sets what is ours."""
    from gpusmith.probe.containerd import of_others, parse_toml, read_files

    files = read_files(str(ROOT))
    others = of_others(str(ROOT), files)
    ours = {path: parse_toml(text) for path, text in files.items() if path not in others}
    found: list[str] = containerd.overrides(ours, others, parse_toml(effective))
    return found


def registries(
    wanted: list[dict[str, str]] | None, state: str, folder: Path = FOLDER / "certs.d"
) -> dict[Path, str | None]:
    """What the registries' files have to be, by path; None for those of ours that are to go."""
    if wanted is None:
        return {}
    mark = containerd.OURS.encode()
    files: dict[Path, str | None] = {
        path: None for path in folder.glob(f"*/{HOSTS}") if path.read_bytes().startswith(mark)
    }
    listed = wanted if state == "present" else []
    for row in listed:
        path = folder / row["host"] / HOSTS
        if path.exists() and not path.read_bytes().startswith(mark):
            raise containerd.ConfigError(
                f"'{path}' is not of gpusmith, and 'containerd_registries' lists '{row['host']}'. Take it out of the list, or move the file away."
            )
    return {
        **files,
        **{folder / row["host"] / HOSTS: containerd.hosts_toml(row["endpoint"]) for row in listed},
    }


def beside_the_site(
    images: dict[str, Any], listed: list[dict[str, str]] | None, root: str, version: str
) -> dict[str, Any]:
    """Our settings of images, as they go with what the site has set of registries.

    Raises:
        ConfigError: registries are listed, and the site's own way to do that excludes it.
    """
    from gpusmith.probe.containerd import in_force, of_others, read_files, read_registries

    others = of_others(str(ROOT), read_files(str(ROOT), {str(ROOT): root}))
    site = read_registries(in_force(others, version))
    if site.inline and listed:
        raise containerd.ConfigError(
            f"'{site.inline}' has 'registry.mirrors' or 'registry.configs' with certificates. containerd does not take these beside"
            " folders of registries, which 'containerd_registries' needs. Move them to a 'hosts.toml' of each registry in"
            " '/etc/containerd/certs.d', or leave 'containerd_registries' empty."
        )
    found: dict[str, Any] = containerd.beside(images, site.config_path, site.inline)
    return found
