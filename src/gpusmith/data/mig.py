"""How MIG divides GPUs: sizes of instances, and where they fit on one GPU. The table data/mig.yml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from gpusmith.data import table
from gpusmith.data.models import Model
from gpusmith.errors import InputError
from gpusmith.names import MIG_RESOURCES
from gpusmith.wording import quoted

SCHEMA = "gpusmith.mig/1"
ALL = "all-"
"""Before the name of a profile: as many of it as one GPU can have."""
MEDIA = "+me"


@dataclass(frozen=True)
class Profile:
    """A size of GPU instances.

    Attributes:
        nvml: what NVML calls it, after 'NVML_GPU_INSTANCE_PROFILE_'.
        compute: compute slices.
        memory: memory slices.
        starts: memory slices at which an instance may start.
        most: instances on one GPU.
        suffix: end of its name.
        gib: memory as in its name; 0 where no model is known.
    """

    nvml: str
    compute: int
    memory: int
    starts: tuple[int, ...]
    most: int
    suffix: str = ""
    gib: int = 0

    @property
    def name(self) -> str:
        """As the device plugin and NVIDIA's documentation have it."""
        return f"{self.compute}g.{self.gib}gb{self.suffix}"

    @property
    def resource(self) -> str:
        """What pods ask for where each profile is a resource of its own: the device plugin's strategy 'mixed'."""
        return MIG_RESOURCES + self.name.replace("+", ".")

    @property
    def media(self) -> bool:
        """It takes the media extensions, which a GPU has once."""
        return self.suffix == MEDIA


@dataclass(frozen=True)
class Partitioning:
    """How a GPU can be divided.

    Attributes:
        memory_slices: of the whole GPU.
        compute_slices: of the whole GPU.
        profiles: what instances it can have.
    """

    memory_slices: int
    compute_slices: int
    profiles: tuple[Profile, ...]


@dataclass(frozen=True)
class Placement:
    """An instance on a GPU.

    Attributes:
        start: its first memory slice.
        profile: its size.
    """

    start: int
    profile: Profile


def _parse(content: dict[str, Any]) -> Mapping[str, Partitioning]:
    return {
        key: Partitioning(
            row["memory_slices"],
            row["compute_slices"],
            tuple(
                Profile(nvml=nvml, **{**size, "starts": tuple(size["starts"])})
                for nvml, size in row["profiles"].items()
            ),
        )
        for key, row in content["tables"].items()
    }


@cache
def load(path: Path | None = None) -> Mapping[str, Partitioning]:
    """All tables by key.

    Raises:
        ToolError: the file is missing or has another shape.
    """
    return table.read(path, "mig.yml", SCHEMA, "MIG profiles", _parse)


def of_model(model: Model) -> Partitioning | None:
    """How GPUs of a model can be divided; None if nothing is known."""
    if not model.mig_table:
        return None
    gpu = load()[model.mig_table]
    gib = -(-model.memory_mib // 1024)
    return replace(
        gpu,
        profiles=tuple(
            # To the nearest GiB, a half upwards.
            replace(profile, gib=(2 * profile.memory * gib + gpu.memory_slices) // (2 * gpu.memory_slices))
            for profile in gpu.profiles
        ),
    )


def place(asked: Sequence[str], gpu: Partitioning) -> tuple[Placement, ...]:
    """Where instances go on one GPU, from its first memory slice on. The order of what is asked does not matter.

    Args:
        asked: names of profiles, one for each instance; 'all-NAME' for as many as there can be.
        gpu: how it can be divided.

    Raises:
        InputError: it has no such profile, or not all of them fit.
    """
    known = {profile.name: profile for profile in gpu.profiles}
    wanted: list[Profile] = []
    for name in asked:
        profile = known.get(name.removeprefix(ALL))
        if profile is None:
            raise InputError(
                f"'{name.removeprefix(ALL)}' is no MIG profile of this GPU.", f"It has {quoted(known)}."
            )
        wanted += [profile] * (profile.most if name.startswith(ALL) else 1)
    # What has the least choice goes first.
    wanted.sort(key=lambda profile: (len(profile.starts), profile.name))
    found = _fitting(wanted, gpu)
    if found is None:
        fit: list[Profile] = []
        for profile in wanted:
            if _fitting([*fit, profile], gpu) is not None:
                fit.append(profile)
        short = [f"{need} of {has} {what}" for what, need, has in _needs(wanted, gpu) if need > has]
        raise InputError(
            f"{quoted(profile.name for profile in wanted)} do not fit on one GPU: they need {', '.join(short)}.",
            f"{quoted(profile.name for profile in fit)} would fit.",
        )
    return tuple(sorted(found, key=lambda part: part.start))


def _needs(wanted: Sequence[Profile], gpu: Partitioning) -> tuple[tuple[str, int, int], ...]:
    """What instances need of what a GPU has."""
    return (
        ("memory slices", sum(profile.memory for profile in wanted), gpu.memory_slices),
        ("compute slices", sum(profile.compute for profile in wanted), gpu.compute_slices),
        (f"media extensions ({MEDIA})", sum(profile.media for profile in wanted), 1),
    )


def _fitting(wanted: Sequence[Profile], gpu: Partitioning) -> tuple[Placement, ...] | None:
    if any(need > has for _, need, has in _needs(wanted, gpu)):
        return None
    return _placed(wanted, frozenset())


def _placed(wanted: Sequence[Profile], taken: frozenset[int]) -> tuple[Placement, ...] | None:
    """At the last start that leaves room for the others, as the driver does it on A100."""
    if not wanted:
        return ()
    first, *others = wanted
    for start in reversed(first.starts):
        slices = frozenset(range(start, start + first.memory))
        if not slices & taken and (rest := _placed(others, taken | slices)) is not None:
            return (Placement(start, first), *rest)
    return None
