"""The verdict at the end of a run."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.verdict import lines
from gpusmith.verdict.lines import End
from gpusmith.verdict.run import Run, Task

COPY = Task("Write", "containerd", "ansible.builtin.copy")
ONCE = Task("Apply", "gpu_operands", "gpusmith.gpu.operands", for_all=True)
TELL = Task("Tell", "containerd", "gpusmith.gpu.tell")


def run(*hosts: str) -> Run:
    found = Run()
    for host in hosts:
        found.ended(host, Task("Look"), {})
    return found


def told(**said: Any) -> dict[str, Any]:
    return {"verdict": {"gpu-1": said}}


def test_nothing_to_do_is_one_line() -> None:
    fine = run("gpu-1", "gpu-2")
    fine.ended("cp-1", ONCE, {"changed": False})
    assert lines.of_run(fine, End(12.4)) == ["Nothing to do on 2 hosts: gpu-1, gpu-2 (12 s)."]
    assert lines.of_check(fine, End(12.4)) == ["Nothing would change on 2 hosts: gpu-1, gpu-2 (12 s)."]
    many = run(*(f"gpu-{number:02}" for number in range(1, 31)))
    assert lines.of_run(many, End(1)) == [
        "Nothing to do on 30 hosts: gpu-01, gpu-02, gpu-03, gpu-04, gpu-05, gpu-06, gpu-07, gpu-08 and 22 more (1 s)."
    ]


def test_a_part_of_the_run_is_no_verdict_on_the_whole() -> None:
    assert lines.of_run(run("gpu-1"), End(1, tags=["containerd"])) == [
        "Nothing to do on 1 host: gpu-1 (1 s). Only tasks with these tags were looked at: containerd."
    ]


def test_hosts_with_different_ends() -> None:
    mixed = run("gpu-1", "gpu-2", "gpu-3", "gpu-4")
    for host in ("gpu-1", "gpu-2", "gpu-4"):
        mixed.ended(host, COPY, {"changed": True, "dest": "/etc/a"})
    mixed.failed("gpu-4", Task("Verify", "nvidia_driver"), {})
    mixed.ended("gpu-1", ONCE, {"changed": True, "objects": ["DaemonSet 'a'"]})
    end = End(60, frozenset({"gpu-4"}), frozenset({"gpu-5"}))
    assert lines.of_run(mixed, end) == [
        "gpu-1, gpu-2: changed by containerd",
        "gpu-3: nothing to do",
        "gpu-4: failed at 'Verify' of role nvidia_driver, after changes by containerd",
        "gpu-5: unreachable",
        "the cluster: changed by gpu_operands",
        "Not done (60 s): 2 hosts changed; nothing to do on 1; 1 failed, as told above; 1 unreachable.",
    ]


def test_a_task_that_ends_the_run_for_all() -> None:
    stopped = run("gpu-1", "gpu-2")
    stopped.failed("gpu-1", Task("Report", "preflight", for_all=True), {})
    assert lines.of_run(stopped, End(3)) == [
        "gpu-1, gpu-2: not finished",
        "Stopped at 'Report' of role preflight, as told above (3 s). Nothing was changed.",
    ]


def test_a_host_that_failed_before_the_run_was_stopped() -> None:
    stopped = run("gpu-1", "gpu-2", "gpu-3")
    stopped.failed("gpu-2", Task("Verify", "nvidia_driver"), {})
    stopped.failed("gpu-3", Task("Tried", "containerd"), {})  # and was rescued
    stopped.failed("gpu-1", ONCE, {})
    end = End(3, stopped.failed_hosts(failures={"gpu-1": 1, "gpu-2": 1}, rescued={"gpu-3": 1}))
    assert lines.of_run(stopped, end) == [
        "gpu-1, gpu-3: not finished",
        "gpu-2: failed at 'Verify' of role nvidia_driver",
        # What the task that failed had done is not known.
        "Stopped at 'Apply' of role gpu_operands, as told above (3 s).",
    ]


def test_a_host_that_was_rescued_before_it_ended_the_run_for_all() -> None:
    stopped = run("gpu-1", "gpu-2")
    stopped.failed("gpu-1", Task("Tried", "containerd"), {})
    stopped.failed("gpu-1", ONCE, {})
    assert stopped.failed_hosts(failures={"gpu-1": 1}, rescued={"gpu-1": 1}) == frozenset()


def test_notes_are_told_with_the_verdict() -> None:
    noted = run("gpu-1", "gpu-2")
    for host in ("gpu-1", "gpu-2"):
        noted.ended(host, TELL, {"verdict": {host: {"notes": ["cordoned"]}}})
    assert lines.of_run(noted, End(3)) == [
        "gpu-1, gpu-2: cordoned",
        "Nothing to do on 2 hosts: gpu-1, gpu-2 (3 s).",
    ]


def test_what_would_change_equal_hosts_once() -> None:
    found = run("gpu-1", "gpu-2", "gpu-3")
    for host in ("gpu-1", "gpu-2"):
        found.ended(host, COPY, {"changed": True, "dest": "/etc/a"})
        said = {"changes": {"files": ["/etc/a", "/etc/b"]}, "unpredictable": ["a reboot"]}
        found.ended(host, TELL, {"verdict": {host: said}})
    found.ended("gpu-1", ONCE, {"changed": True, "objects": ["DaemonSet 'a'"]})
    assert lines.of_check(found, End(20)) == [
        "gpu-1, gpu-2:",
        "  containerd",
        "    files: /etc/a, /etc/b",
        "  only a run can tell: a reboot",
        "the cluster:",
        "  gpu_operands",
        "    objects: DaemonSet 'a'",
        "Checked (20 s): 2 hosts would change; nothing to do on 1.",
    ]


@pytest.mark.parametrize(
    ("toolkit", "shown"),
    [
        ({"units": ["containerd.service"]}, False),
        ({"units": ["containerd.service"], "files": ["/etc/b"]}, True),
        ({"units": ["containerd.service", "b.service"]}, True),
    ],
)
def test_a_restart_that_an_earlier_part_makes_is_foretold_once(
    toolkit: dict[str, list[str]], shown: bool
) -> None:
    """The toolkit's role sees the same drift of containerd's configuration, which containerd's role sets right before."""
    found = run("gpu-1")
    mine = {"files": ["/etc/a"], "units": ["containerd.service"]}
    for role, changes in (("containerd", mine), ("nvidia_container_toolkit", toolkit)):
        found.ended("gpu-1", Task("Restart", role, "gpusmith.gpu.containerd_config"), {"changed": True})
        found.ended("gpu-1", Task("Tell", role, "gpusmith.gpu.tell"), told(changes=changes))
    assert ("  nvidia_container_toolkit" in lines.of_check(found, End(1))) is shown
    alone = run("gpu-1")
    alone.ended("gpu-1", Task("Tell", "nvidia_container_toolkit", "gpusmith.gpu.tell"), told(changes=toolkit))
    assert "  nvidia_container_toolkit" in lines.of_check(alone, End(1))


