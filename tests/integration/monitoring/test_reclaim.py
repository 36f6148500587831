"""What Prometheus answers to the queries about idle GPUs, with the rules that are shipped: promtool evaluates them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from gpusmith.data.monitoring import files
from gpusmith.reclaim.evidence import Witness

USED, ENGINE = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
AT = "120m15s"
"""Between two values: whether a window has those at its beginning differs between Prometheus 2 and 3."""


def series(name: str, uuid: str, values: str, **labels: str) -> dict[str, str]:
    every = {"node": "n", "gpu": "0", "modelName": "H", "UUID": uuid, **labels}
    inner = ",".join(f'{key}="{text}"' for key, text in every.items())
    return {"series": f"{name}{{{inner}}}", "values": values}


def sample(uuid: str, namespace: str, pod: str, value: float, part: str = "") -> dict[str, Any]:
    more = f',GPU_I_ID="{part}"' if part else ""
    return {"labels": f'{{node="n",UUID="{uuid}",namespace="{namespace}",pod="{pod}"{more}}}', "value": value}


def test_the_values_of_pods_in_the_namespaces_that_are_asked_for(root: Path, tmp_path: Path) -> None:
    asked: list[str] = []

    def query(text: str) -> list[dict[str, Any]]:
        asked.append(text)
        return [{"metric": {}, "value": [0, "7215"]}]

    Witness(query, ["a", "b"]).window(3600)
    idle, busy, gone, part = ("A", "a", "p"), ("B", "a", "q"), ("C", "b", "gone"), ("D", "b", "mig")
    given = [
        series(USED, "A", "0x241", namespace="a", pod="p"),
        series(ENGINE, "A", "0x241", namespace="a", pod="p"),
        # Of work between two samples the engine alone tells.
        series(USED, "B", "0x241", namespace="a", pod="q"),
        series(ENGINE, "B", "0x200 0.003 0x40", namespace="a", pod="q"),
        series(USED, "C", "0x180 stale", namespace="b", pod="gone"),
        series(ENGINE, "D", "0x241", namespace="b", pod="mig", GPU_I_ID="3"),
        series(USED, "E", "0x241", namespace="c", pod="other"),
        series(USED, "F", "0x241"),
    ]
    expected = [
        [{"labels": "{}", "value": 7215}],
        [sample(*idle, 120), sample(*busy, 120), sample(*gone, 60), sample(*part, 120, "3")],
        [sample(*idle, 0), sample(*busy, 0), sample(*gone, 0)],
        [sample(*idle, 0), sample(*busy, 0.003), sample(*part, 0, "3")],
        [sample(*idle, 120), sample(*busy, 120), sample(*part, 120, "3")],
        [sample(*idle, 0), sample(*busy, 0), sample(*part, 0, "3")],
    ]
    rows = [
        {"expr": text, "eval_time": AT, "exp_samples": samples}
        for text, samples in zip(asked, expected, strict=True)
    ]
    content = {
        "rule_files": [str(path) for path in sorted((files() / "rules").glob("*.yml"))],
        "evaluation_interval": "30s",
        "group_eval_order": ["gpusmith-records", "gpusmith-gpus", "gpusmith-nodes", "gpusmith-use"],
        "tests": [{"interval": "30s", "input_series": given, "promql_expr_test": rows}],
    }
    path = tmp_path / "reclaim.test.yml"
    path.write_text(yaml.safe_dump(content))
    done = subprocess.run(
        [root / "scripts/promtool", "test", "rules", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
