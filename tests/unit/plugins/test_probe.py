from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils import probe

DUMP = """\
version = 4
disabled_plugins = []
[plugins]
  [plugins.'io.containerd.cri.v1.runtime']
    enable_cdi = true
    cdi_spec_dirs = ['/etc/cdi', '/var/run/cdi']
    [plugins.'io.containerd.cri.v1.runtime'.containerd]
      default_runtime_name = 'runc'
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes]
        [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]
          runtime_type = 'io.containerd.runc.v2'
          [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]
            BinaryName = '/usr/bin/nvidia-container-runtime'
            SystemdCgroup = true
        [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
          [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
            SystemdCgroup = true
"""
CDI = """\
---
cdiVersion: 0.5.0
containerEdits:
  mounts:
  - hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.580.178.04
    containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.580.178.04
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: "0"
- name: GPU-1
  containerEdits:
    hooks:
      - name: inner
kind: nvidia.com/gpu
"""


def test_the_program_prints_one_record_as_json_and_is_quick() -> None:
    source = Path(probe.__file__).read_text()
    begin = time.monotonic()
    done = subprocess.run([sys.executable, "-"], input=source, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["schema"] == probe.SCHEMA
    assert set(record) >= {
        "host", "packages", "pci", "module", "library", "nvml", "dev", "services", "xids", "containerd", "cdi",
        "kubernetes", "system",
    }  # fmt: skip
    assert time.monotonic() - begin < 15


def test_the_program_needs_no_newer_python_than_promised() -> None:
    import ast

    ast.parse(Path(probe.__file__).read_text(), feature_version=(3, 8))


@pytest.mark.parametrize("toml", ["own", "standard"])
def test_containerd_settings_are_read(toml: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if toml == "own":
        monkeypatch.setitem(sys.modules, "tomllib", None)
    assert probe.read_containerd_dump(DUMP) == {
        "runtime_nvidia": True,
        "runtime_binary": "/usr/bin/nvidia-container-runtime",
        "systemd_cgroup": True,
        "cdi": True,
        "cri_disabled": False,
        "default_runtime": "runc",
        "default_binary": None,
        "cdi_spec_dirs": ["/etc/cdi", "/var/run/cdi"],
    }


@pytest.mark.parametrize(
    ("text", "disabled"),
    [
        ('disabled_plugins = ["cri"]', True),
        ('disabled_plugins = ["io.containerd.grpc.v1.cri"]', True),
        ('disabled_plugins = ["io.containerd.internal.v1.opt"]', False),
        ("", False),
    ],
)
def test_a_disabled_cri_is_seen(text: str, disabled: bool) -> None:
    assert probe.read_containerd_dump(text)["cri_disabled"] is disabled


def test_a_runtime_without_systemd_cgroup_is_seen() -> None:
    text = DUMP.replace("SystemdCgroup = true", "SystemdCgroup = false", 1)
    assert probe.read_containerd_dump(text)["systemd_cgroup"] is False


def test_the_runtime_of_every_pod_is_read() -> None:
    found = probe.read_containerd_dump(DUMP.replace("= 'runc'", "= 'nvidia'"))
    assert (found["default_runtime"], found["default_binary"]) == (
        "nvidia",
        "/usr/bin/nvidia-container-runtime",
    )


def nodes_of(text: str) -> dict[str, list[tuple[object, ...]]]:
    spec = probe.read_cdi("/etc/cdi/x.yaml", 0, text)
    assert spec is not None
    assert spec["problem"] is None
    return {
        device["name"]: [(node["path"], node["host_path"], node["numbers"]) for node in device["nodes"]]
        for device in spec["devices"]
    }


def test_device_nodes_of_a_cdi_specification_are_read() -> None:
    assert nodes_of(CDI) == {"0": [("/dev/nvidia0", None, None)], "GPU-1": []}
    written = """\
---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
    # as yaml.v3 indents
    - name: "0"
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
              hostPath: /dev/nvidia1
              type: c
              major: 195
              minor: 1
              permissions: rw
            - {}
            - path: /dev/dri/card1
        additionalGids: []
        env:
            - "A=b: c"
            - NVIDIA_X=void and
              more of it
        hooks:
            - hookName: createContainer
              args:
                - nvidia-cdi-hook
                - --link
                - ../card1::/dev/dri/by-path/pci-0000:1b:00.0-card
containerEdits: {}
"""
    assert nodes_of(written) == {"0": [("/dev/nvidia0", "/dev/nvidia1", "195:1")]}
    device = {
        "name": "0",
        "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0", "major": 195, "minor": 0}]},
    }
    assert nodes_of(json.dumps({"kind": "nvidia.com/gpu", "devices": [device, {"name": "b"}]})) == {
        "0": [("/dev/nvidia0", None, "195:0")],
        "b": [],
    }


