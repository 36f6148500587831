"""The simulated driver's packages for machines that rpm manages: from NVIDIA's repository, the distribution's and EPEL."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from gpulab.artifacts import rpms
from gpulab.artifacts.rpms import ANY, Rpm
from gpulab.simgpu import kernels
from gpulab.simgpu.packages import (
    Contents,
    Driver,
    broken_by_parts,
    contents,
    fill_text,
    made,
    placeholders,
    table,
    toolkit_rows,
)

REPOSITORIES = ("cuda", "cuda-broken", "epel", "baseos")
EPOCH = "3"
FROM_DEB = {"postinst": "post", "prerm": "preun"}
# What dpkg tells a script in words, rpm tells in numbers.
TOLD_REMOVE = "if [ $1 -eq 0 ]; then set -- remove; else set -- upgrade; fi\n"
ADD_MODULE = """\
dkms add -m {name} -v {version} -q || :
dkms postinst -m {name} -v {version} -q || :
"""
REMOVE_MODULE = "dkms remove -m {name} -v {version} -q --all || :\n"
ADD_USER = """\
getent group {user} >/dev/null || groupadd -r {user}
getent passwd {user} >/dev/null || useradd -r -g {user} -d /var/run/{user} -s /sbin/nologin {user}
"""


def build(folder: Path, tag: str) -> None:
    """Write all packages into one folder for each repository.

    Args:
        folder: where those are made.
        tag: the distribution's tag in releases, as 'el9'.

    Raises:
        ToolError: a compiler or packaging step failed; names the step.
    """
    rows = table("el")
    drivers = [("cuda", row) for row in rows["drivers"]] + [("cuda-broken", row) for row in broken_by_parts()]
    with TemporaryDirectory(prefix="simgpu-") as name:
        work = Path(name)
        packages: dict[str, list[Rpm]] = {repository: [] for repository in REPOSITORIES}
        all_built = made([row for _, row in drivers], work)
        for (repository, row), built in zip(drivers, all_built, strict=True):
            packages[repository] += driver_packages(rows, row["version"], tag, built)
        packages["cuda"] += [_toolkit(template, values) for template, values in toolkit_rows(table("cuda"))]
        for single in rows["singles"]:
            built = Driver(work, "0", rows["drivers"][0]["cuda"])
            packages[single["repository"]].append(_single(single, tag, built))
        for repository, package in kernel_packages(tag):
            packages[repository].append(package)
        for repository, listed in packages.items():
            rpms.write(listed, folder / repository)


def driver_packages(rows: Mapping[str, Any], version: str, tag: str, built: Driver | None) -> list[Rpm]:
    """All packages of one driver version."""
    return [_driver_package(template, version, tag, built) for template in rows["packages"]]


def _driver_package(template: Mapping[str, Any], version: str, tag: str, built: Driver | None) -> Rpm:
    epoch, release = template.get("epoch", EPOCH), template.get("release", f"1.{tag}")
    values = placeholders(version, "", epoch_version=f"{EPOCH}:{version}", tag=tag)
    return _rpm(template, values, contents(template, values, built), version, release, epoch)


def _single(template: Mapping[str, Any], tag: str, built: Driver) -> Rpm:
    kernel = os.uname().release
    numbers = ".".join(re.findall(r"\d+", kernel)[:3])
    values = placeholders("0", "", tag=tag, kernel=kernel, kernel_version=numbers)
    version = template["version"].format_map(values)
    return _rpm(
        template, values, contents(template, values, built), version, f"1.{tag}", template.get("epoch", "")
    )


def kernel_packages(tag: str) -> Iterator[tuple[str, Rpm]]:
    """Repository and package of all releases of the distribution's kernel."""
    for kernel in kernels.known("el", tag):
        for template in kernels.templates("el"):
            values = kernel.values
            content = contents(template, values, None)
            yield (
                kernel.repository,
                _rpm(template, values, content, values["version"], values["release"], ""),
            )


