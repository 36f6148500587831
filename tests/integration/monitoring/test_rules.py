"""promtool's tests of the alerts find what is wrong with each of them, and annotations are filled in.

All alerts are changed at once, since none reads another: what promtool then says differs in the samples of ALERTS of each one.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.data.monitoring import files

Alert = dict[str, Any]
Key = tuple[str, frozenset[tuple[str, str]]]
SAMPLE = re.compile(r"\{[^{}]*\balertname=[^{}]*\}")
PAIR = re.compile(r'(\w+)="([^"]*)"')
ANNOTATIONS = re.compile(r"Annotations:\{(.*)\}")


def key(alert: Alert) -> Key:
    return alert["alert"], frozenset(alert["labels"].items())


def all_alerts() -> list[Alert]:
    return [
        row
        for path in sorted((files() / "rules").glob("*.yml"))
        for group in yaml.safe_load(path.read_text())["groups"]
        for row in group["rules"]
        if "alert" in row
    ]


def dead(alert: Alert) -> None:
    alert["expr"] = "vector(0) > 1"


def hasty(alert: Alert) -> None:
    del alert["for"]


def short(alert: Alert) -> None:
    del alert["keep_firing_for"]


def changed(root: Path, folder: Path, change: Callable[[Alert], None] | None) -> Path:
    """The rules, each alert changed that can be, and their tests beside them."""
    shutil.copytree(root / "tests/monitoring", folder / "tests/monitoring")
    target = folder / "roles/gpu_monitoring/files/rules"
    target.mkdir(parents=True)
    for path in (files() / "rules").glob("*.yml"):
        content = yaml.safe_load(path.read_text())
        for group in content["groups"]:
            for row in group["rules"]:
                if "alert" in row and change is not None and can_be(change, row):
                    change(row)
        (target / path.name).write_text(yaml.safe_dump(content))
    return folder / "tests/monitoring"


def can_be(change: Callable[[Alert], None], alert: Alert) -> bool:
    needs = {hasty: "for", short: "keep_firing_for"}
    return change not in needs or needs[change] in alert


def promtool(root: Path, folder: Path) -> str:
    tests = sorted(folder.glob("*.test.yml"))
    done = subprocess.run(
        [root / "scripts/promtool", "test", "rules", *tests], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def differences(told: str) -> Iterator[dict[str, str]]:
    """Labels of alerts that were expected and not there, or there and not expected."""
    for failure in re.split(r"\n(?=    (?:name:|expr:|alertname:))", told):
        wanted, _, got = failure.partition("got:")
        sides = [{m[0] for m in SAMPLE.finditer(side)} for side in (wanted.partition("exp:")[2], got)]
        for sample in sides[0] ^ sides[1]:
            yield dict(PAIR.findall(sample))


@pytest.mark.parametrize("change", [dead, hasty, short])
def test_no_alert_can_be_changed_unseen(root: Path, tmp_path: Path, change: Callable[[Alert], None]) -> None:
    told = promtool(root, changed(root, tmp_path, change))
    wanted = {key(alert) for alert in all_alerts() if can_be(change, alert)}
    found = list(differences(told))
    unseen = {
        (name, labels)
        for name, labels in wanted
        if not any(each.get("alertname") == name and labels <= set(each.items()) for each in found)
    }
    assert len(wanted) >= 3
    assert unseen == set(), told


def test_a_missing_promtool_fails_and_says_what_to_do(root: Path, tmp_path: Path) -> None:
    for name in ("bash", "cat"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    environment = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        [root / "scripts/promtool", "test"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "Next: make setup" in done.stderr