@pytest.mark.parametrize(
    "text",
    [
        "kind: nvidia.com/gpu\ndevices: &a\n- name: x\n",
        "kind: nvidia.com/gpu\ndevices: [{name: x}]\n",
        "kind: nvidia.com/gpu\ndevices:\n- name: |\n    x\n",
        "kind: nvidia.com/gpu\ndevices:\n- name: x\n bad\n",
        "kind: nvidia.com/gpu\ndevices: 7\n",
        '{"kind": "nvidia.com/gpu", "devices": [',
    ],
)
def test_a_cdi_specification_that_is_not_understood_says_so(text: str) -> None:
    spec = probe.read_cdi("/etc/cdi/x.yaml", 0, text)
    assert spec is not None
    assert spec["problem"]


def test_a_cdi_specification_of_another_vendor_is_nobodys_matter() -> None:
    assert probe.read_cdi("/etc/cdi/x.yaml", 0, "kind: vendor.com/net\ndevices: &a\n") is None


def test_cdi_folders_are_read_in_their_order_and_only_what_cdi_reads(tmp_path: Path) -> None:
    for folder, name in (("etc", "a.yaml"), ("etc", "ignored.yml"), ("run", "b.json")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text(CDI.replace("580.178.04", "1.2.3") if folder == "etc" else CDI)
    plugins = '{"kind":"k8s.device-plugin.nvidia.com/gpu","devices":[{"name":"GPU-1"}]}'
    (tmp_path / "run" / "plugin.json").write_text(plugins)
    found = probe._cdi([str(tmp_path / "etc"), str(tmp_path / "run")])
    assert [spec["devices"] for spec in found["plugin_specs"]] == [[{"name": "GPU-1", "nodes": []}]]
    assert [(Path(spec["path"]).name, spec["priority"]) for spec in found["specs"]] == [
        ("a.yaml", 0),
        ("b.json", 1),
    ]
    assert found["driver_version"] == "580.178.04"
    assert found["devices"] == ["nvidia.com/gpu=0", "nvidia.com/gpu=GPU-1"]


def test_packages_and_holds_are_read() -> None:
    found = probe.parse_dpkg("libcuda1\t580.178.04-1\thi \nold\t1\trc \nnvidia-smi\t535.1-1\tii \n")
    assert found == {
        "libcuda1": {"version": "580.178.04-1", "held": True},
        "nvidia-smi": {"version": "535.1-1", "held": False},
    }


def test_services_are_read_with_their_start_in_unix_time() -> None:
    text = (
        "Id=containerd.service\nActiveState=active\nUnitFileState=enabled\n"
        "ActiveEnterTimestamp=Sat 2026-11-21 10:11:57 UTC\nNeedDaemonReload=yes\n\n"
        "Id=kubelet.service\nActiveState=inactive\nUnitFileState=\nActiveEnterTimestamp=\n"
    )
    found = probe.parse_services(text)
    assert found["containerd"] == {
        "active": "active",
        "enabled": "enabled",
        "started_unix": 1795255917.0,
        "changed": True,
    }
    assert found["kubelet"] == {
        "active": "inactive",
        "enabled": "not-found",
        "started_unix": None,
        "changed": False,
    }


def _log(message: object, seconds: int) -> str:
    return json.dumps({"MESSAGE": message, "__REALTIME_TIMESTAMP": str(seconds * 1_000_000)}) + "\n"


LOST = "NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU has fallen off the bus."
LOADING = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.178.04  Release Build"


def test_xids_are_read_with_their_gpu() -> None:
    xids, loaded = probe.parse_kernel_log(_log(LOST, 5) + "no json\n" + _log([1, 2], 6))
    assert [(xid["code"], xid["pci"], xid["time_unix"]) for xid in xids] == [(79, "0000:18:00.0", 5.0)]
    assert loaded is None


def test_xids_from_before_the_driver_was_loaded_are_history() -> None:
    xids, loaded = probe.parse_kernel_log(_log(LOST, 5) + _log(LOADING, 7) + _log(LOST, 9) + _log(LOADING, 3))
    assert [xid["time_unix"] for xid in xids] == [9.0]
    assert loaded == 7.0


def test_fatal_errors_of_nvswitches_are_read() -> None:
    fatal = "nvidia-nvswitch3: SXid (PCI:0000:c5:00.0): 20034, Fatal, Link 24 LTSSM Fault Up"
    mild = "nvidia-nvswitch4: SXid (PCI:0000:c6:00.0): 19084, Non-fatal, Link 29 AN1 Heartbeat Timeout Error (First)"
    found = probe.parse_switch_log(
        _log(fatal, 3) + _log(LOADING, 5) + _log(fatal, 7) + _log(mild, 8) + "no json\n"
    )
    assert [(row["pci"], row["code"], row["fatal"], row["time_unix"]) for row in found] == [
        ("0000:c5:00.0", 20034, True, 7.0), ("0000:c6:00.0", 19084, False, 8.0),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["00000000:18:00.0", "0000:18:00", "0000:18:00.0"])
def test_pci_addresses_have_one_form(text: str) -> None:
    assert probe.normal_pci(text) == "0000:18:00.0"


def _hang() -> dict[str, Any]:
    time.sleep(60)
    return {}


def _die() -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def test_a_library_that_hangs_crashes_or_answers() -> None:
    assert probe._Child(_hang).result(0.2) == (None, "no answer within 0 s")
    answer, problem = probe._Child(_die).result(10)
    assert answer is None
    assert problem is not None
    assert "signal 9" in problem
    assert probe._Child(lambda: {"x": "y" * 200000}).result(10)[0] == {"x": "y" * 200000}


class FakeLibrary:
    """libnvidia-ml of one GPU: every call answers 0 unless a code is given for it; None takes the function away."""

    def __init__(self, **codes: int | None) -> None:
        self.codes = codes

    def __getattr__(self, name: str) -> Any:
        code = self.codes.get(name, 0)
        if code is None or not name.startswith("nvml") or name == "nvmlErrorString":
            raise AttributeError(name)

        def function(*_arguments: Any) -> int:
            return code

        return function


def gpu_row(**codes: int | None) -> dict[str, Any]:
    row: dict[str, Any] = probe._nvml_gpu(probe._Nvml(FakeLibrary(**codes)), 0)
    return row


def test_what_nvml_does_not_support_and_what_it_could_not_read_are_told_apart() -> None:
    healthy = gpu_row()
    assert (healthy["unsupported"], healthy["unreadable"], healthy["error"]) == ([], {}, None)
    assert (healthy["ecc_uncorrected"], healthy["remap_failed"], healthy["throttle_reasons"]) == (
        0,
        False,
        [],
    )
    row = gpu_row(
        nvmlDeviceGetRemappedRows=3, nvmlDeviceGetTotalEccErrors=999, nvmlDeviceGetCurrPcieLinkWidth=4,
        nvmlDeviceGetCurrentClocksEventReasons=None, nvmlDeviceGetCurrentClocksThrottleReasons=None,
    )  # fmt: skip
    assert row["unsupported"] == ["row_remap"]
    assert row["unreadable"] == {
        "ecc_uncorrected": "unknown",
        "pcie_width": "no permission",
        "throttle_reasons": "the NVIDIA library has no such function",
    }
    assert [row[name] for name in ("remap_pending", "ecc_uncorrected", "pcie_width", "throttle_reasons")] == [
        None
    ] * 4


def test_the_older_name_of_clock_reasons_is_asked_when_the_newer_is_missing() -> None:
    assert gpu_row(nvmlDeviceGetCurrentClocksEventReasons=None)["throttle_reasons"] == []


@pytest.mark.parametrize(
    ("cgroup", "pod"),
    [
        ("0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-2.scope", True),
        ("0::/user.slice/user-0.slice/session-1.scope", False),
        (None, False),
    ],
)
def test_a_process_of_a_pod_is_known_by_its_cgroup(cgroup: str | None, pod: bool) -> None:
    assert probe.in_pod(cgroup) is pod


class Said:
    """A command that has ended."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    def output(self, errors: list[str], accept: object = None) -> str | None:
        if self.text is None:
            errors.append("'journalctl -b' ended with status 2")
        return self.text

    def first_line(self) -> str:
        return (self.text or "").partition("\n")[0]


def kernel_log(
    log: str | None,
    kernel: str,
    loaded: str | None = "580.178.04",
    forgeable: str | None = None,
    simulated: bool = False,
) -> tuple[dict[str, Any], list[str]]:
    errors: list[str] = []
    record = {"module": {"loaded_version": loaded}, "library": {"simulated": simulated}}

    def ask(source: str) -> dict[str, Said]:
        trusted = source == "kernel"
        return {"xids": Said(log if trusted else forgeable), "first": Said(kernel if trusted else forgeable)}

    return probe._kernel_log(record, ask("kernel"), ask, errors), errors


def test_a_kernel_log_that_nobody_keeps_is_no_log_without_xids() -> None:
    assert kernel_log("", "")[0]["xids"] is None
    assert "no message of the kernel" in kernel_log("", "")[1][0]
    assert kernel_log(None, "x")[0]["xids"] is None
    assert kernel_log("", _log("EXT4-fs mounted", 3))[0] == {
        "xids": [],
        "sxids": [],
        "xids_truncated": False,
        "log": {"source": "kernel", "begins_unix": 3.0},
    }
    assert kernel_log("", "", loaded=None)[0]["xids"] == []


def test_a_flood_of_xids_says_that_some_were_not_read() -> None:
    assert kernel_log(_log(LOST, 5) * probe.KERNEL_LOG_LINES, "x")[0]["xids_truncated"] is True


def test_only_a_simulated_node_may_have_its_log_from_who_calls_himself_kernel() -> None:
    booted, forged = _log("EXT4-fs mounted", 1), _log(LOADING, 9)
    real = kernel_log(_log(LOST, 5), booted, forgeable=forged)[0]
    assert [xid["code"] for xid in real["xids"]] == [79]
    assert real["log"]["source"] == "kernel"
    said = kernel_log("", "", forgeable=_log(LOST, 9), simulated=True)[0]
    assert [xid["code"] for xid in said["xids"]] == [79]
    assert said["log"] == {"source": "identifier", "begins_unix": 9.0}
    # Nobody knows whether they are simulated: what anyone can write does not count.
    assert kernel_log("", "", forgeable=forged)[0]["xids"] is None


def test_the_journal_is_asked_for_what_the_kernel_itself_said() -> None:
    words = [probe.log_words(source) for source in ("kernel", "identifier")]
    assert all("_TRANSPORT=kernel" in part for part in words[0])
    assert all("SYSLOG_IDENTIFIER=kernel" in part for part in words[1])
    assert not any("SYSLOG_IDENTIFIER=kernel" in part for part in words[0])


def test_a_first_line_is_read_without_waiting_for_the_rest() -> None:
    begin = time.monotonic()
    assert probe._Command("sh", "-c", "echo one; echo two; sleep 30").first_line() == "one"
    assert probe._Command("sh", "-c", "exit 1").first_line() == ""
    assert probe._Command("no-such-program").first_line() == ""
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize(
    ("name", "target", "leads"),
    [
        ("195:1", "/dev/nvidia1", True),
        ("195:1", "/dev/nvidia0", False),
        ("195:1", "/dev/nvidia9", False),
        ("511:1", "/dev/nvidia-caps/nvidia-cap1", False),
    ],
)
def test_a_char_link_must_lead_to_the_device_of_its_name(
    monkeypatch: pytest.MonkeyPatch, name: str, target: str, leads: bool
) -> None:
    devices = {"/dev/nvidia0": os.makedev(195, 0), "/dev/nvidia1": os.makedev(195, 1)}

    def stat(path: str) -> SimpleNamespace:
        if path not in devices:
            raise FileNotFoundError(path)
        return SimpleNamespace(st_rdev=devices[path])

    with monkeypatch.context() as patch:
        patch.setattr("os.path.islink", lambda _: True)
        patch.setattr("os.path.realpath", lambda _: target)
        patch.setattr("os.stat", stat)
        found = probe.leads_to_its_device(f"/dev/char/{name}")
    assert found is leads


def test_device_nodes_are_looked_at_and_not_followed(tmp_path: Path) -> None:
    null = probe.read_device("/dev/null")
    assert null is not None
    assert (null["kind"], null["major"], null["minor"], null["mode"]) == ("char", 1, 3, 0o666)
    (tmp_path / "file").touch(0o600)
    (tmp_path / "link").symlink_to("/dev/null")
    file, link = (probe.read_device(str(tmp_path / name)) for name in ("file", "link"))
    assert file is not None
    assert link is not None
    assert (file["kind"], file["major"], file["mode"]) == ("file", None, 0o600)
    assert link["kind"] == "link"
    assert probe.read_device(str(tmp_path / "none")) is None


def test_device_nodes_are_read_before_nvml_can_make_them_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def find(*_arguments: object) -> list[str]:
        return ["/nowhere/libnvidia-ml.so.1"]

    class Child:
        def __init__(self, _work: object) -> None:
            order.append("nvml")

        def result(self, _timeout_s: float) -> tuple[None, str]:
            return None, "no answer"

    monkeypatch.setattr(probe, "_dev", lambda: order.append("dev"))
    monkeypatch.setattr(probe, "find_libraries", find)
    monkeypatch.setattr(probe, "_Child", Child)
    probe.collect()
    assert order == ["dev", "nvml"]


def test_what_the_driver_was_told_about_its_device_nodes_is_read() -> None:
    text = "ResmanDebugLevel: 4294967295\nDeviceFileUID: 0\nDeviceFileGID: 44\nDeviceFileMode: 432\n"
    assert probe.parse_params(text) == {"file_mode": 0o660, "file_uid": 0, "file_gid": 44}
    assert probe.parse_params("DeviceFileMode: 0660\n")["file_mode"] == 0o660
    assert probe.parse_params("") == {"file_mode": None, "file_uid": None, "file_gid": None}
    devices = "Character devices:\n  1 mem\n195 nvidia\n511 nvidia-uvm\n\nBlock devices:\n  8 sd\n"
    assert probe.major_of("nvidia-uvm", devices) == 511
    assert probe.major_of("sd", devices) is None


def test_structures_have_the_sizes_of_nvml_h() -> None:
    assert ctypes.sizeof(probe._PciInfo) == 68
    assert ctypes.sizeof(probe._Memory) == 24
    assert ctypes.sizeof(probe._FabricInfo) == 28
    assert ctypes.sizeof(probe._ProcessInfo) == 24


def test_the_module_file_tells_version_and_flavour() -> None:
    text = (
        "filename:       /lib/modules/x/nvidia.ko\nversion:        580.178.04\nlicense:        Dual MIT/GPL\n"
    )
    assert probe.parse_modinfo(text) == ("580.178.04", "Dual MIT/GPL")
    assert probe.flavour_of_license("Dual MIT/GPL") == "open"
    assert probe.flavour_of_license("NVIDIA") == "proprietary"
    assert probe.flavour_of_license(None) is None


def test_a_soname_is_resolved_by_the_loaders_cache(tmp_path: Path) -> None:
    real = tmp_path / "libnvidia-ml.so.580.178.04"
    real.touch()
    link = tmp_path / "libnvidia-ml.so.1"
    link.symlink_to(real)
    cache = f"\tlibnvidia-ml.so.1 (libc6,x86-64) => {link}\n"
    found = probe.resolve_library("libnvidia-ml.so.1", cache, "x86_64")
    assert found == str(real)
    assert probe._version_of_file(found) == "580.178.04"


def test_a_library_that_shadows_the_drivers_is_seen(tmp_path: Path) -> None:
    paths = [tmp_path / "local" / "libcuda.so.1", tmp_path / "lib" / "libcuda.so.580.178.04"]
    for path in paths:
        path.parent.mkdir()
        path.touch()
    link = tmp_path / "lib" / "libcuda.so.1"
    link.symlink_to(paths[1])
    cache = "".join(f"\tlibcuda.so.1 (libc6,x86-64) => {path}\n" for path in (paths[0], link))
    assert probe.find_libraries("libcuda.so.1", cache, "x86_64")[:2] == [str(path) for path in paths]
    assert probe.resolve_library("libcuda.so.1", cache, "x86_64") == str(paths[0])


def test_a_library_that_cannot_be_loaded_is_seen_without_loading_it(tmp_path: Path) -> None:
    whole = Path(sys.executable).resolve()
    assert probe.library_fault(str(whole)) is None
    path = tmp_path / "libcuda.so.1"
    path.touch()
    assert probe.library_fault(str(path)) == "is empty"
    path.write_text("INPUT(libother.so)\n" * 10)
    assert probe.library_fault(str(path)) == "is no ELF file"
    path.write_bytes(whole.read_bytes()[:4096])
    assert probe.library_fault(str(path)) == "is cut off after 4096 bytes"
    assert "No such file" in str(probe.library_fault(str(tmp_path / "none")))


@pytest.fixture
def boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Writes a file that boots read; 'etc' comes before 'run' and 'lib'."""
    monkeypatch.setattr(probe, "BOOT_FOLDERS", [str(tmp_path / name) for name in ("etc", "run", "lib")])
    monkeypatch.setattr(probe, "SYSCTL_FILES", str(tmp_path / "etc/sysctl.d/*gpusmith-*"))

    def write(path: str, text: str) -> Path:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    return write


def test_boots_read_files_by_name_and_one_of_a_name(boot: Callable[[str, str], Path], tmp_path: Path) -> None:
    for path in (
        "lib/sysctl.d/50-a.conf",
        "etc/sysctl.d/50-a.conf",
        "run/sysctl.d/99-b.conf",
        "etc/sysctl.d/60-c.conf",
    ):
        boot(path, "a = 1\n")
    boot("etc/sysctl.d/README", "no = 1\n")
    read = [str(Path(path).relative_to(tmp_path)) for path in probe.boot_files("sysctl.d")]
    assert read == ["etc/sysctl.d/50-a.conf", "etc/sysctl.d/60-c.conf", "run/sysctl.d/99-b.conf"]


def test_links_to_nothing_and_empty_files_take_others_out(boot: Callable[[str, str], Path]) -> None:
    boot("lib/modules-load.d/a.conf", "overlay\n")
    boot("lib/modules-load.d/b.conf", "br_netfilter\n")
    boot("etc/modules-load.d/b.conf", "")
    (boot("etc/modules-load.d/x", "").parent / "a.conf").symlink_to("/dev/null")
    assert probe.boot_lines("modules-load.d") == []


def test_boots_load_what_files_name_or_the_kernel_has(boot: Callable[[str, str], Path]) -> None:
    file = str(boot("etc/modules-load.d/k8s.conf", "# overlay\n; also a comment\n\n  nf-conntrack \nip_vs\n"))
    found = probe.boot_modules("kernel/net/bridge/br_netfilter.ko\n", "modules.builtin")
    assert found == {
        "overlay": {"file": None, "forbidden_by": None},
        "br_netfilter": {"file": "modules.builtin", "forbidden_by": None},
        "nf-conntrack": {"file": file, "forbidden_by": None},
        "ip_vs": {"file": file, "forbidden_by": None},
    }


def test_etc_modules_counts_where_it_is_linked(boot: Callable[[str, str], Path]) -> None:
    boot("etc/modules", "overlay\n")
    assert probe.boot_modules("", "")["overlay"]["file"] is None
    link = boot("etc/modules-load.d/x", "").parent / "modules.conf"
    link.symlink_to("../modules")
    assert probe.boot_modules("", "")["overlay"]["file"] == str(link)


@pytest.mark.parametrize(
    ("line", "forbids"),
    [
        ("blacklist br-netfilter", True),
        ("install br_netfilter /bin/true", True),
        ("install br_netfilter /usr/bin/false", True),
        ("install br_netfilter /sbin/modprobe --ignore-install br_netfilter", False),
        ("options br_netfilter x=1", False),
        ("blacklist br_netfilter2", False),
    ],
)
def test_boots_load_nothing_that_modprobe_d_forbids(
    boot: Callable[[str, str], Path], line: str, forbids: bool
) -> None:
    boot("etc/modules-load.d/k8s.conf", "br_netfilter\n")
    file = str(boot("lib/modprobe.d/hard.conf", line + "\n"))
    assert probe.boot_modules("", "")["br_netfilter"]["forbidden_by"] == (file if forbids else None)
    # What is part of the kernel nobody can keep out.
    builtin = "kernel/net/bridge/br_netfilter.ko\n"
    assert probe.boot_modules(builtin, "")["br_netfilter"]["forbidden_by"] is None


@pytest.mark.parametrize(
    ("lines", "value", "files"),
    [
        (["net.ipv4.ip_forward = 1 :a", "net/ipv4/ip_forward=0 :b"], "0", ["b"]),
        (["net.ipv4.ip_forward=1 :a", "-net.ipv4.ip_forward =  2  3 :b"], "2 3", ["b"]),
        (["net.ipv4.ip_forward=1 :a", "-net.ipv4.ip_forward :b"], None, ["b"]),
        (["net.ipv4.ip_forward=1 :a", "net.ipv4.ip_forward :b"], "1", ["a"]),
        (["net.ipv4.ip_forward=1 :a", "net.ipv4.*=0 :b"], "1", ["a"]),
        (["net.ipv4.*=0 :a", "net.*.ip_forward=1 :b"], "1", ["b"]),
        (["net.ipv4.*=0 :a", "net.*.ip_forward=1 :b", "net.ipv4.*=0 :c"], "1", ["b"]),
        (["net.ipv4.*=0 :a", "net.*.ip_forward=1 :b", "net.ipv4.*=2 :c"], "2", ["c"]),
        (["net.*=0 :a"], None, []),
        ([], None, []),
    ],
)
def test_the_setting_that_a_boot_leaves_is_found_as_systemd_does(
    lines: list[str], value: str | None, files: list[str]
) -> None:
    settings = probe.sysctl_settings(tuple(line.split(" :")) for line in lines)
    assert probe.boot_sysctl("net.ipv4.ip_forward", settings) == {"value": value, "files": files}


def test_a_pattern_has_all_values_that_boots_set(tmp_path: Path) -> None:
    for device in ("all", "lo", "eth0"):
        (tmp_path / f"net/ipv4/conf/{device}").mkdir(parents=True)
        (tmp_path / f"net/ipv4/conf/{device}/rp_filter").touch()
    name = "net.ipv4.conf.*.rp_filter"
    lines = [(f"{name}=2", "a"), ("-net.ipv4.conf.all.rp_filter", "b")]
    assert probe.boot_sysctl(name, probe.sysctl_settings(lines), str(tmp_path))["value"] == "2"
    lines.append(("net.ipv4.conf.lo.rp_filter=0", "c"))
    settings = probe.sysctl_settings(lines)
    assert probe.boot_sysctl(name, settings, str(tmp_path)) == {"value": "0, 2", "files": ["a", "b", "c"]}
    # Where the kernel has none of them yet, the pattern's own line tells.
    assert probe.boot_sysctl(name, settings, str(tmp_path / "none")) == {"value": "2", "files": ["a"]}


def test_kernel_parameters_are_read_in_every_spelling(tmp_path: Path) -> None:
    for device, value in (("eth0.100", "1"), ("lo", "2")):
        folder = tmp_path / "net" / "ipv4" / "conf" / device
        folder.mkdir(parents=True)
        (folder / "rp_filter").write_text(value + "\n")
    (tmp_path / "net" / "ipv4" / "tcp_rmem").write_text("4096\t131072\t6291456\n")
    root = str(tmp_path)
    assert probe.read_sysctl("net.ipv4.tcp_rmem", root) == "4096 131072 6291456"
    # The first separator decides which of the two is which, as for sysctl.
    assert probe.read_sysctl("net/ipv4/conf/eth0.100/rp_filter", root) == "1"
    assert probe.read_sysctl("net.ipv4.conf.eth0/100.rp_filter", root) == "1"
    assert probe.read_sysctl("net.ipv4.conf.*.rp_filter", root) == "1, 2"
    assert probe.read_sysctl("net.ipv4.no_such", root) is None


def test_modules_are_found_in_every_spelling(tmp_path: Path) -> None:
    (tmp_path / "nf_conntrack").mkdir()
    for name in ("nf-conntrack", "nf_conntrack"):
        assert probe.module_present(name, "", str(tmp_path))
    assert probe.module_present("ip_vs", "kernel/net/netfilter/ipvs/ip_vs.ko\n", str(tmp_path))
    assert not probe.module_present("ip_vs", "kernel/net/netfilter/ipvs/ip_vs_rr.ko\n", str(tmp_path))


def test_the_record_has_what_our_files_name(boot: Callable[[str, str], Path]) -> None:
    boot("etc/modules-load.d/gpusmith-more.conf", "no_such_module\n")
    ours = str(boot("etc/sysctl.d/gpusmith-more.conf", "no.such.parameter = 1\nnet.ipv4.ip_forward = 1\n"))
    other = str(boot("run/sysctl.d/zz.conf", "net.ipv4.ip_forward = 0\nanother.one = 1\n"))
    record = probe.collect()
    system, found = record["system"], record["boot"]
    assert system["modules"]["no_such_module"] is False
    assert set(system["sysctl"]) == {*probe.SYSCTLS, "no.such.parameter"}
    assert system["sysctl"]["no.such.parameter"] is None
    assert found["sysctl"]["no.such.parameter"] == {"value": "1", "files": [ours]}
    assert found["sysctl"]["net.ipv4.ip_forward"] == {"value": "0", "files": [other]}


def test_files_of_boots_that_cannot_be_read_leave_a_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "boot_files", lambda kind: 1 / 0)
    record = probe.collect()
    assert record["boot"] is None
    assert "boot: ZeroDivisionError: division by zero" in record["errors"]
    assert set(probe.MODULES) == set(record["system"]["modules"])


def test_swap_units_that_boots_start_without_the_swap_target(tmp_path: Path) -> None:
    for folder in ("swap.target.wants", "multi-user.target.wants", "local-fs.target.requires"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "swapfile.swap").symlink_to(tmp_path / "swapfile.swap")
    assert probe.swap_units(str(tmp_path)) == [
        str(tmp_path / "local-fs.target.requires/swapfile.swap"),
        str(tmp_path / "multi-user.target.wants/swapfile.swap"),
    ]


def test_swap_of_now_and_of_the_next_boot_is_read() -> None:
    swaps = "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n"
    fstab = "UUID=1 / ext4 defaults 0 1\n# UUID=0 none swap sw 0 0\n/swapfile none swap sw 0 0\n/manual none swap sw,noauto 0 0\n"
    assert probe.swap_areas(swaps) == ["/dev/sda2"]
    assert probe.swap_areas("Filename Type Size Used Priority\n") == []
    assert probe.swap_lines(fstab) == ["/swapfile"]
