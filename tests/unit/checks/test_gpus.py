"""Which GPUs there are, and that nodes are alike."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from gpusmith.checks import gpus, services
from gpusmith.checks.findings import CannotAsk, NotApplicable
from gpusmith.node.facts import NodeFacts
from gpusmith.node.records import parse
from tests.faults.driver import library_mismatch, not_loaded
from tests.faults.fault import Record
from tests.faults.gpus import device
from tests.unit.checks.judged import Facts, failing
from tests.unit.hosts import make_host
from tests.unit.records import divided_record, healthy_record, other_record


def test_two_names_of_one_machine_prove_one(facts: Facts, record: Record) -> None:
    found = failing(facts(record, fleet={"gpu-2": copy.deepcopy(record)}))
    assert set(found) == {"nodes.gpu-count", "nodes.identity"}
    assert "also those of node 'gpu-2'" in found["nodes.gpu-count"]
    assert "one machine" in found["nodes.gpu-count"]


def test_a_mode_that_the_driver_was_told_is_right(facts: Facts, record: Record) -> None:
    record["dev"].update(file_mode=0o660, file_gid=44)
    for node in record["dev"]["nodes"].values():
        node.update(mode=0o660, gid=44)
    assert failing(facts(record)) == {}
    device("/dev/nvidia3", gid=0)(record)
    cause = failing(facts(record))["nodes.gpu-count"]
    assert "/dev/nvidia3 of GPU 2" in cause
    assert "0:0" in cause
    assert "0:44" in cause


def test_without_a_known_major_any_uvm_character_device_will_do(facts: Facts, record: Record) -> None:
    record["dev"]["uvm_major"] = None
    assert failing(facts(record)) == {}


def test_nodes_of_a_driver_that_is_not_loaded_are_no_matter(facts: Facts, record: Record) -> None:
    not_loaded(record)
    assert "device node" not in failing(facts(record))["nodes.gpu-count"]


def test_a_model_that_is_no_row_is_not_compared(facts: Facts, record: Record) -> None:
    for gpu in (*record["pci"]["gpus"], *record["nvml"]["gpus"]):
        gpu.update(device_id="10de:2bb6", name="NVIDIA RTX PRO 6000 Blackwell", memory_mib=97887)
    for model in (None, "our-rtx"):
        with pytest.raises(
            NotApplicable, match=r"no row of data/gpus\.yml: no baseline; .*'gpusmith_gpu_models'\.$"
        ):
            gpus.gpu_model(facts(record, gpusmith_gpu_model=model))


def test_a_name_that_is_no_row_is_for_gpus_that_are_none(facts: Facts, record: Record) -> None:
    found = failing(facts(record, gpusmith_gpu_model="x100"))["nodes.gpu-model"]
    assert "'h100-sxm'" in found
    assert "'x100'" in found


def test_without_a_declared_model_each_gpu_is_compared_with_its_own_row(facts: Facts, record: Record) -> None:
    assert gpus.gpu_model(facts(record, gpusmith_gpu_model=None)) == []
    record["pci"]["gpus"][1].update(device_id="10de:27b8")
    record["nvml"]["gpus"][1].update(name="NVIDIA L4", memory_mib=23034)
    assert gpus.gpu_model(facts(record, gpusmith_gpu_model=None)) == []
    record["nvml"]["gpus"][1].update(memory_mib=12000)
    (problem,) = gpus.gpu_model(facts(record, gpusmith_gpu_model=None))
    assert "model 'l4' has 23034" in problem.cause


def test_another_product_with_a_known_pci_id_is_no_row(facts: Facts, record: Record) -> None:
    record["pci"]["gpus"][1].update(device_id="10de:25b6")
    record["nvml"]["gpus"][1].update(name="NVIDIA A2", memory_mib=15356)
    with pytest.raises(NotApplicable, match=r"NVIDIA A2.*nothing is wrong with the other 3"):
        gpus.gpu_model(facts(record, gpusmith_gpu_model=None))


def lost(record: Record) -> None:
    record["nvml"]["gpus"][1].update(error="GPU is lost", name=None, memory_mib=None, fabric_state=None)


@pytest.mark.parametrize("change", [library_mismatch, lost])
@pytest.mark.parametrize("model", ["h100-sxm", None])
def test_what_no_gpu_was_asked_for_is_no_pass(
    model: str | None, change: Callable[[Record], None], facts: Facts, record: Record
) -> None:
    change(record)
    for check in (gpus.gpu_model, services.fabric):
        with pytest.raises(CannotAsk, match=r"see nodes\.nvml"):
            check(facts(record, gpusmith_gpu_model=model))
    record["pci"]["gpus"][0]["device_id"] = "10de:26b9"
    assert bool(model) is ("nodes.gpu-model" in failing(facts(record, gpusmith_gpu_model=model)))


@pytest.mark.parametrize(
    ("model", "ecc", "memory", "right"),
    [
        ("t4", "enabled", 15360, True),
        ("t4", "disabled", 16384, True),
        ("t4", "disabled", 15360, False),
        ("t4", "enabled", 16384, False),
        ("l40s", "disabled", 49140, True),
        ("h100-sxm", "disabled", 81559, True),
        ("h100-sxm", "disabled", 86996, False),
    ],
)
def test_ecc_takes_a_sixteenth_of_gddr_memory(
    model: str, ecc: str, memory: int, right: bool, facts: Facts, record: Record
) -> None:
    record["nvml"]["gpus"][1].update(ecc_mode=ecc, memory_mib=memory)
    causes = [problem.cause for problem in gpus.gpu_model(facts(record, gpusmith_gpu_model=model))]
    assert right is not any(f"has {memory} MiB of memory" in cause for cause in causes)


def of_fleet(wanted: dict[str, dict[str, Any]], seen: dict[str, Record]) -> dict[str, str]:
    """What uniformity says of each node, by what the inventory wants of it and what its record shows."""
    hosts = {name: make_host(name, **changes) for name, changes in wanted.items()}
    fleet = {name: parse(record) for name, record in seen.items()}
    return {
        name: " ".join(
            problem.cause for problem in gpus.uniformity(NodeFacts(hosts[name], record, None, fleet, hosts))
        )
        for name, record in fleet.items()
    }


def on_driver(version: str) -> Record:
    record = healthy_record()
    record["module"]["loaded_version"] = version
    return record


def test_a_canary_that_the_inventory_wants_is_no_difference() -> None:
    wanted: dict[str, dict[str, Any]] = {
        "gpu-1": {"nvidia_driver_version": "590.10.01"},
        "gpu-2": {},
        "gpu-3": {},
    }
    seen = {
        "gpu-1": on_driver("590.10.01"),
        "gpu-2": on_driver("580.178.04"),
        "gpu-3": on_driver("580.178.04"),
    }
    assert of_fleet(wanted, seen) == {"gpu-1": "", "gpu-2": "", "gpu-3": ""}
    # Of which the inventory wants the same, the one that differs is named: neither canary nor others hide it.
    found = of_fleet({**wanted, "gpu-1": {}}, seen)
    assert "loaded driver is '590.10.01'" in found["gpu-1"]
    assert (found["gpu-2"], found["gpu-3"]) == ("", "")
    wanted["gpu-4"] = {"nvidia_driver_version": "590.10.01"}
    found = of_fleet(wanted, {**seen, "gpu-4": on_driver("580.178.04")})
    assert "loaded driver is '580.178.04', on others" in found["gpu-4"]


def test_what_the_inventory_does_not_set_is_compared_with_a_canary_too() -> None:
    seen = {name: healthy_record() for name in ("gpu-1", "gpu-2", "gpu-3")}
    seen["gpu-1"]["host"]["kernel"] = "6.12"
    wanted: dict[str, dict[str, Any]] = {
        "gpu-1": {"nvidia_driver_version": "590.10.01"},
        "gpu-2": {},
        "gpu-3": {},
    }
    assert "kernel is '6.12'" in of_fleet(wanted, seen)["gpu-1"]


def test_a_canary_of_containerd_is_no_difference() -> None:
    seen = {name: healthy_record() for name in ("gpu-1", "gpu-2")}
    seen["gpu-1"]["containerd"]["version"] = "2.4.0"
    assert set(of_fleet({"gpu-1": {"containerd_version": "2.4.0"}, "gpu-2": {}}, seen).values()) == {""}
    assert "containerd is '2.4.0'" in of_fleet({"gpu-1": {}, "gpu-2": {}}, seen)["gpu-1"]


BY_MPS = {"gpusmith_gpu_sharing": "mps", "gpusmith_gpu_shares": 4}
HALVES = {"gpusmith_gpu_sharing": "mig", "gpusmith_gpu_mig_profile": "3g.40gb"}


def test_a_node_that_is_divided_as_the_inventory_asks_passes(facts: Facts) -> None:
    other = other_record()
    other["nvml"]["gpus"] = []
    assert failing(facts(divided_record(), {"gpu-2": other}, **HALVES)) == {}
    record = divided_record()
    record["nvml"]["gpus"][1]["instances"].pop()
    found = failing(facts(record, {"gpu-2": other}, **HALVES))
    assert set(found) == {"nodes.gpu-layout", "nodes.cdi"}, "the specification has an instance that is gone"
    assert "GPU 1" in found["nodes.gpu-layout"]


def test_whose_gpus_do_not_answer_prove_no_layout(facts: Facts) -> None:
    record = divided_record()
    record["nvml"]["gpus"][1].update(error="GPU is lost")
    with pytest.raises(CannotAsk, match=r"see nodes\.nvml"):
        gpus.gpu_layout(facts(record, **HALVES))


def by_mps(record: Record, controls: list[int], mode: str = "exclusive_process") -> Record:
    for gpu in record["nvml"]["gpus"]:
        gpu.update(compute_mode=mode)
    record["mps"] = {"controls": controls, "left": True}
    return record


def test_a_node_that_shares_by_mps_has_its_daemon_and_its_mode(facts: Facts, record: Record) -> None:
    assert failing(facts(by_mps(record, [4711]), **BY_MPS)) == {}
    (problem,) = gpus.gpu_mps(facts(by_mps(record, []), **BY_MPS))
    assert "control daemon does not run" in problem.cause
    assert "pod of 'mps-control-daemon-mps-4'" in problem.next_step
    record["mps"]["controls"] = [4711]
    record["nvml"]["gpus"][2]["compute_mode"] = "default"
    (problem,) = gpus.gpu_mps(facts(record, **BY_MPS))
    assert "GPU 2" in problem.cause
    assert "nvidia-smi -i 2 -c EXCLUSIVE_PROCESS" in problem.next_step


def test_what_a_killed_daemon_leaves_is_named_with_the_command_that_repairs_it(
    facts: Facts, record: Record
) -> None:
    first, *others = gpus.gpu_mps(facts(by_mps(record, [])))
    assert len(others) == 3, "one for each GPU"
    assert "killed" in first.cause
    assert first.next_step.endswith("run on 'gpu-1': nvidia-smi -i 0 -c DEFAULT")
    record["mps"]["left"] = False
    assert gpus.gpu_mps(facts(record)) == [], "a mode of the site's own"


@pytest.mark.parametrize(
    ("changes", "variables"), [({"compute_mode": None}, {}), ({"error": "GPU is lost"}, {})]
)
def test_a_mode_that_is_not_told_is_not_good(
    facts: Facts, record: Record, changes: dict[str, Any], variables: dict[str, Any]
) -> None:
    record["nvml"]["gpus"][1].update(changes)
    with pytest.raises(CannotAsk):
        gpus.gpu_mps(facts(record, **variables))


def test_mps_of_others_is_not_judged(facts: Facts, record: Record) -> None:
    with pytest.raises(NotApplicable, match="its device plugin is somebody else's"):
        gpus.gpu_mps(facts(by_mps(record, [1]), gpu_operands_device_plugin="existing"))


def test_records_that_say_nothing_of_mps_prove_nothing(facts: Facts, record: Record) -> None:
    by_mps(record, [1]).pop("mps")
    with pytest.raises(CannotAsk, match="is not known"):
        gpus.gpu_mps(facts(record, **BY_MPS))


def test_where_others_divide_gpus_the_step_is_theirs(facts: Facts, record: Record) -> None:
    record["nvml"]["gpus"][1].update(mig_mode="enabled")
    (problem,) = gpus.gpu_layout(facts(record, gpu_operands_device_plugin="existing"))
    assert "'nvidia-smi -i 1 -mig 0'" in problem.next_step
