"""What the end-to-end tests do to the lab: run commands as a person would, and keep everything they printed."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from gpulab.processes import process_start

from gpusmith.wait import Deadline, Done, NotYet, wait_until
from gpusmith.wanted.offers import is_gpu

TAIL_LINES = 60
SITE_TIMEOUT_S = 900.0
SUITE_TIMEOUT_S = 900.0
UP_TIMEOUT_S = 2400.0  # a cold cache compiles Kubernetes
RECAP = re.compile(r"^(\S+)\s+: ((?:\w+=\d+\s*)+)$", re.MULTILINE)
NAMESPACE = "gpusmith-e2e"
ROCKY, UBUNTU = "gpu-3", "gpu-4"
"""Machines of a lab that has grown."""
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class PodSpec:
    """A pod that sleeps, with some GPUs."""

    name: str
    node: str
    gpus: int = 0
    runtime_class: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    priority_class: str = ""

    def manifest(self, image: str) -> dict[str, Any]:
        """As the API takes it."""
        container: dict[str, Any] = {
            "name": "main",
            "image": image,
            "command": ["python3", "-c", "import time; time.sleep(3600)"],
            "env": [{"name": key, "value": value} for key, value in self.env.items()],
        }
        if self.gpus:
            container["resources"] = {"limits": {"nvidia.com/gpu": self.gpus}}
        spec: dict[str, Any] = {
            "containers": [container],
            "nodeSelector": {"kubernetes.io/hostname": self.node},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
        }
        if self.runtime_class:
            spec["runtimeClassName"] = self.runtime_class
        if self.priority_class:
            spec["priorityClassName"] = self.priority_class
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name, "namespace": NAMESPACE},
            "spec": spec,
        }


PodStarter = Callable[..., list[str]]


@dataclass(frozen=True)
class Ended:
    """A command that ran to its end.

    Attributes:
        words: the command.
        status: exit status.
        output: standard output and error together, without colours.
        seconds: wall time.
        log: the file that keeps the output.
    """

    words: Sequence[str]
    status: int
    output: str
    seconds: float
    log: Path

    def __str__(self) -> str:
        tail = "\n".join(self.output.splitlines()[-TAIL_LINES:])
        return f"'{shlex.join(self.words)}' ended with {self.status} after {self.seconds:.0f} s, log '{self.log}':\n{tail}"

    def recap(self) -> dict[str, dict[str, int]]:
        """Ansible's counters per host."""
        return {
            host: {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", numbers)}
            for host, numbers in RECAP.findall(self.output)
        }


@dataclass
class Lab:
    """One lab, and the commands of the README."""

    root: Path
    logs: Path
    counter: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def inventory(self) -> Path:
        """What `gpulab up` writes."""
        return self.root / "inventory" / "lab"

    @property
    def grown_report(self) -> Path:
        """Where the reports of the run are kept that brought the machines of other distributions in."""
        return self.logs / "reports-grown"

    def program(self, name: str) -> str:
        """A program of the virtual environment."""
        return str(Path(sys.prefix) / "bin" / name)

    def start(self, *words: str, cwd: Path | None = None) -> tuple[subprocess.Popen[bytes], Path]:
        """Start a command in a process group of its own, its output in a log."""
        self.counter += 1
        self.logs.mkdir(parents=True, exist_ok=True)
        log = self.logs / f"{self.counter:03d}-{re.sub('[^a-z0-9-]+', '-', Path(words[0]).name)}.log"
        print(f"$ {shlex.join(words)}   > {log}", flush=True)
        path = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}"
        with log.open("wb") as out:
            process = subprocess.Popen(
                words,
                cwd=cwd or self.root,
                env={**os.environ, "PATH": path, "NO_COLOR": "1", "ANSIBLE_NOCOLOR": "1", **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return process, log

    def run(self, *words: str, timeout: float = 120.0, cwd: Path | None = None) -> Ended:
        """Run a command to its end, whatever its exit status.

        Raises:
            AssertionError: it took longer than `timeout` seconds; its process group is ended.
        """
        begin = time.monotonic()
        process, log = self.start(*words, cwd=cwd)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-TAIL_LINES:])
            raise AssertionError(f"'{shlex.join(words)}' took longer than {timeout:.0f} s:\n{tail}") from None
        except KeyboardInterrupt:
            # It has a session of its own, and would hold the lab that is about to be taken down.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        output = COLOURS.sub("", log.read_text(errors="replace"))
        return Ended(words, status, output, time.monotonic() - begin, log)

    def ok(self, *words: str, timeout: float = 120.0, cwd: Path | None = None) -> Ended:
        """Run a command that must succeed."""
        ended = self.run(*words, timeout=timeout, cwd=cwd)
        assert ended.status == 0, str(ended)
        return ended

    def kill_machine(self, name: str) -> None:
        """End every process of a machine and its monitor at once, as an out-of-memory kill or a killed session does."""
        words = ["podman", "container", "inspect", f"gpulab-{name}"]
        words += ["--format", "{{.State.ConmonPid}} {{.State.Pid}}"]
        monitor, first = (int(word) for word in self.ok(*words).output.split())
        # The monitor first: it must not see the end of its machine. The first process takes all others with it.
        for pid in (monitor, first):
            os.kill(pid, signal.SIGKILL)
        wait_until(
            f"the processes of '{name}' to end",
            lambda: NotYet("they live") if process_start(first) else Done(None),
            Deadline(30),
            tick=0.1,
        )

    # --- the commands ------------------------------------------------------------------------------------

    def gpulab(self, *words: str, timeout: float = 300.0) -> Ended:
        """A gpulab command that must succeed."""
        return self.ok(self.program("gpulab"), *words, timeout=timeout)

    def up(self, *words: str) -> Ended:
        """Start the lab, or find it started."""
        return self.gpulab("up", *words, timeout=UP_TIMEOUT_S)

    def site(self, *words: str, inventory: Path | None = None) -> Ended:
        """Run site.yml, whatever its exit status."""
        where = str(inventory or self.inventory)
        command = [self.program("ansible-playbook"), "-i", where, "site.yml", *words]
        return self.run(*command, timeout=SITE_TIMEOUT_S)

    def playbook(self, *words: str, inventory: Path | None = None) -> Ended:
        """Run any playbook, on the lab's inventory if no other is named, whatever its exit status."""
        command = [self.program("ansible-playbook"), "-i", str(inventory or self.inventory), *words]
        return self.run(*command, timeout=SITE_TIMEOUT_S)

    def site_ok(self, *words: str) -> Ended:
        """Run site.yml, which must succeed."""
        ended = self.site(*words)
        assert ended.status == 0, str(ended)
        return ended

    def validate(self, *words: str, inventory: Path | None = None, tests: str = "validation") -> Validation:
        """Run the product's suite; `tests` is the suite or one of its tiers."""
        reports = self.logs / f"reports-{self.counter + 1:03d}"
        options = ["--inventory", str(inventory or self.inventory), "--report-dir", str(reports)]
        ended = self.run(self.program("pytest"), tests, *options, *words, timeout=SUITE_TIMEOUT_S)
        results = reports / "results.json"
        return Validation(ended, json.loads(results.read_text()) if results.exists() else {}, reports)

    def validate_nodes(self, *words: str, inventory: Path | None = None) -> Validation:
        """Run the nodes tier, which takes seconds."""
        return self.validate(*words, inventory=inventory, tests="validation/nodes")

    # --- looking and poking ------------------------------------------------------------------------------

    def on(self, node: str, script: str, timeout: float = 60.0) -> str:
        """Output of a shell script on a machine, which must succeed."""
        ended = self.ok(
            self.program("gpulab"), "ssh", node, "--", f"sh -ec {shlex.quote(script)}", timeout=timeout
        )
        return ended.output.strip()

    def kubectl(self, *words: str, timeout: float = 60.0) -> str:
        """Output of kubectl, which must succeed."""
        return self.ok(self.program("gpulab"), "kubectl", *words, timeout=timeout).output.strip()

    def get(self, *words: str) -> Any:
        """Objects from the API."""
        return json.loads(self.kubectl("get", *words, "--output=json"))

    def prometheus(self, path: str) -> Any:
        """What the Prometheus of role gpu_monitoring answers, asked through the API server."""
        service = "/api/v1/namespaces/gpusmith-monitoring/services/http:prometheus:9090/proxy/api/v1"
        answer = json.loads(self.kubectl("get", "--raw", f"{service}/{path}"))
        assert answer["status"] == "success", answer
        return answer["data"]

    def apply(self, *manifests: Mapping[str, Any]) -> None:
        """Create objects through standard input, as the command's help says."""
        words = [self.program("gpulab"), "kubectl", "apply", "-f", "-"]
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        subprocess.run(words, input=text, cwd=self.root, check=True, text=True, timeout=60)

    def may(self, account: str, words: str) -> bool:
        """Whether a service account, in a namespace of its own name, may do something in every namespace."""
        who = f"--as=system:serviceaccount:{account}:{account}"
        command = [
            self.program("gpulab"),
            "kubectl",
            "auth",
            "can-i",
            *words.split(),
            "--all-namespaces",
            who,
        ]
        ended = self.run(*command)
        answer = (ended.output.split() or [""])[-1]
        assert answer in ("yes", "no"), str(ended)
        return answer == "yes"

    def status(self) -> Any:
        """`gpulab status --json`."""
        return json.loads(self.gpulab("status", "--json").output)

    def gpu_nodes(self) -> list[str]:
        """Names of the machines with GPUs."""
        return [node["name"] for node in self.status()["nodes"] if node["role"] == "gpu"]

    def allocatable(self) -> dict[str, int]:
        """GPUs that the scheduler may give away, per node."""
        return {
            node["metadata"]["name"]: int(node["status"].get("allocatable", {}).get("nvidia.com/gpu", 0))
            for node in self.get("nodes")["items"]
        }

    def boots(self) -> dict[str, str]:
        """Which boot of itself each node told the cluster last."""
        return {
            node["metadata"]["name"]: node["status"]["nodeInfo"]["bootID"]
            for node in self.get("nodes")["items"]
        }

    def wait_allocatable(
        self, expected: Mapping[str, int], seconds: float, rebooted_since: Mapping[str, str] | None = None
    ) -> None:
        """Wait until all nodes are Ready and offer that many GPUs, or parts of GPUs.

        Args:
            expected: how many per node.
            seconds: to wait at the most.
            rebooted_since: boots that are over: what a node told in one of them is old.
        """
        old = set((rebooted_since or {}).values())

        def look() -> Done[None] | NotYet:
            ended = self.run(self.program("gpulab"), "kubectl", "get", "nodes", "--output=json", timeout=60)
            if ended.status != 0:
                return NotYet("the API does not answer")
            seen = {}
            for node in json.loads(ended.output)["items"]:
                conditions = {
                    entry["type"]: entry["status"] for entry in node["status"].get("conditions", [])
                }
                offered = node["status"].get("allocatable", {})
                gpus = sum(int(count) for resource, count in offered.items() if is_gpu(resource))
                fresh = node["status"]["nodeInfo"]["bootID"] not in old
                seen[node["metadata"]["name"]] = gpus if fresh and conditions.get("Ready") == "True" else -1
            good = all(seen.get(name) == gpus for name, gpus in expected.items())
            return (
                Done(None)
                if good
                else NotYet(f"GPUs per Ready node (-1: not Ready, or not since its reboot): {seen}")
            )

        wait_until(f"{dict(expected)} allocatable GPUs", look, Deadline(seconds), tick=2.0)

    def started(self, node: str, *units: str) -> dict[str, int]:
        """When services were started, in microseconds of the clock that all machines of a lab share."""
        script = f"systemctl show --value --property=ExecMainStartTimestampMonotonic {' '.join(units)}"
        return dict(zip(units, map(int, self.on(node, script).split()), strict=True))

    def containers(self) -> dict[str, list[tuple[str, int]]]:
        """Containers and their restarts by pod of the tests."""
        return {
            pod["metadata"]["name"]: [
                (status["containerID"], status["restartCount"])
                for status in pod["status"].get("containerStatuses", [])
            ]
            for pod in self.get("pods", f"--namespace={NAMESPACE}")["items"]
        }

    def service_starts(self, node: str) -> str:
        """When each service that matters was started, and as which process; equal text means no restart."""
        units = "containerd kubelet nvidia-persistenced nvidia-fabricmanager ssh"
        return self.on(node, f"systemctl show --property=Id,MainPID,ExecMainStartTimestampMonotonic {units}")

    def kubeconfig_of(self, account: str, folder: Path) -> Path:
        """A kubeconfig in a folder with nothing but the token of a service account, whose namespace has its name."""
        token = self.kubectl("--namespace", account, "create", "token", account)
        settings = yaml.safe_load((self.inventory / "kubeconfig").read_text())
        settings["users"] = [{"name": row["name"], "user": {"token": token}} for row in settings["users"]]
        path = folder / "kubeconfig"
        path.touch(0o600)
        path.write_text(yaml.safe_dump(settings))
        return path

    def copy_inventory(self, target: Path) -> Path:
        """A copy of the lab's inventory to spoil; its paths to keys and kubeconfig are absolute."""
        for source in sorted(self.inventory.rglob("*.yml")):
            copy = target / source.relative_to(self.inventory)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(source.read_text())
        return target


@dataclass(frozen=True)
class Validation:
    """A run of the suite.

    Attributes:
        ended: the command.
        results: content of results.json; empty if none was written.
        reports: folder of the reports.
    """

    ended: Ended
    results: Mapping[str, Any]
    reports: Path

    def failed(self) -> list[Mapping[str, Any]]:
        """Checks that failed."""
        return [check for check in self.results.get("checks", []) if check["outcome"] == "failed"]

    def causes(self, node: str) -> str:
        """What failed checks say about a node, in one text."""
        return "\n".join(
            check["cause"] for check in self.failed() if node in (check["target"], *check["cause"].split("'"))
        )

    def assert_passed(self) -> None:
        """Everything passed, and something was tested."""
        assert self.ended.status == 0, str(self.ended)
        assert self.results["summary"]["failed"] == 0
        assert self.results["summary"]["error"] == 0
        assert self.results["summary"]["passed"] > 0
