"""Machines are compared, and nodes are claimed, in one task of a play that has not changed anything yet."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.cluster import claims
from gpusmith.cluster.claims import Claim
from gpusmith.names import UPGRADE
from gpusmith.owner import process
from gpusmith.paths import repo_root
from tests.integration.plugins.plays import Api, kubeconfig, play, serving
from tests.unit.ledgers import ledger
from tests.unit.objects import node
from tests.unit.records import healthy_record, other_record

BOOK = "/api/v1/namespaces/kube-system/configmaps/gpusmith-runs"


@pytest.fixture
def api() -> Iterator[Api]:
    one, two = node(spec__unschedulable=True), node()
    two["metadata"]["name"] = "gpu-2"
    two["status"]["nodeInfo"] = {"machineID": "other", "bootID": "other"}
    with serving({"gpu-1": one, "gpu-2": two}) as made:
        yield made


def run(
    folder: Path,
    api: Api,
    hosts: dict[str, Any],
    *words: str,
    more: tuple[dict[str, Any], ...] = (),
    bad_host: str = "refuse_all",
) -> str:
    """Output of a play that claims the nodes as role preflight does, does more, then says that it goes on."""
    rows = {
        name: {"node_record_now": {"record": record}, "__preflight_answer": {"refusals": []}}
        for name, record in hosts.items()
    }
    values = {"gpusmith_kubeconfig": kubeconfig(folder, api), "gpusmith_bad_host": bad_host}
    tasks = [
        *yaml.safe_load((repo_root() / "roles/preflight/tasks/report.yml").read_text()),
        *more,
        {"ansible.builtin.debug": {"msg": "it goes on"}},
    ]
    status, output = play(folder, rows, {"vars": values, "tasks": tasks}, *words)
    output = " ".join(output.split())
    assert "Traceback" not in output, output
    assert (status == 0) == ("it goes on" in output and bad_host == "refuse_all"), output
    return output


def test_swapped_addresses_refuse_the_run(tmp_path: Path, api: Api) -> None:
    output = run(tmp_path, api, {"gpu-1": other_record(), "gpu-2": healthy_record()})
    assert "it goes on" not in output
    for name, other in (("gpu-1", "gpu-2"), ("gpu-2", "gpu-1")):
        assert (
            f"{name} | Node '{name}': the machine at its address '{name}' is node '{other}' of the cluster"
            in output
        )
    assert "Nothing was changed." in output
    assert api.changes == []


def test_a_run_claims_its_nodes_and_gives_them_back(tmp_path: Path, api: Api) -> None:
    output = run(tmp_path, api, {"gpu-1": healthy_record(), "gpu-2": other_record()}, "-v")
    assert "it goes on" in output
    assert re.search(r"cordoned:? .*gpu-1", output)
    mine = claims.read(api.claims[0])
    assert mine is not None
    assert (mine.what, mine.nodes) == ("play.json", {"gpu-1": "m", "gpu-2": "other"})
    assert mine.leader.pid != os.getpid()
    for _ in range(100):
        if not api.data:
            break
        threading.Event().wait(0.1)
    assert api.data == {}


@pytest.mark.parametrize("words", [(), ("--check",)], ids=["run", "check"])
def test_the_second_run_is_refused_and_a_check_is_not(
    tmp_path: Path, api: Api, words: tuple[str, ...]
) -> None:
    rival = Claim("a", "site.yml", "ann@ctl", "2026-11-22T09:00:00Z", process(), process(), {"gpu-2": ""})
    api.data = {"a": claims.written(rival)}
    output = run(tmp_path, api, {"gpu-1": healthy_record(), "gpu-2": other_record()}, *words)
    refused = (
        f"Node 'gpu-2' is worked on by another run: 'site.yml' of ann@ctl (process {os.getpid()}), since 2026"
    )
    assert (refused in output) is (not words)
    assert api.changes == []


def test_a_node_without_a_claim_is_not_emptied(tmp_path: Path, api: Api) -> None:
    name = {"kubeconfig": str(tmp_path / "kubeconfig"), "name": "gpu-9", "state": "empty"}
    output = run(tmp_path, api, {"gpu-1": healthy_record()}, more=({"gpusmith.gpu.node_removal": name},))
    assert "This run has no claim on node 'gpu-9' any more" in output
    assert len(api.changes) == 1, "only the claim itself"


@pytest.mark.parametrize("policy", ["refuse_all", "exclude_host"])
def test_a_node_in_an_upgrade_is_left_alone(tmp_path: Path, api: Api, policy: str) -> None:
    api.nodes["gpu-2"]["metadata"]["annotations"] = {UPGRADE: ledger()}
    api.nodes["gpu-2"]["spec"]["unschedulable"] = True
    output = run(tmp_path, api, {"gpu-1": healthy_record(), "gpu-2": other_record()}, bad_host=policy)
    assert (
        "gpu-2 | Node 'gpu-2': its driver upgrade from 580.178.04 to 580.200.01 is 'admitted' since" in output
    )
    assert "kubectl annotate node gpu-2 gpusmith.io/driver-upgrade-" in output
    assert "kubectl uncordon gpu-2" not in output
    alone = policy == "exclude_host"
    assert "gpu-2: it goes on" not in output
    assert ("gpu-1: it goes on" in output) is alone
    assert ("The other hosts go on." in output, "Nothing was changed." in output) == (alone, not alone)
    claimed = [claims.read(text) for text in api.claims[:1]]
    assert [set(row.nodes) for row in claimed if row] == ([{"gpu-1"}] if alone else [])
