"""What an upgrade leaves behind, what is held with the kernel, and the other kind of module, over records of each family."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.expect import kernels, layouts, packages
from gpusmith.expect.wanted import Driver
from gpusmith.node.records import parse
from gpusmith.problems import Cure
from tests.unit.expect.role_plans import driver_plan
from tests.unit.expect.test_driver import SETTINGS, ready
from tests.unit.families.systems import value

KERNEL, OLD = "6.8.0-79-generic", "6.8.0-60-generic"
NEW, BEFORE = "580.173.02", "580.126.20"
SERVER = [
    "nvidia-utils-580-server",
    "nvidia-compute-utils-580-server",
    "libnvidia-compute-580-server",
    "libnvidia-cfg1-580-server",
    "nvidia-kernel-common-580-server",
    "nvidia-headless-no-dkms-580-server-open",
    "nvidia-dkms-580-server-open",
    "nvidia-fabricmanager-580",
    f"nvidia-firmware-580-server-{NEW}",
]


def with_driver(names: list[str], version: str, joined: bool = False, **others: str) -> dict[str, Any]:
    """A machine that has these packages in one version, and others in theirs."""
    record = ready()
    record["host"]["kernel"] = KERNEL
    record["kubernetes"]["joined"] = joined
    record["packages"] = {name: {"version": f"{version}-0ubuntu0.24.04.1", "held": True} for name in names}
    for name, own in others.items():
        record["packages"][name.replace("_", "-")] = {"version": own, "held": False}
    record["module"].update(installed_version=version, loaded_version=version)
    record["library"].update(nvml_version=version, cuda_version=version)
    record["nvml"]["driver_version"] = version
    return record


def plan(record: dict[str, Any], system: str = "Ubuntu 24", layout: str = "distribution", **more: Any) -> Any:
    settings = {**SETTINGS, "version": NEW, "package_layout": layout, **more}
    return driver_plan(record, settings, value("nvidia_driver", system, "__nvidia_driver_layouts"))


@pytest.mark.parametrize("server", ["", "server-"])
def test_the_suite_knows_the_drivers_own_firmware(server: str) -> None:
    """It has no rows of an operating system, and goes by the names of all."""
    firmware = "nvidia-firmware-580-{server}{version}"
    for version, problems in ((NEW, 0), (BEFORE, 1)):
        names = ["libnvidia-compute-580", firmware.format(server=server, version=version)]
        assert (
            len(packages.left_behind(parse(with_driver(names, NEW)), Driver(node="gpu-1", version=NEW)))
            == problems
        )


def test_firmware_of_the_version_before_is_removed_and_is_no_drift() -> None:
    record = with_driver(SERVER, NEW, joined=True, nvidia_modprobe="535.161.07-1")
    record["packages"]["nvidia-modprobe"]["held"] = True
    record["packages"][f"nvidia-firmware-580-server-{BEFORE}"] = {
        "version": f"{BEFORE}-0ubuntu0.24.04.2",
        "held": True,
    }
    found = plan(record)
    assert found["leftovers"] == [f"nvidia-firmware-580-server-{BEFORE}"]
    assert found["drift"] == found["outdated"] == []
    assert found["cures"] == ["packages"]
    assert "left over from another version" in found["problems"][0]


def test_a_driver_of_another_version_is_that_driver_and_nothing_is_left_over() -> None:
    old = [name.replace(NEW, BEFORE) for name in SERVER]
    found = plan(with_driver(old, BEFORE))
    assert found["leftovers"] == []
    assert set(found["outdated"]) == set(old)
    # What carries the version is left when the wanted one has come, which check mode tells.
    assert found["to_be_left"] == [f"nvidia-firmware-580-server-{BEFORE}"]
    # A branch before, too: all of it carries another number, and it is what runs.
    older = [name.replace("580", "535").replace(NEW, "535.288.01") for name in SERVER]
    found = plan(with_driver(older, "535.288.01"))
    assert found["leftovers"] == []
    assert set(found["outdated"]) == set(older)


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("libnvidia-compute-575", True),
        ("nvidia-dkms-575-server-open", True),
        ("libnvidia-nscq-575", True),
        ("linux-modules-nvidia-575-server-open-5.15.0-105-generic", True),
        ("linux-modules-nvidia-580-server-open-5.15.0-105-generic", False),
        ("libnvidia-decode-580-server", False),
        ("nvidia-container-toolkit", False),
        ("libnvidia-container1", False),
        ("nvidia-driver-pinning-580", False),
    ],
)
def test_what_carries_another_branch_is_left_over(name: str, left: bool) -> None:
    record = with_driver(SERVER, NEW)
    record["packages"][name] = {"version": "1", "held": False}
    found = plan(record)
    assert (name in found["leftovers"]) is left


def test_branchless_names_leave_those_with_a_branch_over() -> None:
    names = ["libnvidia-compute", "libnvidia-cfg1", "nvidia-firmware", "nvidia-kernel-common"]
    names += ["nvidia-persistenced", "nvidia-modprobe", "nvidia-dkms-open", "nvidia-fabricmanager"]
    record = with_driver(names, "595.91.07")
    for name in ("libnvidia-nscq-575", "nvidia-firmware-580-580.178.04"):
        record["packages"][name] = {"version": "580.178.04-1ubuntu1", "held": False}
    found = plan(record, layout="nvidia", version="595.91.07")
    assert found["leftovers"] == ["libnvidia-nscq-575", "nvidia-firmware-580-580.178.04"]


def test_parts_of_another_branch_make_room_for_the_wanted_ones() -> None:
    older = [name.replace("580", "570").replace(NEW, "570.211.01") for name in SERVER]
    assert plan(with_driver(older, "570.211.01"), fabric_manager="enabled")["displaced"] == [
        "nvidia-fabricmanager-570"
    ]
    # What is there already is left over.
    found = plan(with_driver([*SERVER, "nvidia-fabricmanager-570"], NEW), fabric_manager="enabled")
    assert (found["asked"]["displaced"], found["leftovers"]) == ([], ["nvidia-fabricmanager-570"])


@pytest.mark.parametrize("components", [["nscq"], []])
def test_components_make_room_also_where_they_come_as_counterparts(components: list[str]) -> None:
    names = [name.replace("580", "570") for name in WITH_BRANCH if name != "nvidia-fabricmanager"]
    record = with_driver([*names, "libnvidia-nscq-570"], "570.211.01")
    found = plan(record, layout="nvidia", version="575.57.08", components=components)
    assert found["asked"]["displaced"] == ["libnvidia-nscq-570"]


WITH_BRANCH = ["libnvidia-compute-580", "libnvidia-cfg1-580", "nvidia-utils-580", "nvidia-compute-utils-580"]
WITH_BRANCH += ["nvidia-kernel-common-580", "nvidia-dkms-580-open", "nvidia-fabricmanager", "nvidia-modprobe"]
ALONG = ["nvidia-firmware-580-580.173.02", "nvidia-kernel-source-580-open"]


def test_a_part_for_servers_may_have_the_plain_name_of_its_branch() -> None:
    """Of Ubuntu's archive, where the site goes on to NVIDIA's repository."""
    names = layouts.in_another_branch("libnvidia-gl-570-server", "580.178.04")
    assert names == ["libnvidia-gl-580-server", "libnvidia-gl-580", "libnvidia-gl-server", "libnvidia-gl"]


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("libnvidia-decode-580", ["libnvidia-decode-595", "libnvidia-decode"]),
        ("nvidia-driver-580-open", ["nvidia-driver-595-open", "nvidia-driver-open"]),
        ("xserver-xorg-video-nvidia-580", ["xserver-xorg-video-nvidia-595", "xserver-xorg-video-nvidia"]),
    ],
)
def test_what_a_site_has_besides_is_asked_for_under_its_next_name(name: str, names: list[str]) -> None:
    record = with_driver([*WITH_BRANCH, *ALONG, name], NEW)
    found = plan(record, layout="nvidia", version="595.91.07")
    assert found["asked"]["counterparts"] == [{"of": name, "names": names, "version": "595.91.07"}]
    assert found["leftovers"] == []
    assert name in found["asked"]["release"]


def test_what_a_site_has_besides_of_servers_keeps_that_in_its_name() -> None:
    kernel = f"linux-modules-nvidia-580-server-open-{KERNEL}"
    meta = "linux-modules-nvidia-580-server-open-generic"
    record = with_driver(
        [*SERVER, "nvidia-kernel-source-580-server-open", "libnvidia-decode-580-server"], NEW
    )
    for name in (meta, kernel, f"linux-objects-nvidia-580-server-open-{KERNEL}"):
        record["packages"][name] = {"version": "6.8.0-79.79", "held": True}
    found = {each["of"]: each for each in plan(record, version="595.91.07")["asked"]["counterparts"]}
    assert sorted(found) == ["libnvidia-decode-580-server", meta]
    assert found["libnvidia-decode-580-server"]["names"][0] == "libnvidia-decode-595-server"
    # It has versions of its own.
    assert (found[meta]["names"][0], found[meta]["version"]) == (meta.replace("580", "595"), "")


@pytest.mark.parametrize(
    ("layout", "names", "other"),
    [
        ("nvidia", [*WITH_BRANCH, *ALONG], ["nvidia-dkms-580-open", "nvidia-kernel-source-580-open"]),
        (
            "distribution",
            [*SERVER, "nvidia-kernel-source-580-server-open"],
            [
                "nvidia-dkms-580-server-open",
                "nvidia-headless-no-dkms-580-server-open",
                "nvidia-kernel-source-580-server-open",
            ],
        ),
    ],
)
def test_all_of_the_other_kind_goes_where_version_and_kind_change_at_once(
    layout: str, names: list[str], other: list[str]
) -> None:
    """Each of them is in conflict with what comes."""
    found = plan(with_driver(names, BEFORE), layout=layout, module_flavour="proprietary")
    assert found["leftovers"] == other
    assert plan(with_driver(names, BEFORE), layout=layout)["leftovers"] == []


@pytest.mark.parametrize("system", ["Debian 13", "Rocky 9"])
def test_parts_of_the_fabric_may_keep_their_branch_or_lose_it(system: str) -> None:
    record = with_driver(["nvidia-driver-cuda", "libnvidia-nscq-575"], "575.57.08")
    (found,) = plan(record, system, "nvidia")["asked"]["counterparts"]
    assert found["names"] == ["libnvidia-nscq-580", "libnvidia-nscq"]


def test_a_pin_of_another_branch_is_told_and_replaced_and_no_leftover() -> None:
    pin = "nvidia-driver-pinning-580"
    names = ["libnvidia-compute", "libnvidia-cfg1", "nvidia-firmware", "nvidia-kernel-common"]
    names += ["nvidia-persistenced", "nvidia-modprobe", "nvidia-dkms-open", "nvidia-fabricmanager"]
    for version in ("580-1", "580.178.04-1"):
        record = with_driver(names, "595.91.07")
        record["packages"][pin] = {"version": version, "held": False}
        found = plan(record, layout="nvidia", version="595.91.07")
        assert found["leftovers"] == found["outdated"] == []
        assert f"package '{pin}' pins the driver at another version than 595.91.07" in found["problems"]
        assert found["asked"]["counterparts"] == [
            {"of": pin, "names": ["nvidia-driver-pinning-595"], "version": ""}
        ]
        # Where they do not contradict each other for the package manager, the old one goes in its turn.
        record["packages"]["nvidia-driver-pinning-595"] = {"version": "595-1", "held": False}
        assert plan(record, layout="nvidia", version="595.91.07")["leftovers"] == [pin]


def test_a_pin_of_one_version_is_replaced_by_that_of_the_wanted_one() -> None:
    record = with_driver(WITH_BRANCH, BEFORE)
    record["packages"][f"nvidia-driver-pinning-{BEFORE}"] = {"version": f"{BEFORE}-1", "held": False}
    (found,) = plan(record, layout="nvidia")["asked"]["counterparts"]
    assert found["names"] == [f"nvidia-driver-pinning-{NEW}"]
    record["packages"] |= {
        f"nvidia-driver-pinning-{NEW}": record["packages"].pop(f"nvidia-driver-pinning-{BEFORE}")
    }
    assert plan(record, layout="nvidia")["asked"]["counterparts"] == []


def test_a_name_without_branch_is_left_over_beside_the_same_part_with_one() -> None:
    """After a way back, where the package manager lets both be."""
    record = with_driver([*WITH_BRANCH, "libnvidia-decode-580"], NEW)
    record["packages"]["libnvidia-decode"] = {"version": "595.91.07-1ubuntu1", "held": True}
    assert plan(record, layout="nvidia")["leftovers"] == ["libnvidia-decode"]


def test_a_name_that_only_other_branches_have_is_left_over() -> None:
    names = ["nvidia-driver-cuda", "nvidia-driver-cuda-libs", "libnvidia-ml", "libnvidia-cfg"]
    names += ["nvidia-kmod-common", "nvidia-persistenced", "nvidia-modprobe", "kmod-nvidia-open-dkms"]
    record = with_driver(names, NEW)
    record["packages"]["nvidia-fabric-manager"] = {"version": "575.57.08-1", "held": True}
    assert plan(record, "Rocky 9", "nvidia")["leftovers"] == ["nvidia-fabric-manager"]
    record["packages"]["nvidia-modprobe"]["version"] = "3:575.57.08-1.el9"
    assert plan(record, "Rocky 9", "nvidia")["leftovers"] == []


@pytest.mark.parametrize(("joined", "cure"), [(False, Cure.PACKAGES), (True, Cure.UPGRADE)])
def test_the_other_kind_of_module_is_drift_on_a_node_that_serves_and_goes_from_another(
    joined: bool, cure: Cure
) -> None:
    names = [
        "nvidia-smi",
        "libcuda1",
        "libnvidia-ml1",
        "nvidia-open-kernel-dkms",
        "nvidia-open-kernel-support",
    ]
    record = with_driver(
        names, NEW, joined, nvidia_persistenced="535.171.04-1", nvidia_modprobe="535.161.07-1"
    )
    # Of two packages that say which module 'nvidia' is, Debian's alternatives take either.
    others = ["nvidia-kernel-dkms", "nvidia-kernel-support"]
    record["packages"] |= {name: {"version": f"{NEW}-1", "held": True} for name in others}
    found = plan(record, "Debian 12", "distribution", fabric_manager="disabled")
    assert found["drift"] == [f"'{name}' is the proprietary module" for name in others]
    assert found["leftovers"] == others
    assert str(cure) in found["cures"]


def test_signed_modules_are_held_with_what_brings_the_next_kernel() -> None:
    modules = f"linux-modules-nvidia-580-server-open-{KERNEL}"
    names = [name for name in SERVER if "nvidia-dkms" not in name]
    record = with_driver(names, NEW, linux_image_generic="6.8.0-79.79", linux_generic="6.8.0-79.79")
    record["packages"]["linux-image-6.8.0-79-generic"] = {"version": "6.8.0-79.79", "held": False}
    record["packages"]["linux-image-unsigned-6.8.0-79-generic"] = {"version": "6.8.0-79.79", "held": False}
    record["packages"][modules] = {"version": "6.8.0-79.79", "held": False}
    found = plan(record, module_build="prebuilt")
    assert found["other_packages"] == ["nvidia-modprobe", modules]
    assert found["asked"]["companions"] == ["linux-image-generic", *kernels.READY]
    assert found["unheld"] == ["linux-image-generic", modules]
    # DKMS builds other modules than the driver's with this one.
    record["packages"]["nvidia-fs-dkms"] = {"version": "2.28.4-1", "held": False}
    assert kernels.follow_each_other(parse(record)) == {"linux-image-generic", modules}
    # With DKMS beside them the module is built for the next kernel, and it may come.
    record["packages"]["nvidia-dkms-580-server-open"] = {"version": f"{NEW}-1", "held": True}
    assert kernels.follow_each_other(parse(record)) == set()


@pytest.mark.parametrize(
    ("declared", "known", "asked"),
    [
        (["nvidia_fs"], {"nvidia_fs": False}, [f"linux-headers-{KERNEL}"]),
        ([], {"nvidia_fs": False}, []),
        (["nvidia_peermem"], {}, []),
    ],
)
def test_modules_of_others_need_headers_beside_those_that_come_built(
    declared: list[str], known: dict[str, bool], asked: list[str]
) -> None:
    record = with_driver([name for name in SERVER if "nvidia-dkms" not in name], NEW)
    record["kernels"] = [{"release": KERNEL, "image": "/boot/x", "module": "m", "dependents": known}]
    names = value("nvidia_driver", "Ubuntu 24", "__nvidia_driver_kernel")
    found = plan(record, module_build="prebuilt", kernel=names, extra_modules=declared)
    assert found["headers"] == asked


DROP_IN = {"/etc/systemd/system/nvidia-persistenced.service.d/gpusmith-driver.conf": "[Install]"}


@pytest.mark.parametrize(
    ("system", "layout", "version", "joined", "written"),
    [
        ("Ubuntu 24", "distribution", NEW, False, True),
        ("Ubuntu 22", "nvidia", NEW, False, True),
        ("Ubuntu 24", "nvidia", "595.91.07", False, False),
        ("Debian 12", "distribution", NEW, False, False),
        ("Rocky 9", "nvidia", NEW, False, False),
        # Where pods may run systemd is not told of it.
        ("Ubuntu 24", "distribution", NEW, True, False),
    ],
)
def test_canonicals_daemon_is_made_to_run_at_boot(
    system: str, layout: str, version: str, joined: bool, written: bool
) -> None:
    record = with_driver(SERVER, NEW, joined)
    found = plan(record, system, layout, version=version, daemon_files=DROP_IN)
    assert found["files"] == list(DROP_IN) * written


def test_a_module_that_comes_built_goes_with_its_driver() -> None:
    """It depends on exactly its own driver, so that a hold of it would keep every other version away."""
    modules = f"linux-modules-nvidia-580-server-open-{KERNEL}"
    old = [name.replace(NEW, BEFORE) for name in SERVER if "nvidia-dkms" not in name]
    record = with_driver([*old, "linux-image-generic"], BEFORE)
    record["packages"][modules] = {"version": "6.8.0-79.79", "held": True}
    found = plan(record, module_build="prebuilt")
    assert set(found["asked"]["release"]) == {*old, modules}
    assert plan(with_driver(SERVER, NEW), module_build="prebuilt")["asked"]["release"] == []


def test_nothing_is_built_where_modules_come_built() -> None:
    record = with_driver([name for name in SERVER if "nvidia-dkms" not in name], NEW)
    record["kernels"] = [{"release": OLD, "image": "i", "module": None, "headers": True}]
    assert plan(record)["unbuilt"] == [OLD]
    assert plan(record, module_build="prebuilt")["unbuilt"] == []


def test_the_next_kernel_gets_its_module_from_the_repository() -> None:
    names = [name for name in SERVER if "nvidia-dkms" not in name]
    record = with_driver(names, NEW)
    record["packages"][f"linux-modules-nvidia-580-server-open-{KERNEL}"] = {
        "version": "6.8.0-79.79",
        "held": True,
    }
    newer = "6.8.0-80-generic"
    record["kernels"] = [
        {
            "release": release,
            "image": "i",
            "module": module,
            "module_version": module and NEW,
            "headers": False,
        }
        for release, module in ((KERNEL, "m"), (OLD, None), (newer, None))
    ]
    found = plan(record, module_build="prebuilt", kernel={})
    assert found["headers"] == [f"linux-modules-nvidia-580-server-open-{release}" for release in (OLD, newer)]
    assert any(newer in problem for problem in found["problems"])


def test_on_el_the_running_kernels_own_headers_come_before_dkms_asks_for_the_newest() -> None:
    record = with_driver([], NEW)
    record["host"]["kernel"] = release = "5.14.0-503.11.1.el9_5.x86_64"
    record["module"].update(installed_version=None, loaded_version=None)
    names = value("nvidia_driver", "Rocky 9", "__nvidia_driver_kernel")
    found = plan(record, "Rocky 9", "nvidia", kernel=names)
    assert found["headers"] == [f"kernel-devel-matched-{release}", f"kernel-devel-{release}"]
    # The files are there by kernel-devel alone; dkms requires the other one, and would bring the newest with a kernel.
    record["kernels"] = [{"release": release, "image": "i", "module": None, "headers": True}]
    record["packages"]["kernel-devel"] = {"version": "5.14.0-503.11.1.el9_5", "held": False}
    assert plan(record, "Rocky 9", "nvidia", kernel=names)["headers"] == [f"kernel-devel-matched-{release}"]
    record["packages"]["kernel-devel-matched"] = {"version": "5.14.0-503.11.1.el9_5", "held": False}
    assert plan(record, "Rocky 9", "nvidia", kernel=names)["headers"] == []
    # No repository has anything for a kernel that somebody else built.
    del record["packages"]["kernel-devel-matched"]
    record["host"]["kernel"] = record["kernels"][0]["release"] = "6.1.0-40-amd64"
    assert plan(record, "Rocky 9", "nvidia", kernel=names)["headers"] == []


@pytest.mark.parametrize(
    ("name", "builds"),
    [
        ("nvidia-headless-no-dkms-580-server", False),
        ("nvidia-headless-580-server", False),
        ("nvidia-dkms-580-server-open", True),
        ("nvidia-kernel-open-dkms", True),
        ("kmod-nvidia-open-dkms", True),
        ("nvidia-fs-dkms", False),
    ],
)
def test_what_builds_modules_is_known_by_its_name(name: str, builds: bool) -> None:
    assert bool(kernels.DKMS.fullmatch(name)) is builds


def test_the_suite_holds_the_same_packages() -> None:
    record = with_driver(SERVER[:4], NEW, linux_image_generic="6.8.0-79.79")
    record["packages"]["linux-modules-nvidia-580-server-open-6.8.0-79-generic"] = {
        "version": "1",
        "held": False,
    }
    loose = packages.unheld(parse(record), Driver(node="gpu-1", version=NEW))
    assert {"linux-image-generic", "linux-modules-nvidia-580-server-open-6.8.0-79-generic"} <= set(loose)


COMPONENTS = {"nscq": "libnvidia-nscq", "nvsdm": "libnvsdm"}


@pytest.mark.parametrize(
    ("system", "version", "names"),
    [
        ("Debian 12", NEW, ["libnvidia-nscq", "libnvsdm"]),
        ("Ubuntu 24", NEW, ["libnvidia-nscq", "libnvsdm"]),
        ("Ubuntu 24", "595.91.07", ["libnvidia-nscq", "libnvsdm"]),
        ("Ubuntu 22", "575.57.08", ["libnvidia-nscq-575", "libnvsdm-575"]),
        ("Rocky 9", NEW, ["libnvidia-nscq", "libnvsdm"]),
        ("Rocky 10", "575.57.08", ["libnvidia-nscq-575", "libnvsdm-575"]),
    ],
)
def test_declared_components_come_with_the_driver(system: str, version: str, names: list[str]) -> None:
    asked = plan(ready(), system, "nvidia", version=version, components=list(COMPONENTS))["packages"]
    without = plan(ready(), system, "nvidia", version=version, components=[])["packages"]
    assert asked == [*without, *names]


def test_components_of_the_branch_before_are_left_over() -> None:
    names = [*WITH_BRANCH, "libnvidia-nscq"]
    record = with_driver(names, NEW)
    record["packages"]["libnvidia-nscq-575"] = {"version": "575.57.08-1ubuntu1", "held": True}
    found = plan(record, layout="nvidia", components=["nscq"])
    assert (found["leftovers"], found["outdated"]) == (["libnvidia-nscq-575"], [])


def test_a_component_that_a_layout_does_not_have_is_refused_by_name() -> None:
    refused = plan(ready(), components=["nscq"])["refused"]
    assert "no component 'nscq'" in refused
    assert "nvidia_driver_components" in refused
    assert plan(ready())["refused"] == ""
