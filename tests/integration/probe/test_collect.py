from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gpusmith.node.records import parse
from gpusmith.probe import (
    boot,
    cdi,
    collect,
    containerd,
    dev,
    host,
    kernels,
    kubernetes,
    library,
    log,
    managed,
    module,
    packages,
    pci,
    services,
    system,
)  # fmt: skip
from gpusmith.probe.record import SCHEMA, Record


def test_device_nodes_are_read_before_nvml_can_make_them_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def find(*_arguments: object) -> list[str]:
        return ["/nowhere/libnvidia-ml.so.1"]

    class Child:
        def __init__(self, _work: object) -> None:
            order.append("nvml")

        def result(self, _timeout_s: float) -> tuple[None, str]:
            return None, "no answer"

    monkeypatch.setattr(dev, "gather", lambda: order.append("dev"))
    monkeypatch.setattr(library, "find_libraries", find)
    monkeypatch.setattr(collect, "Child", Child)
    assert collect.collect().nvml.error == "no answer"
    assert order == ["dev", "nvml"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change its root")
def test_a_driver_in_a_container_is_asked_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "usr/lib64").mkdir(parents=True)
    (tmp_path / "usr/lib64/libnvidia-ml.so.1").symlink_to("/usr/lib64/libnvidia-ml.so.580.1")
    (tmp_path / "usr/lib64/libnvidia-ml.so.580.1").write_text("none")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia5").touch()
    monkeypatch.setattr(library, "find_libraries", lambda *_: [])
    assert collect.collect().library.container is None, "nobody asked for it"
    monkeypatch.setenv(library.CONTAINER, str(tmp_path))
    record = collect.collect()
    assert record.library.container == str(tmp_path)
    assert record.dev.gpu_minors == (5,)
    assert str(record.nvml.error).startswith("/usr/lib64/libnvidia-ml.so.1: "), record.nvml.error
    assert "No such file" not in str(record.nvml.error)
    # One that the machine has goes before.
    monkeypatch.setattr(library, "find_libraries", lambda *_: ["/nowhere/libnvidia-ml.so.1"])
    assert collect.collect().library.container is None


def test_the_record_has_what_our_files_name(boot_file: Callable[[str, str], Path]) -> None:
    boot_file("etc/modules-load.d/gpusmith-more.conf", "no_such_module\n")
    ours = str(
        boot_file("etc/sysctl.d/gpusmith-more.conf", "no.such.parameter = 1\nnet.ipv4.ip_forward = 1\n")
    )
    other = str(boot_file("run/sysctl.d/zz.conf", "net.ipv4.ip_forward = 0\nanother.one = 1\n"))
    record = collect.collect()
    system, found = record.system, record.boot
    assert found is not None
    assert system.modules["no_such_module"] is False
    assert set(system.sysctl) == {*boot.SYSCTLS, "no.such.parameter"}
    assert system.sysctl["no.such.parameter"] is None
    assert found.sysctl["no.such.parameter"] == boot.BootParameter("1", (ours,))
    assert found.sysctl["net.ipv4.ip_forward"] == boot.BootParameter("0", (other,))


def test_files_of_boots_that_cannot_be_read_leave_a_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot, "boot_files", lambda kind: 1 / 0)
    record = collect.collect()
    assert record.boot is None
    assert json.loads(collect.as_json(record))["boot"] is None
    assert "boot: ZeroDivisionError: division by zero" in record.errors
    assert {*boot.MODULES, *kernels.FABRIC} == set(record.system.modules)


def test_every_section_may_fail_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    sections = (
        boot,
        cdi,
        containerd,
        dev,
        host,
        kubernetes,
        library,
        log,
        managed,
        module,
        packages,
        pci,
        services,
        system,
    )
    for section in sections:
        monkeypatch.setattr(section, "gather", lambda *_arguments: 1 / 0)
    record = collect.collect()
    assert len(record.errors) >= len(sections)
    assert parse(json.loads(collect.as_json(record))).host.hostname == ""


def test_the_keys_of_the_record_are_those_of_the_schema() -> None:
    gpu = pci.PciDevice("0000:01:00.0", class_="0x030200")
    plain = json.loads(collect.as_json(Record(SCHEMA, pci=pci.Pci(gpus=(gpu,)))))
    assert set(plain) == {
        "schema", "host", "packages", "package_database", "package_locks", "trust",
        "pci", "module", "library", "nvml", "dev", "services", "programs", "xids", "sxids",
        "xids_truncated", "log", "containerd", "cdi", "kubernetes", "system", "surroundings", "clock", "cuda", "boot", "kernels",
        "managed_files", "marked_files", "half_packages", "foreign_packages", "foreign", "taken", "allocations", "mps",
        "memory", "holders", "errors", "own", "gpu_layout",
    }  # fmt: skip
    assert plain["pci"]["gpus"][0]["class"] == "0x030200"
    assert plain["dev"]["char_links"] == []
    assert parse(plain).pci.gpus[0].class_ == "0x030200"


def test_the_folders_that_containerd_names_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.json").write_text('{"kind": "nvidia.com/gpu", "devices": [{"name": "0"}]}')
    effective = containerd.Effective(cdi_spec_dirs=(str(tmp_path),))
    monkeypatch.setattr(containerd, "gather", lambda *_arguments: containerd.Containerd(effective=effective))
    assert collect.collect().cdi.devices == ("nvidia.com/gpu=0",)
