"""What preflight decides, check by check, over a record of a machine where all is well."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from gpusmith.data import compatibility, models
from gpusmith.errors import Refusal
from gpusmith.node.left_out import without
from gpusmith.preflight.join import endpoint
from gpusmith.preflight.judge import judge
from gpusmith.preflight.kernel_modules import Lack
from gpusmith.preflight.machine import check_mig, old_kernels
from gpusmith.preflight.proxy import kept_proxies, proxies
from gpusmith.preflight.words import Tables
from tests.authorities import authority
from tests.unit.hosts import run

TABLES = Tables(models.load(), compatibility.load())
WANTED: dict[str, Any] = {
    "gpusmith_gpu_model": "h100-sxm",
    "gpusmith_gpu_count": 2,
    "gpusmith_simulated": True,
    "nvidia_driver_version": "580.178.04",
    "cuda_toolkit_versions": ["12.8"],
    "kubernetes_node_version": "1.36.3",
    "containerd_version": "2.3.7",
    "nvidia_container_toolkit_version": "1.20.0",
}


def facts() -> dict[str, Any]:
    gpu = {"device_id": "10de:2330", "class": "0x030200", "driver": None}
    return {
        "record": {
            "host": {"os_id": "debian", "os_version": "12", "kernel": "6.1.0-40-amd64", "cgroup_v2": True},
            "packages": {},
            "half_packages": {},
            "foreign_packages": [],
            "foreign": {},
            "holders": [],
            "memory": {},
            "pci": {
                "gpus": [{**gpu, "address": "0000:18:00.0"}, {**gpu, "address": "0000:2a:00.0"}],
                "nvswitches": [{"address": "0000:83:00.0"}, {"address": "0000:84:00.0"}],
            },
            "module": {"installed_version": None, "nouveau_loaded": False},
            "library": {"nvml_version": None, "simulated": None},
            "nvml": {
                "gpus": [{"index": index, "mig_mode": None, "mig_mode_pending": None} for index in (0, 1)]
            },
            "kubernetes": {"joined": False, "kubelet_version": None},
            "containerd": {"effective": {}},
            "system": {"secure_boot": False},
            "errors": [],
        },
        "package_manager": "apt",
        "repositories": {},
        "simulation": None,
        "asked": {},
        "driver_package": "nvidia-driver-cuda",
        "headers_lacking": [],
        "kernel_modules": [],
        "packages_lacking": [],
        "disk": {"/var": {"free_mib": 90000, "needed_mib": 20480}},
        "clock_offset_s": 0.4,
        "foreign_driver": [],
        "silent_proxies": [],
        "trust_program": "update-ca-certificates",
        "trust_program_found": True,
    }


def refused(changed_facts: dict[str, Any] | None = None, **changed: Any) -> list[Refusal]:
    return judge(changed_facts or facts(), run(**{**WANTED, **changed}), TABLES)


def only(found: list[Refusal]) -> Refusal:
    assert len(found) == 1, found
    return found[0]


def test_good_machine_has_no_refusals() -> None:
    assert refused() == []


@pytest.mark.parametrize(
    ("loaded", "wanted", "stops"),
    [
        ("535.261.03", {}, True),
        ("580.178.04", {}, False),
        ("580.178.04", {"nvidia_driver_version": "580.178.04-1"}, False),
        (None, {}, False),
        # The role itself refuses to take away a driver that is in use.
        ("535.261.03", {"nvidia_driver_state": "absent"}, False),
    ],
)
def test_no_driver_is_replaced_under_somebodys_jobs(
    loaded: str | None, wanted: dict[str, Any], stops: bool
) -> None:
    """A machine that served others before it becomes a node."""
    tree = facts()
    tree["record"]["module"]["loaded_version"] = loaded
    tree["record"]["nvml"]["gpus"][1]["processes"] = [{"pid": 4711, "name": "python3", "pod": False}]
    row = {"user": "ann", "devices": ["/dev/nvidia0"], "started_unix": 1.0}
    tree["record"]["holders"] = [
        {"pid": 4711, "command": "python3", **row},
        {"pid": 4712, "command": "sim", **row},
        {"pid": 9, "command": "nvidia-persiste", **row},
    ]
    found = [row.message for row in refused(tree, **wanted) if row.message.startswith("GPU processes: ")]
    assert bool(found) is stops
    named = "'python3 (process 4711, GPU 1)', 'sim (process 4712, /dev/nvidia0)' with driver 535.261.03"
    assert all(named in message for message in found)
    # Upgrades wait for jobs of a joined node.
    tree["record"]["kubernetes"]["joined"] = True
    assert [row for row in refused(tree, **wanted) if row.message.startswith("GPU processes: ")] == []


def changed(path: str, value: Any) -> dict[str, Any]:
    tree = copy.deepcopy(facts())
    place = tree
    *parents, last = path.split(".")
    for key in parents:
        place = place[key]
    place[last] = value
    return tree


@pytest.mark.parametrize(
    ("path", "value", "check", "says"),
    [
        ("record.host.os_version", "11", "operating system", "debian 11"),
        ("record.pci.gpus", [], "GPU count", "0 on PCI"),
        ("record.system.secure_boot", True, "secure boot", "on"),
        ("record.module.nouveau_loaded", True, "nouveau", "loaded"),
        ("headers_lacking", ["6.1.0-40-amd64"], "kernel headers", "6.1.0-40-amd64"),
        ("headers_lacking", ["6.1.0-41-amd64"], "kernel headers", "6.1.0-41-amd64"),
        ("disk", {"/var": {"free_mib": 10, "needed_mib": 20480}}, "disk space", "/var"),
        ("clock_offset_s", -3600.0, "clock", "3600 s behind"),
        ("package_manager", "pacman", "package manager", "pacman"),
        ("package_manager", "zypper", "package manager", "zypper"),
        ("package_manager", "", "package manager", "none that this release knows"),
        ("foreign_driver", ["/usr/bin/nvidia-uninstall"], "foreign driver", "nvidia-uninstall"),
        ("record.library.simulated", False, "simulation", "real"),
    ],
)
def test_machine(path: str, value: Any, check: str, says: str) -> None:
    found = only(refused(changed(path, value)))
    assert found.message.startswith(f"{check}: ")
    assert says in found.message.split("; allowed: ")[0]


def test_packages_of_another_architecture_are_refused_where_something_is_to_be_installed() -> None:
    """As i386 on Ubuntu, whose driver recommends them."""
    tree = changed("record.foreign_packages", ["libnvidia-compute-580:i386"])
    assert refused(tree) == []
    tree["repositories"] = {"nvidia_driver": {"asked": {}, "versions": {}, "error": None}}
    assert "'libnvidia-compute-580:i386'" in only(refused(tree)).message


EXTRA = "kernel-modules-extra-6.12.0-124.el10.x86_64"


@pytest.mark.parametrize(
    ("package", "lacking", "says"),
    [
        (EXTRA, [EXTRA], f"has no 'br_netfilter', and no repository offers '{EXTRA}', which has them"),
        ("", [], "has no 'br_netfilter'; allowed"),
        (EXTRA, [], None),
    ],
)
def test_a_kernel_without_modules_needs_a_package_that_has_them(
    package: str, lacking: list[str], says: str | None
) -> None:
    tree = facts()
    tree["kernel_modules"] = [Lack("6.1.0-40-amd64", ("br_netfilter",), package)]
    tree["packages_lacking"] = lacking
    found = refused(tree)
    if says is None:
        assert found == []
    else:
        assert says in only(found).message


def test_the_kernel_that_boots_next_is_named_as_that() -> None:
    tree = facts()
    tree["kernel_modules"] = [Lack("6.1.0-41-amd64", ("br_netfilter",), "")]
    assert "kernel '6.1.0-41-amd64', which boots next, has no" in only(refused(tree)).message


def test_an_old_kernel_without_headers_is_named_and_refuses_nobody() -> None:
    old = "6.1.0-9-amd64"
    tree = changed("headers_lacking", [old])
    tree["record"]["kernels"] = [{"release": old, "image": "i"}, {"release": "6.1.0-41-amd64", "image": "i"}]
    assert refused(tree) == []
    (note,) = old_kernels(tree)
    assert old in note
    assert "remove that kernel" in note
    # One that only left its modules behind boots nothing.
    tree["record"]["kernels"][1]["image"] = None
    tree["record"]["host"]["kernel"] = "6.1.0-8-amd64"
    assert only(refused(tree)).message.startswith("kernel headers")
    assert old_kernels(tree) == []


@pytest.mark.parametrize(
    ("wanted", "check", "allowed"),
    [
        ({"gpusmith_gpu_model": "h100"}, "GPU model", "'h100', which is no row"),
        ({"gpusmith_gpu_count": 8}, "GPU count", "8"),
        ({"nvidia_driver_version": "515.43.04", "cuda_toolkit_versions": []}, "driver for this GPU", "525"),
        ({"nvidia_driver_version": "570.1.1", "cuda_toolkit_versions": ["13.0"]}, "CUDA and driver", "580"),
        ({"cuda_toolkit_versions": ["9.2"]}, "CUDA version", "12.x"),
        ({"containerd_version": "1.7.28"}, "containerd and Kubernetes", "2.3.0"),
        (
            {"containerd_version": "1.7.24~ds1-6", "kubernetes_node_version": "1.35.1"},
            "containerd and Kubernetes",
            "'1.7.28 and later patches'",
        ),
        (
            {"containerd_version": "2.0.14", "kubernetes_node_version": "1.35.1"},
            "containerd and Kubernetes",
            "'2.1.5 and later patches'",
        ),
        ({"kubernetes_node_version": "1.40.0"}, "Kubernetes version", "1.36.x"),
        ({"nvidia_container_toolkit_version": "1.19.0"}, "container toolkit", "1.19.1"),
        ({"nvidia_container_toolkit_version": "1.19.0-1"}, "container toolkit", "1.19.1"),
        ({"nvidia_container_toolkit_version": "1.19.0~rc.7-1"}, "container toolkit", "1.19.1"),
        ({"nvidia_container_toolkit_version": "1.17.8-1"}, "container toolkit and device plugin", "1.18.0"),
        (
            {"nvidia_container_toolkit_mode": "legacy"},
            "container toolkit and device plugin",
            "'auto' or 'cdi'",
        ),
    ],
)
def test_inventory(wanted: dict[str, Any], check: str, allowed: str) -> None:
    found = only(refused(**wanted))
    assert found.message.startswith(f"{check}: ")
    assert allowed in found.message.split("; allowed: ")[1]


@pytest.mark.parametrize(
    ("kubernetes", "version"),
    [
        ("1.34.2", "1.7.28-1~debian.12~bookworm"),
        ("1.34.2", "2.0.14"),
        ("1.35.1", "1.7.29"),
        ("1.35.1", "2.1.5"),
        ("1.36.3", "2.2.0"),
    ],
)
def test_containerds_that_kubernetes_supports(kubernetes: str, version: str) -> None:
    assert refused(kubernetes_node_version=kubernetes, containerd_version=version) == []


def test_a_containerd_in_another_layout_is_told() -> None:
    other = Refusal(
        "containerd packages: 'containerd.io' is held", "Set 'containerd_package_layout: docker'."
    )
    tree = {**facts(), "other_containerd": other}
    assert judge(tree, run(**WANTED), TABLES) == [other]


@pytest.mark.parametrize(
    "wanted",
    [{"toolkit_version": version} for version in ("1.18.0", "1.18.2-1", "1.19.1-1", "1.20.1")]
    + [{"toolkit_version": "1.17.8", "toolkit_mode": "legacy", "device_plugin": "existing"}],
)
def test_toolkits_that_work(wanted: dict[str, Any]) -> None:
    assert refused(**wanted) == []


@pytest.mark.parametrize("field", ["mig_mode", "mig_mode_pending"])
def test_mig_mode_is_refused_before_a_machine_is_changed(field: str) -> None:
    tree = facts()
    tree["record"]["nvml"]["gpus"][1].update(
        {"mig_mode": "disabled", "mig_mode_pending": "disabled", field: "enabled"}
    )
    found = only(refused(tree))
    assert found.message.startswith("MIG mode: on, or on after the next reset, for GPU 1;")
    assert "'nvidia-smi -i 1 -mig 0'" in found.hint


def test_what_gpusmith_divided_is_taken() -> None:
    tree = facts()
    tree["record"]["nvml"]["gpus"][1].update(mig_mode="enabled", mig_mode_pending="enabled")
    tree["record"]["gpu_layout"] = {"profile": "3g.40gb", "nvml": "3_SLICE", "starts": [0, 4]}
    assert refused(tree) == []
    upgrade = run(driver_only=True)
    assert list(check_mig(tree, upgrade, TABLES)) == []
    tree["record"]["gpu_layout"] = None
    assert [row.message[:9] for row in check_mig(tree, upgrade, TABLES)] == ["MIG mode:"]


def test_a_node_whose_certificate_has_expired_is_refused() -> None:
    tree = facts()
    tree["record"]["host"]["time_unix"] = 86400.0 * 3
    tree["record"]["kubernetes"].update(joined=True, client_expires_unix=86400.0)
    (found, *_others) = refused(tree)
    assert found.message.startswith("kubelet's certificate: expired on 1970-01-02")
    assert "playbooks/remove_nodes.yml -l NODE" in found.hint
    tree["record"]["kubernetes"]["client_expires_unix"] = 86400.0 * 4
    assert [each for each in refused(tree) if "certificate" in each.message] == []


def test_wrong_model_names_what_is_built_in() -> None:
    found = refused(gpusmith_gpu_model="h200-sxm")
    assert "'10de:2330' (h100-sxm)" in found[0].message


def test_a_board_that_nobody_sets_up_is_refused() -> None:
    known = models.load()
    tables = replace(TABLES, models={**known, "h100-sxm": replace(known["h100-sxm"], refused="nobody can")})
    found = only(judge(facts(), run(**WANTED), tables))
    assert "'h100-sxm': nobody can" in found.message
    assert "h100-sxm" not in found.message.split("; allowed: ")[1]


def with_nvlink_5(managers: int = 1) -> dict[str, Any]:
    tree = facts()
    tree["record"]["pci"] = {
        "gpus": [{"address": f"0000:{n}8:00.0", "device_id": "10de:2901"} for n in range(1, 9)],
        "nvswitches": [],
        "switch_managers": [
            {"address": f"0000:8{n}:00.0", "device_id": "15b3:1021"} for n in range(managers)
        ],
    }
    tree["record"]["kernels"] = [{"release": "6.1.0-40-amd64", "image": "/boot/a", "lacking": []}]
    return tree


def of_nvlink_5(tree: dict[str, Any], **changed: Any) -> list[Refusal]:
    return refused(
        tree, gpusmith_gpu_model="b200", gpusmith_gpu_count=8, cuda_toolkit_versions=["12.8"], **changed
    )


def test_a_board_with_nvlink_5_is_worked_on() -> None:
    assert of_nvlink_5(with_nvlink_5()) == []


def test_a_board_whose_switches_nothing_manages_is_refused() -> None:
    found = only(of_nvlink_5(with_nvlink_5(managers=0)))
    assert found.message.startswith("NVLink switches: no network function manages them")
    assert "lspci -vv -d 15b3:" in found.hint
    assert of_nvlink_5(with_nvlink_5(managers=0), nvidia_driver_fabric_manager="disabled") == []


def test_kernels_without_the_modules_of_nvlink_5_are_refused_by_name() -> None:
    tree = with_nvlink_5()
    tree["record"]["kernels"][0]["lacking"] = ["ib_umad"]
    found = only(of_nvlink_5(tree))
    assert found.message.startswith("kernel modules: kernel '6.1.0-40-amd64' has no 'ib_umad'")
    tree["record"]["kernels"] = [
        {"release": "6.1.0-40-amd64", "image": "/boot/a", "lacking": []},
        {"release": "6.1.0-41-amd64", "image": "/boot/b", "lacking": ["mlx5_ib", "ib_umad"]},
    ]
    found = only(of_nvlink_5(tree))
    assert "kernel '6.1.0-41-amd64' has no 'mlx5_ib', 'ib_umad'" in found.message
    assert "boots next" in found.hint
    # One that only the boot menu leads to.
    tree["record"]["kernels"][1]["release"] = "6.1.0-9-amd64"
    assert of_nvlink_5(tree) == []


def test_other_boards_need_none_of_it() -> None:
    tree = facts()
    tree["record"]["kernels"] = [{"release": "6.1.0-40-amd64", "image": "/boot/a", "lacking": ["ib_umad"]}]
    assert refused(tree) == []


def test_blackwell_needs_open_modules() -> None:
    assert of_nvlink_5(with_nvlink_5()) == []
    found = only(of_nvlink_5(with_nvlink_5(), nvidia_driver_module_flavour="proprietary"))
    assert found.message.startswith("module flavour: ")


def with_gpus(*devices: str) -> dict[str, Any]:
    tree = facts()
    tree["record"]["pci"]["gpus"] = [
        {"address": f"0000:{n}8:00.0", "device_id": f"10de:{device}"} for n, device in enumerate(devices, 1)
    ]
    return tree


@pytest.mark.parametrize("name", ["", "our-rtx"])
@pytest.mark.parametrize("device", ["2bb6", "ffff"])
def test_a_model_that_is_no_row_is_no_reason_to_refuse_a_machine(name: str, device: str) -> None:
    assert refused(with_gpus(device, device), gpusmith_gpu_model=name, cuda_toolkit_versions=["12.8"]) == []


def test_no_model_has_to_be_declared() -> None:
    assert refused(gpusmith_gpu_model="") == []
    assert "allowed: 2" in only(refused(with_gpus("2330"), gpusmith_gpu_model="")).message


def test_a_row_that_the_machine_does_not_show_is_refused() -> None:
    found = only(refused(with_gpus("2bb6", "2bb6"), cuda_toolkit_versions=["12.8"]))
    assert (
        "'10de:2bb6' (unknown to data/gpus.yml) at 0000:18:00.0, 0000:28:00.0; allowed: '10de:2330' (h100-sxm)"
        in found.message
    )
    assert "add a row to 'gpusmith_gpu_models'" in found.hint


def test_without_gpus_the_model_has_to_be_declared() -> None:
    found = only(refused(with_gpus(), gpusmith_gpu_model="", gpusmith_gpu_count=0))
    assert "no GPU on PCI" in found.message
    assert refused(with_gpus(), gpusmith_gpu_count=0) == []


@pytest.mark.parametrize(
    ("devices", "version", "refusals"),
    [
        (("2331", "27b8"), "580.178.04", []),
        (("1db6", "1eb8"), "580.178.04", []),
        (("1db6", "1eb8"), "590.48.01", ["driver for this GPU"]),
        (("1db6", "2bb5"), "580.178.04", ["module flavour"]),
        (("1b38", "2bb6"), "580.178.04", ["module flavour"]),
        (("102d", "2331"), "580.178.04", ["driver for this GPU"]),
    ],
)
def test_models_in_one_machine_need_a_driver_for_all(
    devices: tuple[str, ...], version: str, refusals: list[str]
) -> None:
    found = refused(
        with_gpus(*devices), gpusmith_gpu_model="", nvidia_driver_version=version, cuda_toolkit_versions=[]
    )
    assert [row.message.split(":")[0] for row in found] == refusals
    assert all("into different" in row.hint for row in found)


def test_one_declared_model_excludes_another() -> None:
    found = only(refused(with_gpus("2330", "2331")))
    assert "'10de:2331' (h100-pcie) at 0000:28:00.0" in found.message
    assert "leave 'gpusmith_gpu_model' out; else name those that are not" in found.hint


def test_a_display_adapter_beside_the_gpus_is_named_with_the_way_out() -> None:
    model, count = refused(with_gpus("2330", "2330", "1fb0"))
    assert "'10de:1fb0' (unknown to data/gpus.yml) at 0000:38:00.0" in model.message
    assert all("'gpusmith_gpus_ignored'" in row.hint for row in (model, count))


def test_hosts_on_which_no_role_was_ever_run_are_refused() -> None:
    found = only(refused(with_gpus("2342", "2342"), gpusmith_gpu_model=""))
    assert "arm64" in found.message


def test_missing_version_offers_the_three_nearest() -> None:
    tree = facts()
    offered = ["595.91.07-1", "580.178.04-1", "580.95.05-1", "535.261.03-1"]
    tree["repositories"] = {
        "nvidia_driver": {
            "asked": {"nvidia-driver-cuda": "580.178.05"},
            "versions": {"nvidia-driver-cuda": offered},
            "error": None,
        }
    }
    found = only(refused(tree, nvidia_driver_version="580.178.05"))
    assert found.message.endswith("; allowed: nearest: '580.178.04-1', '580.95.05-1', '595.91.07-1'.")


@pytest.mark.parametrize("offered", [[], ["580.95.05-1"]])
def test_a_repository_without_a_part_that_the_board_asks_for_is_refused_with_a_way_out(
    offered: list[str],
) -> None:
    tree = facts()
    asked = {"libnvidia-nscq": "580.178.04"}
    tree["repositories"] = {
        "nvidia_driver": {"asked": asked, "versions": {"libnvidia-nscq": offered}, "error": None}
    }
    way_out = "Or take 'auto' out of 'nvidia_driver_components': DCGM then does not see the NVSwitches."
    assert only(refused(tree, nvidia_driver_components=["auto"])).hint.endswith(way_out)
    assert "auto" not in only(refused(tree, nvidia_driver_components=["nscq"])).hint
    # With another one missing as well, it is the repository that is wrong.
    asked["libcuda1"] = "580.178.04"
    tree["repositories"]["nvidia_driver"]["versions"]["libcuda1"] = offered
    assert "auto" not in only(refused(tree, nvidia_driver_components=["auto"])).hint


def test_a_transitional_package_is_refused_by_its_name() -> None:
    tree = facts()
    there = {"nvidia-utils-535-server": ["580.173.02-0ubuntu0.24.04.1"], "nvidia-modprobe": ["550.54.14-1"]}
    asked = dict.fromkeys(there, "535.288.01")
    tree["repositories"] = {"nvidia_driver": {"asked": asked, "versions": there, "error": None}}
    found, other = refused(tree, nvidia_driver_version="535.288.01")
    assert found.message.startswith("transitional package: 'nvidia-utils-535-server' in")
    assert "'580.173.02'" in found.message
    assert found.hint == "Set 'nvidia_driver_version' to a version of branch 580."
    assert "no 'nvidia-modprobe' of version" in other.message


@pytest.mark.parametrize(
    ("owner", "step"),
    [("nvidia_driver", "nvidia_driver_package_layout"), ("containerd", "Correct 'containerd_repository'.")],
)
def test_a_package_that_no_repository_has_is_not_a_matter_of_versions(owner: str, step: str) -> None:
    tree = facts()
    tree["repositories"] = {owner: {"asked": {"some-package": "1.2.3"}, "versions": {}, "error": None}}
    found = only(refused(tree))
    assert "no 'some-package' in" in found.message
    assert step in found.hint


def test_a_version_that_is_none_is_refused_with_those_that_are_offered() -> None:
    tree = facts()
    offered = ["595.91.07-1", "580.178.04-1", "580.95.05-1"]
    tree["repositories"] = {
        "nvidia_driver": {
            "asked": {"nvidia-driver-cuda": "580"},
            "versions": {"nvidia-driver-cuda": offered},
            "error": None,
        }
    }
    found = only(refused(tree, nvidia_driver_version="580.x"))
    assert "'580.x', which is no version" in found.message
    assert "580.178.04-1" in found.hint


def test_a_branch_of_which_nothing_was_chosen_is_refused_for_the_reason() -> None:
    why = Refusal(
        "driver version: none is offered to all; allowed: one.", "Bring the repositories to one state."
    )
    assert only(refused({**facts(), "choice": why}, nvidia_driver_version="580")) == why
    assert "no exact version" in only(refused(nvidia_driver_version="latest")).message


def test_another_branch_on_a_node_that_serves_is_drift_alone() -> None:
    tree = changed("record.kubernetes.joined", True)
    tree["record"]["packages"] = {"nvidia-driver-cuda": {"version": "595.91.07-1", "held": True}}
    found = only(refused(tree, nvidia_driver_version="580"))
    assert found.message.startswith("driver of a joined node: ")


def test_silent_repository_is_told_once() -> None:
    tree = facts()
    tree["repositories"] = {
        "containerd": {"asked": {"containerd.io": "2.3.7"}, "versions": {}, "error": "E: no answer"}
    }
    assert "E: no answer" in only(refused(tree)).message


@pytest.mark.parametrize(
    ("versions", "default", "strange"),
    [(["12.8"], "12.6", "'12.6'"), ([], "12.8", "'12.8'"), (["12"], "", "'12'"), (["12.8.1"], "12.8.1", "'12.8.1'")],
)  # fmt: skip
def test_cuda_is_written_as_the_role_takes_it(versions: list[str], default: str, strange: str) -> None:
    found = refused(cuda_toolkit_versions=versions, cuda_toolkit_default=default)
    assert found[0].message.startswith(f"CUDA toolkits: {strange}; allowed: ")
    assert refused(cuda_toolkit_versions=["12.6", "12.8"], cuda_toolkit_default="12.6") == []
    upgrade = run(**WANTED, cuda_toolkit_default="12.6", driver_only=True)
    assert not any(row.message.startswith("CUDA toolkits: ") for row in judge(facts(), upgrade, TABLES))


@pytest.mark.parametrize(("joined", "count"), [(True, 1), (False, 0)])
def test_driver_of_a_joined_node_is_never_changed(joined: bool, count: int) -> None:
    tree = facts()
    tree["record"]["kubernetes"]["joined"] = joined
    tree["record"]["packages"] = {"nvidia-driver-cuda": {"version": "580.95.05-1", "held": True}}
    found = refused(tree)
    assert len(found) == count
    for row in found:
        command = "ansible-playbook -i INVENTORY playbooks/upgrade_driver.yml -l NODE -e gpu_upgrade_version=580.178.04"
        assert f"'{command}'" in row.hint
        # What an upgrade leaves to be done.
        assert "Put 'nvidia_driver_version: \"580.95.05\"' into group_vars" in row.hint


def test_a_library_without_package_knows_no_revision() -> None:
    tree = facts()
    tree["record"]["kubernetes"]["joined"] = True
    tree["record"]["library"]["nvml_version"] = "580.178.04"
    assert refused(tree, nvidia_driver_version="580.178.04-1") == []
    assert len(refused(tree, nvidia_driver_version="580.95.05-1")) == 1


def test_hole_in_the_record_is_a_refusal() -> None:
    tree = facts()
    tree["record"]["pci"] = None
    assert "could not be found out" in only(refused(tree)).message


def test_parameters_that_a_container_cannot_set_are_refused_before_any_change() -> None:
    limit = "fs.inotify.max_user_instances"
    seen = facts()
    seen["record"]["system"].update(
        sysctl={limit: "128", "vm.swappiness": "60"}, locked=[limit, "vm.swappiness"]
    )
    found = only(refused(seen))
    assert found.message == (
        f"kernel parameter: '{limit}' is '128', and this machine cannot set it; allowed: '8192' or more."
    )
    assert f"'sysctl -w {limit}=8192' on the host" in found.hint
    # The inventory's word counts, and what can be set is set.
    assert refused(seen, host_baseline_sysctl_minimum={}) == []
    assert (
        "'vm.swappiness' is '60'"
        in only(
            refused(seen, host_baseline_sysctl_minimum={}, host_baseline_sysctl={"vm.swappiness": 0})
        ).message
    )
    seen["record"]["system"]["sysctl"][limit] = "9000"
    assert refused(seen) == []


def test_authorities_need_a_trust_store() -> None:
    seen = {**facts(), "trust_program_found": False}
    assert refused(seen) == []
    assert refused(gpusmith_ca_certificates={"site": authority().certificate}) == []
    found = only(refused(seen, gpusmith_ca_certificates={"site": authority().certificate}))
    assert found.message.startswith("trust store: no 'update-ca-certificates'")
    assert "'ca-certificates'" in found.hint


SILENT = "http://proxy.example.com:3128"


def silent(told: bool, variable: str = "containerd_proxy") -> dict[str, Any]:
    return {"url": SILENT, "error": "Connection refused", "told": told, "variable": variable}


@pytest.mark.parametrize(
    ("joined", "told"), [(False, [False]), (False, [True]), (True, [False]), (True, [True, False])]
)
def test_a_silent_proxy_is_refused_before_a_service_is_told_of_it(joined: bool, told: list[bool]) -> None:
    seen = facts()
    seen["record"]["kubernetes"]["joined"] = joined
    seen["silent_proxies"] = [silent(each) for each in told]
    found = only(refused(seen))
    assert found.message.startswith(
        f"proxy: '{SILENT}' takes no connection from this machine (Connection refused)"
    )
    assert "'gpusmith_proxy' ('containerd_proxy')" in found.hint
    assert kept_proxies(seen) == []


def test_a_proxy_that_fell_silent_under_a_node_that_serves_is_named() -> None:
    seen = facts()
    seen["record"]["kubernetes"]["joined"] = True
    seen["silent_proxies"] = [silent(True), silent(True, "kubernetes_node_proxy")]
    assert refused(seen) == []
    (note,) = kept_proxies(seen)
    assert note.startswith(f"The proxy '{SILENT}' takes no connection (Connection refused).")


def test_services_are_asked_for_by_the_lines_of_their_files() -> None:
    wanted: dict[str, Any] = {
        "containerd_proxy": {"http": SILENT, "https": "http://other"},
        "kubernetes_node_proxy": {},
    }
    containerd = {"file": "/etc/default/gpusmith-containerd", "variable": "containerd_proxy"}
    assert proxies(run(**wanted)) == [
        {**containerd, "url": SILENT, "line": f"HTTP_PROXY={SILENT}"},
        {**containerd, "url": "http://other:80", "line": "HTTPS_PROXY=http://other:80"},
    ]
    assert proxies(run(driver_only=True, **wanted)) == []


def test_a_machine_that_cannot_reach_the_cluster_is_refused_before_it_joins() -> None:
    wanted: dict[str, Any] = {"kubernetes_node_control_plane_endpoint": "lb.example.com:6443"}
    bare, joined = {"kubernetes": {"joined": False}}, {"kubernetes": {"joined": True}}
    assert endpoint(bare, run(**wanted)) == "lb.example.com:6443"
    assert (
        endpoint(joined, run(**wanted))
        == endpoint(bare, run(driver_only=True, **wanted))
        == endpoint(bare, run())
        == ""
    )
    found = only(refused({**facts(), "endpoint_error": "timed out"}, **wanted))
    assert found.message.startswith(
        "cluster: no API server answers at 'lb.example.com:6443' from this machine (timed out)"
    )


def test_huge_pages_that_a_machine_cannot_have_are_refused() -> None:
    seen = facts()
    seen["record"]["memory"] = {
        "total_kib": 8 << 20,
        "huge_pages": {"2Mi": {"count": 0, "locked": False}},
    }
    assert refused(seen) == []
    assert refused(seen, host_baseline_huge_pages={"2Mi": 4095}) == []
    found = only(refused(seen, host_baseline_huge_pages={"2Mi": 4096}))
    assert found.message.startswith(
        "huge pages: 8192 MiB are asked for, and the machine has 8192 MiB of memory;"
    )
    assert "'host_baseline_huge_pages'" in found.hint


@pytest.mark.parametrize(
    ("version", "allowed", "told"),
    [("1.36.4", True, False), ("1.37.0", False, False), ("1.37.0", True, True)],
)
def test_another_minor_version_of_the_kubelet_is_no_work_of_site(
    version: str, allowed: bool, told: bool
) -> None:
    record = changed("record.kubernetes", {"joined": True, "kubelet_version": "1.36.3"})
    # Without the variable a node that serves keeps what it has, which the end of the run says.
    found = [
        refusal.message
        for refusal in refused(
            record, kubernetes_node_version=version, gpusmith_change_runtime_on_joined=allowed
        )
        if "kubelet of a joined node" in refusal.message
    ]
    assert bool(found) is told


@pytest.mark.parametrize(
    ("os_id", "version", "served"),
    [
        ("ubuntu", "24.04", True),
        ("rocky", "9.6", True),
        ("rhel", "10.1", True),
        ("almalinux", "9.4", True),
        ("debian", "13", True),
        ("debian", "11", False),
        ("ubuntu", "26.04", False),
        ("ubuntu", "24.10", False),
        ("ubuntu", "22.10", False),
        ("fedora", "44", False),
    ],
)
def test_the_operating_system_is_one_that_the_roles_know(os_id: str, version: str, served: bool) -> None:
    tree = facts()
    tree["record"]["host"].update(os_id=os_id, os_version=version)
    found = [row for row in refused(tree) if row.message.startswith("operating system: ")]
    assert not found if served else f"'{os_id} {version}'" in found[0].message
    if not served:
        assert "'debian 12', 'debian 13', 'ubuntu 22.04'" in found[0].message
        assert "'almalinux 10'" in found[0].message


@pytest.mark.parametrize(
    ("version", "flavour", "words"),
    [
        (
            "620.40.01",
            "proprietary",
            "driver '620.40.01' has no proprietary module; allowed: branch 619 or older",
        ),
        ("610.57.04", "proprietary", None),
        ("620.40.01", "auto", None),
    ],
)
def test_proprietary_modules_end(version: str, flavour: str, words: str | None) -> None:
    found = [
        row.message for row in refused(nvidia_driver_version=version, nvidia_driver_module_flavour=flavour)
    ]
    assert found == ([] if words is None else [f"kernel module: {words} for the proprietary one."])


@pytest.mark.parametrize(
    ("kernel", "version", "flavour", "refuses"),
    [
        ("6.1.0-56-amd64", "535.261.03", "open", True),
        ("6.1.0-57-cloud-amd64", "535.261.03-1", "auto", True),
        ("6.1.0-50-amd64", "535.261.03", "open", False),
        ("6.1.0-56-amd64", "535.261.03", "proprietary", False),
        ("6.1.0-56-amd64", "535.309.01", "open", False),
        ("6.12.56+deb13-amd64", "535.261.03", "open", False),
        ("6.12.117+deb13-amd64", "550.163.01-2", "open", True),
        ("6.12.56+deb13-amd64", "550.163.01-2", "open", False),
        ("6.12.117+deb13-amd64", "550.163.01-2", "proprietary", False),
    ],
)
def test_a_module_that_is_known_not_to_compile_is_refused(
    kernel: str, version: str, flavour: str, refuses: bool
) -> None:
    tree = facts()
    tree["record"]["host"]["kernel"] = kernel
    found = refused(
        tree, nvidia_driver_version=version, nvidia_driver_module_flavour=flavour, cuda_toolkit_versions=[]
    )
    assert ["pci_resize_resource" in row.message for row in found] == [True] * refuses
    # Where it is there already, nothing is compiled.
    tree["record"]["module"]["installed_version"] = version.partition("-")[0]
    if refuses:
        assert (
            refused(
                tree,
                nvidia_driver_version=version,
                nvidia_driver_module_flavour=flavour,
                cuda_toolkit_versions=[],
            )
            == []
        )


def test_the_kernel_that_boots_next_counts_as_well() -> None:
    tree = facts()
    tree["record"]["kernels"] = [{"release": "6.1.0-56-amd64", "image": "/boot/x", "module_version": None}]
    found = only(refused(tree, nvidia_driver_version="535.261.03", cuda_toolkit_versions=[]))
    assert "'6.1.0-56-amd64'" in found.message
    assert "nvidia_driver_module_flavour: proprietary" in found.hint


def test_a_gpu_that_is_set_aside_for_virtual_machines_is_refused_before_any_change() -> None:
    tree = facts()
    for driver in ("nvidia", "nouveau", None):
        tree["record"]["pci"]["gpus"][0]["driver"] = driver
        assert refused(tree) == []
    tree["record"]["pci"]["gpus"][0]["driver"] = "vfio-pci"
    assert "GPU 0000:18:00.0 is bound to 'vfio-pci'" in only(refused(tree)).message
    assert only(refused(tree, nvidia_driver_owner="managed")).hint.startswith("Take it from 'vfio-pci'")
    tree["record"] = without(tree["record"], ["0000:18:00.0"])
    assert "1 on PCI, and 1 left out by 'gpusmith_gpus_ignored'" in only(refused(tree)).message
    assert refused(tree, gpusmith_gpu_count=1) == []


@pytest.mark.parametrize(("vgpu", "stops"), [(True, True), (False, False), (None, False)])
def test_a_virtual_gpu_is_no_gpu_for_our_driver(vgpu: bool | None, stops: bool) -> None:
    tree = facts()
    tree["record"]["pci"]["gpus"][1]["vgpu"] = vgpu
    found = [row.message for row in refused(tree)]
    assert ["0000:2a:00.0 is a vGPU" in message for message in found] == ([True] if stops else [])
    others = [row.message for row in refused(tree, nvidia_driver_owner="existing")]
    assert not any("vGPU" in message for message in others)


@pytest.mark.parametrize(
    ("section", "check", "wanted"),
    [
        ("holders", "processes", {"nvidia_driver_version": "590.48.01"}),
        ("foreign", "foreign driver", {}),
        ("half_packages", "foreign driver", {}),
        ("memory", "huge pages", {"host_baseline_huge_pages": {"2Mi": 4}}),
    ],
)
def test_what_could_not_be_read_is_not_good(section: str, check: str, wanted: dict[str, Any]) -> None:
    tree = changed(f"record.{section}", None)
    tree["record"]["module"]["loaded_version"] = "580.178.04"
    tree["record"]["errors"] = ["no answer within 15 s"]
    assert f"{check}: could not be found out (no answer within 15 s); allowed: an answer." in {
        row.message for row in refused(tree, **wanted)
    }


@pytest.mark.parametrize(
    ("v2", "version", "config", "joined", "stops"),
    [
        (False, "1.36.3", {}, False, True),
        (False, "1.35.0", {"failCgroupV1": True}, False, True),
        (False, "1.36.3", {"failCgroupV1": False}, False, False),
        (False, "1.34.2", {}, False, False),
        (True, "1.36.3", {}, False, False),
        (None, "1.36.3", {}, False, True),
        # It runs.
        (False, "1.36.3", {}, True, False),
    ],
)
def test_a_kubelet_that_does_not_start_with_the_machines_cgroups_is_refused(
    v2: bool | None, version: str, config: dict[str, Any], joined: bool, stops: bool
) -> None:
    tree = facts()
    tree["record"]["host"]["cgroup_v2"] = v2
    tree["record"]["kubernetes"].update(joined=joined, kubelet_version=version if joined else None)
    found = [
        row.message
        for row in refused(tree, kubernetes_node_version=version, kubernetes_node_kubelet_config=config)
    ]
    assert [message.split(":")[0] for message in found] == (["control groups"] if stops else [])
