"""The container runtime."""

from __future__ import annotations

import pytest

from gpusmith.checks.findings import CannotAsk, NotApplicable
from gpusmith.checks.runtime import container_toolkit, containerd_version
from tests.faults.fault import Record
from tests.unit.checks.judged import Facts, failing


def test_the_nvidia_runtime_is_every_pods_if_the_inventory_says_so(facts: Facts, record: Record) -> None:
    wants = {"nvidia_container_toolkit_default_runtime": True}
    assert "is 'runc'" in failing(facts(record, **wants))["nodes.containerd"]
    record["containerd"]["effective"].update(
        default_runtime="nvidia", default_binary="nvidia-container-runtime"
    )
    assert failing(facts(record, **wants)) == {}


def test_a_configuration_that_was_only_touched_is_the_running_one(facts: Facts, record: Record) -> None:
    record["containerd"]["config_changed_unix"] = 99.0
    assert failing(facts(record)) == {}


def test_a_note_of_an_earlier_start_tells_nothing(facts: Facts, record: Record) -> None:
    record["services"]["containerd"]["started_unix"] = 50.0
    record["containerd"].update(noted_digest="other", noted_unix=2.0)
    assert failing(facts(record)) == {}


@pytest.mark.parametrize(
    ("containerd", "kubelet"),
    [("1.7.31", "1.34.11"), ("2.0.14", "1.34.11"), ("1.7.31", "1.35.8"), ("2.3.7", "1.36.3")],
)
def test_releases_of_the_lab_go_together(containerd: str, kubelet: str, facts: Facts, record: Record) -> None:
    record["containerd"]["version"] = containerd
    record["kubernetes"]["kubelet_version"] = kubelet
    assert containerd_version(facts(record)) == []


@pytest.mark.parametrize(
    ("containerd", "kubelet", "says"),
    [
        (
            "2.4.0",
            "1.36.3",
            r"containerd '2\.4\.0' with Kubernetes '1\.36\.3', which data/compatibility\.yml does not know",
        ),
        (
            "2.3.7",
            "1.37.0",
            r"'1\.37\.0', which .* does not know \(only '1\.34\.x', '1\.35\.x', '1\.36\.x'\)",
        ),
    ],
)
def test_releases_that_came_after_the_table_are_not_judged(
    containerd: str, kubelet: str, says: str, facts: Facts, record: Record
) -> None:
    record["containerd"]["version"] = containerd
    record["kubernetes"]["kubelet_version"] = kubelet
    with pytest.raises(NotApplicable, match=says):
        containerd_version(facts(record))


@pytest.mark.parametrize(
    ("part", "key", "says"),
    [
        ("containerd", "version", "containerd does not"),
        ("kubernetes", "kubelet_version", "the kubelet does not"),
    ],
)
def test_a_version_that_nobody_tells_is_no_pass(
    part: str, key: str, says: str, facts: Facts, record: Record
) -> None:
    record[part][key] = None
    with pytest.raises(CannotAsk, match=f"{says} tell its version; see nodes.services"):
        containerd_version(facts(record))


def test_only_our_device_plugin_needs_a_toolkit_with_cdi(facts: Facts, record: Record) -> None:
    record["packages"]["nvidia-container-toolkit"]["version"] = "1.17.8-1"
    (problem,) = container_toolkit(facts(record))
    assert "version '1.17.8-1', whose runtime does not use CDI by itself" in problem.cause
    assert "Set 'nvidia_container_toolkit_version' to such a release" in problem.next_step
    assert container_toolkit(facts(record, gpu_operands_device_plugin="existing")) == []


def test_a_toolkit_without_package_is_not_judged(facts: Facts, record: Record) -> None:
    del record["packages"]["nvidia-container-toolkit"]
    with pytest.raises(NotApplicable, match="No package brought the container toolkit of 'gpu-1'"):
        container_toolkit(facts(record))
    record["containerd"]["runtime_binary_found"] = False
    with pytest.raises(CannotAsk, match=r"see nodes\.containerd"):
        container_toolkit(facts(record))


def test_the_package_with_the_program_tells_the_toolkits_release(facts: Facts, record: Record) -> None:
    packages = record["packages"]
    packages["nvidia-container-toolkit-base"] = {
        **packages["nvidia-container-toolkit"],
        "version": "1.19.0-1",
    }
    assert "version '1.19.0-1'" in failing(facts(record))["nodes.container-toolkit"]
