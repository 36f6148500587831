"""site.yml: from bare machines to validated nodes, in parts, after a kill, and again."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from tests.e2e.harness import Ended, Lab

STARTUP_TAINT = "gpusmith.io/unvalidated"


@pytest.fixture(scope="module", autouse=True)
def bare_nodes(bare_lab: Lab) -> None:
    """These tests are one story that begins with bare machines."""
    joined = [node["metadata"]["name"] for node in bare_lab.get("nodes")["items"]]
    if set(joined) & set(bare_lab.gpu_nodes()):
        pytest.skip("the nodes are not bare any more (E2E_KEEP_LAB)")


@dataclass(frozen=True)
class Foretold:
    """What check mode said on bare machines, and the packages that they had."""

    ended: Ended
    packages: Mapping[str, frozenset[str]]

    def items(self, kind: str) -> frozenset[str]:
        """Of all roles, from the lines of the nodes, or of the cluster."""
        lines = re.findall(rf"(?m)^ +(?:{kind}): (.+)$", self.ended.output)
        return frozenset(item for line in lines for item in line.split(", "))


def packages(lab: Lab, node: str) -> frozenset[str]:
    """Names with versions, as check mode tells them."""
    return frozenset(lab.on(node, "dpkg-query --show --showformat '${Package} ${Version}\n'").splitlines())


@pytest.fixture(scope="module")
def foretold(bare_lab: Lab, bare_nodes: None) -> Foretold:
    before = {node: packages(bare_lab, node) for node in bare_lab.gpu_nodes()}
    return Foretold(bare_lab.site("--check"), before)


def test_check_mode_on_bare_machines(bare_lab: Lab, foretold: Foretold) -> None:
    ended = foretold.ended
    assert ended.status == 0, str(ended)
    assert bare_lab.on("gpu-1", "command -v containerd kubelet || echo nothing") == "nothing"
    for told in (
        "\ngpu-1, gpu-2:\n",
        "packages: containerd.io 2.3.7",
        "/etc/containerd/conf.d/60-gpusmith-nvidia.toml",
        "units: gpusmith-nvidia-load.service, nvidia-persistenced.service, nvidia-fabricmanager.service",
        "gpu-type=h100-sxm",
        "taints: gpusmith.io/unvalidated:NoSchedule, until the node is validated, nvidia.com/gpu=present:NoSchedule",
        "more: joins the cluster",
        "only a run can tell: whether kubeadm's own checks let the machine join",
        "2 hosts would change.",
    ):
        assert told in ended.output, str(ended)


def test_killed_in_the_driver_role(bare_lab: Lab) -> None:
    """With what installs packages on the machine, as by a loss of power; the next test goes on from there."""
    process, _log = bare_lab.start(
        bare_lab.program("ansible-playbook"), "-i", str(bare_lab.inventory), "site.yml", "-l", "gpu-1"
    )
    half = "dpkg --audit | grep -q nvidia"
    kill = f"until {half}; do sleep 0.05; done; pkill -9 -x dpkg; pkill -9 -x apt-get; sleep 0.5; {half}"
    bare_lab.on("gpu-1", kill, timeout=300)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_bare_machines_become_nodes(bare_lab: Lab) -> None:
    # Large machines are slow; the roles wait. Packages that a killed run left half installed are no foreign driver.
    bare_lab.gpulab("delay", "gpu-1", "--module-load", "5", "--fabric", "10")
    bare_lab.site_ok()
    bare_lab.gpulab("delay", "gpu-1", "--module-load", "0", "--fabric", "1")
    bare_lab.wait_allocatable({"gpu-1": 4, "gpu-2": 4}, 60)


def test_what_check_mode_foretold_is_what_came(bare_lab: Lab, foretold: Foretold) -> None:
    files, names = foretold.items("files"), re.compile(r"(\w+) '(?:([^/']+)/)?([^']+)'")
    ours = r"find /etc -type f -name '*gpusmith*'; grep -rl '^# Written by gpusmith' /etc"
    for node in bare_lab.gpu_nodes():
        # Simulated machines have a kernel of nobody's, so that preflight does not look for its headers.
        new = packages(bare_lab, node) - foretold.packages[node]
        came = {name for name in new if not name.startswith("linux-headers-")}
        assert came == foretold.items("packages|packages that come along")
        # Whether the package's file is completed, and so kept as it was, only a run can tell.
        root = "/etc/containerd/config.toml"
        assert set(bare_lab.on(node, ours).splitlines()) - {root, f"{root}.before-gpusmith"} <= files
        units = shlex.join(foretold.items("units"))
        looks = f"for path in {shlex.join(files)}; do test -f $path || echo $path; done"
        looks += f"; for unit in {units}; do systemctl -q is-active $unit && systemctl -q is-enabled $unit || echo $unit; done"
        assert (bool(files), bool(units), bare_lab.on(node, looks)) == (True, True, "")
        labels = bare_lab.get("node", node)["metadata"]["labels"]
        assert foretold.items("labels") <= {f"{key}={value}" for key, value in labels.items()}
    objects = [names.fullmatch(item) for item in foretold.items("objects")]
    for namespace in ("", "gpusmith-system"):
        there = [f"{found[1]}/{found[3]}" for found in objects if found and (found[2] or "") == namespace]
        assert there
        bare_lab.kubectl("get", *there, *([f"--namespace={namespace}"] if namespace else []))


def test_nodes_are_labelled_stamped_and_open(bare_lab: Lab) -> None:
    for node in bare_lab.get("nodes")["items"]:
        name, labels = node["metadata"]["name"], node["metadata"]["labels"]
        if name == "cp-1":
            continue
        taints = {taint["key"] for taint in node["spec"].get("taints", [])}
        assert taints == {"nvidia.com/gpu"}, f"'{name}' should have lost {STARTUP_TAINT} and kept its own"
        assert labels["gpu-type"] == "h100-sxm"
        assert labels["gpusmith.io/operands"] == "enabled"
        assert labels["gpusmith.io/simulated"] == "true"
        assert labels["nvidia.com/gpu.count"] == labels["gpusmith.io/gpus"] == "4"
        stamp = json.loads(node["metadata"]["annotations"]["gpusmith.io/validated"])
        assert stamp["driver"] == "580.178.04"
        assert stamp["simulated"] is True


def test_a_registry_that_left_the_inventory_leaves_the_node(bare_lab: Lab) -> None:
    left, theirs = (f"/etc/containerd/certs.d/{host}/hosts.toml" for host in ("left:5000", "theirs:5000"))
    bare_lab.on(
        "gpu-1", f"mkdir -p $(dirname {left} {theirs}); echo '# Written by gpusmith.' > {left}; : > {theirs}"
    )
    before = bare_lab.service_starts("gpu-1")
    ended = bare_lab.site_ok("-l", "gpu-1")
    assert ended.recap()["gpu-1"]["changed"] == 1, str(ended)
    assert bare_lab.on("gpu-1", f"ls -d $(dirname {left}) {theirs} 2>/dev/null || true") == theirs
    assert bare_lab.service_starts("gpu-1") == before
    bare_lab.on("gpu-1", f"rm -r $(dirname {theirs})")


def test_second_run_changes_nothing(bare_lab: Lab) -> None:
    nodes = bare_lab.gpu_nodes()
    before = {name: bare_lab.service_starts(name) for name in nodes}
    ended = bare_lab.site_ok()
    recap = ended.recap()
    assert set(nodes) <= set(recap), str(ended)
    assert {host: numbers["changed"] for host, numbers in recap.items() if numbers["changed"]} == {}, str(
        ended
    )
    assert {name: bare_lab.service_starts(name) for name in nodes} == before
    assert re.search(r"\nNothing to do on 2 hosts: gpu-1, gpu-2 \(\d+ s\)\.\n$", ended.output), str(ended)
    assert "WARNING" not in ended.output
    checked = bare_lab.site_ok("--check").output
    assert re.search(r"\nNothing would change on 2 hosts: gpu-1, gpu-2 \(\d+ s\)\.\n$", checked), checked
    # How long it may take is measured by scripts/bench-second-run, on a machine that does nothing else.
    print(f"second run: {ended.seconds:.1f} s")


def test_driver_of_a_joined_node_is_never_changed(bare_lab: Lab) -> None:
    inventory = bare_lab.copy_inventory(bare_lab.logs / "other-driver")
    values = inventory / "group_vars" / "gpu_nodes.yml"
    text = values.read_text()
    values.write_text(
        re.sub(r"^nvidia_driver_version:.*$", 'nvidia_driver_version: "580.95.05"', text, flags=re.MULTILINE)
    )
    before = bare_lab.on("gpu-1", "cat /sys/module/nvidia/version")
    ended = bare_lab.site(inventory=inventory)
    assert ended.status != 0
    # The inventory's is the older one.
    assert "playbooks/rollback_driver.yml" in ended.output
    # The entry by which images are baked refuses the same.
    playbook = bare_lab.logs / "install_driver.yml"
    role = {"name": "gpusmith.gpu.nvidia_driver", "tasks_from": "install"}
    tasks = [{"name": "Install", "ansible.builtin.import_role": role}]
    playbook.write_text(
        json.dumps([{"hosts": "gpu-1", "gather_facts": True, "gather_subset": ["min"], "tasks": tasks}])
    )
    ended = bare_lab.run(bare_lab.program("ansible-playbook"), "-i", str(inventory), str(playbook))
    assert ended.status != 0
    assert "Nothing was changed" in ended.output
    assert ended.recap()["gpu-1"]["changed"] == 0
    assert bare_lab.on("gpu-1", "cat /sys/module/nvidia/version") == before
