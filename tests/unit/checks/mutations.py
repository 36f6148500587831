"""For each check a way in which the lab can be broken that it, and nothing else, has to find."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from tempfile import NamedTemporaryFile
from typing import IO, Any

from gpusmith.checks.findings import Outcome
from gpusmith.checks.whole_cluster import Removed
from gpusmith.cluster.snapshot import POLICIES
from gpusmith.data.monitoring import counters
from gpusmith.errors import ToolError
from gpusmith.names import LAYOUT_LABEL, REPLICAS_LABEL, SHARING_LABEL
from tests.authorities import authority
from tests.fleet.prometheus import FakePrometheus, firing
from tests.unit.checks.world import CLASSES, PODS, QUOTAS, RANGES, SETS, SLICES, World
from tests.unit.hosts import UUIDS
from tests.unit.objects import gpu_slice, privileged, set_by_others

BINDINGS = POLICIES["ValidatingAdmissionPolicyBinding"]


@dataclass(frozen=True)
class Mutation:
    """One change of a healthy lab.

    Attributes:
        change: makes it.
        says: words of the cause, so that the check fails for this change.
        outcome: how the check must end.
        kind: file in gpusmith.workloads whose judge finds it, where the check's finding comes from the run of the workloads.
    """

    change: Callable[[World], object]
    says: str
    outcome: Outcome = Outcome.FAILED
    kind: str = ""


def _gpu(says: str, **changes: Any) -> Mutation:
    return Mutation(lambda world: world.gpu.update(changes), says)


def _daemon_was_killed(mode: str) -> Callable[[World], None]:
    def change(world: World) -> None:
        world.seen["mps"] = {"controls": [], "left": True}
        world.gpu["compute_mode"] = mode

    return change


def _in(says: str, *path: str, **changes: Any) -> Mutation:
    """A change in a section of the record."""

    def change(world: World) -> None:
        part = world.seen
        for key in path:
            part = part[key]
        part.update(changes)

    return Mutation(change, says)


def _taken(**changes: Any) -> Callable[[World], object]:
    """Modules that another node has built, of which one is changed."""

    def change(world: World) -> None:
        kernel, version = world.seen["host"]["kernel"], world.seen["module"]["installed_version"]
        path = f"/lib/modules/{kernel}/updates/dkms/nvidia.ko"
        next(row for row in world.seen["kernels"] if row["release"] == kernel)["module"] = path
        good = {"path": path, "is_there": True, "same": True, "version": version, "vermagic": f"{kernel} SMP"}
        row = {"kernel": kernel, "version": version, "builder": "gpu-9"}
        world.seen["taken"] = [{**row, "files": [good, {**good, **changes}]}]

    return change


@cache
def _certificate() -> IO[bytes]:
    """In a file that goes with this process."""
    file = NamedTemporaryFile(prefix="gpusmith-certificate-")  # noqa: SIM115 - it stays open
    file.write(authority().certificate.encode())
    file.flush()
    return file


def _signed_by_dkms(world: World) -> None:
    """The running kernel's module, on a machine with Secure Boot of a site that signs."""
    world.variables["nvidia_driver_build"] = "once_per_kernel"
    world.variables["nvidia_driver_build_signing"] = {"key": "/k", "certificate": _certificate().name}
    world.seen["system"]["secure_boot"] = True
    world.seen["kernels"][0].update(signer="DKMS module signing key", signing_key="490a04e2")


def _exporter_of_others_without_xids(world: World) -> None:
    world.variables["gpu_monitoring_dcgm_exporter"] = "existing"
    for gpu in world.prometheus.gpus:
        gpu.counters.discard("DCGM_EXP_XID_ERRORS_COUNT")


def _privileged_pod_with_a_gpu(world: World) -> None:
    uid = "9b4e28ba-2fa1-11d2-883f-0016d3cca427"
    world.lists[PODS].append(privileged("debug", uid))
    row = {"pid": 7, "user": "root", "command": "python3", "devices": ["/dev/nvidia0"], "started_unix": 1.0}
    world.seen["holders"].append({**row, "pod_uid": uid})


