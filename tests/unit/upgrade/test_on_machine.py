"""Effects of an upgrade on a machine: what is asked of it, and what its answers mean."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpusmith.built.once import NotBuilt
from gpusmith.change.protocol import ChangeFailed, InUse
from gpusmith.cluster import stamps
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.names import DRIVER_LABEL
from gpusmith.suite import start
from gpusmith.suite.start import SuiteRun
from gpusmith.upgrade import on_machine
from gpusmith.upgrade.on_machine import Machine
from gpusmith.upgrade.proof import Validation
from gpusmith.wait import WaitTimeout
from tests.unit.expect.converged import converged_record
from tests.unit.expect.role_plans import driver_parts
from tests.unit.hosts import VERSION
from tests.unit.preflight.test_asked import NAMES

NEW = "580.190.02"
LAYOUTS = NAMES["nvidia_driver"]
PACKAGES = {
    "name": "nvidia-driver",
    "repository": {"uris": ["http://depot/"]},
    "packages": dict.fromkeys(["nvidia-driver-cuda", "libcuda1", "nvidia-kernel-open-dkms"], NEW),
    "patterns": ["*nvidia*"],
}
SETTINGS = {
    "node": "gpu-1",
    "version": NEW,
    "module_flavour": "auto",
    "fabric_manager": "auto",
    "files": {},
    "kernel": {},
}


class Node:
    """Answers modules as it is told, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.answers: list[Mapping[str, Any]] = []
        self.record = converged_record()
        self.rebooted = 0

    def ask(self, module: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        self.asked.append((module.rpartition(".")[2], arguments))
        return self.answers.pop(0) if self.answers else {}

    def reboot(self) -> None:
        self.rebooted += 1
        self.record["module"]["loaded_version"] = None


def made(node: Node, tmp_path: Path, **other: Any) -> Machine:
    wanted, own = driver_parts(SETTINGS, LAYOUTS)
    return Machine(
        host="gpu-1",
        node="gpu-1",
        run="run-1",
        ask=node.ask,
        look=lambda: node.record,
        cluster=None,  # type: ignore[arg-type]
        packages=PACKAGES,
        wanted=wanted,
        own=own,
        validation=Validation("validation", "inventory", tmp_path),
        ready_s=0.0,
        sleep=lambda _: None,
        **other,
    )


def test_the_target_is_fetched_by_its_version_and_the_present_one_as_it_is(tmp_path: Path) -> None:
    node = Node()
    machine = made(node, tmp_path)
    machine.prepare(NEW)
    machine.prepare(VERSION)
    (_, target), (_, present) = node.asked
    assert target["state"] == present["state"] == "fetched"
    assert target["folder"].endswith(NEW)
    assert set(target["packages"].values()) == {NEW}
    assert present["folder"].endswith(VERSION)
    there = node.record["packages"]
    assert present["packages"] == {name: there[name]["version"] for name in target["packages"]}


def test_a_version_that_cannot_be_fetched_says_nothing_about_a_driver(tmp_path: Path) -> None:
    node = Node()
    node.answers = [{"failed": True, "msg": "no repository has it"}]
    with pytest.raises(ToolError, match="no repository"):
        made(node, tmp_path).prepare(NEW)


def test_installing_asks_no_repository(tmp_path: Path) -> None:
    node = Node()
    node.answers = [{"saved": {"libcuda1": f"{NEW}-1", "gcc": "12"}}]
    made(node, tmp_path).apply(NEW)
    _, (_, asked) = node.asked
    assert asked["repository"] is None
    # The pins are those of the role; what merely came along gets none.
    assert asked["packages"] == {"libcuda1": f"{NEW}-1"}


def test_a_pin_of_another_branch_goes_on_the_way_forth_and_back(tmp_path: Path) -> None:
    """Nothing of its name or version says that it is the driver's, and packages of others are left alone."""
    node = Node()
    node.record["packages"]["nvidia-driver-pinning-580"] = {"version": "580-1", "held": False}
    node.answers = [{"saved": {"libcuda1": "595.71.05-1"}}]
    made(node, tmp_path).apply("595.71.05")
    _, (_, asked) = node.asked[:2]
    pin = {"of": "nvidia-driver-pinning-580", "names": ["nvidia-driver-pinning-595"], "version": ""}
    assert pin in asked["counterparts"]


class Modules:
    """Of one node of several that builds."""

    def __init__(self, node: Node, failure: Exception | None = None) -> None:
        self.node, self.failure, self.said = node, failure, []  # type: tuple[Node, Exception | None, list[Any]]

    @contextmanager
    def withheld(self, version: str) -> Iterator[None]:
        self.said.append(("withheld", version, len(self.node.asked)))
        yield
        self.said.append(("allowed", version, len(self.node.asked)))

    def provide(self, _record: Any, version: str, flavour: str, releases: Sequence[str]) -> None:
        self.said.append((version, flavour, list(releases)))
        if self.failure:
            raise self.failure


def test_where_one_node_builds_packages_build_nothing_and_modules_come_after_them(tmp_path: Path) -> None:
    node = Node()
    node.answers = [{"saved": {"libcuda1": f"{NEW}-1"}}]
    modules = Modules(node)
    made(node, tmp_path, modules=modules).apply(NEW)
    kernel = node.record["host"]["kernel"]
    # Around the second call, which installs; the first one lists what was saved.
    assert modules.said == [("withheld", NEW, 1), ("allowed", NEW, 2), (NEW, "open", [kernel])]
    assert not [words for words in node.asked if words[0] == "command"]


@pytest.mark.parametrize(
    ("failure", "kind"),
    [(NotBuilt("it failed on 'gpu-9'"), ChangeFailed), (WaitTimeout("'gpu-9' builds it"), ToolError)],
)
def test_without_modules_the_driver_has_failed_unless_somebody_is_slow(
    tmp_path: Path, failure: Exception, kind: type[GpusmithError]
) -> None:
    node = Node()
    node.answers = [{"saved": {"libcuda1": f"{NEW}-1"}}]
    with pytest.raises(kind, match="gpu-9"):
        made(node, tmp_path, modules=Modules(node, failure)).apply(NEW)


def test_the_module_is_built_for_kernels_that_its_packages_leave_out(tmp_path: Path) -> None:
    node = Node()
    other = {
        "release": "6.1.0-99-amd64",
        "headers": True,
        "module": None,
        "module_version": None,
        "image": "/boot/x",
    }
    node.record["kernels"] = [*(node.record.get("kernels") or []), other]
    status = {
        "stdout": f"gdrdrv/2.4, 6.1.0-40-amd64, x86_64: installed\nnvidia-open/{NEW}, 6.1.0-40-amd64, x86_64: installed\n"
    }
    node.answers = [{"saved": {"libcuda1": NEW}}, {}, {}, status]
    made(node, tmp_path).apply(NEW)
    # A run of 'once_per_kernel' may have been killed here.
    assert node.asked[2] == ("built_modules", {"state": "allowed", "version": NEW})
    assert node.asked[4] == (
        "command",
        {"argv": ["dkms", "install", "-m", "nvidia-open", "-v", NEW, "-k", "6.1.0-99-amd64"]},
    )
    # The removal of the other kind took what DKMS has installed, and DKMS does not know.
    there = {"stdout": status["stdout"] + f"nvidia-open/{NEW}, 6.1.0-99-amd64, x86_64: installed\n"}
    node.asked, node.answers = [], [{"saved": {"libcuda1": NEW}}, {}, {}, there]
    made(node, tmp_path).apply(NEW)
    assert node.asked[4][1]["argv"][-3:] == ["-k", "6.1.0-99-amd64", "--force"]
    node.answers = [{"saved": {"libcuda1": NEW}}, {}, {}, status, {"failed": True, "stderr": "gcc says no"}]
    with pytest.raises(ChangeFailed, match="gcc says no"):
        made(node, tmp_path).apply(NEW)


def test_what_a_node_has_built_itself_is_not_judged_by_what_it_took_before(tmp_path: Path) -> None:
    """A note of the same version: the node took it, went to another version, and comes back."""
    node = Node()
    note = {"kernel": "6.1.0-40-amd64", "version": NEW, "builder": "gpu-2", "files": []}
    node.record["taken"] = [note]
    node.answers = [{"saved": {"libcuda1": NEW}}]
    made(node, tmp_path).apply(NEW)
    gone = {"path": "/var/lib/gpusmith/modules/6.1.0-40-amd64.json", "state": "absent"}
    assert node.asked[2:] == [("file", gone)]
    node.asked, node.answers = [], [{"saved": {"libcuda1": NEW}}]
    made(node, tmp_path, modules=Modules(node)).apply(NEW)
    assert [module for module, _ in node.asked] == ["packages", "packages"]


@pytest.mark.parametrize("once", [False, True])
def test_modules_of_others_are_built_for_the_driver_that_came(tmp_path: Path, once: bool) -> None:
    node = Node()
    release = node.record["host"]["kernel"]
    node.record["kernels"][0].update(headers=True, dependents={"gdrdrv": False})
    node.record["module"]["installed_version"] = NEW
    # The upgrade has unloaded it; where that takes a reboot, it is loaded, and of the driver before.
    node.record["system"]["modules"]["gdrdrv"] = True
    saved = {"saved": {"libcuda1": f"{NEW}-1"}}
    wanted, own = driver_parts({**SETTINGS, "extra_modules": ["gdrdrv"]}, LAYOUTS)

    def machine() -> Machine:
        return replace(made(node, tmp_path, modules=Modules(node) if once else None), wanted=wanted, own=own)

    node.answers = [saved]
    machine().apply(NEW)
    asked = {"state": "rebuilt", "version": NEW, "kernel": release, "modules": ["gdrdrv"]}
    assert node.asked[-1] == ("built_modules", asked)
    node.answers = [saved, {}, {"failed": True, "msg": "gcc says no"}]
    with pytest.raises(ChangeFailed, match=r"'gdrdrv'.*gcc says no"):
        machine().apply(NEW)
    # For a kernel that does not run the way back would fail as well.
    other = {
        "release": "6.1.0-99-amd64",
        "headers": True,
        "dependents": {"gdrdrv": False},
        "image": "/boot/x",
    }
    node.record["kernels"][0]["dependents"] = {"gdrdrv": True}
    node.record["kernels"].append({**other, "module": "m", "module_version": NEW})
    node.answers = [saved, {}, {"failed": True, "msg": "gcc says no"}]
    machine().apply(NEW)
    assert node.asked[-1][1]["kernel"] == "6.1.0-99-amd64"


def test_only_packages_that_a_rollback_needs_stay(tmp_path: Path) -> None:
    node = Node()
    folder = on_machine.FOLDER
    node.answers = [{"files": [{"path": f"{folder}/{version}"} for version in ("570.1", VERSION, NEW)]}]
    made(node, tmp_path).forget([NEW, VERSION])
    assert node.asked[1:] == [("file", {"path": f"{folder}/570.1", "state": "absent"})]


@pytest.mark.parametrize(("busy", "kind"), [(False, ChangeFailed), (True, ToolError)])
def test_packages_that_do_not_install_are_the_drivers_fault_and_a_lock_is_not(
    tmp_path: Path, busy: bool, kind: type[GpusmithError]
) -> None:
    node = Node()
    node.answers = [{"saved": {"libcuda1": NEW}}, {"failed": True, "msg": "dpkg says no", "busy": busy}]
    with pytest.raises(kind, match="dpkg says no"):
        made(node, tmp_path).apply(NEW)


def test_it_runs_what_is_loaded_and_installed(tmp_path: Path) -> None:
    node = Node()
    machine = made(node, tmp_path)
    assert machine.is_there(VERSION)
    assert not machine.is_there(NEW)
    node.record["module"]["loaded_version"] = None
    assert not machine.is_there(VERSION)
    node.record["module"]["loaded_version"] = VERSION
    node.record["packages"]["libcuda1"]["version"] = f"{NEW}-1"
    assert not machine.is_there(VERSION)


@pytest.mark.parametrize(
    ("outcome", "kind"), [("held", InUse), ("in_use", InUse), ("unit", ToolError), ("refused", ToolError)]
)
def test_why_modules_stay_loaded(tmp_path: Path, outcome: str, kind: type[GpusmithError]) -> None:
    node = Node()
    node.answers = [{"failed": True, "msg": "no", "outcome": outcome}]
    with pytest.raises(kind):
        made(node, tmp_path).stop([])


def test_who_uses_the_driver_is_told_with_pods_and_without(tmp_path: Path) -> None:
    node = Node()
    node.answers = [{"users": ["of a pod", "of ann"], "strangers": ["of ann"]}] * 2
    machine = made(node, tmp_path)
    assert machine.users([]) == ["of a pod", "of ann"]
    assert machine.users([], of_pods=False) == ["of ann"]


def test_a_module_that_nobody_uses_is_left_by_a_reboot_where_that_is_allowed(tmp_path: Path) -> None:
    node = Node()
    node.answers = [{"failed": True, "msg": "no", "outcome": "in_use"}]
    machine = made(node, tmp_path, reboot=node.reboot)
    machine.stop([])
    node.answers = [{"users": []}]
    with pytest.raises(ChangeFailed):
        machine.start(NEW, [])
    assert node.rebooted == 1
    node.answers = [{"failed": True, "msg": "no", "outcome": "held"}]
    with pytest.raises(InUse):
        machine.stop([])


def test_who_came_while_packages_were_replaced_is_not_rebooted_away(tmp_path: Path) -> None:
    """A batch system without Kubernetes may begin a job in the minutes that DKMS takes."""
    node = Node()
    node.answers = [{"failed": True, "msg": "no", "outcome": "in_use"}]
    machine = made(node, tmp_path, reboot=node.reboot)
    machine.stop(["nvidia-dcgm.service"])
    job = {"users": ["process 7 'python3' (user 'ann', unit 'slurmstepd.scope')"]}
    node.answers, machine.users_s = [job], 0.0
    with pytest.raises(InUse, match="'ann'"):
        machine.start(NEW, ["nvidia-dcgm.service"])
    assert node.rebooted == 0
    assert node.asked[-1] == ("driver_state", {"state": "used", "units": ["nvidia-dcgm.service"]})
    # Who asked something and is gone again keeps nobody up.
    node.answers, machine.users_s = [job, {"users": []}], 60.0
    with pytest.raises(ChangeFailed):
        machine.start(NEW, ["nvidia-dcgm.service"])
    assert node.rebooted == 1


def test_a_driver_that_is_as_wanted_is_loaded(tmp_path: Path) -> None:
    node = Node()
    made(node, tmp_path).start(VERSION, ["nvidia-dcgm.service"])
    (asked,) = node.asked
    assert asked == (
        "driver_state",
        {"state": "loaded", "units": ["nvidia-dcgm.service"], "fabric_manager": True},
    )


def test_a_driver_that_does_not_come_up_failed(tmp_path: Path) -> None:
    node = Node()
    with pytest.raises(ChangeFailed, match=NEW):
        made(node, tmp_path).start(NEW, [])
    node.answers = [{"failed": True, "msg": "Unknown symbol", "outcome": "refused"}]
    with pytest.raises(ChangeFailed, match="Unknown symbol"):
        made(node, tmp_path).start(VERSION, [])


def test_gpus_are_compared_after_what_was_forgotten_is_put_back(tmp_path: Path) -> None:
    node = Node()
    machine = made(node, tmp_path)
    before = machine.snapshot()
    machine.compare(before)
    assert node.asked == []
    gpu = node.record["nvml"]["gpus"][0]
    gpu["power_limit_mw"] = 300000
    machine.compare(before)
    ((_, asked),) = node.asked
    assert asked["power_limits"] == {gpu["uuid"]: 700.0}
    gpu["uuid"] = "GPU-another"
    with pytest.raises(ChangeFailed, match="GPU-another"):
        machine.compare(before)


# --- the suite -----------------------------------------------------------------------------------------------------


def suite(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, checks: list[dict[str, Any]], trouble: str = ""
) -> list[Any]:
    """A suite with these results; what it was asked."""
    asked: list[Any] = []

    def run(*words: Any, **named: Any) -> SuiteRun:
        asked.append((words, named))
        path = tmp_path / "results.json"
        coverage: dict[str, Any] = {"nodes": {"excluded": []}, "gpus": {"excluded": [], "busy": []}}
        results = {
            "schema": "gpusmith.results/1",
            "run": {"complete": True, "nodes": ["gpu-1"]},
            "coverage": coverage,
            "checks": checks,
        }
        path.write_text(json.dumps(results))
        return SuiteRun(0, time.time() - 1, str(path), trouble)

    monkeypatch.setattr(start, "run", run)
    return asked


def test_the_look_before_tests_the_node_at_its_own_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    good = {"id": "nodes.nvml", "target": "gpu-1", "outcome": "passed"}
    asked = suite(monkeypatch, tmp_path, [good])
    made(Node(), tmp_path).precheck(VERSION)
    ((_, named),) = asked
    assert named["maintenance"].driver_version == VERSION
    assert named["maintenance"].id == ""
    # Whatever is wrong before must be found before: later it would be the driver's fault.
    assert named["tiers"] == ("nodes", "cluster")
    suite(monkeypatch, tmp_path, [{**good, "id": "nodes.module-parameters", "outcome": "failed"}])
    made(Node(), tmp_path).precheck(VERSION)
    suite(monkeypatch, tmp_path, [{**good, "outcome": "failed", "cause": "GPU 3 is gone"}])
    with pytest.raises(GpusmithError, match="GPU 3 is gone"):
        made(Node(), tmp_path).precheck(VERSION)


FILE = "/etc/modprobe.d/gpusmith-nvidia-driver.conf"
PARAMETER = "NVreg_EnableStreamMemOPs"


@pytest.mark.parametrize(
    ("settings", "shown", "why"),
    [
        ({"files": {FILE: "options nvidia"}}, {}, "not as the inventory says.*" + FILE),
        ({"parameters": {PARAMETER: "1"}}, {}, "no parameter '" + PARAMETER),
        ({"parameters": {PARAMETER: "1"}}, {"EnableStreamMemOPs": "0"}, ""),
    ],
)
def test_what_no_load_brings_is_refused_before_the_node_is_emptied(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    settings: Mapping[str, Any],
    shown: Mapping[str, str],
    why: str,
) -> None:
    """Its validation would fail with the new driver, and with the one before."""
    node = Node()
    node.record["module"]["parameters"] = shown
    asked = suite(monkeypatch, tmp_path, [])
    machine = made(node, tmp_path)
    machine.wanted, machine.own = driver_parts({**SETTINGS, **settings}, LAYOUTS)
    if why:
        with pytest.raises(GpusmithError, match=why):
            machine.precheck(VERSION)
        assert not asked
    else:
        machine.precheck(VERSION)


def test_what_the_inventory_sets_is_no_fault_of_a_driver(tmp_path: Path) -> None:
    node = Node()
    node.record["module"]["parameters"] = {"EnableStreamMemOPs": "0"}
    machine = made(node, tmp_path)
    machine.wanted, machine.own = driver_parts(
        {**SETTINGS, "files": {FILE: "options nvidia"}, "parameters": {PARAMETER: "1"}}, LAYOUTS
    )
    machine.start(VERSION, [])


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [("passed", None), ("failed", ChangeFailed), ("error", ToolError), ("skipped", ToolError)],
)
def test_only_a_failed_check_is_the_drivers_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, outcome: str, kind: type[GpusmithError] | None
) -> None:
    asked = suite(
        monkeypatch,
        tmp_path,
        [{"id": "workloads.cuda", "target": "gpu-1", "outcome": outcome, "cause": "802"}],
    )
    put: list[Any] = []

    def put_outcome(_cluster: Any, name: str, proof: Any, _facts: Any, check: bool, conditions: bool) -> Any:
        put.append((name, check))
        return stamps.Stamped(proof.problem is None, True, message=str(proof.problem))

    monkeypatch.setattr(stamps, "put_outcome", put_outcome)
    machine = made(Node(), tmp_path)
    if kind is None:
        machine.prove(NEW)
    else:
        with pytest.raises(kind, match="802"):
            machine.prove(NEW)
    assert put == [("gpu-1", False)]
    assert asked[0][1]["maintenance"].id == "run-1"


