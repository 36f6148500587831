from __future__ import annotations

from gpusmith.probe import services


def test_services_are_read_with_their_start_in_unix_time() -> None:
    text = (
        "Id=containerd.service\nActiveState=active\nUnitFileState=enabled\n"
        "ActiveEnterTimestamp=Sat 2026-11-21 10:11:57 UTC\nNeedDaemonReload=yes\n\n"
        "Id=kubelet.service\nActiveState=inactive\nUnitFileState=\nActiveEnterTimestamp=\n"
    )
    found = services.parse_services(text)
    assert found["containerd"] == services.Service(
        "active", "enabled", started_unix=1795255917.0, changed=True
    )
    assert found["kubelet"] == services.Service("inactive", "not-found")
