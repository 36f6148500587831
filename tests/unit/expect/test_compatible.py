"""Versions against each other and against GPUs, by the tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpusmith.data import compatibility, models
from gpusmith.expect import compatible
from gpusmith.expect.compatible import Misfit, Subject

KNOWN = compatibility.load()
MODELS = {
    **models.load(),
    "v100": replace(models.load()["t4"], key="v100", architecture="volta", min_driver_branch=384),
}


def said(unfit: Misfit | None) -> tuple[Subject, bool] | None:
    """What was compared, and whether a row excludes it."""
    return (unfit.subject, unfit.known) if unfit else None


@pytest.mark.parametrize(
    ("version", "kubernetes", "expected"),
    [
        # As containerd itself says it, and as packages have it.
        ("1.7.31", "1.34.11", None),
        ("1.7.28-1~debian.12~bookworm", "1.35.1", None),
        ("2.3.7", "v1.36.3", None),
        ("2.2.0", "1.36.3-1.1", None),
        ("1.7.24~ds1", "1.36.3", (Subject.CONTAINERD, True)),
        ("1.7.27", "1.35.1", (Subject.CONTAINERD, True)),
        ("1.7.31", "1.36.3", (Subject.CONTAINERD, True)),
        ("2.0.14", "1.35.1", (Subject.CONTAINERD, True)),
        ("1.6.36", "1.34.1", (Subject.CONTAINERD, True)),
        # A release that came after the table, and Kubernetes before and after it.
        ("2.4.0", "1.34.1", (Subject.CONTAINERD, False)),
        ("3.0.1", "1.36.3", (Subject.CONTAINERD, False)),
        ("1.7.28", "1.33.5", (Subject.KUBERNETES, False)),
        ("2.3.7", "1.37.0", (Subject.KUBERNETES, False)),
        ("2.3.7", "1.3", (Subject.KUBERNETES, False)),
    ],
)
def test_containerd_and_kubernetes(
    version: str, kubernetes: str, expected: tuple[Subject, bool] | None
) -> None:
    assert said(compatible.containerd(version, kubernetes, KNOWN)) == expected


@pytest.mark.parametrize(
    ("version", "harms", "without_cdi"),
    [
        ("1.20.1-1", False, False),
        ("1.19.1-1", False, False),
        ("1.19.0-1", True, False),
        ("1.18.0", False, False),
        ("1.17.8-1", False, True),
        # Newer than the table: nothing is known against it.
        ("2.0.0-1", False, False),
    ],
)
def test_container_toolkits(version: str, harms: bool, without_cdi: bool) -> None:
    assert (compatible.container_toolkit(version, KNOWN) is not None) is harms
    assert (compatible.container_toolkit_with_our_plugin(version, KNOWN) is not None) is without_cdi


@pytest.mark.parametrize(
    ("version", "model", "allowed"),
    [
        ("580.178.04", "h100-sxm", ""),
        ("515.43.04", "h100-sxm", "branch 525 or newer for 'h100-sxm' (hopper)"),
        ("535.261.03-1", "b200", "branch 570 or newer for 'b200' (blackwell)"),
        ("580.178.04-0ubuntu1", "v100", ""),
        ("590.44.01", "v100", "branches 384 to 580 for 'v100' (volta)"),
    ],
)
def test_drivers_and_gpus(version: str, model: str, allowed: str) -> None:
    unfit = compatible.driver(version, MODELS[model], KNOWN)
    assert (unfit.allowed if unfit else "") == allowed


@pytest.mark.parametrize(
    ("version", "driver", "expected"),
    [
        ("12.8", "580.178.04", None),
        ("12.8", "525.60.13", None),
        ("13.0", "580.65.06", None),
        ("13.0", "575.57.08", (Subject.CUDA_AND_DRIVER, True)),
        ("13.0", "latest", None),
        ("14.0", "latest", (Subject.CUDA, False)),
        ("10.2", "580.65.06", (Subject.CUDA, False)),
    ],
)
def test_cuda_and_drivers(version: str, driver: str, expected: tuple[Subject, bool] | None) -> None:
    assert said(compatible.cuda_with_driver(version, driver, KNOWN)) == expected


@pytest.mark.parametrize(
    ("version", "model", "allowed"),
    [
        ("12.8", "b200", ""),
        ("12.4", "b200", "12.8 or newer"),
        ("12.9", "v100", ""),
        ("13.0", "v100", "12.x or older"),
        ("11.8", "h100-sxm", ""),
    ],
)
def test_cuda_and_gpus(version: str, model: str, allowed: str) -> None:
    unfit = compatible.cuda_on_gpu(version, MODELS[model], KNOWN)
    assert (unfit.allowed if unfit else "") == allowed
