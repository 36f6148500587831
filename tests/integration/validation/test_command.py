"""``pytest validation`` as a person starts it: exit codes, both spellings of options, any working directory."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.checks.register import Check, catalog
from gpusmith.names import MONITORING, UPGRADE
from tests.unit.cluster.conftest import Server
from tests.unit.ledgers import ledger
from tests.unit.objects import node

IMPATIENT = "from gpusmith.cluster import retries\n\nretries.PATIENT = retries.Patience(0.5, 0.5)\n"
"""A plugin of pytest: no test waits as long as a person would for an API server that is restarted."""


@pytest.fixture
def dead(tmp_path: Path, variables: Callable[..., dict[str, Any]]) -> Path:
    """An inventory whose node and cluster do not answer. Its folder looks like somebody else's project."""
    project = tmp_path / "theirs"
    folder = project / "inventory"
    folder.mkdir(parents=True)
    (project / "pyproject.toml").write_text(
        "[tool.pytest.ini_options]\naddopts = '-q --import-mode=prepend'\ntestpaths = 'nowhere'\n"
    )
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1", "kind": "Config", "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
                "users": [{"name": "u", "user": {}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )  # fmt: skip
    values = variables(ansible_host="127.0.0.1", ansible_port=1, gpusmith_kubeconfig=str(kubeconfig))
    (folder / "hosts.yml").write_text(yaml.safe_dump({"gpu_nodes": {"hosts": {"gpu-1": values}}}))
    (project / "impatient.py").write_text(IMPATIENT)
    (project / "ansible.cfg").write_text("[inventory]\nignore_patterns = kubeconfig\n")
    return folder


def of_a_person(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "NO_COLOR": "1",
        "ANSIBLE_CONFIG": str(folder.parent / "ansible.cfg"),
        "PYTHONPATH": str(folder.parent),
    }


def start(root: Path, folder: Path, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = of_a_person(folder)
    # A folder of its own: tests that run side by side would refuse each other's; the last of two options counts.
    options = ["-p", "no:cacheprovider", "-p", "impatient", f"--report-dir={folder.parent / 'reports'}"]
    command = [sys.executable, "-m", "pytest", *options, *words]
    return subprocess.run(
        command, cwd=cwd or root, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


SEVERAL = """
import contextlib, io, json, os, sys
import pytest
from gpusmith.inventory import programs
from gpusmith.wanted import inventory as read

asked = {}


def once(name, words, folder, environment, *timeout):
    key = (name, *words, str(folder))
    if key not in asked:
        asked[key] = programs.run(name, words, folder, environment, *timeout)
    return asked[key]


read.run = once
done = []
for words in json.loads(sys.argv[1]):
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = pytest.main(["-p", "no:cacheprovider", "-p", "impatient", *words])
    done.append([int(status), said.getvalue()])
print("\\n" + json.dumps(done))
"""
"""One process for commands that differ in their options only: starting Python and Ansible takes longer than what is tested."""


def start_several(cwd: Path, folder: Path, *commands: list[str]) -> list[tuple[int, str]]:
    """Status and output of each."""
    environment = of_a_person(folder)
    words = [sys.executable, "-c", SEVERAL, json.dumps(commands)]
    done = subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [(status, said) for status, said in json.loads(done.stdout.splitlines()[-1])]


def usual() -> list[Check]:
    """What runs without --tier: nothing watches these nodes."""
    return [row for row in catalog().values() if row.tier != MONITORING]


def test_node_and_cluster_that_do_not_answer(root: Path, dead: Path, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    done = start(root, dead, "validation", "--inventory", str(dead), "--report-dir", str(reports))
    assert done.returncode == 1, done.stdout + done.stderr
    data = json.loads((reports / "results.json").read_text())
    by_id = {row["id"]: row for row in data["checks"]}
    assert set(by_id) == {row.id for row in usual()}
    assert by_id["nodes.reachable"]["outcome"] == "failed"
    assert "'gpu-1' does not answer over ssh" in by_id["nodes.reachable"]["cause"]
    assert by_id["cluster.api"]["outcome"] == "error"
    assert "does not answer" in by_id["cluster.api"]["cause"]
    assert {
        row["outcome"] for row in data["checks"] if row["id"] not in ("nodes.reachable", "cluster.api")
    } == {"skipped"}
    assert data["coverage"]["nodes"]["tested"] == 0
    assert data["coverage"]["gpus"]["tested"] == 0
    assert {path.name for path in reports.iterdir()} == {
        "results.json",
        "junit.xml",
        "report.html",
        "metrics.prom",
        "evidence",
    }
    assert "FAILED nodes.reachable on gpu-1" in done.stdout


def test_a_workflow_of_github_gets_a_summary_and_an_error_for_each_cause(
    root: Path, dead: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, asked = tmp_path / "step.md", tmp_path / "asked.md"
    words = ["validation", f"--inventory={dead}", "--tier=nodes", f"--report-dir={tmp_path / 'r'}"]
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(step))
    monkeypatch.setenv("GITHUB_ACTIONS", "false")
    outside = start(root, dead, *words, f"--summary-md={asked}")
    assert "::error" not in outside.stdout
    assert not step.exists()
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    inside = start(root, dead, *words)
    (told,) = [line for line in inside.stdout.splitlines() if line.startswith("::")]
    assert told.startswith("::error title=nodes.reachable on gpu-1::Node 'gpu-1' does not answer over ssh")
    assert "| gpu-1 (1) | nodes.reachable | " in step.read_text()
    assert step.read_text() == asked.read_text()


OWN = """
import pytest
import gpusmith.suite.run
from gpusmith.checks.register import Reads, catalog, check
from gpusmith.problems import Problem


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    @check("nodes.rack", place=15, proves="p", fails_when="f", do="d", reads=Reads.ANSWER)
    def rack(probed):
        return [Problem("Node 'gpu-1': is in no rack.", "Put it into one.")]
"""


def test_a_check_of_ones_own_is_collected_made_and_reported(root: Path, dead: Path, tmp_path: Path) -> None:
    (dead.parent / "own_checks.py").write_text(OWN)
    words = ["validation", f"--inventory={dead}", "-p", "own_checks", "-k", "nodes.rack"]
    done = start(root, dead, *words, f"--report-dir={tmp_path / 'reports'}")
    assert done.returncode == 1, done.stdout + done.stderr
    (found,) = json.loads((tmp_path / "reports" / "results.json").read_text())["checks"]
    assert (found["id"], found["target"], found["outcome"]) == ("nodes.rack", "gpu-1", "failed")
    assert "FAILED nodes.rack on gpu-1" in done.stdout
    assert "Put it into one." in done.stdout


def test_a_check_of_ones_own_with_a_taken_name_is_refused(root: Path, dead: Path) -> None:
    (dead.parent / "own_checks.py").write_text(
        OWN.replace("nodes.rack", "nodes.xid").replace("trylast", "tryfirst")
    )
    done = start(root, dead, "validation", f"--inventory={dead}", "-p", "own_checks")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "Check 'nodes.xid' is registered twice." in done.stdout + done.stderr


def test_unreachable_cluster_alone_is_a_broken_tool(root: Path, dead: Path, tmp_path: Path) -> None:
    words = ["validation", f"--inventory={dead}", "--tier=cluster", f"--report-dir={tmp_path / 'reports'}"]
    own = tmp_path / "own.yml"
    done = start(root, dead, *words, f"--record-baseline={own}")
    assert done.returncode == 3, done.stdout + done.stderr
    assert f"'{own}' is not written: no GPU was measured" in done.stdout


@pytest.mark.parametrize(
    ("place", "equals"), [("elsewhere", True), ("elsewhere", False), ("inventory", False)]
)
def test_any_working_directory_and_both_spellings(
    root: Path, dead: Path, tmp_path: Path, place: str, equals: bool
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    cwd = {"elsewhere": elsewhere, "inventory": dead.parent, "root": root}[place]
    named = os.path.relpath(dead, cwd)
    options = (
        [f"--inventory={named}", "--tier=nodes"] if equals else ["--inventory", named, "--tier", "nodes"]
    )
    done = start(root, dead, *options, str(root / "validation"), "--report-dir", str(tmp_path / "r"), cwd=cwd)
    assert done.returncode == 1, done.stdout + done.stderr
    assert json.loads((tmp_path / "r" / "results.json").read_text())["run"]["nodes"] == ["gpu-1"]


def test_bad_input_is_refused(root: Path, dead: Path, tmp_path: Path) -> None:
    inputs: list[tuple[list[str], str]] = [
        (["--inventory", "nowhere"], "Inventory 'nowhere' does not exist."),
        ([f"--inventory={dead}", "--limit", "nobody"], "Pattern 'nobody' matches no host"),
        ([f"--inventory={dead}", "-k", "no_such_test"], "No check was made"),
        ([f"--inventory={dead}", "--limit", ""], "Option '--limit' is empty"),
        (["--inventory="], "Option '--inventory' is empty"),
        ([f"--inventory={dead}", "--summary-md=no/such/file"], "no/such/file' cannot be written"),
        ([f"--inventory={dead}", "--min-coverage=most"], "'most' is no percentage"),
        (
            [f"--inventory={dead}", "--maintenance-id=", "--driver-version=580.1.1"],
            "'--maintenance-id' is empty",
        ),
        (
            [f"--inventory={dead}", "--maintenance-id=u1"],
            "Option '--maintenance-id' needs '--driver-version'",
        ),
        (
            [f"--inventory={dead}", "--driver-version=580.1.1"],
            "Option '--driver-version' needs '--maintenance-id'",
        ),
    ]
    folders = [tmp_path / f"reports-{number}" for number in range(len(inputs))]
    for folder in folders:
        folder.mkdir()
        (folder / "results.json").write_text("of an earlier run")
    rows = zip(inputs, folders, strict=True)
    commands = [[str(root / "validation"), *words, f"--report-dir={folder}"] for (words, _), folder in rows]
    done = start_several(tmp_path, dead, *commands)
    for (_, says), folder, (status, output) in zip(inputs, folders, done, strict=True):
        assert status == 4, output
        assert says in output
        assert "Traceback" not in output
        left = folder / "results.json"
        assert not left.exists() or json.loads(left.read_text())["checks"] == []


def test_a_run_without_an_inventory_says_so(root: Path, tmp_path: Path) -> None:
    (tmp_path / "ansible.cfg").touch()
    (tmp_path / "hosts").touch()
    settings = {"ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"), "ANSIBLE_INVENTORY": str(tmp_path / "hosts")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", str(root / "validation"), f"--report-dir={tmp_path / 'reports'}"],
        cwd=tmp_path,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 4, done.stdout
    assert "There is no inventory" in done.stdout + done.stderr


def test_a_missing_kubeconfig_is_refused_where_the_cluster_is_asked(
    root: Path, dead: Path, tmp_path: Path
) -> None:
    words = ["validation", f"--inventory={dead}", f"--report-dir={tmp_path / 'r'}"]
    text = (dead / "hosts.yml").read_text()
    (dead / "hosts.yml").write_text(text.replace(str(dead / "kubeconfig"), "''"))
    # What is selected decides, however it was selected.
    of_nodes = (["--tier=nodes"], ["-k", "nodes.xid"])
    others = [[*words, *more, "--collect-only"] for more in of_nodes]
    others.append(["validation/nodes", *words[1:], "--collect-only"])
    refused, *listed = start_several(root, dead, words, *others)
    assert refused[0] == 4, refused
    assert "Host 'gpu-1': 'gpusmith_kubeconfig' is not set." in refused[1]
    assert [status for status, _ in listed] == [0, 0, 0], listed


def test_workers_of_xdist_are_refused_in_one_sentence(root: Path, dead: Path, tmp_path: Path) -> None:
    """Each of them would ask all nodes again, and compete for their GPUs."""
    done = start(root, dead, "validation", "-n", "2", f"--inventory={dead}", f"--report-dir={tmp_path / 'r'}")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "'-n' of pytest-xdist cannot be used" in done.stdout + done.stderr
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("content", "says"), [(None, "does not exist"), ("nothing: here\n", "is no kubeconfig")]
)
def test_a_kubeconfig_that_is_none_is_refused_before_nodes_are_asked(
    root: Path, dead: Path, tmp_path: Path, content: str | None, says: str
) -> None:
    kubeconfig = dead / "kubeconfig"
    kubeconfig.unlink()
    if content is not None:
        kubeconfig.write_text(content)
    done = start(root, dead, "validation", f"--inventory={dead}", f"--report-dir={tmp_path / 'r'}")
    assert done.returncode == 4, done.stdout + done.stderr
    assert says in done.stdout + done.stderr
    assert "does not answer" not in done.stdout


def test_a_check_is_selected_by_its_id(root: Path, dead: Path, tmp_path: Path) -> None:
    done = start(
        root,
        dead,
        "validation",
        f"--inventory={dead}",
        "-k",
        "nodes.reachable",
        f"--report-dir={tmp_path / 'r'}",
    )
    assert done.returncode == 1, done.stdout + done.stderr
    data = json.loads((tmp_path / "r" / "results.json").read_text())
    assert [row["id"] for row in data["checks"]] == ["nodes.reachable"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGALRM])
def test_an_interrupted_run_is_no_pass(
    root: Path, dead: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """SIGALRM: by its own --timeout."""
    own = number is signal.SIGALRM
    reports = tmp_path / "reports"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        kubeconfig = dead / "kubeconfig"
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        kubeconfig.write_text(kubeconfig.read_text().replace("http://127.0.0.1:1", address))
        words = ["validation", f"--inventory={dead}", "--tier=cluster", f"--report-dir={reports}"]
        words += ["--timeout=3"] if own else []
        environment = {**os.environ, "NO_COLOR": "1", "ANSIBLE_CONFIG": str(dead.parent / "ansible.cfg")}
        process = subprocess.Popen(
            # Who runs the tests in the background of a shell has interrupts ignored, and so have its children.
            ["env", "--default-signal=INT", sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words],
            cwd=root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        silent.settimeout(60)
        connection, _ = silent.accept()  # it waits for the cluster's answer now
        if not own:
            process.send_signal(number)
        output, _ = process.communicate(timeout=60)
        connection.close()
    assert process.returncode == 2, output
    assert "INTERRUPTED" in output
    by = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGALRM: "--timeout"}
    assert f"interrupted by {by[number]}" in output
    assert not re.search(r"\.py:\d+|Traceback|full-trace", output), output
    data = json.loads((reports / "results.json").read_text())
    assert data["run"]["exit_code"] == 2
    assert not data["run"]["complete"]
    assert data["summary"]["passed"] == 0
    assert {row["skip"] for row in data["checks"]} == {"blocked"}
    assert "cluster.operands" in {row["id"] for row in data["checks"]}
    assert "gpusmith_validation_exit_code 2.0" in (reports / "metrics.prom").read_text()


def test_selections(root: Path, dead: Path, tmp_path: Path) -> None:
    # However the folders are named.
    folders = [f"validation/{tier}" for tier in ("workloads", "nodes", "cluster")]
    by_tiers: list[tuple[list[str], set[str]]] = [
        (["-m", "safe"], {"nodes", "cluster"}),
        (["-m", "workloads"], {"workloads"}),
        (["-k", "cluster"], {"cluster"}),
        (["--tier=nodes,workloads"], {"nodes", "workloads"}),
    ]
    listing = [f"--inventory={dead}", "--collect-only", "-q", f"--report-dir={tmp_path / 'r'}"]
    commands = [[*folders, *listing], *(["validation", *listing, *words] for words, _ in by_tiers)]
    commands.append(["validation/cluster/test_cluster.py", *folders[1:2], *listing, "--tier=nodes"])
    done = start_several(root, dead, *commands)
    assert [status for status, _ in done] == [0] * len(commands), done
    listed = re.findall(r"\[(.+)\]$", done[0][1], re.MULTILINE)
    assert listed == [f"{row.id}-gpu-1" if row.per_node else row.id for row in usual()]
    for (words, tiers), (_, output) in zip([*by_tiers, (["a file"], {"nodes"})], done[1:], strict=True):
        assert set(re.findall(r"\[([a-z]+)\.", output)) == tiers, words
    assert "deselected" in done[2][1], "of -k"
    assert "deselected" not in done[4][1], "tests of a tier that was not asked for are not even made"
    assert not (tmp_path / "r").exists()


def test_a_run_for_an_upgrade_asks_which_nodes_it_is_about(
    root: Path, dead: Path, tmp_path: Path, server: Server
) -> None:
    reports = tmp_path / "reports"
    kubeconfig = dead / "kubeconfig"
    kubeconfig.write_text(kubeconfig.read_text().replace("http://127.0.0.1:1", server.url))
    there = node(metadata__annotations={UPGRADE: ledger()})
    words = [str(root / "validation"), f"--inventory={dead}", f"--report-dir={reports}", "--tier=nodes"]
    words.append("--driver-version=580.200.01")
    server.will(*[(200, {}, {"items": [there]})] * 2, *[(403, {}, {"message": "no"})] * 9)
    commands = [[*words, f"--maintenance-id={run}"] for run in ("another", "u1", "u1")]
    (refused, said), (tested, shown), (broken, why) = start_several(tmp_path, dead, *commands)
    assert (refused, "in a change of run 'another'" in said) == (4, True), said
    # The third could not ask the cluster: nobody's input is wrong.
    assert (broken, "Traceback" in why, "no" in why) == (3, False, True), why
    assert tested == 1, shown
    assert "Tested in maintenance u1" in " ".join(shown.split())