@pytest.mark.parametrize(
    ("name", "target"),
    [("cluster.leftovers", "cluster"), ("workloads.network", "gpu-1"), ("cluster.labels", "gpu-1")],
)
def test_what_no_driver_can_fail_is_not_its_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, target: str
) -> None:
    stuck = {"id": name, "target": target, "outcome": "failed", "cause": "it stays"}
    good = {"id": "workloads.cuda", "target": "gpu-1", "outcome": "passed"}
    suite(monkeypatch, tmp_path, [good, stuck])
    monkeypatch.setattr(
        stamps, "put_outcome", lambda *_, **__: stamps.Stamped(False, True, message="it stays")
    )
    with pytest.raises(ToolError, match="it stays"):
        made(Node(), tmp_path).prove(NEW)
    with pytest.raises(GpusmithError, match="it stays"):
        made(Node(), tmp_path).precheck(VERSION)


def test_a_suite_that_could_not_do_its_work_says_nothing_about_the_driver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    suite(monkeypatch, tmp_path, [], trouble="status 4")
    with pytest.raises(ToolError, match="status 4"):
        made(Node(), tmp_path).prove(NEW)


def test_each_version_is_fetched_by_the_names_of_its_branch(tmp_path: Path) -> None:
    node = Node()
    machine = made(node, tmp_path)
    machine.wanted, machine.own = driver_parts({**SETTINGS, "fabric_manager": "enabled"}, LAYOUTS)
    machine.prepare("570.211.01")
    machine.prepare(NEW)
    (_, older), (_, newer) = node.asked
    assert "nvidia-fabricmanager-570" in older["packages"]
    assert "nvidia-fabricmanager" in newer["packages"]


