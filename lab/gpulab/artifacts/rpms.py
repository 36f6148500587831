"""Packages for machines that rpm manages: small spec files of our own, given to rpmbuild."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from gpulab.artifacts import debs
from gpulab.artifacts.components import numbers
from gpulab.artifacts.sources import PACKAGES
from gpulab.artifacts.store import Inputs, digest_file
from gpulab.progress import run_logged
from gpulab.releases import USUAL, Releases
from gpusmith import yaml_text
from gpusmith.errors import ToolError
from gpusmith.paths import cache_dir

RECIPE = 2  # raise when this file changes what comes out
FOLDER = PACKAGES / "rpm"
ANY = "noarch"
RELATIONS = ("requires", "recommends", "provides", "conflicts", "obsoletes")
SCRIPTLETS = ("pre", "post", "preun", "postun", "posttrans")
# What rpmbuild does by itself is for programs that it has compiled: it must not strip, compress or look into these.
SETTINGS: Mapping[str, str] = {
    "debug_package": "%{nil}",
    "__os_install_post": "%{nil}",
    "_build_id_links": "none",
    "_binaries_in_noarch_packages_terminate_build": "0",
    "_binary_payload": "w3.zstdio",
    "_buildhost": "gpusmith.invalid",
    "use_source_date_epoch_as_buildtime": "1",
    "clamp_mtime_to_source_date_epoch": "1",
}

# What systemd's macros become on EL. Units are enabled if a preset file says so.
UNIT_POST = "if [ $1 -eq 1 ]; then systemctl --no-reload preset {units} || :; fi"
UNIT_PREUN = "if [ $1 -eq 0 ]; then systemctl --no-reload disable --now {units} || :; fi"
UNIT_POSTUN = "if [ -d /run/systemd/system ]; then systemctl daemon-reload || :; fi"
UNIT_RESTART = "if [ $1 -ge 1 ]; then systemctl try-restart {units} || :; fi"


@dataclass(frozen=True)
class Rpm:
    """One package; paths are absolute, as on the target.

    Attributes:
        name: of the package.
        version: without release.
        release: with the distribution's tag.
        summary: one line.
        epoch: empty for none.
        architecture: rpm's name of it, or `ANY`.
        relations: field of RELATIONS -> entries.
        files: path -> the file that comes there.
        texts: path -> content.
        links: path -> target.
        modes: path -> other mode than the usual one.
        scripts: field of SCRIPTLETS -> shell lines.
    """

    name: str
    version: str
    release: str
    summary: str
    epoch: str = ""
    architecture: str = ANY
    relations: Mapping[str, Sequence[str]] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    modes: Mapping[str, int] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)

    @property
    def nevra(self) -> str:
        """Name, epoch, version, release and architecture, as repositories list it."""
        return f"{self.name}-{self.epoch or 0}:{self.version}-{self.release}.{self.architecture}"

    @property
    def filename(self) -> str:
        """The archive's name."""
        return f"{self.name}-{self.version}-{self.release}.{self.architecture}.rpm"

    @property
    def paths(self) -> list[str]:
        """Everything in it."""
        return sorted({*self.files, *self.texts, *self.links})

    @property
    def folders(self) -> list[str]:
        """Folders of its own, which go with it: those of its version, as /usr/src/nvidia-VERSION."""
        above = {str(folder) for path in self.paths for folder in PurePosixPath(path).parents}
        ends = (f"/{self.version}", f"-{self.version}")
        return sorted(path for path in above if path.endswith(ends))


def architecture() -> str:
    """Rpm's name of this machine's architecture."""
    return os.uname().machine


def spec(rpm: Rpm, content: Path) -> str:
    """The spec file of a package.

    Args:
        rpm: the package.
        content: a folder with its files, as they lie below the target's root.
    """
    head = {
        "Name": rpm.name,
        "Epoch": rpm.epoch,
        "Version": rpm.version,
        "Release": rpm.release,
        "Summary": rpm.summary,
        "License": "Apache-2.0",
        "BuildArch": ANY if rpm.architecture == ANY else "",
        # Of what the real packages ask for, the tables name what matters here.
        "AutoReqProv": "no",
    }
    lines = [f"{key}: {value}" for key, value in head.items() if value]
    for relation in RELATIONS:
        lines += [f"{relation.title()}: {entry}" for entry in rpm.relations.get(relation, ())]
    lines += ["%description", rpm.summary, "%install", f"cp -a '{content}/.' '%{{buildroot}}/'"]
    for scriptlet in SCRIPTLETS:
        if scriptlet in rpm.scripts:
            lines += [f"%{scriptlet}", rpm.scripts[scriptlet].replace("%", "%%").rstrip()]
    lines += ["%files", *(f'%dir "{folder}"' for folder in rpm.folders)]
    for path in rpm.paths:
        kept = "%config(noreplace) " if path.startswith("/etc/") and path not in rpm.links else ""
        mode = f"%attr({rpm.modes[path]:04o},root,root) " if path in rpm.modes else "%attr(-,root,root) "
        lines.append(f'{mode}{kept}"{path}"')
    return "\n".join(lines) + "\n"


