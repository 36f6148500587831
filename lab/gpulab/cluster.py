"""The lab's existing cluster: a control plane made with kubeadm, to which site.yml later joins GPU nodes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpulab.inventory import socket_folder
from gpulab.machines import Machine, Machinery
from gpulab.processes import process_start
from gpulab.progress import say
from gpulab.state import Places, forget_child, remember_child
from gpusmith.errors import ToolError
from gpusmith.names import OPERANDS_NAMESPACE
from gpusmith.wait import Deadline, Done, NotYet, wait_until

KUBECONFIG = "/etc/kubernetes/admin.conf"
OPERANDS = f"--namespace={OPERANDS_NAMESPACE}"
READY_S = 180.0
LAST_LINES = 40
TASK = re.compile(r"^TASK \[(.+?)\] \**$")


def run_playbook(places: Places, extra_vars: Mapping[str, Any]) -> None:
    """Run lab/playbooks/cluster.yml on the lab, with its output in a log and its task names on the terminal.

    Raises:
        ToolError: it failed; names the log and shows its end.
    """
    log = places.logs / "cluster.log"
    # Not `sys.executable`'s real path: the environment is where the link lies.
    program = str(Path(sys.executable).parent / "ansible-playbook")
    words = [
        program,
        *("-i", str(places.inventory)),
        *("--extra-vars", json.dumps(dict(extra_vars))),
        str(places.repo / "lab" / "playbooks" / "cluster.yml"),
    ]
    env = {
        **os.environ,
        "ANSIBLE_NOCOLOR": "1",
        "PYTHONUNBUFFERED": "1",
        "ANSIBLE_CONFIG": str(places.repo / "ansible.cfg"),
    }
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as out:
        out.write(f"$ {shlex.join(words)}\n")
        out.flush()
        try:
            child = subprocess.Popen(
                words,
                cwd=places.repo,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise ToolError(f"Program '{program}' is not installed.", "Run 'make setup'.") from error
        # A killed `up` cannot end its playbook; the next one can, by this note.
        remember_child(places, child.pid)
        # What the last task said, without the statistics that follow it.
        said: list[str] = []
        ended = False
        try:
            assert child.stdout is not None
            for line in child.stdout:
                out.write(line)
                out.flush()
                found = TASK.match(line)
                if found:
                    say(f"    - {found.group(1)}")
                    said = []
                elif line.startswith("PLAY RECAP"):
                    ended = True
                elif not ended:
                    said.append(line.rstrip())
            status = child.wait()
        except BaseException:
            if process_start(child.pid):
                os.killpg(child.pid, signal.SIGTERM)
                child.wait()
            raise
        finally:
            forget_child(places)
    if status != 0:
        tail = "\n".join(said[-LAST_LINES:]).strip()
        raise ToolError(
            f"The lab's cluster could not be made; the log is '{log}', whose last task said:\n{tail}\n",
            "Run 'gpulab up' again, or 'gpulab down' first.",
        )


def kubectl(machinery: Machinery, control_plane: Machine, *arguments: str, timeout: float = 30) -> Any:
    """Ask the API server on cp-1 itself; returns the parsed JSON answer.

    Raises:
        ToolError: no answer.
    """
    words = ["kubectl", f"--kubeconfig={KUBECONFIG}", "--request-timeout=10s", *arguments, "--output=json"]
    return json.loads(machinery.podman.exec(control_plane.container, words, timeout=timeout).stdout)


def forget_node(machinery: Machinery, control_plane: Machine, name: str) -> None:
    """Delete a Node object, if there is one."""
    words = [
        "kubectl",
        f"--kubeconfig={KUBECONFIG}",
        "delete",
        "node",
        name,
        "--ignore-not-found",
        "--timeout=30s",
    ]
    machinery.podman.exec(control_plane.container, words, quiet=False)


def renew_operands(machinery: Machinery, control_plane: Machine, name: str) -> None:
    """Delete the operands' pods of one node; their DaemonSets make new ones, which wait for no back-off."""
    words = ["kubectl", f"--kubeconfig={KUBECONFIG}", OPERANDS, "delete", "pod"]
    words += [f"--field-selector=spec.nodeName={name}", "--ignore-not-found", "--wait=true", "--timeout=60s"]
    machinery.podman.exec(control_plane.container, words, timeout=90, quiet=False)


