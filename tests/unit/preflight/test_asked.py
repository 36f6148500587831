"""What preflight takes for due is what the roles would do: both go by one set of names."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpusmith.paths import repo_root
from gpusmith.preflight import asked
from tests.unit.expect.converged import converged_record
from tests.unit.hosts import VERSION, run
from tests.unit.keys import KEY, OTHER_KEY

REPOSITORY = {"uris": ["http://depot/apt/"], "suites": ["./"], "components": [], "key": KEY}
FILES = {
    "nvidia_driver": "Debian",
    "cuda_toolkit": "Debian",
    "containerd": "Debian",
    "nvidia_container_toolkit": "Debian",
    "kubernetes_node": "Debian",
}
NAMES = {
    role: yaml.safe_load((repo_root() / f"roles/{role}/vars/{FILES[role]}.yml").read_text())[variable]
    for role, variable in asked.VARIABLES.items()
}
WANTED: dict[str, Any] = {
    "nvidia_driver_version": VERSION,
    "nvidia_driver_package_layout": "nvidia",
    "containerd_package_layout": "docker",
    "nvidia_driver_module_flavour": "auto",
    "nvidia_driver_fabric_manager": "auto",
    "cuda_toolkit_versions": ["12.8"],
    "containerd_version": "2.3.7",
    "nvidia_container_toolkit_version": "1.20.1",
    "kubernetes_node_version": "1.36.3",
    **{f"{role}_repository": REPOSITORY for role in asked.VARIABLES},
}


def bare() -> dict[str, Any]:
    record = converged_record()
    return {
        **record,
        "packages": {},
        "managed_files": {},
        "kubernetes": {"joined": False},
        "cuda": {"versions": []},
    }


def test_headers_that_come_first_are_counted_on_where_they_are_installed() -> None:
    kernel = {asked.KERNEL: {"headers": "linux-headers-{kernel}", "flavour": "^x", "next": []}}
    release = bare()["host"]["kernel"]
    record = {**bare(), "module": {}, "kernels": []}

    def of_driver(**changes: Any) -> Any:
        found = asked.all_of(record, run(**{**WANTED, **changes}), {**NAMES, **kernel})["nvidia_driver"]
        return found["optional"]

    assert of_driver(gpusmith_simulated=False) == [f"linux-headers-{release}"]
    assert of_driver(gpusmith_simulated=True) == []
    assert of_driver(gpusmith_simulated=False, driver_only=True) == []


def test_a_bare_machine_lacks_everything() -> None:
    asks = asked.all_of(bare(), run(**WANTED), NAMES)
    assert asked.due(bare(), asks) == asks
    assert set(asks) == set(asked.VARIABLES)
    assert asks["nvidia_container_toolkit"]["packages"] == dict.fromkeys(
        (
            "nvidia-container-toolkit",
            "nvidia-container-toolkit-base",
            "libnvidia-container-tools",
            "libnvidia-container1",
        ),
        "1.20.1",
    )
    assert "nvidia-fabricmanager" in asks["nvidia_driver"]["packages"]
    assert asks["cuda_toolkit"]["unversioned"] == ["cuda-toolkit-12-8"]
    assert asks["cuda_toolkit"]["expected"] == {"cuda-toolkit-12-8": "12.8.*"}


def test_an_unknown_system_asks_for_nothing() -> None:
    assert asked.all_of(bare(), run(**WANTED), {}) == {}


def test_cuda_of_the_drivers_repository_asks_there() -> None:
    assert "repository" not in asked.all_of(bare(), run(**WANTED), NAMES)["cuda_toolkit"]
    own = {"cuda_toolkit_repository": {**REPOSITORY, "uris": ["http://other/"]}}
    cuda = asked.all_of(bare(), run(**{**WANTED, **own}), NAMES)["cuda_toolkit"]
    assert cuda["repository"]["uris"] == cuda["offered_by"]["uris"] == ["http://other/"]


def converged() -> dict[str, Any]:
    """A node on which the roles' packages are all there, with their files."""
    import hashlib

    from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import apt_files
    from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.repositories import repository_of

    record = {**converged_record(), "cuda": {"versions": ["12.8"]}}
    asks = asked.all_of(record, run(**WANTED), NAMES)
    for each in asks.values():
        versions = {name: f"{version}-1" for name, version in each.get("packages", {}).items()}
        for name, version in versions.items():
            record["packages"][name] = {"version": version, "held": True}
        pins = {name: [version] for name, version in versions.items()}
        if versions:
            pins |= {pattern: sorted(set(versions.values())) for pattern in each.get("patterns", [])}
        texts = (
            {
                f"/etc/apt/preferences.d/gpusmith-{each['name']}.pref": apt_files.render_preferences(
                    pins, each["name"]
                )
            }
            if pins
            else {}
        )
        if each.get("repository"):
            source = repository_of(each["repository"], each["name"])
            texts[f"/etc/apt/sources.list.d/gpusmith-{each['name']}.sources"] = apt_files.render_source(
                source, each["name"]
            )
        record["managed_files"] |= {
            path: hashlib.sha256(text.encode()).hexdigest() for path, text in texts.items()
        }
    return record


def test_a_converged_node_pays_nothing() -> None:
    record = converged()
    assert asked.due(record, asked.all_of(record, run(**WANTED), NAMES)) == {}


