"""The upstream components that are compiled from their Go modules.

Each has a folder lab/go/<name> with go.mod, go.sum (exact versions) and tools.go (the programs), or main.go where upstream
wants its users to choose at compile time what a program has, or where the program is ours. What is here is only how to
build them: link-time variables and cgo.

Those that lab/go/go.work names share one version of each module, the newest that any of them asks for, so that packages
which several of them import are compiled once. The others have reasons to stay apart: cgo programs share no packages with
those that are none, go-nvml's interface differs between NVIDIA's two projects, and Prometheus and Alertmanager would give
Kubernetes and etcd the versions of forty modules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from gpulab.artifacts.sources import GO
from gpulab.releases import USUAL, Releases
from gpusmith.errors import ToolError

WORKSPACE = GO / "go.work"
# Where Prometheus's programs, and those that use its library, look their version up.
PROMETHEUS_VERSION = "github.com/prometheus/common/version.Version"
# NVIDIA's programs look driver functions up at run time (dlopen), so the linker must leave those symbols open.
DLOPEN_LDFLAGS = "-Wl,--export-dynamic -Wl,--unresolved-symbols=ignore-in-object-files -Wl,-z,lazy"


@dataclass(frozen=True)
class Component:
    """One upstream project.

    Attributes:
        name: its folder below lab/go, and its artifact's name.
        upstream: the module that tools.go imports from; of a program of ours, the one that it stands on.
        variables: link-time variables (-X); ``{version}`` is the version with its 'v', ``{number}`` without.
        cgo: link against the C library of the node image's distribution.
        cgo_ldflags: flags for the C linker.
        tags: build tags.
        names: package -> program, where the last part of the package's path is not it.
        pages: files that upstream embeds, and makes with other tools than Go; the module lacks them, and here they are empty.
    """

    name: str
    upstream: str
    variables: Mapping[str, str] = field(default_factory=dict)
    cgo: bool = False
    cgo_ldflags: str = ""
    tags: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    pages: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The Go module of ours that names this component."""
        return GO / self.name

    @property
    def in_workspace(self) -> bool:
        """Whether its modules' versions are those of the workspace."""
        return self.name in workspace_members()

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the files that decide what is built."""
        own = sorted(path.name for path in self.folder.glob("*.go"))
        return "go.mod", "go.sum", *own

    @property
    def deciding_files(self) -> tuple[Path, ...]:
        """Files whose content decides what is built, its own and those of the workspace."""
        own = tuple(self.folder / name for name in self.sources)
        if not self.in_workspace:
            return own
        shared = (GO / name / "go.mod" for name in workspace_members() if name != self.name)
        return *own, WORKSPACE, WORKSPACE.with_name("go.work.sum"), *shared

    @property
    def version(self) -> str:
        """The upstream version that go.mod requires, with its 'v'."""
        found = re.search(
            rf"^(?:require )?\s*{re.escape(self.upstream)} (v\S+)$",
            (self.folder / "go.mod").read_text(),
            re.MULTILINE,
        )
        if found is None:
            raise ToolError(f"'{self.folder / 'go.mod'}' does not require '{self.upstream}'.")
        return found[1]

    @property
    def programs(self) -> dict[str, str]:
        """Program -> Go package, as tools.go lists them; the folder's own if it has a main.go."""
        if (self.folder / "main.go").exists():
            return {self.name: "."}
        packages = re.findall(r'^\s*_ "([^"]+)"$', (self.folder / "tools.go").read_text(), re.MULTILINE)
        return {self.names.get(package, PurePosixPath(package).name): package for package in packages}

    def link_variables(self) -> dict[str, str]:
        """The -X variables with the version filled in."""
        major, minor = re.findall(r"\d+", self.version)[:2]
        words = {
            "version": self.version,
            "number": self.version.removeprefix("v"),
            "major": major,
            "minor": minor,
        }
        return {name: value.format(**words) for name, value in self.variables.items()}


def workspace_members() -> tuple[str, ...]:
    """Names of the components that share versions."""
    return tuple(re.findall(r"^\t\./(\S+)$", WORKSPACE.read_text(), re.MULTILINE))