def _toolkit(template: Mapping[str, Any], values: Mapping[str, str]) -> Rpm:
    translated = {
        **template,
        "requires": [relation(text) for text in template.get("depends", ())],
        **{ours: TOLD_REMOVE + template[theirs] for theirs, ours in FROM_DEB.items() if theirs in template},
    }
    version, _, release = values["deb"].rpartition("-")
    return _rpm(translated, values, contents(template, values, None), version, release, "")


def relation(text: str) -> str:
    """A dependency of a Debian package in rpm's words."""
    return re.sub(r"^(\S+) \((\S+) (\S+)\)$", r"\1 \2 \3", text)


def _rpm(
    template: Mapping[str, Any],
    values: Mapping[str, str],
    content: Contents,
    version: str,
    release: str,
    epoch: str,
) -> Rpm:
    return Rpm(
        name=template["name"].format_map(values),
        version=version,
        release=release,
        epoch=epoch,
        summary=f"SIMULATED GPU hardware, gpusmith lab: {template['summary'].format_map(values)}",
        architecture=ANY if template.get("noarch") else rpms.architecture(),
        relations={
            key: [text.format_map(values) for text in template[key]]
            for key in rpms.RELATIONS
            if key in template
        },
        files=content.files,
        texts=content.texts,
        links=content.links,
        modes=content.modes,
        scripts=_scripts(template, values),
    )


def _scripts(template: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, str]:
    found = {key: fill_text(template[key], values) for key in rpms.SCRIPTLETS if key in template}
    if template.get("ldconfig"):
        found["post"] = found["postun"] = "/sbin/ldconfig\n"
    if "user" in template:
        found["pre"] = fill_text(ADD_USER, {"user": template["user"]})
    if "dkms" in template:
        words = {**values, "name": template["dkms"]["name"]}
        found["post"], found["preun"] = fill_text(ADD_MODULE, words), fill_text(REMOVE_MODULE, words)
    return rpms.with_units(found, template.get("units", ()), template.get("restarted", ()))


# --- module streams -----------------------------------------------------------------------------------------------


def modules(tag: str) -> str:
    """Module streams of 'nvidia-driver', as modulemd documents; empty where NVIDIA's repository has none.

    There is a stream for each kind of module, and one for each branch with the open one. While none is enabled, dnf hides
    the packages, unless the repository's file says `module_hotfixes=1`.
    """
    if tag != "el9":
        return ""
    rows = table("el")
    versions = [row["version"] for row in rows["drivers"]]
    newest = {version.split(".")[0]: version for version in versions}
    streams = {"open-dkms": (versions, "open"), "latest-dkms": (versions, "dkms")}
    for branch in newest:
        streams[f"{branch}-open"] = ([each for each in versions if each.startswith(f"{branch}.")], "open")
    return "".join(_stream(rows, name, of, kind, tag) for name, (of, kind) in streams.items())


def _stream(rows: Mapping[str, Any], name: str, versions: list[str], kind: str, tag: str) -> str:
    artifacts = sorted(
        rpm.nevra
        for version in versions
        for template, rpm in _beside(rows, version, tag)
        if template.get("module_of", kind) == kind
    )
    document = {
        "document": "modulemd",
        "version": 2,
        "data": {
            "name": "nvidia-driver",
            "stream": name,
            "version": 20261122000000,
            "context": f"{abs(hash_of(name)):08x}",
            "arch": rpms.architecture(),
            "summary": "SIMULATED GPU hardware, gpusmith lab: Nvidia driver",
            "description": f"Stream {name}",
            "license": {"module": ["Apache-2.0"]},
            "profiles": {"default": {"rpms": ["nvidia-driver-cuda"]}},
            "artifacts": {"rpms": artifacts},
        },
    }
    return yaml.safe_dump(document, explicit_start=True, explicit_end=True, sort_keys=False)


def hash_of(text: str) -> int:
    """A number of eight hexadecimal digits that is the same in every process."""
    return int.from_bytes(text.encode()[-4:].rjust(4, b"\0"))


def _beside(rows: Mapping[str, Any], version: str, tag: str) -> Iterator[tuple[Mapping[str, Any], Rpm]]:
    yield from zip(rows["packages"], driver_packages(rows, version, tag, None), strict=True)
