"""What systems have on which Debian's own DKMS compiles modules for Debian's kernels. None of these kernels ever runs there."""

from __future__ import annotations

SUITES = {"Debian 12": "bookworm", "Debian 13": "trixie"}
# openssl lets modinfo read signatures, and DKMS make keys of its own.
PACKAGES = (
    "dkms",
    "gcc",
    "make",
    "linux-headers-amd64",
    "linux-image-amd64",
    "kmod",
    "openssl",
    "python3",
    "xz-utils",
    "zstd",
)
EXCLUDED = (
    *("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*"),
    *(f"/lib/modules/*/kernel/{part}/*" for part in ("drivers/gpu", "drivers/net", "drivers/media", "sound")),
    *(
        f"/usr/lib/modules/*/kernel/{part}/*"
        for part in ("drivers/gpu", "drivers/net", "drivers/media", "sound")
    ),
)