def _kubernetes_variables() -> dict[str, str]:
    # kubeadm refuses to work with an unset version; client-go has a copy of the same variables.
    values = {
        "gitVersion": "{version}",
        "gitMajor": "{major}",
        "gitMinor": "{minor}",
        "gitTreeState": "clean",
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return {f"{package}.{name}": value for package in packages for name, value in values.items()}


def _containerd(name: str, upstream: str, version: str = "{version}") -> Component:
    # The name that Docker's package prints; its builds of 1.x print the version without 'v'.
    variables = {f"{upstream}/version.Version": version, f"{upstream}/version.Package": "containerd.io"}
    return Component(name, upstream, variables=variables)


def _kubernetes(name: str) -> Component:
    return Component(name, "k8s.io/kubernetes", variables=_kubernetes_variables())


# In the order in which the lab needs them.
COMPONENTS: tuple[Component, ...] = (
    _containerd("containerd", "github.com/containerd/containerd/v2"),
    Component(
        "runc",
        "github.com/opencontainers/runc",
        cgo=True,
        tags=("seccomp",),
        variables={"main.version": "{number}"},
    ),
    _kubernetes("kubernetes"),
    Component("etcd", "go.etcd.io/etcd/server/v3", names={"go.etcd.io/etcd/server/v3": "etcd"}),
    Component("cni-plugins", "github.com/containernetworking/plugins"),
    Component(
        "coredns",
        "github.com/coredns/coredns",
        variables={"github.com/coredns/coredns/coremain.gitTag": "{version}"},
    ),
    Component(
        "nvidia-container-toolkit",
        "github.com/NVIDIA/nvidia-container-toolkit",
        cgo=True,
        cgo_ldflags=DLOPEN_LDFLAGS,
        variables={"github.com/NVIDIA/nvidia-container-toolkit/internal/info.version": "{number}"},
    ),
    Component(
        "k8s-device-plugin",
        "github.com/NVIDIA/k8s-device-plugin",
        cgo=True,
        cgo_ldflags=DLOPEN_LDFLAGS,
        variables={"github.com/NVIDIA/k8s-device-plugin/internal/info.version": "{version}"},
    ),
    Component(
        "node-feature-discovery",
        "sigs.k8s.io/node-feature-discovery",
        variables={
            "sigs.k8s.io/node-feature-discovery/pkg/version.version": "{version}",
            # Its manifests mount the host's folders at /host-sys, /host-etc and so on.
            "sigs.k8s.io/node-feature-discovery/pkg/utils/hostpath.pathPrefix": "/host-",
        },
    ),
    Component(
        "kube-state-metrics",
        "k8s.io/kube-state-metrics/v2",
        variables={PROMETHEUS_VERSION: "{version}"},
        names={"k8s.io/kube-state-metrics/v2": "kube-state-metrics"},
    ),
    Component(
        "prometheus",
        "github.com/prometheus/prometheus",
        variables={PROMETHEUS_VERSION: "3.16.0"},  # its module counts in another way: v0.316.0
        # Of all places where it could find targets, the cluster alone: the others bring the client libraries of the clouds.
        tags=("remove_all_sd", "enable_kubernetes_sd"),
    ),
    Component(
        "alertmanager",
        "github.com/prometheus/alertmanager",
        variables={PROMETHEUS_VERSION: "{number}"},
        pages=("github.com/prometheus/alertmanager/ui/app/dist/index.html",),
    ),
    Component(
        "dra-driver-nvidia-gpu",
        "sigs.k8s.io/dra-driver-nvidia-gpu",
        cgo=True,
        cgo_ldflags=DLOPEN_LDFLAGS,
        variables={"sigs.k8s.io/dra-driver-nvidia-gpu/internal/info.version": "{version}"},
    ),
    Component("dcgm-exporter", "github.com/NVIDIA/go-nvml", cgo=True, cgo_ldflags=DLOPEN_LDFLAGS),
)

OTHER_RELEASES: tuple[Component, ...] = (
    _kubernetes("kubernetes-1.34"),
    _kubernetes("kubernetes-1.35"),
    _containerd("containerd-1.7", "github.com/containerd/containerd", "{number}"),
    _containerd("containerd-2.0", "github.com/containerd/containerd/v2"),
    Component(
        "prometheus-operator",
        "github.com/prometheus-operator/prometheus-operator",
        variables={PROMETHEUS_VERSION: "{number}"},
    ),
)
"""What is compiled only when a lab or a long test is to have it; not in the workspace, whose versions are too new for it."""


def component(name: str) -> Component:
    """The component of that name."""
    everything = (*COMPONENTS, *OTHER_RELEASES)
    for candidate in everything:
        if candidate.name == name:
            return candidate
    raise ToolError(
        f"No component is named '{name}'.", f"There are: {', '.join(each.name for each in everything)}."
    )


def versions(chosen: Releases = USUAL) -> dict[str, str]:
    """Component -> version, with its 'v', in a lab with these releases."""
    return {part.name: component(chosen.stands_for(part.name)).version for part in COMPONENTS}


def numbers(chosen: Releases = USUAL) -> dict[str, str]:
    """The same without the 'v'."""
    return {name: version.removeprefix("v") for name, version in versions(chosen).items()}
