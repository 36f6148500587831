"""Wrong input: a clear error that names the thing, and never a pass."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from gpusmith.wait import Deadline, Done, NotYet, wait_until
from tests.e2e.harness import Lab

NO_INVENTORY = 4


def edit(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text()))


def set_line(name: str, line: str) -> Callable[[str], str]:
    """Replaces the line of a variable, or adds one."""

    def change(text: str) -> str:
        replaced, count = re.subn(rf"^{name}:.*$", line, text, flags=re.MULTILINE)
        return replaced if count else f"{text}\n{line}\n"

    return change


# --- site.yml --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refused:
    """A spoilt inventory or command line, and what the errors must name.

    Attributes:
        words: arguments.
        edits: file, variable, and the line that it gets.
        says: patterns, each of which must be found.
    """

    words: tuple[str, ...] = ()
    edits: tuple[tuple[str, str, str], ...] = ()
    says: tuple[str, ...] = ()


GPUS, ALL = "group_vars/gpu_nodes.yml", "group_vars/all.yml"
DAMAGED = {
    "uris": ["http://depot.invalid/"],
    "suites": ["./"],
    "key": "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nabc\n-----END PGP PUBLIC KEY BLOCK-----",
}
# What is found at the same moment is told at the same moment, so that one run shows it.
REFUSALS = {
    "limit-control-plane": Refused(words=("-l", "cp-1"), says=("cp-1|GPU nodes|gpu_nodes",)),
    "variables": Refused(
        words=(
            *("-e", "wrong_variable=1"),
            *("-e", '{"kubernetes_node_kubelet_config": {"maxPods": "many", "maxPodz": 20}}'),
        ),
        edits=(
            (GPUS, "nvidia_driver_verison", 'nvidia_driver_verison: "580.178.04"'),
            (GPUS, "nvidia_driver_version", "nvidia_driver_version: 550.120"),
            (GPUS, "gpusmith_gpu_model", "gpusmith_gpu_model: h100-sxn"),
            (GPUS, "containerd_repository", f"containerd_repository: {json.dumps(DAMAGED)}"),
            (ALL, "kubernetes_node_token_host", "kubernetes_node_token_host: cp-9"),
            (ALL, "gpusmith_kubeconfig", "gpusmith_kubeconfig: /nonexistent/kubeconfig"),
        ),
        says=(
            "'h100-sxn'.*\n?.*'h100-sxm'",
            r"'containerd': The\s+armored\s+public\s+key\s+is\s+damaged",
            "/nonexistent/kubeconfig",
            "'kubernetes_node_token_host' names 'cp-9'.*\n?.*'cp-1'",
            "'wrong_variable'",
            "'nvidia_driver_verison'.*\n?.*'nvidia_driver_version'",
            "nvidia_driver_version.*(quotes|string)",
            "'kubernetes_node_kubelet_config.maxPods' must be",
            "'maxPodz'",
        ),
    ),
    "no-such-version": Refused(
        edits=(
            (GPUS, "nvidia_driver_version", 'nvidia_driver_version: "999.11.22"'),
            (GPUS, "nvidia_container_toolkit_version", 'nvidia_container_toolkit_version: "1.19.0"'),
        ),
        says=("999.11.22", "ordering cycle"),
    ),
}


@pytest.mark.parametrize("case", REFUSALS.values(), ids=REFUSALS.keys())
def test_site_refuses(ready_lab: Lab, spoilt: Path, case: Refused) -> None:
    for file, name, line in case.edits:
        edit(spoilt / file, set_line(name, line))
    before = {name: ready_lab.service_starts(name) for name in ready_lab.gpu_nodes()}
    ended = ready_lab.site(*case.words, inventory=spoilt)
    assert ended.status != 0, str(ended)
    for pattern in case.says:
        assert re.search(pattern, ended.output), f"nothing says {pattern}: {ended}"
    assert "Traceback" not in ended.output
    assert not any(numbers["changed"] for numbers in ended.recap().values()), str(ended)
    assert {name: ready_lab.service_starts(name) for name in before} == before


def test_a_plugin_whose_gpus_would_not_reach_containers_is_refused(ready_lab: Lab, spoilt: Path) -> None:
    edit(spoilt / GPUS, set_line("gpu_operands_device_plugin", "gpu_operands_device_plugin: existing"))
    labels = {"app": "their-device-plugin"}
    # NVIDIA's default; it runs nowhere.
    container = {"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"}
    folder = {"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
    spec = {"containers": [container], "volumes": [folder], "nodeSelector": {"nowhere": "true"}}
    ready_lab.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "their-device-plugin", "namespace": "kube-system"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
    )
    try:
        ended = ready_lab.site(inventory=spoilt)
    finally:
        ready_lab.kubectl("-n", "kube-system", "delete", "daemonset", "their-device-plugin")
    assert ended.status != 0, str(ended)
    assert "kube-system/their-device-plugin" in ended.output
    assert "'envvar'" in ended.output.replace("''", "'")
    assert not any(numbers["changed"] for numbers in ended.recap().values()), str(ended)


PLUGIN = "gpu_operands_device_plugin"
DISAGREE = f"'{PLUGIN}' holds for the whole cluster, and its GPU hosts disagree"


def operands(lab: Lab) -> dict[str, str]:
    """UIDs of gpusmith's DaemonSets by name."""
    found = lab.get("-n", "gpusmith-system", "daemonsets")["items"]
    return {row["metadata"]["name"]: row["metadata"]["uid"] for row in found}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), DISAGREE),
        (("-l", "gpu-2"), DISAGREE),
        (("-l", "gpu-2", "-e", f"{PLUGIN}=existing"), "cannot be given with -e for a part of it"),
    ],
    ids=["all", "limit", "command-line"],
)
def test_a_part_of_the_hosts_takes_no_operand_from_the_cluster(
    ready_lab: Lab, spoilt: Path, words: tuple[str, ...], says: str
) -> None:
    if "-e" not in words:
        (spoilt / "host_vars").mkdir()
        (spoilt / "host_vars/gpu-2.yml").write_text(f"{PLUGIN}: existing\n")
    before = operands(ready_lab)
    assert "nvidia-device-plugin" in before
    ended = ready_lab.site(*words, inventory=spoilt)
    assert ended.status != 0, str(ended)
    # Output may break lines.
    assert says in " ".join(ended.output.split()), str(ended)
    assert not any(numbers["changed"] for numbers in ended.recap().values()), str(ended)
    # The same objects, not others of the same names.
    assert operands(ready_lab) == before


