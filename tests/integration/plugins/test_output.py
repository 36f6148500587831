"""What a person sees of a run: what changes, each error once, and a verdict."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from gpusmith.paths import repo_root

SAME = {"name": "Fine", "ansible.builtin.assert": {"that": True, "quiet": True}}
TALKS = {"name": "Talks", "ansible.builtin.debug": {"msg": "{{ inventory_hostname }} talks"}}
LEFT_OUT = {"name": "Left out", "ansible.builtin.debug": {"msg": "nothing"}, "when": False}


def play(*tasks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "A play", "hosts": "all", "gather_facts": False, "tasks": list(tasks), **more}


def run(
    folder: Path, *tasks: dict[str, Any], words: tuple[str, ...] = (), status: int = 0, **more: Any
) -> str:
    """The output of a playbook on two hosts with the project's configuration, after its play's banner."""
    (folder / "play.yml").write_text(yaml.safe_dump([play(*tasks, **more)]))
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_CONFIG": str(repo_root() / "ansible.cfg")}
    program = str(Path(sys.executable).parent / "ansible-playbook")
    done = subprocess.run(
        [program, "-i", "gpu-1,gpu-2,", "-c", "local", str(folder / "play.yml"), *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    output = done.stdout + done.stderr
    assert done.returncode == status, output
    return re.sub(r"\(\d+ s\)", "(0 s)", output)


def test_a_run_with_nothing_to_do_ends_with_one_line(tmp_path: Path) -> None:
    output = run(tmp_path, SAME, LEFT_OUT)
    assert output.endswith("*\nNothing to do on 2 hosts: gpu-1, gpu-2 (0 s).\n"), output
    assert "TASK" not in output
    output = run(tmp_path, SAME, words=("--check",))
    assert output.endswith("*\nNothing would change on 2 hosts: gpu-1, gpu-2 (0 s).\n"), output
    # Who wants all of it asks for it.
    assert "TASK [Left out]" in run(tmp_path, LEFT_OUT, words=("-v",))


def test_what_is_said_and_changed_is_seen(tmp_path: Path) -> None:
    changes = {**TALKS, "name": "Changes", "changed_when": "inventory_hostname == 'gpu-2'"}
    output = run(tmp_path, TALKS, changes)
    assert "TASK [Talks]" in output
    assert "gpu-1: gpu-1 talks" in output
    assert output.endswith(
        "gpu-1: nothing to do\ngpu-2: changed by Changes\nDone (0 s): 1 host changed; nothing to do on 1.\n"
    ), output


def test_a_warning_of_a_task_that_changed_nothing_is_seen(tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "warner.py").write_text(
        "from ansible.module_utils.basic import AnsibleModule\n"
        "module = AnsibleModule({})\nmodule.warn('look here')\nmodule.exit_json(changed=False)\n"
    )
    own = {"ansible_python_interpreter": sys.executable}
    output = run(tmp_path, {"name": "Warns", "warner": {}}, vars=own)
    assert "look here" in output, output


def test_an_error_is_told_once(tmp_path: Path) -> None:
    words = "Node '{{ inventory_hostname }}' is not as wanted. Look at it."
    output = run(tmp_path, {"name": "Judge", "ansible.builtin.fail": {"msg": words}}, status=2)
    assert len(re.findall(r"Node 'gpu-\d' is not as wanted. Look at it.", output)) == 1, output
    assert len(re.findall(r"fatal: \[gpu-\d\]: FAILED! The same.", output)) == 1, output
    assert output.endswith("gpu-1, gpu-2: failed at 'Judge'\nNot done (0 s): 2 failed, as told above.\n"), (
        output
    )


def test_a_rescued_failure_is_no_failure(tmp_path: Path) -> None:
    fails = {"name": "Fails", "ansible.builtin.fail": {"msg": "no"}}
    output = run(tmp_path, {"block": [fails], "rescue": [SAME]})
    assert output.endswith("Nothing to do on 2 hosts: gpu-1, gpu-2 (0 s).\n"), output


def test_what_ends_the_run_for_all_is_said_so(tmp_path: Path) -> None:
    fails = {"name": "Fails", "ansible.builtin.fail": {"msg": ["one", "two"]}, "run_once": True}
    output = run(tmp_path, fails, status=2)
    assert "FAILED! \n    one\n    two\n" in output
    assert output.endswith("*\nStopped at 'Fails', as told above (0 s). Nothing was changed.\n"), output


def test_a_host_that_failed_before_is_named_with_its_task(tmp_path: Path) -> None:
    mine = {"name": "Mine", "ansible.builtin.fail": {"msg": "no"}, "when": "inventory_hostname == 'gpu-2'"}
    fails = {"name": "Fails", "ansible.builtin.fail": {"msg": "never"}, "run_once": True}
    output = run(tmp_path, mine, fails, status=2)
    assert output.endswith(
        "*\ngpu-1: not finished\ngpu-2: failed at 'Mine'\nStopped at 'Fails', as told above (0 s).\n"
    ), output


def test_commands_are_those_of_the_run(tmp_path: Path) -> None:
    guard = {"name": "Guard", "gpusmith.gpu.guard": {"group": "all", "cluster": False}, "run_once": True}
    says = {"name": "Says", "ansible.builtin.debug": {"msg": "Look: kubectl get nodes"}, "run_once": True}
    tells = {"name": "Tells", "gpusmith.gpu.tell": {"notes": ["'kubectl uncordon gpu-1'"]}, "run_once": True}
    site = "ansible-playbook -i INVENTORY site.yml -l gpu-1"
    fails = {"name": "Fails", "ansible.builtin.fail": {"msg": f"Run '{site}'."}}
    given = ("-e", "gpusmith_kubeconfig=/site/admin.conf")
    output = run(tmp_path, guard, says, tells, fails, words=given, status=2)
    assert "Look: kubectl --kubeconfig /site/admin.conf get nodes" in output
    assert "'kubectl --kubeconfig /site/admin.conf uncordon gpu-1'" in output
    assert re.search(r"Run '\S*ansible-playbook -i gpu-1,gpu-2, \S+ -l gpu-1'.", output), output
    assert "INVENTORY" not in output
