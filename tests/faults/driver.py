"""The driver: packages, module, libraries, NVML."""

from __future__ import annotations

from gpusmith.probe.module import UPGRADE_BLOCK
from gpusmith.problems import Cure
from tests.faults.fault import ADDRESS, UUID, Fault, Record, not_joined, repairs, sets, version


def library_mismatch(record: Record) -> None:
    record["library"].update(nvml_version="580.95.05", cuda_version="580.95.05")
    record["nvml"].update(init_code=18, error="Driver/library version mismatch", gpus=[])


def not_loaded(record: Record) -> None:
    record["module"].update(loaded_version=None, loaded_unix=None)
    record["nvml"].update(init_code=9, error="Driver Not Loaded", gpus=[])
    record["dev"].update(gpu_minors=[], control=False, uvm=False)
    record["services"]["nvidia-persistenced"]["active"] = "failed"
    record["services"]["nvidia-fabricmanager"]["active"] = "failed"


def kept_out_by_an_upgrade(record: Record) -> None:
    """One that was given up while it changed the driver."""
    not_loaded(record)
    record["module"]["blocked_by"] = UPGRADE_BLOCK


def no_driver(record: Record) -> None:
    """A machine before its first site.yml, as far as the driver goes."""
    not_joined(record)
    not_loaded(record)
    record["module"].update(installed_version=None, flavour=None, firmware=None)
    record["library"].update(nvml_version=None, cuda_version=None, simulated=None, nvidia_smi=None)
    for file in record["library"]["files"].values():
        file["path"] = None
    for name in [
        name for name in record["packages"] if name.startswith(("nvidia-", "lib")) and "container" not in name
    ]:
        del record["packages"][name]


def older_driver_before_the_join(record: Record) -> None:
    not_joined(record)
    version("libcuda1", "580.95.05-1")(record)


