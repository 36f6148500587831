"""Compares the simulated packages in Debian's layout with Debian's real ones (needs Debian's archive)."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from gpulab.artifacts.debian import sources_for
from gpulab.simgpu import kernels, packages

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not shutil.which("apt-cache"), reason="apt is not installed"),
]

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SUITES = ("bookworm", "bookworm-backports", "trixie")
FIELDS = ("Depends", "Pre-Depends", "Provides", "Conflicts")
# Provides of the real libcuda1 are one name per CUDA version; the simulated one has the newer of them.
SOME_PROVIDES = {"libcuda1"}
# Real dependencies on other generations of the driver, which the lab has not.
FOREIGN = re.compile(r"libnvidia-tesla-|nvidia-tesla-|nvidia-legacy-\d|glvnd|libegl1|libgl|libopengl")


@pytest.fixture(scope="session")
def apt(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[str]]:
    """Options of a private apt state for each suite, with lists fetched."""
    options = {}
    # The mirror that this machine uses.
    archive = sources_for("bookworm")[0].uri
    for suite in SUITES:
        root = tmp_path_factory.mktemp(suite)
        for folder in ("lists/partial", "cache/archives/partial"):
            (root / folder).mkdir(parents=True)
        (root / "status").touch()
        (root / "sources.list").write_text(
            f"deb [signed-by={KEYRING}] {archive} {suite} main contrib non-free non-free-firmware\n"
        )
        options[suite] = [
            f"-oDir::Etc::sourcelist={root}/sources.list",
            "-oDir::Etc::sourceparts=/nonexistent",
            f"-oDir::State::lists={root}/lists",
            f"-oDir::State::status={root}/status",
            f"-oDir::Cache={root}/cache",
            "-oAPT::Sandbox::User=root",
        ]
        subprocess.run(
            ["apt-get", *options[suite], "update", "-q"], check=True, capture_output=True, text=True
        )
    return options


def show(options: list[str], name: str, version: str) -> dict[str, str]:
    """Control fields of a real package; empty if the archive has not this version."""
    done = subprocess.run(
        ["apt-cache", *options, "show", f"{name}={version}"], capture_output=True, text=True, check=False
    )
    return dict(re.findall(r"^([A-Z][A-Za-z-]+): (.*)$", done.stdout, re.MULTILINE))


def relations(text: str) -> set[str]:
    return {item.strip() for item in text.split(",") if item.strip()}


def simulated(tmp_path: Path) -> list[tuple[str, str, dict[str, Any], packages.Deb]]:
    """Suite, version, row and package of everything that Debian has as well."""
    table = packages.table("debian")
    found = []
    for driver in table["drivers"]:
        values = packages.placeholders(driver["version"], driver["deb"])
        built = packages.Driver(tmp_path, driver["version"], driver["cuda"])
        found += [
            (driver["suite"], driver["deb"], row, packages.package(row, values, built))
            for row in table["packages"]
        ]
    return found


def differing(
    row: Mapping[str, Any],
    deb: packages.Deb,
    real: Mapping[str, str],
    values: Mapping[str, str] | None = None,
) -> list[str]:
    """Where a package is not as the real one."""
    found = []
    if real["Section"] != deb.fields["Section"]:
        found.append(f"{deb.name}: Section {deb.fields['Section']} != {real['Section']}")
    omitted = {text.format_map(values or {}) for text in row.get("omitted", {})}
    for name in FIELDS:
        mine = relations(deb.fields.get(name, ""))
        theirs = {item for item in relations(real.get(name, "")) if not FOREIGN.search(item)} - omitted
        if deb.name in SOME_PROVIDES and name == "Provides":
            theirs &= mine | {item for item in theirs if not item.startswith("libcuda-")}
        if mine != theirs:
            found.append(f"{deb.name}: {name}: only here {mine - theirs}, only there {theirs - mine}")
    return found


def test_names_relations_and_sections_are_debians(apt: Mapping[str, list[str]], tmp_path: Path) -> None:
    differences, compared = [], 0
    for suite, version, row, deb in simulated(tmp_path):
        if suite in row.get("not_in_archive", []):
            continue
        real = show(apt[suite], deb.name, version)
        if not real:
            differences.append(f"{suite}: {deb.name} {version} does not exist there")
            continue
        compared += 1
        differences += [f"{suite}: {each}" for each in differing(row, deb, real)]
    assert not differences, "\n".join(differences)
    assert compared > 30


def test_kernels_are_debians(apt: Mapping[str, list[str]]) -> None:
    """Names, relations and sections of the packages of a real kernel."""
    options = apt["bookworm"]
    meta = f"linux-image-{packages.architecture()[0]}"
    said = subprocess.run(["apt-cache", *options, "policy", meta], capture_output=True, text=True, check=True)
    (version,) = re.findall(r"^  Candidate: (\S+)$", said.stdout, re.MULTILINE)
    (release,) = re.findall(
        rf"^linux-image-(\S+) \(= {re.escape(version)}\)$", show(options, meta, version)["Depends"]
    )
    base = release.rpartition("-")[0]
    values = {"base": base, "kernel": release, "deb": version, "series": base.rpartition(".")[0]}
    values["arch"] = packages.architecture()[0]
    differences = []
    for row in kernels.templates("debian"):
        deb = packages.package(row, values, None)
        real = show(options, deb.name, version)
        differences += differing(row, deb, real, values) if real else [f"{deb.name} {version} does not exist"]
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize(
    "name", ["nvidia-smi", "libcuda1", "libnvidia-ml1", "firmware-nvidia-gsp", "nvidia-open-kernel-support"]
)
def test_paths_are_debians(apt: Mapping[str, list[str]], tmp_path: Path, name: str) -> None:
    suite, version, _, deb = next(
        item for item in simulated(tmp_path) if item[3].name == name and item[0] == "bookworm"
    )
    subprocess.run(
        ["apt-get", *apt[suite], "download", f"{name}={version}"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    (path,) = tmp_path.glob(f"{name}_*.deb")
    listing = subprocess.run(["dpkg-deb", "-c", path], capture_output=True, text=True, check=True).stdout
    real = {line.split(maxsplit=5)[5].split(" -> ")[0].removeprefix(".") for line in listing.splitlines()}
    mine = {*deb.files, *deb.texts, *deb.links} - {
        f"/lib/firmware/nvidia/{version.split('-')[0]}/gsp_simgpu_live.bin"
    }
    assert mine <= real


def test_single_packages_are_debians(apt: Mapping[str, list[str]]) -> None:
    missing = [
        f"{row['name']} {version}"
        for row in packages.table("debian")["singles"]
        if "debian" in row.get("repositories", ["debian"])
        for version in row["versions"]
        if not any(show(apt[suite], row["name"], version) for suite in SUITES)
    ]
    assert not missing
