"""The steps of a run: what is waited for, and what each of them tells."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpusmith.cluster import apply, retries
from gpusmith.cluster.api import ApiRefused, Cluster, Object
from gpusmith.cluster.web import Prometheus, Silent
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.pipeline import refusals
from gpusmith.pipeline.looks import Judge, Say, Seen, seen
from gpusmith.pipeline.manifests import INFERENCE, JOBS, NAME_LABEL, PART_OF, PIPELINE, TRAIN, Pipeline
from gpusmith.wait import Deadline, Done, GiveUp, NotYet, WaitTimeout, wait_until
from gpusmith.wording import quoted
from gpusmith.workloads.jobs import CONTAINER
from gpusmith.workloads.states import state_of

SERVER = f"deployment/{INFERENCE}"
ANEW = ("Job", "Deployment")
"""Kinds that each run makes anew."""
TICK_S = 1.0
LINES = 8
"""Of a log, which an error shows."""
PREDICT_S = 60.0
"""Until a ready service answers: the way to it is there a moment later."""
CLOSE = 0.1
"""How far a prediction may be from what the data say."""

Sleep = Callable[[float], None]


@dataclass(frozen=True)
class Steps:
    """The steps on a cluster.

    Attributes:
        cluster: the API.
        pipeline: what is to be there.
        timeout_s: of one step.
        say: told what is new.
        sleep: replaced in tests.
    """

    cluster: Cluster
    pipeline: Pipeline
    timeout_s: float
    say: Say = print
    sleep: Sleep = time.sleep

    @property
    def _space(self) -> str:
        return f"namespaces/{self.pipeline.namespace}"

    def clear(self, check: bool) -> list[str]:
        """Take away what an earlier run left of Jobs and of the Deployment, and wait until its pods are gone."""
        rows = [row for row in self.pipeline.objects if row["kind"] in ANEW]
        gone = apply.remove(self.cluster, apply.ours(self.cluster, rows), self.timeout_s, check, self.sleep)
        if not check:
            self._wait("the pods of an earlier run to end", self._no_pods)
        return gone

    def _no_pods(self) -> Done[None] | NotYet:
        left = [row["metadata"]["name"] for row in self._pods()]
        return NotYet(f"{quoted(left)} still there") if left else Done(None)

    def _pods(self, name: str = "") -> list[Object]:
        selector = f"{PART_OF}={PIPELINE}{f',{NAME_LABEL}={name}' if name else ''}"
        return self.cluster.items(f"/api/v1/{self._space}/pods", labelSelector=selector)

    def make(self, step: str, check: bool) -> list[str]:
        """Make the objects of a step; their names, if they are new or changed."""
        rows = refusals.wanted(self.cluster, self.pipeline, self.pipeline.of(step))
        # Those of an earlier run, which go before, cannot be changed: nothing is tried out with them.
        anew = [row for row in rows if check and row["kind"] in ANEW]
        done = apply.apply(self.cluster, [row for row in rows if row not in anew], check, self.sleep)
        return [*done.changed, *done.left_out, *map(apply.name_of, anew)]

    def wait(self, step: str) -> str:
        """Until a step is done; one line of what it tells.

        Raises:
            GpusmithError: it failed, or takes too long.
        """
        begin, judge = time.monotonic(), Judge(step, self.say)
        api, kind = ("batch/v1", "jobs") if step in JOBS else ("apps/v1", "deployments")
        path = f"/apis/{api}/{self._space}/{kind}/{step}"

        def look() -> Done[Seen] | NotYet:
            found = self._look(path, step)
            if judge.gives_up(found):
                raise GiveUp(f"Step '{step}' failed: {found.words}.", self._log(found))
            return Done(found) if found.done else NotYet(found.words)

        try:
            found = self._wait(f"step '{step}'", look)
        except WaitTimeout as error:
            last = self._look(path, step)
            raise GpusmithError(
                error.message, self._log(last) or f"Look at it: {self._command(last)}"
            ) from error
        spent = f"{time.monotonic() - begin:.0f} s"
        return self._served(spent) if step == INFERENCE else line(step, self.result(step), spent, found)

    def _wait(self, what: str, look: Callable[[], Any]) -> Any:
        return wait_until(what, look, Deadline(self.timeout_s), TICK_S, self.sleep)

    def _look(self, path: str, step: str) -> Seen:
        owner = self.cluster.get(path)
        if owner is None:
            raise GiveUp(
                f"Step '{step}' failed: somebody deleted its {path.split('/')[-2].rstrip('s')}.",
                "Run this again.",
            )
        events = self.cluster.items(f"/api/v1/{self._space}/events")
        return seen(owner, self._pods(step), events)

    def _command(self, found: Seen) -> str:
        return f"kubectl -n {self.pipeline.namespace} describe pod {found.name}".rstrip()

    def _log(self, found: Seen) -> str:
        """The end of what the step printed, to be read after an error."""
        text = self.cluster.log(self.pipeline.namespace, found.name, CONTAINER) if found.name else ""
        lines = text.strip().splitlines()[-LINES:]
        return "\n".join(["Its last lines:", *(f"    {row}" for row in lines)]) if lines else ""

    def result(self, step: str) -> dict[str, Any]:
        """What a step that is done printed last.

        Raises:
            GpusmithError: it printed something else than a result.
        """
        ended = [row for row in self._pods(step) if state_of(row).phase == "Succeeded"]
        log = (
            self.cluster.log(self.pipeline.namespace, ended[-1]["metadata"]["name"], CONTAINER)
            if ended
            else ""
        )
        try:
            found: dict[str, Any] = json.loads((log.strip().splitlines() or [""])[-1])
        except ValueError as error:
            raise GpusmithError(
                f"Step '{step}' told no result.", f"It printed: {log.strip()[-400:]}"
            ) from error
        return found

    def _served(self, spent: str) -> str:
        address = next(iter(addresses(self.cluster.items("/api/v1/nodes"))), "NODE")
        return f"{INFERENCE}: serves at http://{address}:{self.pipeline.node_port}/predict ({spent})"

    def predict(self, sample: Sequence[float], expected: float) -> str:
        """Ask the Service for a prediction, by way of the API server, and compare it with what the data say.

        Raises:
            GpusmithError: it does not answer, or is wrong.
        """
        path = f"/api/v1/{self._space}/services/http:{INFERENCE}:http/proxy/predict"

        def look() -> Done[dict[str, Any]] | NotYet:
            try:
                text = self.cluster.call("POST", path, {"inputs": [list(sample)]}, patience=retries.ONE_TRY)
            except ApiRefused as error:
                return NotYet(error.message)
            found: dict[str, Any] = json.loads(text)
            return Done(found)

        try:
            answer = wait_until("a prediction", look, Deadline(PREDICT_S), TICK_S, self.sleep)
        except WaitTimeout as error:
            raise GpusmithError(
                error.message, f"Look at it: kubectl -n {self.pipeline.namespace} logs {SERVER}"
            ) from error
        return prediction(answer, expected)

    def watched(self, prometheus: Prometheus, seconds: float) -> str:
        """What Prometheus has of the training pod.

        Args:
            prometheus: the way to it.
            seconds: until its newest values have arrived.
        """
        (pod,) = [row for row in self._pods(TRAIN) if state_of(row).phase == "Succeeded"]
        name = pod["metadata"]["name"]
        query = f'max by (UUID) (max_over_time(DCGM_FI_DEV_GPU_UTIL{{namespace="{self.pipeline.namespace}",pod="{name}"}}[1h]))'

        def look() -> Done[list[dict[str, Any]]] | NotYet:
            found = prometheus.query(query)
            return Done(found) if found else NotYet("nothing")

        try:
            rows = wait_until("values", look, Deadline(seconds), TICK_S, self.sleep)
        except (WaitTimeout, Silent) as error:
            said = (
                "has no value of it"
                if isinstance(error, WaitTimeout)
                else f"does not answer: {error.message}"
            )
            return f"monitoring: Prometheus {said}; a training of more than two of its intervals has some."
        trained = self.result(TRAIN)
        return monitored(name, rows, trained["gpu"]) + mark(trained)

    def remove(self, check: bool) -> tuple[list[str], list[str]]:
        """Take everything away that runs have made; names of it, and what stays in words."""
        rows = apply.ours(self.cluster, refusals.wanted(self.cluster, self.pipeline, self.pipeline.objects))
        others = self._others() if any(row["kind"] == "Namespace" for row in rows) else []
        kept = [row for row in rows if row["kind"] != "Namespace"] if others else rows
        notes = (
            [f"Namespace '{self.pipeline.namespace}' stays: others have {quoted(others)} there."]
            if others
            else []
        )
        notes += self._retained()
        return apply.remove(self.cluster, kept, self.timeout_s, check, self.sleep), notes

    def _others(self) -> list[str]:
        """What is in the namespace and not the pipeline's."""
        names = set(apply.tenants(self.cluster, self.pipeline.namespace))
        for kind in ("pods", "persistentvolumeclaims"):
            rows = self.cluster.items(f"/api/v1/{self._space}/{kind}")
            names |= {str(row["metadata"]["name"]) for row in rows if not refusals.is_ours(row)}
        return sorted(names)

    def _retained(self) -> list[str]:
        claims = self.cluster.items(f"/api/v1/{self._space}/persistentvolumeclaims")
        names = [row["spec"].get("volumeName") for row in claims if refusals.is_ours(row)]
        volumes = [self.cluster.get(f"/api/v1/persistentvolumes/{name}") or {} for name in names if name]
        return [
            f"PersistentVolume '{row['metadata']['name']}' stays with its data, since its class says 'Retain'."
            for row in volumes
            if (row.get("spec") or {}).get("persistentVolumeReclaimPolicy") == "Retain"
        ]


