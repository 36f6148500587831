from __future__ import annotations

from dataclasses import replace

from gpusmith.probe.containerd import Containerd
from gpusmith.probe.host import Host
from gpusmith.probe.library import Library
from gpusmith.probe.module import DriverModule
from gpusmith.probe.packages import Package
from gpusmith.probe.record import SCHEMA, Record
from gpusmith.probe.stamp import missing_facts, stamp_facts


def test_the_facts_of_a_stamp_depend_on_what_matters_only() -> None:
    record = Record(
        SCHEMA,
        module=DriverModule(loaded_version="580.178.04"),
        host=Host(kernel="6.1", time_unix=1.0),
        containerd=Containerd(version="2.3.7", digest="0" * 64),
        packages={"nvidia-container-toolkit": Package("1.20.1-1", held=True)},
        library=Library(simulated=True),
    )
    facts = stamp_facts(record)
    # Nodes carry such digests: the same facts must go on giving the same one.
    assert facts == {
        "driver": "580.178.04",
        "kernel": "6.1",
        "runtime": "containerd 2.3.7, toolkit 1.20.1-1, configuration 0000000000000000",
        "simulated": True,
        "digest": "sha256:94d3e66793784b5f3ca76012b3d9a686131f00df6a1dfe954c5cdd88d9f7f253",
    }
    assert stamp_facts(replace(record, host=Host(kernel="6.1", time_unix=2.0))) == facts
    changed = replace(record, module=DriverModule(loaded_version="595.91.07"))
    assert stamp_facts(changed)["digest"] != facts["digest"]
    assert missing_facts(stamp_facts(Record(SCHEMA))) == ["driver", "kernel"]
