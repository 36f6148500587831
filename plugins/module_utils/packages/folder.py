"""Folders of package files that a site has put together: what they have, proved by their list of checksums.

A folder says by a file SHA256SUMS what is in it. Files that it does not list, that are missing, or that are others are refused by name. On a
node such a folder is kept by the digest of that list, as a repository of its own (see `index`).

Standard library only, Python 3.8 or newer: it runs on the node, and on the controller.
"""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import index
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import PackageError, digest

SUMS = "SHA256SUMS"
PLACE = Path("/var/lib/gpusmith/repositories")
"""Where nodes keep them: a folder for each owner, in it one by the digest of its list."""
TYPES = {".deb": "deb", ".rpm": "rpm"}
SOURCES = (".src.rpm", ".nosrc.rpm")
"""Ends of packages that nobody runs. In metadata they look like the binary ones of the same name."""
LINE = re.compile(r"\\?([0-9a-f]{64}) [ *](?:\./)?([^/]+)")


class Listed(NamedTuple):
    """What a folder says that it has.

    Attributes:
        type: 'deb' or 'rpm'.
        digests: by name of file.
        identity: digest of the list.
        text: of the list.
    """

    type: str
    digests: Dict[str, str]
    identity: str
    text: str


def listed(folder: Path) -> Listed:
    """What a folder says that it has; its files are not looked at.

    Raises:
        PackageError: it says nothing, or something that cannot be.
    """
    path = folder / SUMS
    if not folder.is_dir():
        raise PackageError(
            f"There is no folder '{folder}'. Put the package files there, with a list '{SUMS}'."
        )
    if not path.is_file():
        kind = "rpm" if any(folder.glob("*.rpm")) else "deb"
        raise PackageError(
            f"'{folder}' has no '{SUMS}', so nothing tells its files from others. Find out that they are what their publisher has "
            f"signed, then run 'sha256sum *.{kind} > {SUMS}' in the folder."
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise PackageError(f"'{path}' cannot be read ({error}). Make it anew.") from error
    return parse(text, str(path))


def parse(text: str, path: str) -> Listed:
    """What a list says.

    Args:
        text: as sha256sum writes it.
        path: for errors.
    """
    digests: Dict[str, str] = {}
    for line in filter(str.strip, text.splitlines()):
        match = LINE.fullmatch(line)
        if match is None or match.group(2) in digests:
            raise PackageError(
                f"'{path}' has the line '{line}', which gives no digest of a file in the folder. Write it with 'sha256sum'."
            )
        digests[match.group(2)] = match.group(1)
    found = {TYPES.get(Path(name).suffix, "") for name in digests}
    strangers = sorted(name for name in digests if Path(name).suffix not in TYPES or name.endswith(SOURCES))
    if strangers or len(found) != 1:
        what = f"lists {_named(strangers)}" if strangers else "lists no package, or packages of both kinds"
        raise PackageError(
            f"'{path}' {what}. A folder has files of binary packages, either '.deb' or '.rpm', and nothing else."
        )
    return Listed(found.pop(), digests, hashlib.sha256(text.encode()).hexdigest(), text)


def proved(folder: Path) -> Listed:
    """What a folder has: every file compared with the list.

    Raises:
        PackageError: a file is missing, is another one than the list says, or is not listed.
    """
    found = listed(folder)
    there = {path.name: path for path in folder.iterdir() if path.name not in (SUMS, *index.NAMES)}
    wrong = {
        "are missing": sorted(set(found.digests) - set(there)),
        "are not listed": sorted(set(there) - set(found.digests)),
        "are others than it says": sorted(
            name
            for name, path in there.items()
            if name in found.digests and (not path.is_file() or digest(path) != found.digests[name])
        ),
    }
    told = [f"{_named(names)} {what}" for what, names in wrong.items() if names]
    if told:
        raise PackageError(
            f"The folder '{folder}' is not what its '{SUMS}' says: {'; '.join(told)}. Find out which is right before you go on."
        )
    return found


def _named(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


# --- on a node -----------------------------------------------------------------------------------------------------


def place(owner: str, identity: str) -> Path:
    """Where a node keeps a folder."""
    return PLACE / owner / identity


def as_on_node(given: Mapping[str, Any], owner: str) -> Dict[str, Any]:
    """A repository of the inventory as the node knows it: a folder of the controller is at its place there, and has a type.

    Raises:
        PackageError: the folder says nothing, or something that cannot be.
    """
    if not given.get("folder"):
        return dict(given)
    found = listed(Path(str(given["folder"])).expanduser())
    kind = str(given.get("type") or found.type)
    if kind != found.type:
        raise PackageError(
            f"The repository of '{owner}' is of type '{kind}', and its folder '{given['folder']}' has files '.{found.type}'. "
            "Correct 'type', or name another folder."
        )
    return {**given, "type": kind, "folder": str(place(owner, found.identity))}


def prove_kept(kept: Path) -> Listed:
    """What a node keeps of a folder, compared again.

    Raises:
        PackageError: it is not there, or not what it was.
    """
    if not kept.is_dir():
        raise PackageError(
            f"The packages of '{kept}' are not on the node. Run again, so that they are brought."
        )
    found = proved(kept)
    if found.identity != kept.name:
        raise PackageError(
            f"'{kept / SUMS}' is not the list that was brought. Remove '{kept}', then run again."
        )
    return found


def keep(source: Path, text: str, kept: Path) -> None:
    """Take files that were brought, and make a repository of them; it is there as a whole, or not at all."""
    found = parse(text, SUMS)
    new = kept.with_name(f".{kept.name}.new")
    for old in (*kept.parent.glob(".*.new"), kept):
        if old.exists():
            shutil.rmtree(old)
    new.mkdir(parents=True)
    for name in found.digests:
        shutil.copyfile(source / name, new / name)
    (new / SUMS).write_text(text, encoding="utf-8")
    proved(new)
    index.write(new, found.type, found.digests)
    # apt reads them as a user of its own, whatever the umask is.
    for each in (new, kept.parent, PLACE, PLACE.parent, *new.rglob("*")):
        each.chmod(0o755 if each.is_dir() else 0o644)
    new.rename(kept)


def archive(pattern: str) -> Optional[Path]:
    """A file of one of the folders that this node keeps, proved again; None if none has it."""
    for path in sorted(PLACE.glob(f"*/*/{pattern}")):
        prove_kept(path.parent)
        return path
    return None


def others(owner: str, but: str) -> List[Path]:
    """What a node keeps of an owner besides one."""
    return [path for path in sorted((PLACE / owner).glob("*")) if path.is_dir() and str(path) != but]
