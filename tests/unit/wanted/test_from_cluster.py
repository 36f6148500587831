"""What a cluster tells of its GPU nodes takes the place of an inventory."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.cluster.api import ApiRefused
from gpusmith.cluster.kubeconfig import Access
from gpusmith.errors import InputError, ToolError
from gpusmith.wanted import from_cluster
from gpusmith.wanted.from_cluster import has_gpus, hosts

PRODUCT = "nvidia.com/gpu.product"


def node(name: str, offers: int | None, **labels: str) -> dict[str, Any]:
    written = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    capacity = {} if offers is None else {"nvidia.com/gpu": str(offers)}
    return {"metadata": {"name": name, "labels": written}, "status": {"capacity": capacity}}


@pytest.mark.parametrize(
    ("offers", "labels", "found"),
    [
        (8, {}, True),
        (None, {}, False),
        (0, {}, False),
        (None, {"nvidia.com/gpu.present": "true"}, True),
        (None, {"nvidia.com/gpu.present": "false"}, False),
        (None, {"feature.node.kubernetes.io/pci-10de.present": "true"}, True),
        (None, {"feature.node.kubernetes.io/pci-0302_10de.present": "true"}, True),
        (None, {"feature.node.kubernetes.io/pci-15b3.present": "true"}, False),
        # An audio function of a display adapter.
        (None, {"feature.node.kubernetes.io/pci-0403_10de.present": "true"}, False),
    ],
)
def test_a_gpu_node_is_one_that_offers_gpus_or_is_labelled_so(
    offers: int | None, labels: dict[str, str], found: bool
) -> None:
    made = node("n", offers)
    made["metadata"]["labels"] = labels
    assert has_gpus(made) is found


def test_parts_of_gpus_are_gpus() -> None:
    made = node("n", 0)
    made["status"]["capacity"]["nvidia.com/mig-1g.10gb"] = "7"
    assert has_gpus(made)


@pytest.mark.parametrize(
    ("nodes", "counts"),
    [
        ([node("a", 7, nvidia_com__gpu_count="8")], {"a": 8}),
        # Of one kind, what most of those offer that offer any.
        ([node("a", 8), node("b", 8), node("c", 7), *(node(name, None) for name in "def")], dict.fromkeys("abcdef", 8)),
        ([node("a", 8), node("b", 7)], {"a": 8, "b": 8}),
        (
            [node("a", 8, nvidia_com__gpu_product="X"), node("b", 4, nvidia_com__gpu_product="Y")],
            {"a": 8, "b": 4},
        ),
        ([node("a", None, nvidia_com__gpu_present="true")], {"a": 0}),
    ],
)  # fmt: skip
def test_how_many_gpus_a_node_should_have(nodes: list[dict[str, Any]], counts: dict[str, int]) -> None:
    assert {name: host.gpu_count for name, host in hosts(nodes).items()} == counts


@pytest.mark.parametrize(("status", "kind"), [(400, InputError), (403, ToolError)])
def test_a_selector_that_is_none_is_the_callers_fault(
    monkeypatch: pytest.MonkeyPatch, status: int, kind: type[Exception]
) -> None:
    class Api:
        host = "https://x"

        def __init__(self, _: Access) -> None:
            """The way to it does not matter."""

        def items(self, *_: Any, **query: str) -> Any:
            assert query == {"labelSelector": "a b"}
            raise ApiRefused("unable to parse", "", status)

    monkeypatch.setattr(from_cluster, "Cluster", Api)
    with pytest.raises(kind) as error:
        from_cluster.read(Access("/k"), "a b")
    assert ("'a b' cannot be used" in str(error.value)) is (status == 400)


def test_nothing_of_such_a_node_is_ours() -> None:
    made = node("n", 8, nvidia_com__gpu_product="NVIDIA-H100-80GB-HBM3", gpusmith_io__simulated="true")
    (host,) = hosts([made], "/k").values()
    assert not host.managed
    assert host.operands.ours == ()
    assert not any(
        host.manages(role)
        for role in ("nvidia_driver", "containerd", "nvidia_container_toolkit", "kubernetes_node")
    )
    assert (host.gpu_model, host.simulated, host.suite_kubeconfig) == ("h100-sxm", True, "/k")
