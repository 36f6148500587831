"""Steps are waited for, say what they told, and name the reason when they fail."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gpusmith.cluster.web import Prometheus, Silent
from gpusmith.errors import GpusmithError
from gpusmith.pipeline.looks import Judge, seen
from gpusmith.pipeline.manifests import Pipeline
from gpusmith.pipeline.steps import Steps, prediction
from tests.unit.pipeline.test_refusals import OURS
from tests.unit.pipeline.world import ANSWER, RESULTS, UUID, World

PIPELINE = Pipeline("here", "image", "nfs", simulated=True)
SPACE = "/api/v1/namespaces/here"
FAILED = {"conditions": [{"type": "Failed", "status": "True"}]}


def steps(world: World, said: list[str] | None = None, timeout_s: float = 0.0) -> Steps:
    tell = (said if said is not None else []).append
    return Steps(world.cluster, PIPELINE, timeout_s, tell, lambda _seconds: None)


def run(world: World, *names: str) -> list[str]:
    said: list[str] = []
    lines = []
    for name in names or ("preprocess", "train", "inference"):
        steps(world).make(name, check=False)
        lines.append(steps(world, said).wait(name))
    assert said
    return lines


def test_each_step_says_in_one_line_what_it_told() -> None:
    lines = [line.rpartition(" (")[0] for line in run(World())]
    assert lines == [
        "preprocess: 4 rows with 2 columns",
        f"train: on GPU {UUID} of gpu, loss 18.5 to 0.0001 in 9 steps, simulated",
        "inference: serves at http://NODE:30002/predict",
    ]


def test_on_a_real_gpu_nothing_is_said_of_simulation() -> None:
    world = World()
    world.logs["train"] = world.logs["train"].replace("true", "false")
    assert "simulated" not in run(world, "train")[0]


def test_a_step_that_fails_shows_the_end_of_its_log() -> None:
    world = World()
    world.ends["train"] = FAILED
    terminated = {"terminated": {"exitCode": 1, "reason": "Error"}}
    world.status["train"] = {
        "phase": "Failed",
        "containerStatuses": [{"name": "workload", "state": terminated}],
    }
    world.logs["train"] = "\n".join([*map(str, range(20)), "This pod has no GPU"])
    steps(world).make("train", check=False)
    with pytest.raises(GpusmithError) as error:
        steps(world).wait("train")
    assert error.value.message == "Step 'train' failed: Failed on gpu: exit status 1 Error."
    assert error.value.hint.splitlines()[-1] == "    This pod has no GPU"
    assert "    12" not in error.value.hint.splitlines()


def test_a_pod_that_waits_shows_what_the_scheduler_says() -> None:
    world, said = World(), list[str]()
    world.ends["train"] = {}
    reason = "0/2 nodes are available: 1 Insufficient nvidia.com/gpu."
    condition = {"type": "PodScheduled", "status": "False", "message": reason}
    world.status["train"] = {"phase": "Pending", "conditions": [condition]}
    world.logs["train"] = ""
    steps(world).make("train", check=False)
    with pytest.raises(GpusmithError, match="Insufficient nvidia") as error:
        steps(world, said).wait("train")
    assert said == [f"train: Pending, {reason}"]
    assert error.value.hint == "Look at it: kubectl -n here describe pod train-x"


def test_a_job_whose_pods_are_refused_shows_why() -> None:
    event = {
        "type": "Warning",
        "reason": "FailedCreate",
        "message": "exceeded quota: gpusmith-gpus",
        "involvedObject": {"kind": "Job", "name": "train"},
    }
    found = seen({"metadata": {"name": "train"}}, [], [event])
    assert found.words == "no pod yet: FailedCreate: exceeded quota: gpusmith-gpus"
    assert (found.failed, found.done) == (False, False)


def _waiting(reason: str, restarts: int = 0) -> Any:
    status = {"name": "workload", "restartCount": restarts, "state": {"waiting": {"reason": reason}}}
    pod = {
        "metadata": {"name": "p", "labels": OURS},
        "status": {"phase": "Pending", "containerStatuses": [status]},
    }
    return seen({"metadata": {"name": "train"}}, [pod], [])


def test_what_cannot_become_better_is_given_up() -> None:
    now = [0.0]
    judge = Judge("train", lambda _words: None, clock=lambda: now[0])
    assert judge.gives_up(_waiting("InvalidImageName"))
    assert judge.gives_up(_waiting("CrashLoopBackOff", restarts=3))
    assert not judge.gives_up(_waiting("ContainerCreating"))
    # A registry may have too much to do for a moment.
    assert not judge.gives_up(_waiting("ErrImagePull"))
    now[0] = 50.0
    assert not judge.gives_up(_waiting("ImagePullBackOff"))
    assert not judge.gives_up(_waiting("ContainerCreating"))
    now[0] = 70.0
    assert not judge.gives_up(_waiting("ErrImagePull"))
    now[0] = 140.0
    assert judge.gives_up(_waiting("ErrImagePull"))


def test_what_is_new_is_told_once() -> None:
    said: list[str] = []
    judge = Judge("train", said.append)
    for reason in ("ContainerCreating", "ContainerCreating", "ErrImagePull"):
        judge.gives_up(_waiting(reason))
    assert said == ["train: Pending, ContainerCreating", "train: Pending, ErrImagePull"]


def test_an_object_that_somebody_deletes_ends_the_wait() -> None:
    with pytest.raises(GpusmithError, match="somebody deleted its job"):
        steps(World()).wait("train")


def test_a_result_that_is_none_is_shown() -> None:
    world = World()
    world.logs["preprocess"] = "Segmentation fault"
    with pytest.raises(GpusmithError, match="Segmentation fault"):
        run(world, "preprocess")


def test_the_prediction_is_compared_with_the_data() -> None:
    world = World()
    run(world)
    made = RESULTS["preprocess"]
    line = steps(world).predict(made["sample"], made["expected"])
    assert world.asked_for == [{"inputs": [[1.0, 1.0]]}]
    assert line == (
        f"predict: 0.30 where the data say 0.30, on GPU GPU-2, by the model that GPU {UUID} trained, simulated"
    )
    with pytest.raises(GpusmithError, match=r"predicts 0.30 where the data say 13.60"):
        prediction(ANSWER, 13.6)
    with pytest.raises(GpusmithError, match="predicts nan"):
        prediction({**ANSWER, "outputs": [float("nan")]}, 0.3)
    with pytest.raises(GpusmithError, match="something else than a prediction"):
        prediction({"detail": "Not Found"}, 0.3)


class Seen:
    def __init__(self, rows: list[dict[str, Any]] | Silent) -> None:
        self.rows, self.asked = rows, list[str]()

    def query(self, text: str) -> list[dict[str, Any]]:
        self.asked.append(text)
        if isinstance(self.rows, Silent):
            raise self.rows
        return self.rows


def watched(world: World, prometheus: Seen) -> str:
    return steps(world).watched(cast(Prometheus, prometheus), 0.0)


def test_what_prometheus_saw_of_the_training_pod() -> None:
    world = World()
    run(world)
    prometheus = Seen([{"metric": {"UUID": UUID}, "value": [0, "97"]}])
    assert watched(world, prometheus) == (
        f"monitoring: Prometheus saw pod train-x use GPU {UUID}, up to 97 %, simulated"
    )
    assert 'namespace="here",pod="train-x"' in prometheus.asked[0]
    with pytest.raises(GpusmithError, match=f"on GPU 'GPU-9', and the pod computed on '{UUID}'"):
        watched(world, Seen([{"metric": {"UUID": "GPU-9"}, "value": [0, "97"]}]))
    assert "has no value of it" in watched(world, Seen([]))
    assert "does not answer: lost" in watched(world, Seen(Silent("lost")))


def test_another_run_makes_jobs_and_deployment_anew_and_keeps_the_volume() -> None:
    world = World()
    assert steps(world).clear(check=False) == []
    run(world)
    world.done.clear()
    gone = steps(world).clear(check=False)
    assert sorted(gone) == ["Deployment 'here/inference'", "Job 'here/preprocess'", "Job 'here/train'"]
    assert f"{SPACE}/persistentvolumeclaims/pipeline-data" in world.objects
    assert steps(world).make("preprocess", check=False) == ["Job 'here/preprocess'"]


def test_removal_takes_all_that_was_made_and_nothing_else() -> None:
    world = World()
    before = set(world.objects)
    run(world)
    names, notes = steps(world).remove(check=True)
    assert (len(names), notes) == (7, [])
    names, notes = steps(world).remove(check=False)
    assert (len(names), notes) == (7, [])
    assert set(world.objects) == before
    assert steps(world).remove(check=False) == ([], [])


def test_a_namespace_stays_in_which_others_have_something_and_that_of_a_team() -> None:
    theirs = {"metadata": {"name": "notebook", "namespace": "here", "labels": {"app": "x"}}, "status": {}}
    world = World()
    run(world)
    world.objects[f"{SPACE}/pods/notebook"] = theirs
    names, notes = steps(world).remove(check=False)
    assert "Namespace 'here'" not in names
    assert notes == ["Namespace 'here' stays: others have 'notebook' there."]
    assert {f"{SPACE}/pods/notebook", SPACE} <= set(world.objects)
    world = World()
    world.objects[SPACE] = {
        "kind": "Namespace",
        "metadata": {"name": "here", "labels": {"gpusmith.io/tenant": "here"}},
    }
    run(world)
    assert "app.kubernetes.io/part-of" not in world.objects[SPACE]["metadata"]["labels"]
    names, notes = steps(world).remove(check=False)
    assert (len(names), notes, SPACE in world.objects) == (6, [], True)


def test_a_volume_that_stays_is_named() -> None:
    world = World()
    run(world)
    world.objects[f"{SPACE}/persistentvolumeclaims/pipeline-data"]["spec"]["volumeName"] = "pv-1"
    spec = {"persistentVolumeReclaimPolicy": "Retain"}
    world.objects["/api/v1/persistentvolumes/pv-1"] = {"metadata": {"name": "pv-1"}, "spec": spec}
    _, notes = steps(world).remove(check=False)
    assert notes == ["PersistentVolume 'pv-1' stays with its data, since its class says 'Retain'."]
