"""What makes a repository of a folder of package files: apt's list, or dnf's metadata. No program is needed but the package manager's own.

Standard library only, Python 3.8 or newer: it runs on the node.
"""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import gzip
import hashlib
import re
from functools import partial
from pathlib import Path
from typing import Callable, Dict, List, Mapping
from xml.sax.saxutils import escape, quoteattr

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import programs

NAMES = ("Packages", "repodata")
"""Of the files and folders that are made."""
LOCKED = re.compile(r"can't create .*transaction lock")
run = partial(
    programs.run, programs.Manner({}, LOCKED, lambda stdout, stderr: stderr.strip() or stdout[-300:])
)
Run = Callable[..., str]


def write(folder: Path, kind: str, digests: Mapping[str, str], execute: Run = run) -> None:
    """Make a repository of a folder.

    Args:
        folder: with the files.
        kind: 'deb' or 'rpm'.
        digests: SHA-256 by name of file.
        execute: runs programs.
    """
    (_write_debs if kind == "deb" else _write_rpms)(folder, digests, execute)


# --- apt -----------------------------------------------------------------------------------------------------------


def _write_debs(folder: Path, digests: Mapping[str, str], execute: Run) -> None:
    paragraphs = [
        f"{execute(['dpkg-deb', '--field', str(folder / name)], 60).strip()}\n"
        f"Filename: ./{name}\nSize: {(folder / name).stat().st_size}\nSHA256: {digests[name]}\n"
        for name in sorted(digests)
    ]
    (folder / "Packages").write_text("\n".join(paragraphs), encoding="utf-8")


# --- dnf -----------------------------------------------------------------------------------------------------------

RELATIONS = {
    "provides": "PROVIDE",
    "requires": "REQUIRE",
    "conflicts": "CONFLICT",
    "obsoletes": "OBSOLETE",
    "recommends": "RECOMMEND",
    "suggests": "SUGGEST",
    "supplements": "SUPPLEMENT",
    "enhances": "ENHANCE",
}
HEAD = ("NAME", "ARCH", "EPOCHNUM", "VERSION", "RELEASE", "SOURCERPM", "SIZE", "BUILDTIME", "LICENSE")
QUERY = (
    "\\t".join(f"%{{{tag}}}" for tag in HEAD)
    + "\\n"
    + "".join(
        f"[{word}\\t%{{{tag}NAME}}\\t%{{{tag}FLAGS}}\\t%{{{tag}VERSION}}\\n]"
        for word, tag in RELATIONS.items()
    )
    + "[file\\t%{FILENAMES}\\n]"
)
# RPMSENSE_LESS, _GREATER and _EQUAL.
SIGNS = {2: "LT", 4: "GT", 8: "EQ", 10: "LE", 12: "GE"}
SENSE = 2 | 4 | 8
NOTHING = "(none)"
COMMON = 'xmlns="http://linux.duke.edu/metadata/common" xmlns:rpm="http://linux.duke.edu/metadata/rpm"'


def _write_rpms(folder: Path, digests: Mapping[str, str], execute: Run) -> None:
    packages = []
    for name in sorted(digests):
        text = execute(["rpm", "-qp", "--nosignature", "--qf", QUERY, str(folder / name)], 60)
        packages.append(package(text, name, digests[name], (folder / name).stat().st_size))
    body = "\n".join(packages)
    primary = f'<?xml version="1.0" encoding="UTF-8"?>\n<metadata {COMMON} packages="{len(packages)}">\n{body}\n</metadata>\n'
    plain = primary.encode()
    packed = gzip.compress(plain, mtime=0)
    data = folder / "repodata"
    data.mkdir(exist_ok=True)
    data.chmod(0o755)
    (data / "primary.xml.gz").write_bytes(packed)
    (data / "repomd.xml").write_text(
        '<?xml version="1.0" encoding="UTF-8"?>\n<repomd xmlns="http://linux.duke.edu/metadata/repo">\n<revision>1</revision>\n'
        f'<data type="primary"><checksum type="sha256">{hashlib.sha256(packed).hexdigest()}</checksum>'
        f'<open-checksum type="sha256">{hashlib.sha256(plain).hexdigest()}</open-checksum>'
        f'<location href="repodata/primary.xml.gz"/><timestamp>1</timestamp><size>{len(packed)}</size>'
        f"<open-size>{len(plain)}</open-size></data>\n</repomd>\n",
        encoding="utf-8",
    )


def package(text: str, file: str, digest: str, size: int) -> str:
    """One package of the primary metadata, of what rpm says of it by `QUERY`."""
    first, *lines = text.splitlines()
    has: Dict[str, str] = dict(zip(HEAD, first.split("\t")))
    relations: Dict[str, List[str]] = {word: [] for word in RELATIONS}
    files = []
    for line in lines:
        word, name, *rest = line.split("\t")
        if name == NOTHING:
            continue
        if word == "file":
            files.append(f"<file>{escape(name)}</file>")
        elif not name.startswith("rpmlib("):
            relations[word].append(_entry(name, *rest))
    parts = [f"<rpm:{word}>{''.join(each)}</rpm:{word}>" for word, each in relations.items() if each]
    version = f'epoch="{has["EPOCHNUM"]}" ver={quoteattr(has["VERSION"])} rel={quoteattr(has["RELEASE"])}'
    source = "" if has["SOURCERPM"] == NOTHING else escape(has["SOURCERPM"])
    return (
        f'<package type="rpm"><name>{escape(has["NAME"])}</name><arch>{has["ARCH"]}</arch><version {version}/>'
        f'<checksum type="sha256" pkgid="YES">{digest}</checksum><summary/><description/><packager/><url/>'
        f'<time file="{has["BUILDTIME"]}" build="{has["BUILDTIME"]}"/>'
        f'<size package="{size}" installed="{has["SIZE"]}" archive="{has["SIZE"]}"/><location href={quoteattr(file)}/>'
        f"<format><rpm:license>{escape(has['LICENSE'])}</rpm:license><rpm:sourcerpm>{source}</rpm:sourcerpm>"
        f"{''.join(parts)}{''.join(files)}</format></package>"
    )


def _entry(name: str, flags: str = "", version: str = "") -> str:
    number = int(flags) if flags.isdigit() else 0
    sign = SIGNS.get(number & SENSE, "")
    if not sign or version in ("", NOTHING):
        return f"<rpm:entry name={quoteattr(name)}/>"
    epoch, colon, rest = version.rpartition(":")
    plain, dash, release = rest.partition("-")
    behind = f" rel={quoteattr(release)}" if dash else ""
    return f'<rpm:entry name={quoteattr(name)} flags="{sign}" epoch="{epoch if colon else 0}" ver={quoteattr(plain)}{behind}/>'
