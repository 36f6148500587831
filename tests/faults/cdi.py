"""CDI specifications."""

from __future__ import annotations

from gpusmith.problems import Cure
from tests.faults.fault import Fault, Record, repairs, sets
from tests.unit.records import cdi_spec


def swap_names(devices: list[Record]) -> None:
    devices[0]["name"], devices[1]["name"] = devices[1]["name"], devices[0]["name"]


def spec_of(record: Record) -> Record:
    found: Record = record["cdi"]["specs"][0]
    return found


def cdi_node(record: Record, device: int) -> Record:
    found: Record = spec_of(record)["devices"][device]["nodes"][0]
    return found


FAULTS = {
    "stale-cdi": Fault(
        lambda record: spec_of(record).update(driver_version="580.95.05"),
        "nodes.cdi",
        ("580.95.05", "580.178.04"),
        repairs=repairs(nvidia_container_toolkit={Cure.CDI}),
    ),
    "cdi-without-a-gpu": Fault(
        lambda record: spec_of(record)["devices"].pop(1),
        "nodes.cdi",
        ("GPU 1",),
        repairs=repairs(nvidia_container_toolkit={Cure.CDI}),
    ),
    "cdi-gives-another-gpu": Fault(
        lambda record: cdi_node(record, 2).update(path="/dev/nvidia2", host_path="/dev/nvidia2"),
        "nodes.cdi",
        ("device '2' of '/var/run/cdi/nvidia.yaml'", "/dev/nvidia2", "GPU 2", "/dev/nvidia3"),
        repairs=repairs(nvidia_container_toolkit={Cure.CDI}),
    ),
    "cdi-gives-another-gpu-under-its-path": Fault(
        lambda record: cdi_node(record, 2).update(host_path="/dev/nvidia2"),
        "nodes.cdi",
        ("device '2'", "/dev/nvidia2", "GPU 2"),
        repairs=repairs(nvidia_container_toolkit={Cure.CDI}),
    ),
    "cdi-gives-another-device-number": Fault(
        lambda record: cdi_node(record, 2).update(numbers="195:2"),
        "nodes.cdi",
        ("device '2'", "195:2", "GPU 2", "195:3"),
        repairs=repairs(nvidia_container_toolkit={Cure.CDI}),
    ),
    "cdi-gives-no-device": Fault(
        lambda record: spec_of(record)["devices"][2].update(nodes=[]),
        "nodes.cdi",
        ("device '2'", "gives no GPU's device node", "GPU 2"),
        repairs=repairs(nvidia_container_toolkit={Cure.CDI}),
    ),
    "cdi-all-is-not-all": Fault(
        lambda record: spec_of(record)["devices"][4]["nodes"].pop(),
        "nodes.cdi",
        ("device 'all'", "/dev/nvidia3"),
        repairs=repairs(nvidia_container_toolkit={Cure.CDI}),
    ),
    "cdi-unreadable": Fault(
        lambda record: spec_of(record).update(problem="line 7: anchors are not read", devices=[]),
        "nodes.cdi",
        ("'/var/run/cdi/nvidia.yaml' cannot be read", "line 7"),
        repairs=repairs(nvidia_container_toolkit={Cure.CDI}),
    ),
    "plugin-gives-another-gpu": Fault(
        lambda record: swap_names(record["cdi"]["plugin_specs"][0]["devices"]),
        "nodes.cdi",
        ("CDI device 'GPU-", "k8s.device-plugin.nvidia.com-gpu.json' gives /dev/nvidia0", "GPU 0", "GPU 1"),
        repairs=repairs(gpu_operands={Cure.PLUGIN}),
    ),
    "plugin-gives-another-number": Fault(
        sets("cdi", "plugin_specs", 0, "devices", 2, "nodes", 0, numbers="195:1"),
        "nodes.cdi",
        ("195:1", "GPU 2"),
        repairs=repairs(gpu_operands={Cure.PLUGIN}),
    ),
    "plugin-unreadable": Fault(
        sets("cdi", "plugin_specs", 0, problem="no JSON", devices=[]),
        "nodes.cdi",
        ("device plugin's CDI specification", "cannot be read: no JSON"),
        repairs=repairs(gpu_operands={Cure.PLUGIN}),
    ),
    "plugin-without-a-file": Fault(
        sets("cdi", plugin_specs=[]),
        "nodes.cdi",
        ("there is no CDI specification of the device plugin, so no new pod gets a GPU",),
        repairs=repairs(gpu_operands={Cure.PLUGIN}),
    ),
    "plugin-without-a-gpu": Fault(
        lambda record: record["cdi"]["plugin_specs"][0]["devices"].pop(2),
        "nodes.cdi",
        ("GPU 2", "is not in the device plugin's CDI specification"),
        repairs=repairs(gpu_operands={Cure.PLUGIN}),
    ),
    "plugin-in-a-folder-that-nobody-reads": Fault(
        lambda record: (
            sets("containerd", "effective", cdi_spec_dirs=["/etc/cdi"])(record),
            sets("cdi", specs=[cdi_spec("/etc/cdi/nvidia.yaml", 0)], plugin_specs=[])(record),
        ),
        "nodes.cdi",
        ("containerd reads CDI specifications in '/etc/cdi'", "'/var/run/cdi', so no new pod"),
    ),
    "cdi-copy-in-the-same-folder": Fault(
        lambda record: record["cdi"]["specs"].append(cdi_spec("/var/run/cdi/copy.yaml")),
        "nodes.cdi",
        ("'/var/run/cdi/copy.yaml'", "'/var/run/cdi/nvidia.yaml'", "both have", "'0'", "refuses"),
    ),
    "cdi-stale-spec-wins": Fault(
        lambda record: (
            record["cdi"].update(specs=[cdi_spec("/etc/cdi/nvidia.yaml", 0), cdi_spec()]),
            record["cdi"]["specs"][1].update(driver_version="580.95.05"),
        ),
        "nodes.cdi",
        ("'/var/run/cdi/nvidia.yaml' is for driver 580.95.05", "shadows '/etc/cdi/nvidia.yaml'"),
        repairs=repairs(nvidia_container_toolkit={Cure.CDI}),
    ),
    "cdi-stale-spec-adds-a-name": Fault(
        lambda record: record["cdi"]["specs"].insert(
            0,
            {
                **cdi_spec("/etc/cdi/nvidia.yaml", 0),
                "driver_version": "580.95.05",
                "devices": [{"name": "gpu0", "nodes": []}],
            },
        ),
        "nodes.cdi",
        ("'/etc/cdi/nvidia.yaml' is for driver 580.95.05", "'gpu0'"),
    ),
    "cdi-of-a-gpu-that-left": Fault(
        lambda record: spec_of(record)["devices"].extend(
            [{"name": "4", "nodes": []}, {"name": "GPU-gone", "nodes": []}]
        ),
        "nodes.cdi",
        ("'4'", "'GPU-gone'", "no GPU of the node"),
        repairs=repairs(nvidia_container_toolkit={Cure.CDI}),
    ),
    "no-cdi": Fault(
        sets("cdi", specs=[], devices=[]),
        "nodes.cdi",
        ("there is no CDI specification",),
        repairs=repairs(nvidia_container_toolkit={Cure.CDI}),
    ),
}
