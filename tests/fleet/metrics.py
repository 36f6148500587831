"""The metrics of a large cluster, for measurements: an exporter for each node and one kube-state-metrics, all in one process.

    python -m tests.fleet.metrics NODES PORT [SECONDS]

Each exporter has an address of its own on the loopback interface, as each pod has one: Prometheus keeps a connection to each.
SECONDS is how long a job holds its GPUs: then another pod has them, which makes new series.
"""

from __future__ import annotations

import asyncio
import functools
import random
import re
import resource
import sys
import time
from collections.abc import Callable, Iterator

from gpusmith.data.monitoring import counter_rows
from tests.fleet.site import GPUS, name_of

NODE, JOB = "@NODE@", "@JOB@"
STATE_METRICS = "127.0.0.1"
INTERVAL_S = 5
"""How long a value stays."""
SYSTEM_PODS = (
    "calico",
    "csi",
    "dcgm-exporter",
    "gpu-feature-discovery",
    "k8s-device-plugin",
    "kube-proxy",
    "nfd",
    "node-exporter",
)
LABELS = {
    "label_gpu_type": "h100-sxm",
    "label_gpusmith_io_gpus": str(GPUS),
    "label_gpusmith_io_operands": "enabled",
    "label_nvidia_com_gpu_product": "NVIDIA-H100-80GB-HBM3",
}
RESOURCES = ("cpu", "ephemeral_storage", "hugepages_1Gi", "hugepages_2Mi", "memory", "nvidia_com_gpu", "pods")
PHASES = ("Failed", "Pending", "Running", "Succeeded", "Unknown")
ABSENT = re.compile("RETIRED")
"""Counters that an H100 does not have."""
EVENTS = {"hw_thermal": 3, "power_cap": 9}
XIDS = {13: 1, 79: 1}

Series = tuple[str, str, int]
"""Metric, labels and value."""
Value = Callable[[random.Random, int], str]
VALUES: tuple[tuple[str, Value], ...] = (
    ("PROF_.*_ACTIVE$", lambda some, _: f"{some.random():.6f}"),
    ("PROF_.*_BYTES$", lambda some, _: str(some.randrange(10**9, 10**10))),
    ("SLOWDOWN_TEMP|MGMT_LIMIT|FB_RESERVED|MEM_CLOCK", lambda _some, _: "700"),
    ("_UTIL$|_TEMP$|SM_CLOCK", lambda some, _: str(some.randrange(20, 90))),
    ("FB_", lambda some, _: str(some.randrange(10_000, 80_000))),
    ("POWER_USAGE", lambda some, _: f"{some.uniform(300, 700):.3f}"),
    ("ENERGY|BANDWIDTH|VIOLATION|PCIE_REPLAY", lambda some, now: str(now * 700 + some.randrange(700))),
)  # fmt: skip
"""Values by what a counter's name has in it; of all others they are 0, as errors are."""


def address(node: int) -> str:
    """Of a node's exporter."""
    return f"127.{16 + node // 62500}.{node // 250 % 250}.{node % 250 + 1}"


def kind_of(node: int) -> str:
    """What a node does: six of eight have one job on all GPUs, one is shared, one is free; one of 250 is broken."""
    return "broken" if node % 250 == 100 else {3: "shared", 5: "free"}.get(node % 8, "whole")


def _pods(kind: str) -> list[tuple[str, str]]:
    """Namespace and name of the pod that has each GPU, if there is one."""
    if kind == "shared":
        return [(f"team-{gpu % 4}", f"use-{NODE}-{gpu}-{JOB}") for gpu in range(GPUS)]
    return [] if kind == "free" else [("team-0", f"train-{NODE}-{JOB}")] * GPUS


def _value(name: str, some: random.Random, now: int) -> str:
    return next((value(some, now) for pattern, value in VALUES if re.search(pattern, name)), "0")


def _gpu(kind: str, gpu: int) -> tuple[str, str]:
    """Labels of a GPU, and of the pod that has it."""
    pods = _pods(kind)
    uuid = f"GPU-0d0{NODE}-3c4d-5e6f-8a9b-00000000000{gpu}"
    labels = f'gpu="{gpu}",UUID="{uuid}",pci_bus_id="00000000:{gpu + 1}8:00.0",device="nvidia{gpu}"'
    labels += f',modelName="NVIDIA H100 80GB HBM3",Hostname="{NODE}"'
    return labels, ',container="main",namespace="{}",pod="{}"'.format(*pods[gpu]) if pods else ""


def _lines(name: str, kind: str, gpu: int, value: str) -> Iterator[str]:
    labels, held = _gpu(kind, gpu)
    broken = kind == "broken" and gpu == 0
    window = ',window_size_in_ms="300000"'
    if name == "DCGM_FI_DEV_XID_ERRORS":
        yield f'{name}{{{labels},err_code="{79 * broken}",err_msg="x"{held}}} {79 * broken}'
    elif name == "DCGM_EXP_XID_ERRORS_COUNT":
        for code, count in XIDS.items() if broken else ():
            yield f'{name}{{{labels}{window},xid="{code}"{held}}} {count}'
        if not broken:
            yield f"{name}{{{labels}{window}{held}}} 0"
    elif name == "DCGM_EXP_CLOCK_EVENTS_COUNT":
        for event, count in EVENTS.items() if broken else [("power_cap" if held else "gpu_idle", 5)]:
            yield f'{name}{{{labels},clock_event="{event}"{window}{held}}} {count}'
    else:
        yield f"{name}{{{labels}{held}}} {value}"