def test_what_the_other_version_left_is_removed_after_the_installation(tmp_path: Path) -> None:
    node = Node()
    for package in node.record["packages"].values():
        package["version"] = package["version"].replace(VERSION, NEW)
    node.record["packages"]["nvidia-fabricmanager-570"] = {"version": "570.211.01-1", "held": True}
    node.answers = [{"saved": {"libcuda1": NEW}}]
    made(node, tmp_path).apply(NEW)
    _, _, (module, asked) = node.asked
    assert (module, asked["state"], list(asked["packages"])) == (
        "packages",
        "absent",
        ["nvidia-fabricmanager-570"],
    )
    for busy, kind in ((False, ChangeFailed), (True, ToolError)):
        node.answers = [{"saved": {"libcuda1": NEW}}, {}, {"failed": True, "msg": "no", "busy": busy}]
        with pytest.raises(kind, match="nvidia-fabricmanager-570"):
            made(node, tmp_path).apply(NEW)


@pytest.mark.parametrize(
    ("label", "said"), [("580.178.04", ["'580.178.04'"]), ("580.190.02", []), (None, [])]
)
def test_a_label_of_another_driver_is_stale(tmp_path: Path, label: str | None, said: list[str]) -> None:
    labels = {DRIVER_LABEL: label} if label else {}
    assert made(Node(), tmp_path).stale({"metadata": {"labels": labels}}, "580.190.02") == said
