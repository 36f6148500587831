"""The container runtime."""

from __future__ import annotations

from tests.faults.fault import Record
from tests.unit.checks.judged import Facts, failing


def test_the_nvidia_runtime_is_every_pods_if_the_inventory_says_so(facts: Facts, record: Record) -> None:
    wants = {"nvidia_container_toolkit_default_runtime": True}
    assert "is 'runc'" in failing(facts(record, **wants))["nodes.containerd"]
    record["containerd"]["effective"].update(
        default_runtime="nvidia", default_binary="nvidia-container-runtime"
    )
    assert failing(facts(record, **wants)) == {}


def test_a_configuration_that_was_only_touched_is_the_running_one(facts: Facts, record: Record) -> None:
    record["containerd"]["config_changed_unix"] = 99.0
    assert failing(facts(record)) == {}


def test_a_note_of_an_earlier_start_tells_nothing(facts: Facts, record: Record) -> None:
    record["services"]["containerd"]["started_unix"] = 50.0
    record["containerd"].update(noted_digest="other", noted_unix=2.0)
    assert failing(facts(record)) == {}
