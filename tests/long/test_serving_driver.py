"""A serving node gets another driver as messages advise: it leaves the cluster, and comes back with it."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpusmith.expect.steps import change_driver
from tests.e2e.harness import Lab

NODE, WANTED = "gpu-1", "580.95.05"


def test_a_serving_node_changes_its_driver(no_lab: Lab, measured: Callable[[str, object], None]) -> None:
    no_lab.up("--gpu-nodes", "1", "--gpus", "2")
    no_lab.site_ok()
    inventory = no_lab.copy_inventory(no_lab.logs / "other-driver")
    values = inventory / "group_vars" / "gpu_nodes.yml"
    text = values.read_text()
    values.write_text(
        re.sub(r"^nvidia_driver_version:.*$", f'nvidia_driver_version: "{WANTED}"', text, flags=re.MULTILINE)
    )
    refused = no_lab.site(inventory=inventory)
    assert refused.status != 0
    # The very commands of the message, with this inventory.
    commands = re.findall(r"'(ansible-playbook [^']+)'", change_driver(NODE))
    assert len(commands) == 2
    seconds = 0.0
    for command in commands:
        _, *words = command.replace("INVENTORY", str(inventory)).split()
        ended = no_lab.run(no_lab.program("ansible-playbook"), *words, timeout=1200)
        assert ended.status == 0, str(ended)
        seconds += ended.seconds
    assert no_lab.on(NODE, "cat /sys/module/nvidia/version") == WANTED
    no_lab.wait_allocatable({NODE: 2}, 60)
    no_lab.validate(inventory=inventory).assert_passed()
    measured("another driver on a serving node", f"{seconds:.0f} s")