# --- what site.yml did not set up ------------------------------------------------------------------------


OWN_KUBELET = "/usr/local/bin/kubelet"
OWN_UNIT = "/etc/systemd/system/kubelet.service"
OWN_DROP_IN = f"{OWN_UNIT}.d/10-kubeadm.conf"
AS_KUBESPRAY = " && ".join(
    (
        f"install -m 755 /usr/bin/kubelet {OWN_KUBELET}",
        f"mkdir -p {OWN_UNIT}.d",
        *(
            f"sed 's,/usr/bin/kubelet,{OWN_KUBELET},' {path.replace('/etc/', '/usr/lib/')} > {path}"
            for path in (OWN_UNIT, OWN_DROP_IN)
        ),
        "systemctl daemon-reload",
        "systemctl restart kubelet",
    )
)
"""A kubelet that no package owns, by units that go before the package's."""
AS_BEFORE = (
    f"rm -f {OWN_KUBELET} {OWN_UNIT} {OWN_DROP_IN} && systemctl daemon-reload && systemctl restart kubelet"
)


@pytest.mark.rare
def test_a_node_whose_kubelet_no_package_owns_is_refused_by_what_runs(ready_lab: Lab) -> None:
    show = "sha256sum /etc/kubernetes/kubelet.conf.d/* /etc/systemd/system/kubelet.service.d/*; dpkg-query -W; apt-mark showhold"
    name, gpus = "gpu-2", {"gpu-2": 4}
    try:
        ready_lab.on(name, AS_KUBESPRAY)
        ready_lab.wait_allocatable(gpus, 120)
        assert OWN_KUBELET in ready_lab.on(
            name, "readlink /proc/$(systemctl show --value --property=MainPID kubelet)/exe"
        )
        before = (ready_lab.service_starts(name), ready_lab.on(name, show))
        ended = ready_lab.site("-l", name)
        assert ended.status != 0, str(ended)
        # Output may break lines.
        said = " ".join(ended.output.split())
        assert re.search(
            rf"kubelet of a joined node: unit 'kubelet.service' \('{OWN_UNIT}'\) is active and starts '{OWN_KUBELET}',"
            r" version '[0-9.]+', which no package owns",
            said,
        ), str(ended)
        assert "containerd of a joined node" not in said, "a package's containerd was blamed"
        assert not any(numbers["changed"] for numbers in ended.recap().values()), str(ended)
        assert (ready_lab.service_starts(name), ready_lab.on(name, show)) == before
    finally:
        ready_lab.on(name, AS_BEFORE)
    ready_lab.wait_allocatable(gpus, 120)
    again = ready_lab.site_ok("-l", name)
    assert again.recap()[name]["changed"] == 0, str(again)


# --- the wrong machine, and a second run -----------------------------------------------------------------


def swap_addresses(inventory: Path) -> None:
    hosts = yaml.safe_load((inventory / "hosts.yml").read_text())
    rows = hosts["all"]["children"]["gpu_nodes"]["hosts"]
    one, two = rows["gpu-1"], rows["gpu-2"]
    one["ansible_host"], two["ansible_host"] = two["ansible_host"], one["ansible_host"]
    (inventory / "hosts.yml").write_text(yaml.safe_dump(hosts))


