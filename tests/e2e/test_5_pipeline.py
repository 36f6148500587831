"""The example pipeline: data, training, a model that answers; refused where it cannot work, and taken away."""

from __future__ import annotations

import json
import re
import urllib.request

from tests.e2e.harness import Ended, Lab

SPACE = "gpusmith-pipeline"
PLAYBOOK = "playbooks/run_pipeline.yml"


def run(lab: Lab, *words: str, status: int = 0) -> Ended:
    ended = lab.playbook(PLAYBOOK, *words)
    assert ended.status == status, str(ended)
    return ended


def test_a_class_that_is_not_there_is_refused_before_anything_is_made(ready_lab: Lab) -> None:
    ended = run(ready_lab, "-e", "gpu_pipeline_storage_class=fast", status=2)
    assert "'gpu_pipeline_storage_class' names StorageClass 'fast'" in ended.output
    assert ready_lab.kubectl("get", "namespace", SPACE, "--ignore-not-found") == ""


def test_from_data_to_a_prediction_and_away(ready_lab: Lab) -> None:
    ended = run(ready_lab)
    trained = re.search(r"train: on GPU (GPU-\S+) of gpu-\d, .*, simulated", ended.output)
    assert trained, str(ended)
    assert f"by the model that GPU {trained[1]} trained, simulated" in ended.output
    assert re.search(rf"saw pod train-\w+ use GPU {trained[1]}, up to [1-9]\d* %, simulated", ended.output), (
        str(ended)
    )
    # As users of the cluster reach it: by a port of any node.
    (address,) = re.findall(r"serves at http://(\S+):30002/predict", ended.output)
    url = f"http://{address}:30002"
    question = urllib.request.Request(
        f"{url}/predict",
        json.dumps({"inputs": [[0.0] * 16, [1.0] * 16]}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(question, timeout=10) as answer:
        nothing, all_of_them = json.load(answer)["outputs"]
    assert (round(nothing, 1), round(all_of_them, 1)) == (0.0, 13.6)
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        assert "pipeline_predictions_total 3.0" in answer.read().decode()
    pods = ready_lab.get("-n", SPACE, "pods")["items"]
    gpus = {
        row["metadata"]["labels"]["app.kubernetes.io/name"]: row["spec"]["containers"][0]["resources"].get(
            "limits", {}
        )
        for row in pods
    }
    assert gpus == {"preprocess": {}, "train": {"nvidia.com/gpu": "1"}, "inference": {"nvidia.com/gpu": "1"}}

    ended = run(ready_lab, "--tags", "remove")
    assert ready_lab.kubectl("get", "namespace", SPACE, "--ignore-not-found") == ""
    assert ready_lab.get("persistentvolumes")["items"] == []
    assert all(row["changed"] == 0 for row in run(ready_lab, "--tags", "remove").recap().values())
