"""Action plugin gpu_hours: the table, and why there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.action import gpu_hours

from gpusmith.cluster import monitoring
from gpusmith.cluster.web import Silent
from gpusmith.errors import GpusmithError, Refusal
from gpusmith.monitoring.hours import Hours

SOME = Hours({"team-a": 40.0}, {"team-a": 30.0}, {}, 8.0, 96.0)
ASKED: dict[str, Any] = {
    "kubeconfig": "k", "prometheus": "existing", "prometheus_url": "http://prometheus:9090", "namespace": "m", "days": 1,
}  # fmt: skip


def acted(
    monkeypatch: pytest.MonkeyPatch, found: Hours | Exception, dest: Path, check: bool = False, **asked: Any
) -> dict[str, Any]:
    def ask(*_: object) -> Hours:
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(gpu_hours.hours, "ask", ask)
    monkeypatch.setattr(gpu_hours, "Cluster", lambda kubeconfig: kubeconfig)
    monkeypatch.setattr(
        monitoring, "refuse_silent", lambda url: [Refusal("no Prometheus")] if "other" in url else []
    )
    result: dict[str, Any] = object.__new__(gpu_hours.ActionModule).act(
        {**ASKED, "dest": str(dest), **asked}, check
    )
    return result


@pytest.mark.parametrize("check", [False, True])
def test_the_table_is_written_unless_it_is_a_look(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, check: bool
) -> None:
    path = tmp_path / "reports" / "gpu_hours.csv"
    result = acted(monkeypatch, SOME, path, check)
    notes = result["verdict"]["the cluster"]["notes"]
    assert notes[0] == "team-a held GPUs for 40.0 GPU hours, 75% of them busy"
    assert (path.exists(), f"Table: {path}" in notes) == (not check, not check)
    assert result["changed"] is False


@pytest.mark.parametrize(
    ("found", "asked", "says"),
    [
        (SOME, {"prometheus": "none", "prometheus_url": ""}, "There is no Prometheus to ask"),
        (SOME, {"prometheus_url": ""}, "'gpu_monitoring_prometheus_url'"),
        (SOME, {"prometheus_url": "http://other"}, "no Prometheus"),
        (
            Silent("refused"),
            {"prometheus": "managed"},
            "Prometheus does not answer: refused",
        ),
        (Hours({}, {}, {}, 0.0, 96.0), {}, "no values of 'gpusmith:gpu_busy' in 24 hours"),
    ],
    ids=["none", "existing-without-address", "another-server", "silent", "no-values"],
)
def test_why_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    found: Hours | Exception,
    asked: dict[str, Any],
    says: str,
) -> None:
    with pytest.raises(GpusmithError) as caught:
        acted(monkeypatch, found, tmp_path / "t.csv", **asked)
    assert says in str(caught.value)


def test_a_folder_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "reports").write_text("")
    with pytest.raises(GpusmithError, match="cannot be written"):
        acted(monkeypatch, SOME, tmp_path / "reports" / "t.csv")
