"""Action plugins that look at a node: what they send, what they return, and when waiting ends."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from gpusmith.data import systems
from gpusmith.probe.host import read_os_release


def test_this_machine_is_named_as_ansible_names_it() -> None:
    distribution = pytest.importorskip("ansible.module_utils.facts.system.distribution")
    release = read_os_release(Path("/etc/os-release").read_text())
    facts = systems.os_facts({"os_id": release["ID"], "os_version": release["VERSION_ID"]})
    module = SimpleNamespace(get_bin_path=lambda *_: None, run_command=lambda *_, **__: (1, "", ""))
    told = distribution.Distribution(module).get_distribution_facts()
    assert facts
    assert {name: told[name] for name in facts if name != "distribution_version"} == {
        name: value for name, value in facts.items() if name != "distribution_version"
    }