@pytest.mark.parametrize("words", [("site.yml",), ("playbooks/remove_nodes.yml", "-l", "gpu-1")])
def test_swapped_addresses_change_nothing(ready_lab: Lab, spoilt: Path, words: tuple[str, ...]) -> None:
    swap_addresses(spoilt)
    before = {name: ready_lab.service_starts(name) for name in ready_lab.gpu_nodes()}
    ended = ready_lab.playbook(*words, inventory=spoilt)
    assert ended.status != 0, str(ended)
    assert re.search(r"is node\s+'gpu-2'\s+of\s+the\s+cluster,\s+not\s+'gpu-1'", ended.output), str(ended)
    assert not any(numbers["changed"] for numbers in ended.recap().values()), str(ended)
    assert {name: ready_lab.service_starts(name) for name in before} == before
    assert not any(node["spec"].get("unschedulable") for node in ready_lab.get("nodes")["items"])


def claims(lab: Lab) -> str:
    """What runs have claimed."""
    ended = lab.run(
        lab.program("gpulab"),
        "kubectl",
        "-n",
        "kube-system",
        "get",
        "configmap",
        "gpusmith-runs",
        "--output=json",
    )
    return str(json.loads(ended.output).get("data") or "") if ended.status == 0 else ""


def test_a_second_run_is_refused_until_the_first_is_killed(ready_lab: Lab, tmp_path: Path) -> None:
    record = {"name": "Look", "ansible.builtin.import_role": {"name": "gpusmith.gpu.node_record"}}
    claim = {"kubeconfig": "{{ gpusmith_kubeconfig }}"}
    tasks = [
        record,
        {"gpusmith.gpu.node_claim": claim, "run_once": True},
        {"ansible.builtin.pause": {"seconds": 300}},
    ]
    playbook = tmp_path / "first.yml"
    playbook.write_text(json.dumps([{"hosts": "gpu-2", "gather_facts": False, "tasks": tasks}]))
    program = ready_lab.program("ansible-playbook")
    first, _log = ready_lab.start(program, "-i", str(ready_lab.inventory), str(playbook))
    try:
        wait_until(
            "the claim", lambda: Done(0) if "first.yml" in claims(ready_lab) else NotYet(""), Deadline(60)
        )
        ended = ready_lab.site()
        assert ended.status != 0, str(ended)
        assert re.search(
            rf"worked\s+on\s+by\s+another\s+run:\s+'first.yml'(.|\n)*process\s+{first.pid}\)", ended.output
        ), str(ended)
        assert not any(numbers["changed"] for numbers in ended.recap().values()), str(ended)
        ready_lab.site_ok("-l", "gpu-1")
    finally:
        # With its workers, which are in sessions of their own and would go on with their task.
        workers = Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()
        for pid in (first.pid, *map(int, workers)):
            os.kill(pid, signal.SIGKILL)
        first.wait()
    ready_lab.site_ok("-l", "gpu-2")
    wait_until(
        "the claims to be given back",
        lambda: NotYet(claims(ready_lab)) if claims(ready_lab) else Done(0),
        Deadline(20),
    )


@pytest.mark.rare
def test_a_setting_that_breaks_the_kubelet_reaches_one_node_and_is_taken_back(
    ready_lab: Lab, spoilt: Path
) -> None:
    # It fits its type: only the kubelet itself knows that it cannot be.
    values = yaml.safe_load((spoilt / ALL).read_text())
    values["kubernetes_node_kubelet_config"]["kubeAPIBurst"] = -1
    (spoilt / ALL).write_text(yaml.safe_dump(values))
    nodes = ready_lab.gpu_nodes()
    show = "sha256sum /etc/kubernetes/kubelet.conf.d/*; ls /var/lib/gpusmith/changes 2>/dev/null || true"
    starts = {name: ready_lab.service_starts(name) for name in nodes}
    ended = ready_lab.site(inventory=spoilt)
    assert ended.status != 0, str(ended)
    told = re.search(r"Node '(\S+)': the change of 'kubelet' failed.*kubeAPIBurst.* is back", ended.output)
    assert told, str(ended)
    assert f"because the change of '{told[1]}' failed or could not be verified" in ended.output
    assert {name for name in nodes if ready_lab.service_starts(name) != starts[name]} == {told[1]}
    assert len({ready_lab.on(name, show) for name in nodes}) == 1
    again = ready_lab.site_ok()
    assert not any(numbers["changed"] for numbers in again.recap().values()), str(again)


