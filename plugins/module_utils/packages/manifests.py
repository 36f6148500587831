"""Folders of saved packages, with a manifest of what is in them."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import Callable, List, Mapping, Sequence

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import PackageError, Saved

MANIFEST = "manifest.json"
SCHEMA = 1
# Beginning of the name of a folder for downloads; dnf notes its files, and deletes them after a later transaction.
DOWNLOADS = "gpusmith-download-"


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    found = hashlib.sha256()
    with path.open("rb") as stream:
        for part in iter(lambda: stream.read(1 << 20), b""):
            found.update(part)
    return found.hexdigest()


def write(folder: Path, manager: str, saved: Sequence[Saved]) -> None:
    """Put a folder's manifest there, at once and last: a folder without one is not complete."""
    content = {"schema": SCHEMA, "manager": manager, "packages": [each._asdict() for each in sorted(saved)]}
    temporary = folder / f".{MANIFEST}.new"
    temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    temporary.replace(folder / MANIFEST)


def read(folder: Path, manager: str) -> List[Saved]:
    """What a folder holds, every file compared with its checksum.

    Raises:
        PackageError: there is no manifest, or a file is missing or another one.
    """
    try:
        content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        saved = [Saved(**each) for each in content["packages"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PackageError(
            f"'{folder}' has no readable '{MANIFEST}' ({error}), so its packages are not complete. Fetch them again."
        ) from error
    if content.get("manager") != manager:
        raise PackageError(
            f"The packages in '{folder}' are for '{content.get('manager')}', not for '{manager}'."
        )
    for each in saved:
        path = folder / Path(each.file).name
        if not path.is_file() or digest(path) != each.sha256:
            raise PackageError(
                f"'{path}' is missing, or not what '{MANIFEST}' says. Fetch the packages again."
            )
    return saved


def complete(
    folder: Path,
    manager: str,
    versions: Mapping[str, str],
    save: Callable[[Mapping[str, str], Path], Sequence[Saved]],
) -> List[Saved]:
    """Have exactly these packages in a folder. What it has of them stays, since no repository may have it any more.

    Args:
        folder: that is to have them.
        manager: name of the package manager.
        versions: full, by name.
        save: saves packages in an empty folder; tells those that it has saved.
    """
    try:
        before = read(folder, manager)
    except PackageError:
        before = []
    kept = [each for each in before if versions.get(each.name) == each.version]
    lacking = {name: versions[name] for name in versions.keys() - {each.name for each in kept}}
    if kept == before and not lacking:
        return before
    folder.mkdir(parents=True, exist_ok=True)
    for killed in folder.glob(f"{DOWNLOADS}*"):
        shutil.rmtree(killed)
    with tempfile.TemporaryDirectory(prefix=DOWNLOADS, dir=str(folder)) as name:
        added = save(lacking, Path(name)) if lacking else ()
        lost = sorted(lacking.keys() - {each.name for each in added})
        if lost:
            raise PackageError(
                f"{manager} did not save {', '.join(lost)} in '{folder}'. Look at the space there."
            )
        for each in added:
            Path(name, each.file).replace(folder / each.file)
    saved = sorted([*kept, *added])
    write(folder, manager, saved)
    for path in folder.iterdir():
        if path.suffix in (".deb", ".rpm") and path.name not in {each.file for each in saved}:
            path.unlink()
    return saved