@functools.lru_cache(maxsize=8)
def page(kind: str, step: int) -> bytes:
    """What the exporters of such nodes say at a time, with marks for node and job."""
    some, rows = random.Random(f"{kind}{step}"), []
    for name, of_type, words in counter_rows():
        if not ABSENT.search(name):
            rows += [f"# HELP {name} {words}", f"# TYPE {name} {of_type}"]
            for gpu in range(GPUS):
                rows += _lines(name, kind, gpu, _value(name, some, step * INTERVAL_S % 10**6))
    return "\n".join([*rows, ""]).encode()


def _pod(namespace: str, name: str, gpus: int, node: str = NODE) -> Iterator[Series]:
    labels = f'namespace="{namespace}",pod="{name}",uid="0d3f8a52-7c1e-4b6a-9f00-{name[-12:]}"'
    for phase in PHASES:
        yield (
            "kube_pod_status_phase",
            f'{labels},phase="{phase}"',
            int(phase == ("Running" if node else "Pending")),
        )
    if not node:
        yield "kube_pod_status_unschedulable", labels, 1
    for word, unit, value in (
        ("cpu", "core", 2),
        ("memory", "byte", 2**31),
        ("nvidia_com_gpu", "integer", gpus),
    ):
        if value:
            of = f'{labels},container="main",node="{node}",resource="{word}",unit="{unit}"'
            yield "kube_pod_container_resource_requests", of, value


def _node(kind: str) -> Iterator[Series]:
    yield (
        "kube_node_labels",
        ",".join([f'node="{NODE}"', *(f'{key}="{text}"' for key, text in LABELS.items())]),
        1,
    )
    stamp = '{\\"at\\": \\"2026-01-01T00:00:00Z\\", \\"verdict\\": \\"passed\\"}'
    yield "kube_node_annotations", f'node="{NODE}",annotation_gpusmith_io_validated="{stamp}"', 1
    yield "kube_node_spec_taint", f'node="{NODE}",key="nvidia.com/gpu",value="present",effect="NoSchedule"', 1
    for family in ("capacity", "allocatable"):
        for word in RESOURCES:
            lost = kind == "broken" and family == "allocatable"
            yield f"kube_node_status_{family}", f'node="{NODE}",resource="{word}",unit="integer"', GPUS - lost
    for name in SYSTEM_PODS:
        yield from _pod("kube-system", f"{name}-{NODE}", 0)
    held = _pods(kind)
    for namespace, name in dict.fromkeys(held):
        yield from _pod(namespace, name, held.count((namespace, name)))
    # Jobs that wait for GPUs, one for each broken node.
    if kind == "broken":
        yield from _pod("team-0", f"waits-{NODE}", GPUS, node="")


@functools.cache
def _families(kind: str) -> dict[str, bytes]:
    """What kube-state-metrics says of such a node, by metric."""
    found: dict[str, list[str]] = {}
    for name, labels, value in _node(kind):
        found.setdefault(name, []).append(f"{name}{{{labels}}} {value}\n")
    return {name: "".join(rows).encode() for name, rows in found.items()}


def state_metrics(nodes: int, lasts: int, now: float) -> bytes:
    """What kube-state-metrics says of the cluster."""
    out = []
    for name in _families("broken"):
        out.append(f"# HELP {name} Of the cluster.\n# TYPE {name} gauge\n".encode())
        out += [
            filled(_families(kind_of(node)).get(name, b""), node, nodes, lasts, now) for node in range(nodes)
        ]
    return b"".join(out)


def filled(text: bytes, node: int, nodes: int, lasts: int, now: float) -> bytes:
    """A text with a node's name and its job of the time in the places of the marks."""
    # Jobs end one after another, not all at once.
    job = int(now / lasts + node / nodes)
    return text.replace(NODE.encode(), name_of(node).encode()).replace(JOB.encode(), str(job).encode())


class _Answer(asyncio.Protocol):
    """Answers requests of one connection; Prometheus sends each in one piece."""

    def __init__(self, say: Callable[[float], bytes]) -> None:
        self.say = say

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, _data: bytes) -> None:
        body = self.say(time.time())
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {len(body)}\r\n\r\n"
        self.transport.writelines([head.encode(), body])


async def serve(nodes: int, port: int, lasts: int) -> None:
    """Answer until the process is ended; says 'ready' when it does."""

    def exporter(node: int, now: float) -> bytes:
        return filled(page(kind_of(node), int(now) // INTERVAL_S), node, nodes, lasts, now)

    loop = asyncio.get_running_loop()
    sayers = {address(node): functools.partial(exporter, node) for node in range(nodes)}
    sayers[STATE_METRICS] = functools.partial(state_metrics, nodes, lasts)
    for host, say in sayers.items():
        await loop.create_server(functools.partial(_Answer, say), host, port)
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(
        serve(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 8 * 3600)
    )