def test_a_policy_that_a_serving_kubelet_would_not_start_with_is_named_and_not_written(
    ready_lab: Lab, spoilt: Path
) -> None:
    values = yaml.safe_load((spoilt / ALL).read_text())
    values["kubernetes_node_kubelet_config"].update(cpuManagerPolicy="static", systemReserved={"cpu": "500m"})
    (spoilt / ALL).write_text(yaml.safe_dump(values))
    starts = {name: ready_lab.service_starts(name) for name in ready_lab.gpu_nodes()}
    ended = ready_lab.site(inventory=spoilt)
    assert ended.status != 0, str(ended)
    assert (
        "serves and keeps what it has: its kubelet keeps state of cpu manager policy 'none'" in ended.output
    )
    assert {name: ended.recap()[name]["failed"] for name in starts} == dict.fromkeys(starts, 1), str(ended)
    assert {name: ready_lab.service_starts(name) for name in starts} == starts


# --- both commands ---------------------------------------------------------------------------------------


def no_gpu_nodes(inventory: Path) -> None:
    hosts = yaml.safe_load((inventory / "hosts.yml").read_text())
    hosts["all"]["children"]["gpu_nodes"]["hosts"] = {}
    (inventory / "hosts.yml").write_text(yaml.safe_dump(hosts))


def empty(inventory: Path) -> None:
    (inventory / "hosts.yml").write_text("all: {}\n")


def missing(inventory: Path) -> None:
    for path in sorted(inventory.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    inventory.rmdir()


@pytest.mark.parametrize("spoil", [no_gpu_nodes, empty, missing], ids=lambda spoil: spoil.__name__)
def test_no_nodes_is_refused_by_both(ready_lab: Lab, spoilt: Path, spoil: Callable[[Path], None]) -> None:
    spoil(spoilt)
    ended = ready_lab.site(inventory=spoilt)
    assert ended.status != 0, str(ended)
    assert "Traceback" not in ended.output
    validation = ready_lab.validate(inventory=spoilt)
    assert validation.ended.status not in (0, 1), str(validation.ended)
    assert "Traceback" not in validation.ended.output
    if spoil is missing:
        assert validation.ended.status == NO_INVENTORY
        assert str(spoilt) in validation.ended.output


# --- the suite -------------------------------------------------------------------------------------------


def test_suite_with_an_unreachable_cluster_is_an_error(ready_lab: Lab, spoilt: Path) -> None:
    config = yaml.safe_load((ready_lab.inventory / "kubeconfig").read_text())
    # Nothing listens on the discard port of this host.
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    wrong = spoilt.parent / "kubeconfig.wrong"
    wrong.write_text(yaml.safe_dump(config))
    edit(spoilt / "group_vars/all.yml", set_line("gpusmith_kubeconfig", f"gpusmith_kubeconfig: {wrong}"))
    validation = ready_lab.validate(inventory=spoilt)
    assert validation.ended.status not in (0, 1), str(validation.ended)
    assert "127.0.0.1" in validation.ended.output


def test_inventory_says_real_and_library_says_simulated(ready_lab: Lab, spoilt: Path) -> None:
    edit(spoilt / "group_vars/gpu_nodes.yml", set_line("gpusmith_simulated", "gpusmith_simulated: false"))
    validation = ready_lab.validate_nodes(inventory=spoilt)
    assert validation.ended.status == 1, str(validation.ended)
    for node in ("gpu-1", "gpu-2"):
        assert "simulated" in validation.causes(node)


def test_inventory_says_simulated_and_library_does_not(ready_lab: Lab) -> None:
    # A library without the marker is what a real one looks like to the suite.
    find = "readlink -f /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
    spoil = f"lib=$({find}); cp -a $lib $lib.kept; sed -i 's/gpusmith_simulated/gpusmith_elsewhere/g' $lib"
    ready_lab.on("gpu-1", spoil)
    try:
        validation = ready_lab.validate_nodes()
    finally:
        ready_lab.on("gpu-1", f"lib=$({find}); mv $lib.kept $lib")
    assert validation.ended.status == 1, str(validation.ended)
    assert "simulated" in validation.causes("gpu-1")


@pytest.fixture
def stopped_node(ready_lab: Lab) -> Iterator[str]:
    ready_lab.gpulab("stop", "gpu-2")
    yield "gpu-2"
    ready_lab.gpulab("start", "gpu-2")
    ready_lab.wait_allocatable({"gpu-2": 4}, 120)


def test_a_stopped_node_is_named_and_is_no_pass(ready_lab: Lab, stopped_node: str) -> None:
    validation = ready_lab.validate_nodes()
    assert validation.ended.status != 0, str(validation.ended)
    assert stopped_node in validation.ended.output
    ended = ready_lab.site()
    assert ended.status != 0, str(ended)
    assert re.search(rf"{stopped_node}.*unreachable", ended.output, re.IGNORECASE), str(ended)