def write(rpms: Sequence[Rpm], folder: Path) -> None:
    """Write packages into a folder, as many at a time as there are processors.

    Raises:
        ToolError: rpmbuild failed; names the log.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".rpms-", dir=folder) as name, ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda rpm: _write(rpm, folder, Path(name)), rpms))


def _write(rpm: Rpm, folder: Path, work: Path) -> None:
    top = work / rpm.nevra.replace(":", "-")
    content = top / "content"
    content.mkdir(parents=True)
    _lay_out(rpm, content)
    text = top / f"{rpm.name}.spec"
    text.write_text(spec(rpm, content))
    settings = {**SETTINGS, "_topdir": str(top), "_rpmdir": str(top / "out"), "_dbpath": str(top / "db")}
    defined = [word for key, value in settings.items() for word in ("--define", f"{key} {value}")]
    log = cache_dir() / "logs" / "rpms.log"
    run_logged(
        ["rpmbuild", "-bb", "--quiet", "--nodeps", f"--target={rpm.architecture}", *defined, text],
        log,
        env={"SOURCE_DATE_EPOCH": "1700000000", "LC_ALL": "C.UTF-8", "HOME": str(top)},
    )
    (built,) = (top / "out").rglob("*.rpm")
    built.rename(folder / rpm.filename)
    shutil.rmtree(top)


def _lay_out(rpm: Rpm, content: Path) -> None:
    for path, source in rpm.files.items():
        place = _under(content, path)
        shutil.copyfile(source, place)
        program = "/bin/" in path or "/sbin/" in path or path.startswith("/opt/")
        place.chmod(0o755 if program else 0o644)
    for path, text in rpm.texts.items():
        place = _under(content, path)
        place.write_text(text)
        place.chmod(rpm.modes.get(path, 0o644))
    for path, target in rpm.links.items():
        _under(content, path).symlink_to(target)


def _under(root: Path, path: str) -> Path:
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


# --- the packages of lab/packages/rpm -------------------------------------------------------------------------


@dataclass(frozen=True)
class Described:
    """A package as a table describes it, without its files' contents.

    Attributes:
        repository: the repository that it is for.
        entry: its row, filled in.
    """

    repository: str
    entry: Mapping[str, Any]

    @property
    def sources(self) -> Mapping[str, str]:
        """Path -> where it comes from, as `debs.Package.files`."""
        files: Mapping[str, str] = self.entry.get("files", {})
        return files


def load(tag: str, folder: Path = FOLDER, chosen: Releases = USUAL) -> list[Described]:
    """All packages, with versions filled in.

    Args:
        tag: the distribution's tag in releases, as 'el9'.
        folder: with the tables.
        chosen: the lab's releases.

    Raises:
        ToolError: a description has an unknown key.
    """
    values = numbers(chosen) | {"tag": tag}
    known = {
        "name",
        "version",
        "release",
        "summary",
        "epoch",
        "files",
        "texts",
        "links",
        "units",
        "restarted",
    }
    known |= {*RELATIONS, *SCRIPTLETS}
    found = []
    for path in sorted(folder.glob("*.yml")):
        document = yaml_text.load(path.read_text())
        for entry in document["packages"]:
            unknown = sorted(set(entry) - known)
            if unknown:
                raise ToolError(
                    f"'{path}' has unknown keys for package '{entry.get('name')}': {', '.join(unknown)}."
                )
            found.append(Described(document["repository"], _filled(entry, values)))
    return found


def _filled(entry: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    filled = dict(entry)
    for key in ("version", "release"):
        filled[key] = entry[key].format(**values)
    for key in RELATIONS:
        if key in entry:
            filled[key] = [item.format(**values) for item in entry[key]]
    return filled


def inputs(described: Described, component_key: Callable[[str], str]) -> Inputs:
    """What decides a package's content."""
    items = described.sources.values()
    local = {item: digest_file(PACKAGES / "files" / item[5:]) for item in items if item.startswith("file:")}
    components = {item[3:].partition("/")[0] for item in items if item.startswith("go:")}
    return {
        "recipe": RECIPE,
        "entry": dict(described.entry),
        "local": local,
        "components": {name: component_key(name) for name in sorted(components)},
    }


def resolved(described: Described, component_folder: Callable[[str], Path]) -> Rpm:
    """The package with the files that are in it."""
    entry = described.entry
    files = dict(
        pair
        for path, source in described.sources.items()
        for pair in debs.sources(path, source, component_folder)
    )
    scripts = {key: entry[key] for key in SCRIPTLETS if key in entry}
    compiled = any(source.startswith("go:") for source in described.sources.values())
    return Rpm(
        name=entry["name"],
        version=entry["version"],
        release=entry["release"],
        summary=entry["summary"],
        epoch=entry.get("epoch", ""),
        architecture=architecture() if compiled else ANY,
        relations={key: entry[key] for key in RELATIONS if key in entry},
        files=files,
        texts=entry.get("texts", {}),
        links=entry.get("links", {}),
        scripts=with_units(scripts, entry.get("units", ()), entry.get("restarted", ())),
    )


def with_units(
    scripts: Mapping[str, str], units: Sequence[str], restarted: Sequence[str] = ()
) -> dict[str, str]:
    """Scriptlets of a package that brings systemd units, of which an upgrade restarts some."""
    found = dict(scripts)
    lines = {"post": UNIT_POST, "preun": UNIT_PREUN, "postun": UNIT_POSTUN} if units else {}
    for key, text in lines.items():
        found[key] = f"{text.format(units=' '.join(units))}\n{found.get(key, '')}"
    if restarted:
        found["postun"] += f"{UNIT_RESTART.format(units=' '.join(restarted))}\n"
    return found
