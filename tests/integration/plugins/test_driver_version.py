"""The driver's version in real plays: asked for on each node, chosen once, and what role and preflight make of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.integration.plugins.plays import play
from tests.unit.expect.converged import converged_record
from tests.unit.hosts import VERSION
from tests.unit.keys import KEY

HERE = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
DEBIAN = {"distribution": "Debian", "distribution_major_version": "12", "os_family": "Debian"}
CHOOSE = {
    "gpusmith.gpu.driver_version": {"offers": "nvidia_driver_offers"},
    "register": "choice",
    "run_once": True,
}


def say(text: str) -> dict[str, Any]:
    return {"ansible.builtin.debug": {"msg": text}}


def could_have(*versions: str) -> dict[str, Any]:
    return {"nvidia_driver_offers": {"offer": {"asked": "580", "versions": versions, "refusal": None}}}


def test_all_hosts_get_one_version_which_is_printed(tmp_path: Path) -> None:
    hosts = {"gpu-1": could_have("580.178.04", "580.95.05"), "gpu-2": could_have("580.95.05"), "gpu-3": {}}
    told = say(
        "{{ inventory_hostname }}: {{ choice.hosts[inventory_hostname].version | default('its own') }}"
    )
    status, output = play(
        tmp_path, {name: {**HERE, **row} for name, row in hosts.items()}, {"tasks": [CHOOSE, told]}
    )
    assert status == 0, output
    assert "Driver '580' is 580.95.05 in this run, for gpu-1, gpu-2." in output
    for line in ("gpu-1: 580.95.05", "gpu-2: 580.95.05", "gpu-3: its own"):
        assert line in output


def test_a_repository_that_does_not_answer_is_a_refusal_and_no_failure(tmp_path: Path) -> None:
    nowhere = {"uris": ["http://127.0.0.1:1/"], "suites": ["./"], "components": [], "key": KEY}
    ask = {
        "gpusmith.gpu.driver_offers": {
            "record": converged_record(),
            "repository": nowhere,
        },
        "register": "nvidia_driver_offers",
        "vars": {"ansible_facts": DEBIAN, "nvidia_driver_version": "580"},
    }
    told = say("{{ choice.hosts['gpu-1'].refusal.message }}")
    status, output = play(tmp_path, {"gpu-1": HERE}, {"tasks": [ask, CHOOSE, told]}, "--check")
    assert status == 0, output
    assert "an answer from 'nvidia_driver_repository'" in output


def looked(
    folder: Path, joined: bool, loaded: str | None = VERSION, words: tuple[str, ...] = (), **more: Any
) -> str:
    """What preflight finds on a node for which a branch is asked for whose repository does not answer."""
    record = converged_record()
    record["kubernetes"]["joined"] = joined
    record["module"]["loaded_version"] = loaded
    variables = {
        **HERE,
        "node_record_now": {"record": record},
        "nvidia_driver_repository": {
            "uris": ["http://127.0.0.1:1/"],
            "suites": ["./"],
            "components": [],
            "key": KEY,
        },
        "preflight_free_space_mib": {},
        "gpusmith_gpu_model": "h100-sxm",
    }
    include = {"name": "gpusmith.gpu.preflight", "rolespec_validate": False}
    tasks = [
        {
            "ansible.builtin.include_role": include,
            "vars": {"ansible_facts": DEBIAN, "nvidia_driver_version": "580", **more},
        },
        say("ASKED {{ nvidia_driver_offers.offer is defined }}"),
        say("{{ __preflight_answer.refusals | map(attribute='message') | join(' ') }}"),
    ]
    status, output = play(folder, {"gpu-1": variables}, {"tasks": tasks}, "--check", *words)
    assert status == 0, output
    return output


def test_preflight_tells_why_there_is_no_version_for_a_new_machine(tmp_path: Path) -> None:
    output = looked(tmp_path, joined=False, loaded=None)
    assert "ASKED True" in output
    assert "repository: " in output


def test_for_a_machine_outside_of_the_cluster_with_a_loaded_driver_nothing_is_chosen(tmp_path: Path) -> None:
    output = looked(tmp_path, joined=False)
    assert "no exact version" not in output
    assert "ASKED True" not in output


def test_for_a_node_that_serves_nothing_is_chosen(tmp_path: Path) -> None:
    output = looked(tmp_path, joined=True)
    assert "no exact version" not in output
    assert "ASKED True" not in output


def test_an_upgrade_asks_for_nodes_that_serve(tmp_path: Path) -> None:
    output = looked(tmp_path, joined=True, __preflight_driver_only=True)
    assert "ASKED True" in output
    assert "repository: " in output


def test_for_a_driver_of_somebody_else_nothing_is_chosen(tmp_path: Path) -> None:
    """Another branch than the inventory's, without a repository of ours: neither is read."""
    theirs: dict[str, Any] = {"nvidia_driver_owner": "existing", "nvidia_driver_version": "570"}
    output = looked(tmp_path, joined=False, **theirs)
    assert "ASKED False" in output
    assert "'nvidia_driver_repository'" not in output
    # An upgrade refuses the node, which has no say in the version of the others.
    assert "ASKED False" in looked(tmp_path, joined=True, __preflight_driver_only=True, **theirs)


def test_an_upgrade_asks_for_the_space_that_systemd_needs_besides_a_sites_own_list(tmp_path: Path) -> None:
    """Here more than there is of it, and the site's list names other paths."""
    space = json.dumps({"__preflight_free_space_of_systemd": {"/run/systemd": 10**9}})
    output = looked(tmp_path, joined=True, words=("-e", space), __preflight_driver_only=True)
    assert "MiB free for '/run/systemd'" in output
