"""What a role would change on a node, from the plan that the judge made of its record: what check mode tells besides packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpusmith.expect.wanted import DEVICES, LOADER
from gpusmith.names import STARTUP_TAINT
from gpusmith.problems import Cure

Plan = Mapping[str, Any]
Forecast = dict[str, Any]


def of_role(role: str, plan: Plan) -> Forecast:
    """Keys changes (lists by kind) and unpredictable (what only a run can tell).

    Args:
        role: its short name.
        plan: as the role's filter gives it (see `plans`).
    """
    if plan.get("refused"):
        return {"changes": {}, "unpredictable": []}
    found: Forecast = ROLES[role](plan, frozenset(map(Cure, plan["cures"])))
    changes = {"files": list(plan["files"]), **found["changes"]}
    return {
        "changes": {kind: items for kind, items in changes.items() if items},
        "unpredictable": found["unpredictable"],
    }


def _forecast(unpredictable: str = "", **changes: list[str]) -> Forecast:
    return {"changes": changes, "unpredictable": [unpredictable] if unpredictable else []}


def _services(names: list[str], due: bool) -> list[str]:
    return [f"{name}.service" for name in names] if due else []


def _host_baseline(plan: Plan, cures: frozenset[Cure]) -> Forecast:  # noqa: ARG001 - one signature for all
    return _forecast(
        modules=list(plan["modules"]),
        parameters=list(plan["sysctl"]),
        units=_services(plan["units"], due=True),
        more=[
            *(
                ["the trust store is made anew, for which a containerd that runs is restarted"]
                if plan.get("trust_outdated")
                else []
            ),
            *(f"package {name}, with modules of the kernel" for name in plan.get("modules_packages") or ()),
            *(f"{count} huge pages of {size}" for size, count in (plan.get("huge_pages") or {}).items()),
        ],
    )


def _nvidia_driver(plan: Plan, cures: frozenset[Cure]) -> Forecast:
    fresh = Cure.PACKAGES in cures
    names = [LOADER, "nvidia-persistenced", *(["nvidia-fabricmanager"] if plan["fabric_manager"] else [])]
    reboot = "the machine is rebooted, if 'gpusmith_reboot' allows it"
    if plan.get("serves"):
        reboot = "nothing before somebody drains and reboots it: a node that serves is not rebooted"
    return _forecast(
        "whether the driver asks for a reboot: its module is loaded after the installation" if fresh else "",
        units=_services(names, due=bool(cures & {Cure.PACKAGES, Cure.LOAD, Cure.SERVICES})),
        modules=list(plan.get("fabric_modules") or ()),
        more=[reboot] if Cure.REBOOT in cures else [],
    )


def _cuda_toolkit(plan: Plan, cures: frozenset[Cure]) -> Forecast:  # noqa: ARG001 - one signature for all
    return _forecast(
        more=[problem for problem in plan["problems"] if problem.startswith("'/usr/local/cuda'")]
    )


def _containerd(plan: Plan, cures: frozenset[Cure]) -> Forecast:
    due = bool(plan["files"]) or bool(cures & {Cure.PACKAGES, Cure.CONTAINERD, Cure.SERVICES})
    brought = "whether the package's '/etc/containerd/config.toml' has to be completed"
    return _forecast(brought if Cure.PACKAGES in cures else "", units=_services(["containerd"], due))


def _nvidia_container_toolkit(plan: Plan, cures: frozenset[Cure]) -> Forecast:
    fresh = Cure.PACKAGES in cures
    written = any(path.endswith(f"/{DEVICES}.service") for path in plan["files"])
    units = _services(["containerd"], fresh or Cure.CONTAINERD in cures)
    return _forecast(
        files=[*plan["files"], *plan["specification"]],
        units=[*units, *_services([DEVICES], fresh or written or bool(plan["start_unit"]))],
    )


def _kubernetes_node(plan: Plan, cures: frozenset[Cure]) -> Forecast:  # noqa: ARG001 - one signature for all
    joins = Cure.JOIN in cures
    return _forecast(
        "whether kubeadm's own checks let the machine join" if joins else "",
        units=_services(["kubelet"], joins or bool(cures & {Cure.PACKAGES, Cure.KUBELET, Cure.SERVICES})),
        taints=[f"{STARTUP_TAINT}:NoSchedule, until the node is validated"] if joins else [],
        more=["joins the cluster"] if joins else [],
    )


ROLES: Mapping[str, Callable[[Plan, frozenset[Cure]], Forecast]] = {
    "host_baseline": _host_baseline,
    "nvidia_driver": _nvidia_driver,
    "cuda_toolkit": _cuda_toolkit,
    "containerd": _containerd,
    "nvidia_container_toolkit": _nvidia_container_toolkit,
    "kubernetes_node": _kubernetes_node,
}
"""By the role's short name."""
