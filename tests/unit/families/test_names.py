"""Every role's names on every operating system that is served, compared with what the sources of the rows say."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.expect import kernels, layouts
from gpusmith.expect.layouts import DKMS, PREBUILT, Unmet
from gpusmith.node.records import parse
from gpusmith.preflight import asked
from tests.unit.families.systems import SYSTEMS, value
from tests.unit.records import healthy_record

KERNEL = "6.8.0-79-generic"
LAYOUTS = "__nvidia_driver_layouts"


def layout(system: str, name: str, version: str, build: str = DKMS) -> layouts.Layout:
    rows = layouts.rows_of(value("nvidia_driver", system, LAYOUTS), name)
    return layouts.layout(rows, version, [KERNEL], build)


NAMES = yaml.safe_load((Path(__file__).parent / "names.yml").read_text())


@pytest.mark.parametrize(("system", "row"), [(system, row) for row in NAMES for system in row["systems"]])
def test_packages_are_called_as_their_source_says(system: str, row: dict[str, Any]) -> None:
    ask = row["asked"]
    found = layout(system, ask["layout"], ask["version"], ask["build"])
    assert [*found.packages, *found.kernel[ask["flavour"]]] == row["packages"]
    assert [*found.others, *found.ready.get(ask["flavour"], ())] == row["own"]
    assert found.fabric_manager == row["fabric_manager"]
    assert found.stands_for_all in found.packages


def test_all_systems_are_compared() -> None:
    assert {system for row in NAMES for system in row["systems"]} == set(SYSTEMS)


@pytest.mark.parametrize(
    ("system", "name", "version", "build", "words"),
    [
        ("Ubuntu 24", "distribution", "590.48.01", DKMS, "'nvidia-headless-no-dkms-590-server'.* bring branch 595"),
        ("Ubuntu 22", "distribution", "570.211.01", DKMS, "transitional: they bring branch 580"),
        ("Ubuntu 24", "nvidia", "580.178.04", PREBUILT, "'nvidia_driver_module_build: prebuilt'"),
        ("Rocky 9", "distribution", "580.178.04", DKMS, "it can be 'nvidia'"),
        ("Debian 13", "debian", "550.163.01", DKMS, "it can be 'nvidia' or 'distribution'"),
        ("Rocky 10", "nvidia", "550.163.01", DKMS, "only for branches 580 and newer, 560 to 579"),
    ],
)  # fmt: skip
def test_what_has_no_packages_is_refused_by_name(
    system: str, name: str, version: str, build: str, words: str
) -> None:
    with pytest.raises(Unmet, match=words):
        layout(system, name, version, build)


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_role_knows_its_names_on_every_system(system: str) -> None:
    for role, variable in asked.VARIABLES.items():
        assert "{{" not in str(value(role, system, variable))
    kernel = value("nvidia_driver", system, asked.KERNEL)
    assert {"headers", "flavour", "next"} <= set(kernel)
    assert all(
        {"program", "argv"} <= set(tool)
        for tool in value("nvidia_driver", system, "__nvidia_driver_initramfs")
    )


@pytest.mark.parametrize(
    ("system", "release", "end"),
    [
        ("Ubuntu 22", "5.15.0-1101-aws", "aws-lts-22.04"),
        ("Ubuntu 22", "5.15.0-130-generic", "generic"),
        ("Ubuntu 24", "6.8.0-1030-azure", "azure-lts-24.04"),
        ("Ubuntu 24", "6.14.0-27-generic", "generic-hwe-24.04"),
        ("Ubuntu 24", "6.17.0-8-generic", "generic-hwe-24.04-edge"),
        ("Ubuntu 24", "6.14.0-27-generic", "virtual-hwe-24.04"),
        ("Ubuntu 24", "6.8.0-79-generic", "generic-6.8"),
        ("Ubuntu 24", "6.17.0-1003-gcp-64k", "gcp-64k-6.17"),
        ("Ubuntu 22", "6.8.0-1030-azure", "azure-6.8"),
        ("Debian 12", "6.1.0-40-cloud-amd64", "cloud-amd64"),
    ],
)
def test_the_next_kernel_gets_its_headers(system: str, release: str, end: str) -> None:
    raw = healthy_record()
    raw["host"]["kernel"] = release
    raw["packages"][f"linux-image-{end}"] = {"version": "1", "held": False}
    names = value("nvidia_driver", system, asked.KERNEL)
    assert kernels.headers(parse(raw), names)["next"] == [f"linux-headers-{end}"]


def rows(system: str) -> list[dict[str, Any]]:
    return [row for known in value("nvidia_driver", system, LAYOUTS).values() for row in known]


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_row_names_its_source_and_day(system: str) -> None:
    for row in rows(system):
        assert row["source"]
        assert row["date"].startswith("2026-")


@pytest.mark.parametrize("system", SYSTEMS)
def test_no_branch_has_two_rows(system: str) -> None:
    for known in value("nvidia_driver", system, LAYOUTS).values():
        spans = [(row.get("from", 0), row.get("to", 999)) for row in known if "leads_to" not in row]
        assert all(b[1] < a[0] for a, b in pairwise(spans)), spans