def test_what_one_task_tells_of_all_hosts_is_told_of_each() -> None:
    found = run("gpu-1", "gpu-2")
    changes = {"labels": ["rack=r1"]}
    once = Task("Patch", "kubernetes_node", "gpusmith.gpu.node_metadata", for_all=True)
    found.ended("gpu-1", once, {"changed": True, "verdict": {"gpu-2": {"changes": changes}}})
    assert lines.of_run(found, End(1)) == [
        "gpu-1: nothing to do",
        "gpu-2: changed by kubernetes_node",
        "Done (1 s): 1 host changed; nothing to do on 1.",
    ]


def test_a_refusal_in_check_mode() -> None:
    found = run("gpu-1", "gpu-2")
    found.failed("gpu-2", Task("Validate", "containerd"), {})
    assert lines.of_check(found, End(2, frozenset({"gpu-2"}))) == [
        "gpu-2: failed at 'Validate' of role containerd",
        "Not done (2 s): nothing to do on 1; 1 failed, as told above.",
    ]


def test_packages_that_come_along_are_told_once() -> None:
    found = run("gpu-1")
    installed = {"containerd.io": "2.3.7-1", "runc": "1.2", "libseccomp2": "2.5"}
    plan = {"installed": installed, "changed": {"libc6": ["1", "2"]}, "removed": {}}
    look = Task("Gather", "preflight", "gpusmith.gpu.preflight")
    found.ended("gpu-1", look, {"changed": False, "simulation": {"plan": plan}})
    packages = {"containerd.io": {"before": None, "after": "2.3.7"}}
    install = Task("Install", "containerd", "gpusmith.gpu.packages")
    found.ended("gpu-1", install, {"changed": True, "packages": packages})
    assert lines.of_check(found, End(1)) == [
        "gpu-1:",
        "  containerd",
        "    packages: containerd.io 2.3.7-1",
        "  packages that come along: runc 1.2, libseccomp2 2.5, libc6 1 -> 2",
        "Checked (1 s): 1 host would change.",
    ]


def test_what_comes_along_is_left_open_where_nobody_saw_it() -> None:
    found = run("gpu-1")
    packages = {"containerd.io": {"before": None, "after": "2.3.7"}}
    install = Task("Install", "containerd", "gpusmith.gpu.packages")
    found.ended("gpu-1", Task("Gather", "preflight", "gpusmith.gpu.preflight"), {"simulation": None})
    found.ended("gpu-1", install, {"changed": True, "packages": packages})
    told = lines.of_check(found, End(1))
    assert "dependencies: the node has no list of the repository yet" in told[-2]
