"""Metrics of a run."""

from __future__ import annotations

from dataclasses import replace

from gpusmith.report.coverage import GpuCoverage
from gpusmith.report.prometheus import prometheus
from tests.unit.report.samples import FAILED, PASSED, results


def test_metrics() -> None:
    found = replace(
        results(
            FAILED,
            replace(PASSED, evidence={"devices": [{"uuid": "GPU-1", "memory_gb_s": 3000, "elements": 9}]}),
        ),
        coverage={"gpu-1": GpuCoverage(8, ("a", "b"), {"team/x": 3}, {"cordoned": 3})},
    )
    lines = b"".join(prometheus(found)).decode().splitlines()
    for line in (
        'gpusmith_validation_check{check="nodes.ecc",outcome="failed",simulated="false",target="gpu-1"} 1.0',
        'gpusmith_validation_checks{outcome="failed",simulated="true"} 1.0',
        'gpusmith_validation_checks{outcome="skipped",simulated="true"} 0.0',
        'gpusmith_validation_gpus{node="gpu-1",simulated="true",state="expected"} 8.0',
        'gpusmith_validation_gpus{node="gpu-1",simulated="true",state="tested"} 2.0',
        'gpusmith_validation_gpus{node="gpu-1",simulated="true",state="busy"} 3.0',
        'gpusmith_validation_gpus{node="gpu-1",simulated="true",state="excluded"} 3.0',
        'gpusmith_validation_measured{check="nodes.ecc",gpu="GPU-1",name="memory_gb_s",simulated="false",target="gpu-1"} 3000.0',
        "gpusmith_validation_exit_code 1.0",
        "gpusmith_validation_duration_seconds 1.5",
    ):
        assert line in lines