def wait_gpus(machinery: Machinery, control_plane: Machine, name: str, gpus: int, deadline: Deadline) -> None:
    """Wait until a node is Ready and offers its GPUs to the scheduler.

    Raises:
        WaitTimeout: it does not; says what was seen last.
    """

    def look() -> Done[None] | NotYet:
        try:
            node = kubectl(machinery, control_plane, "get", "node", name)
            pods = kubectl(
                machinery, control_plane, "get", "pods", OPERANDS, f"--field-selector=spec.nodeName={name}"
            )
        except (ToolError, ValueError):
            return NotYet("the API does not answer")
        offered = int(node["status"].get("allocatable", {}).get("nvidia.com/gpu", 0))
        # What the kubelet offers lags behind its device plugin: a plugin that is only starting proves nothing.
        waiting = [pod["metadata"]["name"] for pod in pods["items"] if _condition(pod) != "Ready"]
        seen = f"{_condition(node)} with {offered} of {gpus} GPUs, pods not Ready: {', '.join(waiting) or 'none'}"
        done = _condition(node) == "Ready" and offered == gpus and pods["items"] and not waiting
        return Done(None) if done else NotYet(seen)

    wait_until(f"node '{name}' to offer its GPUs", look, deadline)


def node_conditions(machinery: Machinery, control_plane: Machine) -> dict[str, str] | None:
    """Ready, NotReady or Unknown for each node of the cluster; None if the API does not answer."""
    try:
        listed = kubectl(machinery, control_plane, "get", "nodes")
    except (ToolError, ValueError):
        return None
    return {item["metadata"]["name"]: _condition(item) for item in listed["items"]}


def _condition(item: Mapping[str, Any]) -> str:
    """What the condition Ready of a node or pod says."""
    for condition in item["status"].get("conditions", []):
        if condition["type"] == "Ready":
            return {"True": "Ready", "False": "NotReady"}.get(condition["status"], "Unknown")
    return "Unknown"


def api_ready(address: str, timeout_s: float = 3.0) -> bool:
    """Whether the API server answers its readiness question; it is asked without credentials."""
    # Only whether it answers is asked; nothing is sent, and nothing it says is believed.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with urllib.request.urlopen(
            f"https://{address}:6443/readyz", timeout=timeout_s, context=context
        ) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError, ValueError):
        return False


def wait_ready(
    machinery: Machinery, control_plane: Machine, names: list[str], seconds: float = READY_S
) -> None:
    """Wait until these nodes are Ready in the API.

    Raises:
        WaitTimeout: names what was seen last.
    """

    def check() -> Done[None] | NotYet:
        if not api_ready(control_plane.address):
            return NotYet(f"no answer from the API server at '{control_plane.address}:6443'")
        seen = node_conditions(machinery, control_plane) or {}
        waiting = [
            f"'{name}' {seen.get(name, 'not registered')}" for name in names if seen.get(name) != "Ready"
        ]
        return NotYet(", ".join(waiting)) if waiting else Done(None)

    wait_until("the cluster's nodes to be Ready", check, Deadline(seconds), tick=1.0)


def close_connections(places: Places) -> None:
    """End the shared ssh connections that Ansible keeps open to the lab's machines."""
    folder = socket_folder(places)
    if folder is None or not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.is_socket():
            # A connection that hangs must not keep the machines from being removed: it ends with them.
            with contextlib.suppress(subprocess.TimeoutExpired, OSError):
                subprocess.run(
                    ["ssh", "-O", "exit", "-o", f"ControlPath={path}", "lab"],
                    capture_output=True,
                    check=False,
                    timeout=10,
                )
            path.unlink(missing_ok=True)
