from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpusmith.probe import allocations
from gpusmith.probe.allocations import Allocations

UID = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
SLICE = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice"
STATIC = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("cgroup", "uid"),
    [
        (f"0::/kubepods.slice/kubepods-burstable.slice/{SLICE}/cri-containerd-1.scope", UID),
        (f"12:devices:/kubepods/besteffort/pod{UID}/0123", UID),
        (f"0::/kubepods.slice/kubepods-pod{STATIC}.slice/x", STATIC),
        ("0::/system.slice/sshd.service", None),
        (None, None),
    ],
)  # fmt: skip
def test_a_pods_process_is_known_by_its_cgroup(cgroup: str | None, uid: str | None) -> None:
    assert allocations.pod_uid(cgroup) == uid


def entry(uid: str, *devices: str, resource: str = "nvidia.com/gpu") -> dict[str, Any]:
    half = len(devices) // 2
    return {
        "PodUID": uid, "ContainerName": "main", "ResourceName": resource, "AllocResp": "CgA=",
        "DeviceIDs": {"-1": list(devices[:half]), "0": list(devices[half:])},
    }  # fmt: skip


def checkpoint(*entries: dict[str, Any]) -> str:
    return json.dumps(
        {"Data": {"PodDeviceEntries": list(entries) or None, "RegisteredDevices": {}}, "Checksum": 1}
    )


def test_devices_of_all_containers_are_a_pods() -> None:
    text = checkpoint(
        entry("a", "GPU-1", "GPU-2"), entry("a", "GPU-3"), entry("b", "x", resource="example.com/nic")
    )
    assert allocations.parse_checkpoint(text) == {"a": ("GPU-1", "GPU-2", "GPU-3")}
    assert allocations.parse_checkpoint(checkpoint()) == {}


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"Data": {"PodDeviceEntries": [1]}}'])
def test_what_is_not_understood_is_no_empty_list(text: str) -> None:
    with pytest.raises(ValueError, match="is not understood"):
        allocations.parse_checkpoint(text)


def test_a_pod_that_came_or_went_meanwhile_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, claims = tmp_path / "checkpoint", tmp_path / "claims"
    errors: list[str] = []
    monkeypatch.setattr(allocations, "CHECKPOINT", str(file))
    monkeypatch.setattr(allocations, "CLAIMS", str(claims))
    assert allocations.read(errors) is None
    file.write_text(checkpoint(entry("gone", "GPU-1")))
    claims.write_text(json.dumps({"claim": {"PodUIDs": {UID: {}}}}))
    before = allocations.read(errors)
    file.write_text(checkpoint(entry("new", "GPU-1")))
    found = allocations.gather(before, errors)
    assert found == Allocations({"gone": ("GPU-1",), "new": ("GPU-1",)}, frozenset({UID}))
    assert errors == []
    file.write_text("{}")
    assert allocations.gather(before, errors) == before
    assert "not understood" in errors[0]
