"""Modules that ask repositories know of the site's proxy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.gpusmith.gpu.plugins.action import (
    driver_build,
    driver_offers,
    driver_upgrade,
    packages,
    preflight,
    serving_change,
)
from ansible_collections.gpusmith.gpu.plugins.module_utils import packages as door
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.authorities import ENVIRONMENT
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.egress import EgressAction

from tests.authorities import authority

PROXY = {"http": "http://proxy:3128", "no_proxy": ["mirror"]}
NAMES = "localhost,127.0.0.1,::1,.svc,.cluster.local"


class End(Exception):  # noqa: N818 - none of an error
    """The action has come as far as the test looks."""


def told(variables: dict[str, Any], there: Any = None) -> Any:
    task = SimpleNamespace(environment=there)
    action: Any = SimpleNamespace(_task=task, _templar=SimpleNamespace(template=lambda value: value))
    EgressAction.way_out(action, variables)
    return task.environment


def test_modules_are_told() -> None:
    variables = {"gpusmith_proxy": PROXY, "inventory_hostname": "gpu-1"}
    ours = {"http_proxy": "http://proxy:3128", "no_proxy": f"{NAMES},mirror"}
    assert told(variables) == [ours]
    # Later ones win.
    assert told(variables, [{"http_proxy": ""}]) == [ours, {"http_proxy": ""}]


def test_modules_are_told_of_authorities() -> None:
    first, second = authority().certificate, authority().certificate
    (found,) = told({"gpusmith_ca_certificates": {"b": second, "a": first}, "gpusmith_proxy": PROXY})
    assert found["http_proxy"] == "http://proxy:3128"
    lines = found[ENVIRONMENT].splitlines(keepends=True)
    assert "".join(line for line in lines if not line.startswith("#")) == first + second


@pytest.mark.parametrize(
    ("said", "patience"),
    [
        ({"gpusmith_package_lock_timeout_s": 0}, 0),
        ({"gpusmith_package_lock_timeout_s": "900"}, 900),
        ({}, 300),
    ],
)
def test_modules_are_told_how_long_others_may_keep_a_lock(
    said: dict[str, Any], patience: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for row in told(said) or []:
        for name, text in row.items():
            monkeypatch.setenv(name, text)
    monkeypatch.setattr(door, "manager", lambda: "apt")
    monkeypatch.setattr(door, "BACKENDS", {"apt": lambda lock_timeout_s: lock_timeout_s})
    assert door.backend() == patience


def test_modules_are_told_which_packages_of_others_may_go(monkeypatch: pytest.MonkeyPatch) -> None:
    assert door.removable() == []
    (found,) = told({"preflight_removable_packages": ["runc", "docker*"]})
    for name, text in found.items():
        monkeypatch.setenv(name, text)
    assert door.removable() == ["runc", "docker*"]


NOTHING_SAID: dict[str, Any] = {
    "gpusmith_proxy": {},
    "gpusmith_ca_certificates": {},
    "preflight_removable_packages": [],
}


@pytest.mark.parametrize("variables", [None, {}, NOTHING_SAID])
def test_without_a_proxy_nothing_is_told(variables: Any) -> None:
    assert told(variables) is None
    assert told(variables, [{"a": "b"}]) == [{"a": "b"}]


@pytest.mark.parametrize(
    "plugin", [driver_build, driver_offers, driver_upgrade, packages, preflight, serving_change]
)
def test_every_plugin_that_asks_repositories_tells(plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(_self: Any, variables: Any) -> None:
        raise End(variables)

    monkeypatch.setattr(ActionBase, "run", lambda *_given: {})
    monkeypatch.setattr(EgressAction, "way_out", ends)
    action = object.__new__(plugin.ActionModule)
    with pytest.raises(End, match="gpu-1"):
        action.run(None, {"inventory_hostname": "gpu-1"})
