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

from gpusmith.checks.register import catalog

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


def start(root: Path, folder: Path, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "NO_COLOR": "1",
        "ANSIBLE_CONFIG": str(folder.parent / "ansible.cfg"),
        "PYTHONPATH": str(folder.parent),
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "impatient", *words]
    return subprocess.run(
        command, cwd=cwd or root, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def test_node_and_cluster_that_do_not_answer(root: Path, dead: Path, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    done = start(root, dead, "validation", "--inventory", str(dead), "--report-dir", str(reports))
    assert done.returncode == 1, done.stdout + done.stderr
    data = json.loads((reports / "results.json").read_text())
    by_id = {row["id"]: row for row in data["checks"]}
    assert set(by_id) == set(catalog())
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
    }
    assert "FAILED nodes.reachable on gpu-1" in done.stdout


def test_unreachable_cluster_alone_is_a_broken_tool(root: Path, dead: Path, tmp_path: Path) -> None:
    words = ["validation", f"--inventory={dead}", "--tier=cluster", f"--report-dir={tmp_path / 'reports'}"]
    done = start(root, dead, *words)
    assert done.returncode == 3, done.stdout + done.stderr


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


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--inventory", "nowhere"], "Inventory 'nowhere' does not exist."),
        (["--inventory={dead}", "--limit", "nobody"], "Pattern 'nobody' matches no host"),
        (["--inventory={dead}", "-k", "no_such_test"], "No check was made"),
        (["--inventory={dead}", "--limit", ""], "Option '--limit' is empty"),
        (["--inventory="], "Option '--inventory' is empty"),
    ],
)
def test_bad_input_is_refused(root: Path, dead: Path, tmp_path: Path, words: list[str], says: str) -> None:
    reports = tmp_path / "reports"
    reports.mkdir()
    (reports / "results.json").write_text("of an earlier run")
    filled = [word.format(dead=dead) for word in words]
    done = start(root, dead, str(root / "validation"), *filled, f"--report-dir={reports}", cwd=tmp_path)
    assert done.returncode == 4, done.stdout + done.stderr
    assert says in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    left = reports / "results.json"
    assert not left.exists() or json.loads(left.read_text())["checks"] == []


def test_a_missing_kubeconfig_is_refused_where_the_cluster_is_asked(
    root: Path, dead: Path, tmp_path: Path
) -> None:
    words = ["validation", f"--inventory={dead}", f"--report-dir={tmp_path / 'r'}"]
    text = (dead / "hosts.yml").read_text()
    (dead / "hosts.yml").write_text(text.replace(str(dead / "kubeconfig"), "''"))
    done = start(root, dead, *words)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "Host 'gpu-1' has no 'gpusmith_kubeconfig'." in done.stdout + done.stderr
    # What is selected decides, however it was selected.
    for of_nodes in (["--tier=nodes"], ["-k", "nodes.xid"]):
        assert start(root, dead, *words, *of_nodes, "--collect-only").returncode == 0
    words[0] = "validation/nodes"
    assert start(root, dead, *words, "--collect-only").returncode == 0


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_no_pass(
    root: Path, dead: Path, tmp_path: Path, number: signal.Signals
) -> None:
    reports = tmp_path / "reports"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        kubeconfig = dead / "kubeconfig"
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        kubeconfig.write_text(kubeconfig.read_text().replace("http://127.0.0.1:1", address))
        words = ["validation", f"--inventory={dead}", "--tier=cluster", f"--report-dir={reports}"]
        environment = {**os.environ, "NO_COLOR": "1", "ANSIBLE_CONFIG": str(dead.parent / "ansible.cfg")}
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words],
            cwd=root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        silent.settimeout(60)
        connection, _ = silent.accept()  # it waits for the cluster's answer now
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
        connection.close()
    assert process.returncode == 2, output
    assert "INTERRUPTED" in output
    data = json.loads((reports / "results.json").read_text())
    assert data["run"]["exit_code"] == 2
    assert not data["run"]["complete"]
    assert data["summary"]["passed"] == 0
    assert {row["skip"] for row in data["checks"]} == {"blocked"}
    assert "cluster.operands" in {row["id"] for row in data["checks"]}
    assert "gpusmith_validation_exit_code 2.0" in (reports / "metrics.prom").read_text()


def test_every_check_is_listed_in_order(root: Path, dead: Path, tmp_path: Path) -> None:
    report = f"--report-dir={tmp_path / 'r'}"
    # However the folders are named.
    folders = [f"validation/{tier}" for tier in ("workloads", "nodes", "cluster")]
    done = start(root, dead, *folders, f"--inventory={dead}", "--collect-only", "-q", report)
    assert done.returncode == 0, done.stdout + done.stderr
    listed = re.findall(r"\[(.+)\]$", done.stdout, re.MULTILINE)
    assert listed == [f"{row.id}-gpu-1" if row.per_node else row.id for row in catalog().values()]
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("words", "tiers"),
    [
        (["-m", "safe"], {"nodes", "cluster"}),
        (["-m", "workloads"], {"workloads"}),
        (["-k", "cluster"], {"cluster"}),
        (["--tier=nodes,workloads"], {"nodes", "workloads"}),
    ],
)
def test_tiers_are_selected_by_marker_name_and_option(
    root: Path, dead: Path, tmp_path: Path, words: list[str], tiers: set[str]
) -> None:
    report = f"--report-dir={tmp_path / 'r'}"
    done = start(root, dead, "validation", f"--inventory={dead}", "--collect-only", "-q", report, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    listed = set(re.findall(r"\[([a-z]+)\.", done.stdout))
    assert listed == tiers
