"""GPUs that the inventory leaves out: a machine is judged as if it had the others only."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpusmith.checks.evidence import count_evidence
from gpusmith.node.left_out import without
from gpusmith.node.records import parse
from gpusmith.upgrade import snapshot
from tests.unit.checks.judged import Facts, failing
from tests.unit.records import Record

LAST = 3
DISPLAY = "10de:1fb0"


def display(record: Record) -> None:
    """A DGX Display, which the driver drives, and which is unlike the others in all."""
    gpu, place = record["nvml"]["gpus"][LAST], record["pci"]["gpus"][LAST]
    place.update(device_id=DISPLAY, **{"class": "0x030000"})
    gpu.update(
        name="NVIDIA DGX Display", memory_mib=3911, ecc_mode=None, fabric_state="in_progress", pcie_width=4
    )
    gpu.update(unsupported=["ecc_mode"], vbios=None, unreadable={"vbios": "Unknown Error"})
    row = {"pid": 8, "user": "ann", "command": "viewer", "started_unix": 1.0}
    record["holders"] = [{**row, "devices": [f"/dev/nvidia{gpu['minor']}"]}]
    record["xids"] = [{"code": 79, "pci": place["address"], "message": "GPU has fallen off the bus."}]


def not_of_the_toolkit(record: Record) -> None:
    """The toolkit leaves a DGX Display out of its specification."""
    display(record)
    undescribed(record)


def vfio(record: Record) -> None:
    """A GPU that virtual machines get."""
    record["pci"]["gpus"][LAST]["driver"] = "vfio-pci"
    undescribed(record)
    minor = record["nvml"]["gpus"].pop(LAST)["minor"]
    record["dev"]["gpu_minors"].remove(minor)
    del record["dev"]["nodes"][f"/dev/nvidia{minor}"]


def undescribed(record: Record) -> None:
    own = f"/dev/nvidia{record['nvml']['gpus'][LAST]['minor']}"
    (spec,) = record["cdi"]["specs"]
    spec["devices"] = [row for row in spec["devices"] if row["name"] != str(LAST)]
    everything = next(row for row in spec["devices"] if row["name"] == "all")
    everything["nodes"] = [node for node in everything["nodes"] if node["path"] != own]


@pytest.mark.parametrize("change", [display, not_of_the_toolkit, vfio])
def test_the_suite_judges_the_others_and_says_what_is_left_out(
    change: Callable[[Record], None], facts: Facts, record: Record
) -> None:
    change(record)
    place = record["pci"]["gpus"][LAST]
    assert "nodes.gpu-count" in failing(facts(record, gpusmith_gpu_count=3))
    for name in {place["address"], place["device_id"].upper()} - {"10DE:2330"}:
        seen = facts(without(record, [name]), gpusmith_gpu_count=3)
        assert failing(seen) == {}
        assert place["address"] in count_evidence(seen)["notes"][0]


@pytest.mark.parametrize(("others", "told"), [(["/dev/nvidiactl"], False), (["/dev/nvidia0"], True)])
def test_who_uses_a_gpu_that_is_left_out_takes_none_from_pods(
    others: list[str], told: bool, facts: Facts, record: Record
) -> None:
    display(record)
    minor = record["nvml"]["gpus"][LAST]["minor"]
    holder = {"pid": 77, "user": "ann", "command": "paraview", "unit": "user@1000.service"}
    record["holders"] = [{**holder, "devices": [f"/dev/nvidia{minor}", *others], "started_unix": 1.0}]
    found = failing(facts(without(record, [DISPLAY]), gpusmith_gpu_count=3))
    assert list(found) == (["nodes.processes"] if told else [])


def test_the_gpus_that_count_are_as_strictly_judged(facts: Facts, record: Record) -> None:
    display(record)
    record["holders"][0]["devices"].append("/dev/nvidia0")
    seen = facts(without(record, [DISPLAY]), gpusmith_gpu_count=4)
    assert "'viewer'" in failing(seen)["nodes.processes"]
    assert (
        "3 on PCI, 3 in NVML, 3 in /dev, 4 in the inventory, and 1 left out"
        in failing(seen)["nodes.gpu-count"]
    )


def test_an_upgrade_compares_the_others(record: Record) -> None:
    display(record)
    before = snapshot.taken(parse(without(record, [DISPLAY])))
    record["nvml"]["gpus"].pop(LAST)
    assert snapshot.differences(before, parse(without(record, [DISPLAY])), "gpu-1") == []


def test_what_was_not_gathered_stays_unknown(record: Record) -> None:
    record.update(xids=None, nvml=None, holders=None)
    assert without(record, [DISPLAY])["holders"] is None
    assert without(record, [DISPLAY])["xids"] is None
    assert without(record, [DISPLAY])["nvml"] is None