def mark(result: Mapping[str, Any]) -> str:
    """Whether a result is of a simulated GPU, said beside it."""
    return ", simulated" if result.get("simulated") else ""


def line(step: str, result: Mapping[str, Any], spent: str, found: Seen) -> str:
    """What a Job tells, in one line."""
    if step == TRAIN:
        loss = f"loss {result['loss_first']:.3g} to {result['loss_last']:.3g} in {result['steps']} steps"
        where = state_of(found.pod).node if found.pod else ""
        return f"{step}: on GPU {result['gpu']} of {where}, {loss}{mark(result)} ({spent})"
    return f"{step}: {result['rows']} rows with {result['columns']} columns ({spent})"


def prediction(answer: Mapping[str, Any], expected: float) -> str:
    """The same of an answer.

    Raises:
        GpusmithError: it is not what the data say.
    """
    try:
        (value,) = answer["outputs"]
        said = f"predict: {value:.2f} where the data say {expected:.2f}, on GPU {answer['gpu']}"
        trained = f", by the model that GPU {answer['trained_on']} trained{mark(answer)}"
    except (KeyError, TypeError, ValueError) as error:
        raise ToolError(f"The service answers with something else than a prediction: {answer}.") from error
    if not abs(value - expected) < CLOSE:
        raise GpusmithError(
            f"The model predicts {value:.2f} where the data say {expected:.2f}.",
            "Set 'gpu_pipeline_train_s' to more seconds.",
        )
    return said + trained


def monitored(pod: str, rows: Sequence[Mapping[str, Any]], uuid: str) -> str:
    """What Prometheus has of a pod.

    Raises:
        GpusmithError: it saw the pod on another GPU.
    """
    found = {str(row["metric"].get("UUID")): float(row["value"][1]) for row in rows}
    if uuid not in found:
        raise GpusmithError(
            f"Prometheus saw pod '{pod}' on GPU {quoted(found)}, and the pod computed on '{uuid}'.",
            "Look at the exporter of that node: pytest validation --tier monitoring",
        )
    return f"monitoring: Prometheus saw pod {pod} use GPU {uuid}, up to {found[uuid]:.0f} %"


def addresses(nodes: Iterable[Mapping[str, Any]]) -> list[str]:
    """By which nodes are reached."""
    rows = [row for node in nodes for row in (node.get("status") or {}).get("addresses") or []]
    return [str(row["address"]) for row in rows if row["type"] == "InternalIP"]