def with_gpu(world: World, told: str = "", uid: str = "") -> None:
    """A pod of a tenant has a GPU; the metrics name it for another one, or for none.

    Args:
        world: that it is in.
        told: the GPU of the metrics.
        uid: of the pod.
    """
    pod = privileged("training", uid)
    pod["spec"]["containers"] = [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]
    world.lists[PODS].append(pod)
    for gpu in world.prometheus.gpus:
        if gpu.uuid == told:
            gpu.pod = "team/training"


def _watched(change: Callable[[FakePrometheus], object], says: str) -> Mutation:
    """A change of what watches the nodes."""
    return Mutation(lambda world: change(world.prometheus), says)


def _silent(world: World) -> None:
    world.record = None


def _no_cluster(world: World) -> None:
    world.answers = False


def _no_node(world: World) -> None:
    world.lists["/api/v1/nodes"].pop(0)


def _stuck(world: World) -> None:
    world.removed = Removed(("old",), (), {"old": "a finalizer"})


def _answer(program: str, **changes: Any) -> Callable[[World], object]:
    """A program in pods answers otherwise."""

    def change(world: World) -> None:
        good = world.cluster.good
        world.cluster.answers[program] = lambda env, uuids: {**good(env, uuids), **changes}

    return change


def _in_jobs(program: str, **changes: Any) -> Callable[[World], object]:
    """A program in the second pod of a job over nodes answers otherwise."""

    def change(world: World) -> None:
        good = world.cluster.good
        world.cluster.answers[program] = lambda env, uuids: {
            **good(env, uuids), **(changes if env.get("GPUSMITH_PLACE") == "1" else {}),
        }  # fmt: skip

    return change


def _real(**changes: Any) -> Callable[[World], object]:
    """The GPUs of node gpu-1 are real, and the second one is otherwise."""

    def change(world: World) -> None:
        world.variables["gpusmith_simulated"] = False
        good = world.cluster.good

        def answer(env: dict[str, str], uuids: list[str]) -> Any:
            said = good(env, uuids)
            said["devices"][1].update(changes)
            return said

        world.cluster.answers["run_performance.py"] = answer

    return change


def _nothing_listed(world: World) -> None:
    """nvidia-smi in a pod lists GPUs that the host does not know."""
    run = world.cluster.run

    def lists(name: str, pod: Any, command: list[str], env: Any, uuids: list[str]) -> None:
        strange = [uuid.replace("GPU-0", "GPU-5") for uuid in uuids] if command[0] == "nvidia-smi" else uuids
        run(name, pod, command, env, strange)

    world.cluster.run = lists  # type: ignore[method-assign]


def _another_gpu_after_a_release(world: World) -> None:
    def hold(env: dict[str, str], uuids: list[str]) -> Any:
        held = world.cluster.given
        late = "n0-hold-0" not in held and "n0-hold-1" in held
        return {**world.cluster.good(env, uuids), "uuid": held["n0-hold-1"][0] if late else uuids[0]}

    world.cluster.answers["hold_gpu.py"] = hold


def _another_gpu_than_that_of_the_victim(world: World) -> None:
    def hold(env: dict[str, str], uuids: list[str]) -> Any:
        held = world.cluster.given
        late = "n0-hold-1" not in held and "n0-gives-way" in held
        return {**world.cluster.good(env, uuids), "uuid": held["n0-hold-2"][0] if late else uuids[0]}

    world.cluster.answers["hold_gpu.py"] = hold


def _namespace_stays(world: World) -> None:
    def delete(path: str, grace_s: int | None = None) -> None:
        raise ToolError("a finalizer holds it")

    removed = world.cluster.delete
    world.cluster.delete = lambda path, grace_s=None: (  # type: ignore[method-assign]
        delete(path) if "/pods/" not in path else removed(path, grace_s)
    )


def _second_plugin(world: World) -> None:
    for part in ("capacity", "allocatable"):
        world.node["status"][part].update({"nvidia.com/gpu.shared": "8"})


def _pod_is_not_ready(world: World) -> None:
    status = world.lists[PODS][0]["status"]
    status["containerStatuses"][0].update(ready=False, state={"waiting": {"reason": "CrashLoopBackOff"}})


TRAINS = {"pid": 8, "name": "train", "pod": True}
HOLDER = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
XID = {"time_unix": 1.0, "pci": "0000:2a:00.0", "code": 79, "message": "NVRM: Xid (PCI:0000:2a:00): 79"}
WRONG = {"ok": False, "error": "it is wrong"}

