from __future__ import annotations

from gpusmith.probe import module


def test_the_module_file_tells_version_and_flavour() -> None:
    text = (
        "filename:       /lib/modules/x/nvidia.ko\nversion:        580.178.04\nlicense:        Dual MIT/GPL\n"
    )
    assert module.parse_modinfo(text) == ("580.178.04", "Dual MIT/GPL")
    assert module.flavour_of_license("Dual MIT/GPL") == "open"
    assert module.flavour_of_license("NVIDIA") == "proprietary"
    assert module.flavour_of_license(None) is None
