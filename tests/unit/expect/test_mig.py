"""GPUs are divided as the node's layout says, by NVML and after the next boot."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.errors import InputError
from gpusmith.expect import mig
from gpusmith.node.records import parse
from gpusmith.problems import Problem
from gpusmith.wanted.layouts import WHOLE, Layout, instances
from tests.unit.hosts import UUIDS, make_host
from tests.unit.records import divided_record, healthy_record

HALVES = instances("3g.40gb", 2)
STEP = "'ansible-playbook -i INVENTORY playbooks/change_layout.yml -l gpu-1'"


def found(record: dict[str, Any], layout: Layout = HALVES, **changes: Any) -> list[Problem]:
    return mig.problems(parse(record), mig.wanted(make_host(**changes), layout))


def test_gpus_that_are_divided_as_asked_pass() -> None:
    assert found(divided_record()) == []
    assert found(healthy_record(), WHOLE) == []
    # NVML lists instances in the order in which they were made.
    record = divided_record()
    record["nvml"]["gpus"][1]["instances"].reverse()
    assert found(record) == []


def test_every_layout_that_a_model_can_have_is_taken_as_it_is_placed() -> None:
    want = mig.wanted(make_host(), instances("1g.10gb+me", 1))
    record = divided_record()
    for gpu in record["nvml"]["gpus"]:
        gpu["instances"] = [
            {
                "uuid": "MIG-x",
                "gpu_instance": 7,
                "profile": "1_SLICE_REV1",
                "start": want.placements[0].start,
                "size": 1,
            }
        ]
    record["gpu_layout"] = {
        "profile": "1g.10gb+me",
        "nvml": "1_SLICE_REV1",
        "starts": [want.placements[0].start],
    }
    assert mig.problems(parse(record), want) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"mig_mode": "disabled", "mig_mode_pending": "disabled", "instances": None}, "is not in MIG mode"),
        ({"mig_mode": None, "mig_mode_pending": None, "unsupported": ["mig_mode"], "instances": None}, "is not in MIG mode"),
        ({"mig_mode": "disabled"}, "will be in MIG mode after its next reset"),
        ({"mig_mode_pending": "disabled"}, "will not be in MIG mode after its next reset"),
        ({"instances": []}, "is divided into no instance"),
        ({"instances": None}, "does not tell its MIG instances, NVML says: nothing"),
        ({"instances": None, "unreadable": {"instances": "Unknown Error"}}, "its MIG instances, NVML says: Unknown Error"),
    ],
)  # fmt: skip
def test_each_gpu_that_is_divided_otherwise_is_named(changes: dict[str, Any], says: str) -> None:
    record = divided_record()
    record["nvml"]["gpus"][1].update(changes)
    (problem,) = found(record)
    assert problem.cause.startswith(f"Node 'gpu-1': GPU 1 ({UUIDS[1]}, 0000:2a:00.0) ")
    assert says in problem.cause
    assert problem.cause.endswith(", it is to be 3g.40gb at 0, 3g.40gb at 4.")
    assert STEP in problem.next_step


def test_instances_of_another_profile_or_place_are_named() -> None:
    record = divided_record()
    rows = record["nvml"]["gpus"][1]["instances"]
    rows[0].update(profile="2_SLICE", size=2)
    (problem,) = found(record)
    assert (
        "is divided into 2_SLICE at 0, 3g.40gb at 4, it is to be 3g.40gb at 0, 3g.40gb at 4." in problem.cause
    )
    assert problem.evidence["instances"][0]["profile"] == "2_SLICE"
    del rows[0]
    (problem,) = found(record)
    assert "is divided into 3g.40gb at 4, it is to be" in problem.cause


def test_an_instance_without_a_device_is_named() -> None:
    record = divided_record()
    record["nvml"]["gpus"][1]["instances"][1]["uuid"] = None
    (problem,) = found(record)
    assert "has no MIG device for GPU instance 2 (at 4), it is to be" in problem.cause


def test_a_gpu_that_does_not_tell_is_named_and_one_that_is_lost_is_anothers_matter() -> None:
    for record, layout in ((divided_record(), HALVES), (healthy_record(), WHOLE)):
        record["nvml"]["gpus"][1].update(mig_mode=None, unreadable={"mig_mode": "Unknown Error"})
        (problem,) = found(record, layout)
        assert "whether it is in MIG mode cannot be read, NVML says: Unknown Error." in problem.cause
        record["nvml"]["gpus"][1].update(error="GPU is lost")
        assert found(record, layout) == []


def test_whole_gpus_are_in_no_mig_mode() -> None:
    record = healthy_record()
    record["nvml"]["gpus"][1].update(divided_record()["nvml"]["gpus"][1])
    (problem,) = found(record, WHOLE)
    assert "is in MIG mode, with 3_SLICE at 0, 3_SLICE at 4, it is to be whole." in problem.cause
    assert STEP in problem.next_step
    (problem,) = found(record, WHOLE, gpu_operands_device_plugin="existing")
    assert "'nvidia-smi -i 1 -mig 0'" in problem.next_step


@pytest.mark.parametrize(
    ("layout", "file", "says"),
    [
        (HALVES, None, "whole after a boot, and are to be 3g.40gb (3_SLICE) at 0, 4."),
        (HALVES, {"profile": "3g.40gb", "nvml": "3_SLICE", "starts": [0]}, "3g.40gb (3_SLICE) at 0 after a boot, and"),
        (HALVES, {"profile": "2g.20gb", "nvml": "2_SLICE", "starts": [0, 2, 4]}, "2g.20gb (2_SLICE) at 0, 2, 4 after a boot"),
        (WHOLE, {"profile": "3g.40gb", "nvml": "3_SLICE", "starts": [0, 4]}, "3g.40gb (3_SLICE) at 0, 4 after a boot"),
    ],
)  # fmt: skip
def test_what_a_boot_would_make_is_compared(layout: Layout, file: Any, says: str) -> None:
    record = {**(divided_record() if layout.profile else healthy_record()), "gpu_layout": file}
    (problem,) = found(record, layout)
    assert problem.cause.startswith(
        "Node 'gpu-1': by '/etc/gpusmith/gpu-layout.json' its GPUs will be " + says
    )
    assert STEP in problem.next_step


def test_a_model_of_which_nothing_is_known_cannot_be_judged() -> None:
    with pytest.raises(InputError, match="No MIG profiles are known of GPU model 't4'"):
        mig.wanted(make_host(gpusmith_gpu_model="t4"), HALVES)


def test_only_what_others_divided_is_refused() -> None:
    record = divided_record()
    assert mig.divided(parse(record), "gpu-1") == []
    # A file that divides nothing is none.
    for file in (None, {"profile": "", "nvml": "", "starts": []}):
        record["gpu_layout"] = file
        assert len(mig.divided(parse(record), "gpu-1")) == 4
        assert found({**healthy_record(), "gpu_layout": file}, WHOLE) == []


def test_a_boot_goes_by_the_file_only_with_its_unit() -> None:
    record = divided_record()
    record["services"]["gpusmith-gpu-layout"]["enabled"] = "disabled"
    (problem,) = found(record)
    assert "unit 'gpusmith-gpu-layout', which divides its GPUs at a boot, is disabled" in problem.cause
    del record["services"]["gpusmith-gpu-layout"]
    assert found(record) == [], "an older record does not tell"


def test_gpus_that_the_inventory_leaves_out_since_are_no_matter_of_memory() -> None:
    (problem,) = found(divided_record(), gpusmith_gpus_ignored=["10DE:1fb0"])
    assert "are to be 3g.40gb (3_SLICE) at 0, 4, but for 10de:1fb0" in problem.cause
