"""containerd: its effective configuration, and whether it runs with it."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Effective:
    """Settings that matter, of the effective configuration; None where it could not be read."""

    runtime_nvidia: bool | None = None
    runtime_binary: str | None = None
    systemd_cgroup: bool | None = None
    cdi: bool | None = None
    cri_disabled: bool | None = None
    default_runtime: str | None = None
    default_binary: str | None = None
    cdi_spec_dirs: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Containerd:
    """What tells whether the running containerd has the configuration that its files give.

    Attributes:
        digest: of the effective configuration.
        config_changed_unix: when the youngest file was changed.
        noted_digest: of the configuration that it was last started with by a role.
        noted_unix: when that was noted.
        runtime_binary_found: whether the program of runtime 'nvidia' is there; None if it has none of its own.
    """

    version: str | None = None
    effective: Effective = field(default_factory=Effective)
    digest: str | None = None
    config_changed_unix: float | None = None
    noted_digest: str | None = None
    noted_unix: float | None = None
    runtime_binary_found: bool | None = None