FAULTS = {
    "driver-library-mismatch": Fault(
        library_mismatch,
        "nodes.driver-versions",
        ("mismatch", "580.95.05", "580.178.04"),
        frozenset({"nodes.nvml", "nodes.gpu-count"}),
    ),
    "driver-not-loaded": Fault(
        not_loaded,
        "nodes.driver-versions",
        ("not loaded",),
        frozenset({"nodes.nvml", "nodes.gpu-count", "nodes.services", "nodes.fabric"}),
        repairs=repairs(nvidia_driver={Cure.LOAD, Cure.SERVICES}),
    ),
    "driver-kept-out-by-an-upgrade": Fault(
        kept_out_by_an_upgrade,
        "nodes.driver-versions",
        (UPGRADE_BLOCK, "given up"),
        frozenset({"nodes.nvml", "nodes.gpu-count", "nodes.services", "nodes.fabric"}),
        repairs=repairs(nvidia_driver={Cure.SERVICES}),
    ),
    "gpu-lost": Fault(
        sets("nvml", "gpus", 1, error="GPU is lost"),
        "nodes.nvml",
        ("GPU 1", UUID, "GPU is lost"),
    ),
    "gpu-lost-without-handle": Fault(
        sets("nvml", "gpus", 1, error="GPU is lost", uuid=None, pci=None, minor=None, name=None),
        "nodes.nvml",
        ("GPU 1", f"PCI {ADDRESS}", "GPU is lost"),
        frozenset({"nodes.cdi"}),
    ),
    "nvml-of-another-driver": Fault(
        sets("nvml", driver_version="570.1.2"),
        "nodes.driver-versions",
        ("NVML says that the driver is 570.1.2", "580.178.04"),
    ),
    "nvml-without-a-version": Fault(
        sets("nvml", driver_version=None),
        "nodes.driver-versions",
        ("NVML does not tell the driver's version",),
    ),
    "package-of-other-version": Fault(
        sets("packages", "libcuda1", version="595.91.07-1"),
        "nodes.driver-versions",
        ("'libcuda1' is 595.91.07", "580.178.04"),
    ),
    "nouveau": Fault(sets("module", nouveau_loaded=True), "nodes.driver-versions", ("nouveau",)),
    "no-module-file": Fault(
        sets("module", installed_version=None),
        "nodes.driver-versions",
        ("no module file for kernel 6.1.0", "next boot"),
        repairs=repairs(nvidia_driver={Cure.PACKAGES}),
    ),
    "next-kernel-without-module": Fault(
        lambda record: record["kernels"].append(
            {"release": "6.1.1", "image": "/boot/vmlinuz-6.1.1", "module": None}
        ),
        "nodes.kernels",
        ("kernel 6.1.1", "no module 'nvidia'", "no GPUs"),
        repairs=repairs(nvidia_driver={Cure.PACKAGES}),
    ),
    "next-kernel-with-another-module": Fault(
        lambda record: record["kernels"].append(
            {"release": "6.1.1", "image": "/boot/vmlinuz-6.1.1", "module": "m", "module_version": "570.86.10"}
        ),
        "nodes.kernels",
        ("kernel 6.1.1", "570.86.10"),
    ),
    "rest-of-another-driver": Fault(
        lambda record: record["packages"].update(
            {"libnvidia-ptxjitcompiler1": {"version": "570.86.10-1", "held": True}}
        ),
        "nodes.driver-versions",
        ("'libnvidia-ptxjitcompiler1' is 570.86.10", "580.178.04"),
    ),
    "firmware-missing": Fault(
        sets("module", firmware=[]),
        "nodes.driver-versions",
        ("firmware", "/lib/firmware/nvidia/580.178.04"),
    ),
    "nvidia-smi-missing": Fault(sets("library", nvidia_smi=None), "nodes.driver-versions", ("nvidia-smi",)),
    "uuid-unreadable": Fault(
        sets("nvml", "gpus", 1, minor=None, unreadable={"minor": "Unknown Error"}),
        "nodes.nvml",
        ("GPU 1", "minor", "Unknown Error"),
        frozenset({"nodes.gpu-count"}),
    ),
    "cuda-library-empty": Fault(
        sets("library", "files", "cuda", fault="is empty"),
        "nodes.driver-versions",
        ("CUDA library '/usr/lib/x86_64-linux-gnu/libcuda.so.580.178.04' is empty",),
    ),
    "nvml-library-cut-off": Fault(
        sets("library", "files", "nvidia-ml", fault="is cut off after 4096 bytes"),
        "nodes.driver-versions",
        ("NVML library", "cut off"),
    ),
    "cuda-library-shadowed": Fault(
        lambda record: (
            record["library"].update(cuda_version=None),
            record["library"]["files"]["cuda"].update(
                path="/usr/local/lib/libcuda.so.1",
                shadows=["/usr/lib/x86_64-linux-gnu/libcuda.so.580.178.04"],
            ),
        ),
        "nodes.driver-versions",
        (
            "'/usr/local/lib/libcuda.so.1'",
            "no file of the driver",
            "shadows '/usr/lib/x86_64-linux-gnu/libcuda.so.580.178.04'",
        ),
    ),
    "cuda-library-shadowed-by-another-version": Fault(
        lambda record: (
            record["library"].update(cuda_version="550.54.14"),
            record["library"]["files"]["cuda"].update(
                path="/usr/local/lib/libcuda.so.550.54.14",
                shadows=["/usr/lib/x86_64-linux-gnu/libcuda.so.580.178.04"],
            ),
        ),
        "nodes.driver-versions",
        (
            "mismatch",
            "550.54.14",
            "'/usr/local/lib/libcuda.so.550.54.14'",
            "shadows '/usr/lib/x86_64-linux-gnu/libcuda",
        ),
    ),
    "libraries-unread": Fault(
        sets("library", files=None),
        "nodes.driver-versions",
        ("files", "could not be read"),
    ),
    "library-not-simulated": Fault(
        sets("library", simulated=False),
        "nodes.simulation-witnesses",
        ("says its GPUs are simulated", "real"),
        frozenset({"nodes.xid"}),
    ),
    "library-missing": Fault(
        sets("library", simulated=None),
        "nodes.simulation-witnesses",
        ("cannot be loaded",),
        frozenset({"nodes.xid"}),
    ),
    "no-driver": Fault(
        no_driver,
        "nodes.driver-versions",
        ("no driver package is installed", "the CUDA library is missing"),
        frozenset(
            {
                "nodes.nvml",
                "nodes.gpu-count",
                "nodes.fabric",
                "nodes.simulation-witnesses",
                "nodes.services",
                "nodes.xid",
            }
        ),
        repairs=repairs(nvidia_driver={Cure.PACKAGES, Cure.SERVICES}, kubernetes_node={Cure.JOIN}),
    ),
    "older-driver-before-the-join": Fault(
        older_driver_before_the_join,
        "nodes.driver-versions",
        ("'libcuda1' is 580.95.05",),
        frozenset({"nodes.services"}),
        repairs=repairs(nvidia_driver={Cure.PACKAGES}, kubernetes_node={Cure.JOIN}),
    ),
    "driver-of-a-dotted-version": Fault(
        version("libcuda1", "580.178.04.1-1"), "nodes.driver-versions", ("'libcuda1' is 580.178.04.1",)
    ),
    "proprietary-module": Fault(
        sets("module", flavour="proprietary"),
        "nodes.driver-versions",
        ("is the proprietary one", "wanted is the open one"),
        frozenset({"nodes.uniformity"}),
    ),
}