def test_containerd_as_the_distribution_packages_it() -> None:
    wanted = {**WANTED, "containerd_package_layout": "distribution"}
    assert asked.all_of(bare(), run(**wanted), NAMES)["containerd"]["packages"] == {"containerd": "2.3.7"}
    assert asked.other_containerd(bare(), run(**wanted), NAMES) is None
    assert asked.other_containerd(bare(), run(**wanted), {}) is None


def test_a_layout_that_the_system_has_not_is_refused() -> None:
    el = yaml.safe_load((repo_root() / "roles/containerd/vars/RedHat.yml").read_text())
    names = {**NAMES, "containerd": el[asked.VARIABLES["containerd"]]}
    wanted = {**WANTED, "containerd_package_layout": "distribution"}
    assert asked.all_of(bare(), run(**wanted), names)["containerd"]["packages"] == {}
    refused = asked.other_containerd(bare(), run(**wanted), names)
    assert refused is not None
    assert "'distribution'; allowed: on this operating system 'docker'" in refused.message


@pytest.mark.parametrize(
    ("there", "layout", "back"),
    [("containerd.io", "distribution", "docker"), ("containerd", "docker", "distribution")],
)
def test_a_node_with_the_other_layout_held_is_refused(there: str, layout: str, back: str) -> None:
    record = {**bare(), "packages": {there: {"version": "1.7.28-1", "held": True, "source": there}}}
    refused = asked.other_containerd(record, run(**{**WANTED, "containerd_package_layout": layout}), NAMES)
    assert refused is not None
    assert f"'{there}' (1.7.28-1) is installed and held" in refused.message
    assert refused.hint.startswith(f"Set 'containerd_package_layout: {back}'")
    assert asked.other_containerd(record, run(**{**WANTED, "containerd_package_layout": back}), NAMES) is None
    # What came with the system is for 'preflight_removable_packages'.
    record["packages"][there]["held"] = False
    assert (
        asked.other_containerd(record, run(**{**WANTED, "containerd_package_layout": layout}), NAMES) is None
    )


def test_a_node_that_serves_is_asked_for_its_own_versions() -> None:
    record = converged()
    record["kubernetes"]["joined"] = True
    newer = {**WANTED, "kubernetes_node_version": "1.36.9"}
    asks = asked.all_of(record, run(**newer), NAMES)
    assert asks["kubernetes_node"]["packages"] == dict.fromkeys(("kubelet", "kubeadm", "kubectl"), "1.36.3-1")
    assert asked.due(record, asks) == {}
    # Unless it is to be changed.
    asks = asked.all_of(record, run(**{**newer, "gpusmith_change_runtime_on_joined": True}), NAMES)
    assert set(asked.due(record, asks)) == {"kubernetes_node"}


@pytest.mark.parametrize("key", [OTHER_KEY, KEY.replace("B", "C", 1).replace("AAA", "AAB"), "nonsense"])
def test_another_or_a_damaged_key_is_due_on_a_converged_node(key: str) -> None:
    record = converged()
    other = {"containerd_repository": {**REPOSITORY, "key": key}}
    asks = asked.all_of(record, run(**{**WANTED, **other}), NAMES)
    assert set(asked.due(record, asks)) == {"containerd"}


def nvlink_5() -> dict[str, Any]:
    gpus = [{"address": f"0000:{n}8:00.0", "device_id": "10de:2901"} for n in range(1, 9)]
    managers = [{"address": "0000:81:00.0", "device_id": "15b3:1021"}]
    return {**bare(), "pci": {"gpus": gpus, "nvswitches": [], "switch_managers": managers}}


def test_what_runs_beside_a_fabric_manager_is_looked_for_before_anything_is_changed() -> None:
    assert asked.all_of(nvlink_5(), run(**WANTED), NAMES)["nvidia_driver"]["unversioned"] == [
        "nvlsm",
        "infiniband-diags",
    ]
    assert asked.all_of(bare(), run(**WANTED), NAMES)["nvidia_driver"]["unversioned"] == []
    # Installed already, and nobody's to hold.
    record = {**nvlink_5(), "packages": {"infiniband-diags": {"version": "1", "held": False}}}
    assert asked.all_of(record, run(**WANTED), NAMES)["nvidia_driver"]["unversioned"] == ["nvlsm"]


def test_a_layout_that_lacks_what_the_board_needs_is_refused_before_anything_is_changed() -> None:
    assert asked.unmet(nvlink_5(), run(**WANTED), NAMES) is None
    own = {**WANTED, "nvidia_driver_package_layout": "distribution", "nvidia_driver_version": "535.261.03"}
    assert "no fabric manager" in str(asked.unmet(bare(), run(**own), NAMES))
    assert asked.unmet({**bare(), "pci": {"gpus": [], "nvswitches": []}}, run(**own), NAMES) is None
    rows = yaml.safe_load((repo_root() / "roles/nvidia_driver/vars/Ubuntu.yml").read_text())[
        "__nvidia_driver_layouts"
    ]
    ubuntu = {**NAMES, "nvidia_driver": rows}
    found = asked.unmet(nvlink_5(), run(**{**own, "nvidia_driver_version": VERSION}), ubuntu)
    assert "'nvlsm'" in str(found)