MUTATIONS: Mapping[str, tuple[Mutation, ...]] = {
    "nodes.reachable": (Mutation(_silent, "does not answer over ssh"),),
    "nodes.identity": (
        _in("is node 'db-1' of the cluster", "kubernetes", node_name="db-1"),
        _in("kubelet.conf' is gone", "kubernetes", joined=False, node_name=None),
        _in("their disks are copies", "host", machine_id="other"),
        _in("host 'gpu-2' leads to it as well", "host", boot_id="other"),
    ),
    "nodes.simulation-witnesses": (
        _in("the loaded library is that of real ones", "library", simulated=False),
        _in("cannot be loaded", "library", simulated=None),
    ),
    "nodes.driver-versions": (
        _in("loaded module is 570.1.2", "module", loaded_version="570.1.2"),
        _in("driver '515.43.04' does not support its GPUs", "module", loaded_version="515.43.04"),
        _in("'libcuda1' is 570.1.2", "packages", "libcuda1", version="570.1.2-1"),
        _in("is cut off", "library", "files", "cuda", fault="is cut off"),
        _in("nouveau", "module", nouveau_loaded=True),
        _in("NVML says that the driver is 570.1.2", "nvml", driver_version="570.1.2"),
    ),
    "nodes.kernels": (
        Mutation(
            lambda world: world.seen["kernels"].append({"release": "6.1.1", "image": "/boot/vmlinuz-6.1.1"}),
            "kernel 6.1.1 is installed and has no module",
        ),
        _in("the next boot has no GPUs", "boot", driver={"nvidia": {"install": "/etc/modprobe.d/off.conf"}}),
        Mutation(_taken(same=False), "has another checksum"),
        Mutation(_taken(is_there=False), "is not there"),
        Mutation(_taken(vermagic="6.1.0-9-amd64 SMP"), "is for kernel '6.1.0-9-amd64'"),
        Mutation(_signed_by_dkms, "is signed by 'DKMS module signing key' (certificate 490a04e2)"),
    ),
    "nodes.nvml": (
        _gpu("GPU is lost", error="GPU is lost"),
        _in("NVML does not start: Driver Not Loaded", "nvml", init_code=9, error="Driver Not Loaded", gpus=[]),
    ),
    "nodes.cuda-toolkits": (
        _in("CUDA '13.0' with driver '570.1.2', which is too old for it", "module", loaded_version="570.1.2"),
        Mutation(
            lambda world: (
                world.seen["pci"]["gpus"][1].update(device_id="10de:2901"),
                world.seen["cuda"].update(versions=["12.4", "13.0"]),
            ),
            "CUDA '12.4', which makes no programs for its 'b200' (blackwell)",
        ),
    ),
    "nodes.gpu-count": (
        Mutation(lambda world: world.seen["pci"]["gpus"].pop(1), "3 on PCI"),
        _in("must be 195:3", "dev", "nodes", "/dev/nvidia3", minor=2),
        Mutation(lambda world: world.variables.update(gpusmith_gpu_count=8), "8 in the inventory"),
    ),
    "nodes.gpu-model": (
        Mutation(lambda world: world.seen["pci"]["gpus"][1].update(device_id="10de:2335"), "10de:2335"),
        _gpu("is a 'NVIDIA T4'", name="NVIDIA T4"),
    ),
    "nodes.gpu-layout": (
        _gpu("is in MIG mode", mig_mode="enabled"),
        Mutation(
            lambda world: world.seen.update(gpu_layout={"profile": "3g.40gb", "nvml": "3_SLICE", "starts": [0, 4]}),
            "its GPUs will be 3g.40gb (3_SLICE) at 0, 4 after a boot, and are to be whole",
        ),
    ),
    "nodes.mps": (
        Mutation(_daemon_was_killed("exclusive_process"), "in compute mode EXCLUSIVE_PROCESS, so that one process alone"),
        Mutation(_daemon_was_killed("prohibited"), "is in compute mode PROHIBITED"),
    ),
    "nodes.services": (
        _in("'kubelet' is inactive", "services", "kubelet", active="inactive"),
        _in("expired on 1970-01-01", "kubernetes", client_expires_unix=1.0),
        _in("will not run after a reboot", "services", "nvidia-persistenced", enabled="disabled"),
    ),
    "nodes.fabric": (
        _in("'nvidia-fabricmanager' is failed", "services", "nvidia-fabricmanager", active="failed"),
        _gpu("has not joined", fabric_state="in_progress", fabric_status=None),
    ),
    "nodes.ecc": (
        _gpu("2 uncorrectable", ecc_uncorrected=2),
        _gpu("ECC is switched off", ecc_mode="disabled"),
    ),
    "nodes.row-remap": (
        _gpu("waits to be remapped", remap_pending=True),
        _gpu("could not remap", remap_failed=True),
    ),
    "nodes.xid": (
        Mutation(lambda world: world.seen["xids"].append(XID), "Xid 79"),
        _in("begins on 1970-01-01", "module", loaded_unix=None),
    ),
    "nodes.throttle": (_gpu("it is too hot", throttle_reasons=["hw_thermal_slowdown"]),),
    "nodes.pcie-width": (
        _gpu("runs on 8 PCIe lanes", pcie_width=8),
        _gpu("more than 8 its slot does not offer", pcie_width=8, pcie_width_max=8),
    ),
    "nodes.nvlinks": (
        _gpu("has 17 NVLinks up of 18 of its model; down: 5", nvlinks=[n != 5 for n in range(18)]),
        _gpu("NVLinks 3 run at 12500 MB/s, 23750 must be", nvlink_mbps=[12500 if n == 3 else 26562 for n in range(18)]),
    ),
    "nodes.processes": (
        _gpu("'python3' (PID 7)", processes=[{"pid": 7, "name": "python3", "pod": False}]),
        Mutation(
            lambda world: world.seen["holders"].append(
                {"pid": 7, "user": "ann", "command": "sim", "devices": ["/dev/nvidia0"], "started_unix": 1.0}
            ),
            "is open outside of Kubernetes",
        ),
    ),
    "nodes.pod-processes": (
        _gpu("but it was given no GPU", processes=[{**TRAINS, "pod_uid": "9b4e28ba-2fa1-11d2-883f-0016d3cca427"}]),
        _gpu(f"but it was given {UUIDS[0]}", processes=[{**TRAINS, "pod_uid": HOLDER}]),
    ),
    "nodes.containerd": (
        _in("has no runtime 'nvidia'", "containerd", "effective", runtime_nvidia=False),
        _in("CDI switched off", "containerd", "effective", cdi=False),
        _in("started with another configuration", "containerd", noted_digest="other", noted_unix=2.0),
    ),
    "nodes.cri": (
        _in("CRI plugin does not", "containerd", cri={"up": False, "error": "too many open files"}),
        _in("cannot be asked", "containerd", cri={"up": None, "error": "'ctr plugins' did not end"}),
    ),
    "nodes.containerd-version": (
        _in("containerd '1.7.24~ds1' with Kubernetes '1.36.3'", "containerd", version="1.7.24~ds1"),
        _in("'2.2.0 and later patches'", "containerd", version="2.1.9"),
    ),
    "nodes.container-toolkit": (
        _in("ordering cycle", "packages", "nvidia-container-toolkit", version="1.19.0-1"),
        _in("does not use CDI by itself", "packages", "nvidia-container-toolkit", version="1.17.8-1"),
    ),
    "nodes.cdi": (
        Mutation(lambda world: world.seen["cdi"]["specs"][0].update(driver_version="570.1.2"), "for driver 570.1.2"),
        Mutation(lambda world: world.seen["cdi"]["specs"][0]["devices"].pop(1), "is not in the CDI specification"),
        _in("there is no CDI specification of the device plugin", "cdi", plugin_specs=[]),
    ),
    "nodes.char-links": (
        Mutation(lambda world: world.seen["dev"]["char_links"].remove("195:1"), "/dev/char/195:1"),
        Mutation(lambda world: world.seen["dev"]["char_links"].remove("195:255"), "/dev/char/195:255"),
        Mutation(lambda world: world.seen["dev"]["char_links"].remove("511:1"), "/dev/char/511:1"),
    ),
    "nodes.host-baseline": (
        _in("swap is on", "system", swap_areas=["/dev/sda2"]),
        _in("no boot would load it", "boot", "modules", "overlay", file=None),
        Mutation(
            lambda world: world.variables.update(host_baseline_sysctl={"net.ipv4.ip_forward": "0"}), "wanted is '0'"
        ),
        Mutation(lambda world: world.variables.update(host_baseline_huge_pages={"2Mi": 1024}), "huge pages of '2Mi'"),
        Mutation(
            lambda world: world.variables.update(gpusmith_ca_certificates={"site": authority().certificate}), "authority 'site'"
        ),
    ),
    "nodes.foreign-driver": (
        _in("NVIDIA's installer", foreign={"installer": ["/usr/bin/nvidia-uninstall"], "sources": {}}),
        _in("of no installed package", foreign={"sources": {"/usr/src/nvidia-550.54.15": "550.54.15"}}),
        _in("half configured", half_packages={"nvidia-kernel-open-dkms": "half configured"}),
        _in("is there in versions '1' and '2'", half_packages={"libcuda1": "there in versions '1' and '2'"}),
    ),
    "nodes.extra-modules": (
        _in("is not loaded", "system", "modules", nvidia_peermem=False),
        _in("boots do not load it", "boot", "modules", nvidia_peermem={"file": None, "forbidden_by": None}),
    ),
    "nodes.module-parameters": (
        _in("is '0', the inventory wants '1'", "module", "parameters", EnableStreamMemOPs="0"),
        _in("not one that it shows", "module", parameters={"ModifyDeviceFiles": "1"}),
    ),
    "nodes.holds": (_in("libcuda1", "packages", "libcuda1", held=False),),
    "nodes.uniformity": (_in("kernel is '6.12'", "host", kernel="6.12"),),
    "cluster.api": (Mutation(_no_cluster, "kubeconfig", Outcome.ERROR),),
    "cluster.runtime-class": (
        Mutation(lambda world: world.lists[CLASSES].clear(), "no RuntimeClass 'nvidia'"),
        Mutation(lambda world: world.lists[CLASSES][0].update(handler="runc"), "handler 'runc'"),
    ),
    "cluster.gpu-quotas": (
        Mutation(
            lambda world: world.lists[QUOTAS][0]["spec"]["hard"].update({"limits.nvidia.com/gpu": "4"}),
            "limits 'limits.nvidia.com/gpu' to 4, which Kubernetes accepts and never enforces",
        ),
    ),
    "cluster.gpu-limit-ranges": (
        Mutation(
            lambda world: world.lists[RANGES][0]["spec"]["limits"][0].update(default={"nvidia.com/gpu": "2"}),
            "gives 2 'nvidia.com/gpu' to each container that asks for none",
        ),
    ),
    "cluster.tenants": (
        Mutation(lambda world: world.lists[QUOTAS].pop(0), "There is no quota 'team/gpusmith-gpus'"),
        Mutation(
            lambda world: world.lists[QUOTAS][0]["spec"]["hard"].update({"requests.nvidia.com/gpu": "9"}),
            "Quota 'team/gpusmith-gpus' gives 9 of 'requests.nvidia.com/gpu', the inventory 8",
        ),
        Mutation(
            lambda world: world.lists[QUOTAS][0].update(status={"used": {"requests.nvidia.com/gpu": "9"}}),
            "The pods of quota 'team/gpusmith-gpus' hold 9 of 'requests.nvidia.com/gpu', and it gives 8",
        ),
    ),
    "cluster.admission-policy": (
        Mutation(
            lambda world: world.lists[BINDINGS].clear(),
            "There is no ValidatingAdmissionPolicyBinding 'gpusmith-gpu-nodes'",
        ),
        Mutation(
            lambda world: world.lists[BINDINGS][0]["spec"].update(validationActions=["Warn"]),
            "is not what the inventory says, in 'validationActions'",
        ),
        Mutation(
            lambda world: world.lists[BINDINGS][0]["spec"].update(matchResources={"namespaceSelector": {"x": "y"}}),
            "is not what the inventory says, in what was added",
        ),
        Mutation(
            lambda world: world.lists[POLICIES["ValidatingAdmissionPolicy"]][0]["spec"]["validations"].pop(),
            "ValidatingAdmissionPolicy 'gpusmith-gpu-nodes' is not what the inventory says, in 'validations'",
        ),
        Mutation(
            lambda world: world.variables.update(gpu_tenants_policy="none"),
            "and the inventory says 'gpu_tenants_policy: none'",
        ),
    ),
    "cluster.leftovers": (Mutation(_stuck, "a finalizer"),),
    "cluster.node-ready": (
        Mutation(_no_node, "has no node 'gpu-1'"),
        Mutation(
            lambda world: world.node["status"].update(conditions=[{"type": "Ready", "status": "Unknown"}]), "not Ready"
        ),
    ),
    "cluster.node-identity": (
        _in("another machine is Node 'gpu-1'", "host", machine_id="x", boot_id="y"),
        _in("a second machine reports to the cluster", "host", boot_id="y"),
    ),
    "cluster.gpu-capacity": (
        Mutation(
            lambda world: world.node["status"]["allocatable"].update({"nvidia.com/gpu": "3"}), "3 of 4 GPUs are allocatable"
        ),
        Mutation(_second_plugin, "also offers 8"),
    ),
    "cluster.gpu-layout": (
        Mutation(
            lambda world: world.node["metadata"]["labels"].update({LAYOUT_LABEL: "time-slicing-4"}),
            "hands out 4 shares of each GPU as 'nvidia.com/gpu.shared', the inventory asks for whole GPUs",
        ),
        Mutation(
            lambda world: world.node["metadata"]["labels"].update({REPLICAS_LABEL: "2"}), "feature discovery says otherwise"
        ),
        Mutation(
            lambda world: world.node["metadata"]["labels"].update({REPLICAS_LABEL: "1", SHARING_LABEL: "mps"}),
            f"label '{SHARING_LABEL}' is 'mps'"
        ),
    ),
    "cluster.gpu-owners": (
        Mutation(
            lambda world: world.lists[SLICES].append(gpu_slice("gpu-1", UUIDS)), "a GPU can be given to two pods at once"
        ),
    ),
    "cluster.gpu-access": (Mutation(_privileged_pod_with_a_gpu, "holds no GPU, and its process 7 'python3'"),),
    "cluster.labels": (
        Mutation(lambda world: world.node["metadata"]["labels"].update({"gpu-type": "t4"}), "label 'gpu-type' is 't4'"),
    ),
    "cluster.taints": (Mutation(lambda world: world.node["spec"].update(taints=[]), "lacks taint"),),
    "cluster.operands": (
        Mutation(_pod_is_not_ready, "CrashLoopBackOff"),
        Mutation(
            lambda world: world.lists[SETS].append(set_by_others("nvidia-device-plugin", "gpusmith-system", "x")),
            "somebody else than site.yml set spec.x",
        ),
    ),
    "monitoring.prometheus": (
        _watched(lambda it: setattr(it, "silent", True), "Prometheus does not answer: "),
        _watched(lambda it: setattr(it, "reloaded", False), "could not load its last configuration"),
        _watched(lambda it: it.rules.pop("GpusmithGpuXid"), "has not loaded 1 of gpusmith's rules: 'GpusmithGpuXid'"),
        _watched(
            lambda it: it.rules["GpusmithGpuXid"].update(health="err", lastError="many-to-many"),
            "Rule 'GpusmithGpuXid' cannot be evaluated: many-to-many",
        ),
        _watched(lambda it: setattr(it, "state_metrics", 0), "no values of kube-state-metrics"),
    ),
    "monitoring.targets": (
        _watched(lambda it: it.up.update({"gpu-1": 0}), "of node 'gpu-1' does not answer"),
        _watched(lambda it: it.up.pop("gpu-1"), "knows no exporter (job 'dcgm-exporter') of node 'gpu-1'"),
        _watched(lambda it: it.ages.update({"gpu-1": 91}), "are 91 s old, more than 90 s"),
        _watched(lambda it: it.ages.pop("gpu-1"), "are unknown old"),
    ),
    "monitoring.gpus": (
        _watched(lambda it: it.gpus.pop(1), f"the metrics lack 1 of 4 GPUs: '{UUIDS[1]}'"),
        _watched(
            lambda it: it.gpus[1].counters.discard("DCGM_FI_DEV_GPU_UTIL"),
            f"GPU '{UUIDS[1]}' lacks 1 of {len(counters())} counters",
        ),
        Mutation(_exporter_of_others_without_xids, "gives no value of 'DCGM_EXP_XID_ERRORS_COUNT'"),
        Mutation(lambda world: world.seen["nvml"]["gpus"].pop(1), f"have GPUs that it does not show: '{UUIDS[1]}'"),
    ),
    "monitoring.attribution": (
        Mutation(with_gpu, "pod 'team/training' holds 1 GPUs, the metrics say 0"),
        _watched(lambda it: setattr(it.gpus[0], "pod", "team/old"), "pod 'team/old' holds 0 GPUs, the metrics say 1"),
        Mutation(
            lambda world: with_gpu(world, UUIDS[1], "1b4e28ba-2fa1-11d2-883f-0016d3cca427"),
            f"the kubelet gave pod 'team/training' '{UUIDS[0]}', the metrics say '{UUIDS[1]}'",
        ),
    ),
    "monitoring.alerts": (
        _watched(
            lambda it: it.alerts.append(firing("GpusmithGpuXid", "critical", node="gpu-1")),
            "alert 'GpusmithGpuXid' fires: GPU 1 reported Xid 79",
        ),
    ),
    "monitoring.delivery": (
        _watched(lambda it: it.alertmanagers.clear(), "knows no Alertmanager"),
        _watched(lambda it: it.arrived.clear(), "has not arrived at Alertmanager"),
        _watched(lambda it: setattr(it, "config", None), "Alertmanager does not answer"),
    ),
    "workloads.nvidia-smi": (Mutation(_nothing_listed, "does not know", kind="nvidia_smi"),),
    "workloads.network": (Mutation(_answer("reach_service.py", **WRONG), "it is wrong", kind="network"),),
    "workloads.cuda": (
        Mutation(_answer("run_cuda.py", **WRONG), "it is wrong", kind="cuda"),
        Mutation(_answer("run_cuda.py", simulated=False), "ran on real GPUs", kind="cuda"),
        Mutation(_answer("run_cuda.py", devices=[]), "saw 0 GPUs", kind="cuda"),
    ),
    "workloads.throttle": (
        Mutation(
            _answer("run_cuda.py", slowdowns={"GPU-5": {"reasons": 0x40, "looks": 1}}),
            "GPU-5 is throttled under load",
            kind="load",
        ),
    ),
    "workloads.performance": (
        Mutation(_real(memory_gb_s=1500.0), "memory at 1500 GB/s, 45% of the peak", kind="performance"),
        Mutation(_real(pcie_gen=3), "runs at generation 3 under load", kind="performance"),
    ),
    "workloads.uniformity": (
        Mutation(_real(memory_gb_s=2700.0), "the median of 4 GPUs like it is 2970", kind="uniformity"),
    ),
    "workloads.pytorch": (Mutation(_answer("run_pytorch.py", **WRONG), "it is wrong", kind="frameworks"),),
    "workloads.tensorflow": (
        Mutation(_answer("run_tensorflow.py", uuids=["GPU-5"]), "does not know", kind="frameworks"),
    ),
    "workloads.pytorch-nodes": (
        Mutation(_in_jobs("run_pytorch.py", **WRONG), "it is wrong", kind="distributed"),
        Mutation(_in_jobs("run_pytorch.py", weights=[1.0]), "ended with other weights", kind="distributed"),
    ),
    "workloads.tensorflow-nodes": (
        Mutation(_in_jobs("run_tensorflow.py", uuids=[]), "saw 0 GPUs", kind="distributed"),
    ),
    "workloads.allocation": (
        Mutation(_answer("hold_gpu.py", uuid="GPU-5"), "more than once", kind="allocation"),
    ),
    "workloads.oversubscription": (Mutation(_another_gpu_after_a_release, "which another pod holds", kind="oversubscription"),),
    "workloads.preemption": (
        Mutation(_another_gpu_than_that_of_the_victim, "was to give way and to leave its GPU", kind="preemption"),
    ),
    "workloads.gpu-type": (
        Mutation(lambda world: setattr(world.cluster, "no_such_type", "1 Too many pods."), "another reason", kind="gpu_type"),
    ),
    "workloads.isolation": (
        Mutation(_answer("look_around.py", **WRONG), "it is wrong", kind="isolation"),
    ),
    "workloads.cleanup": (Mutation(_namespace_stays, "a finalizer holds it", kind="cleanup"),),
}  # fmt: skip
