"""The table of hosts that are refused."""

from __future__ import annotations

import dataclasses

from gpusmith.errors import Refusal
from gpusmith.preflight.table import of_host, table


def test_unreachable_host_is_in_the_table() -> None:
    lines = table({"gpu-1": of_host({"refusals": []}), "gpu-2": of_host(None)})
    assert lines[0] == "1 of 2 hosts cannot be worked on:"
    assert lines[1].startswith("gpu-2 | connection: no answer;")
    assert table({"gpu-1": []}) == []


def test_reasons_arrive_as_they_were_found() -> None:
    refusal = Refusal("GPU count: 3 on PCI; allowed: 4.", "Look for it.")
    assert of_host({"refusals": [dataclasses.asdict(refusal)]}) == [refusal]
    assert table({"gpu-1": [refusal]})[1] == "gpu-1 | GPU count: 3 on PCI; allowed: 4. | Look for it."


def test_a_reason_is_told_once_for_all_its_hosts() -> None:
    version, count = Refusal("version: none.", "Correct it."), Refusal("GPU count: 3.", "Look.")
    assert table({"gpu-1": [version], "gpu-2": [count, version], "gpu-3": []}) == [
        "2 of 3 hosts cannot be worked on:",
        "gpu-1, gpu-2 | version: none. | Correct it.",
        "gpu-2 | GPU count: 3. | Look.",
    ]


def test_advice_for_several_hosts_names_them() -> None:
    row = Refusal("driver: other", "take 'NODE' out, then 'ansible-playbook -i INVENTORY site.yml -l NODE'.")
    assert table({"gpu-1": [row], "gpu-2": [row]})[1].endswith(
        "| take 'gpu-1,gpu-2' out, then 'ansible-playbook -i INVENTORY site.yml -l gpu-1,gpu-2'."
    )


def test_hosts_that_do_not_answer_are_one_line() -> None:
    why = "Failed to connect to the host via ssh: ssh: connect to host {} port 22: No route to host"
    found = {f"gpu-{n}": of_host({"unreachable": True, "msg": why.format(f"10.0.0.{n}")}) for n in (1, 2)}
    (line,) = table(found)[1:]
    assert line.startswith("gpu-1, gpu-2 | connection: ")
    assert "connect to host ADDRESS port 22" in line
    assert "connect to host 10.0.0.1 port 22" in table({"gpu-1": found["gpu-1"]})[1]
