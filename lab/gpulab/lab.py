"""Bring the whole lab up and down; every function can be called again after a kill at any point."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpulab import cluster, delays, depot, faults, inventory, network
from gpulab.delays import Delays
from gpulab.hosts import Host
from gpulab.machines import DEPOT, Machine, Machinery, find, known_hosts, planned, recipe, remove_all
from gpulab.network import Plan
from gpulab.podman import KILLED, MISSING, Podman
from gpulab.progress import say, step
from gpulab.state import (
    Places,
    Shape,
    State,
    beyond_repair,
    end_orphan,
    load,
    reshape,
    save,
    write_atomically,
)
from gpulab.systems import system
from gpusmith.errors import InputError, ToolError
from gpusmith.wait import Deadline, WaitTimeout

if TYPE_CHECKING:
    from gpulab.artifacts import Artifacts


HEALED_S = 120.0  # until a healed node offers its GPUs again


@dataclass(frozen=True)
class Lab:
    """One lab on this host."""

    places: Places
    machinery: Machinery

    @classmethod
    def default(cls) -> Lab:
        """The lab of this user and this checkout."""
        places = Places.default()
        podman = Podman(places.logs / "podman.log")
        return cls(places, Machinery(podman, places, Host.this()))

    def state(self) -> State:
        """What is up.

        Raises:
            ToolError: no lab is up.
        """
        state = load(self.places)
        if state is None:
            raise ToolError("No lab is up.", "Run 'gpulab up'.")
        return state

    def machines(self) -> list[Machine]:
        """The nodes of the lab that is up."""
        return planned(self.state().shape, self.places)

    def machine(self, name: str) -> Machine:
        """A node by name."""
        return find(self.machines(), name)

    def up(self, wanted: Shape) -> None:
        """Have a lab of this shape, and change nothing if it is there."""
        begin = time.monotonic()
        self.machinery.host.must_serve()
        if end_orphan(self.places):
            say("Ended a playbook that a killed 'gpulab up' had left behind.")
        before = load(self.places)
        machines = planned(wanted, self.places)
        state = reshape(before, wanted)
        plan = Plan.parse(wanted.subnet)
        self.machinery.host.raise_limits(len(machines) - 1)
        # Late: the recipes of packages and images are not needed to look at a lab or to remove it.
        from gpulab import artifacts as store
        from gpulab.simgpu import hardware

        # Before anything is built: an unknown model, an impossible number or an unsupported pair is refused here.
        wanted.releases.must_fit()
        descriptions = {
            machine.name: hardware.describe(wanted.model, machine.gpus, machine.name)
            for machine in machines
            if machine.role == "gpu"
        }
        artifacts = store.ensure(
            operating_systems=[machine.system for machine in machines], chosen=wanted.releases
        )
        machines = [_installed(machine, plan, artifacts) for machine in machines]
        supply = depot.machine(plan, artifacts)
        self._report_older(machines, artifacts)
        repositories = artifacts.repositories()
        running = f"gpulab-{DEPOT}" in self.machinery.podman.running()
        served = running and depot.serves(self.machinery, supply, plan, repositories)
        if running and not served:
            say("The depot serves nothing any more; it is made anew.")
            self.machinery.remove(supply)
        served = served and self.machinery.made(supply).get("recipe") == recipe(supply, artifacts.depot_image)
        if before == state and served and self._healthy(state, machines):
            say(f"The lab is up already: {wanted}. Nothing to do.")
            return
        self._build(state, machines, supply, artifacts, descriptions)
        say(f"The lab is up after {time.monotonic() - begin:.0f} s: {wanted}.")
        say(
            f"Inventory '{self.places.inventory}'; next: '.venv/bin/ansible-playbook -i {self._short()} site.yml'."
        )

    def _short(self) -> str:
        try:
            return str(self.places.inventory.relative_to(self.places.repo))
        except ValueError:
            return str(self.places.inventory)

    def _healthy(self, state: State, machines: Sequence[Machine]) -> bool:
        running = self.machinery.podman.running()
        if not state.complete or not all(machine.container in running for machine in machines):
            return False
        if f"gpulab-{DEPOT}" not in running or not (self.places.inventory / "hosts.yml").exists():
            return False
        return not state.shape.cluster or cluster.api_ready(Plan.parse(state.shape.subnet).control_plane)

    def _report_older(self, machines: Sequence[Machine], artifacts: Artifacts) -> None:
        current = {machine.name: recipe(machine, artifacts.images[machine.system]) for machine in machines}
        older = [
            machine.name
            for machine in machines
            if self.machinery.made(machine).get("recipe", current[machine.name]) != current[machine.name]
        ]
        if older:
            say(
                f"Made from an older node image: {', '.join(older)}; 'gpulab reinstall NODE' renews a machine."
            )

    def _build(
        self,
        state: State,
        machines: list[Machine],
        supply: Machine,
        artifacts: Artifacts,
        descriptions: Mapping[str, Mapping[str, Any]],
    ) -> None:
        plan = Plan.parse(state.shape.subnet)
        network.ensure(self.machinery.podman, plan)
        state = replace(state, complete=False)
        save(self.places, state)
        control_plane = machines[0]
        with step(f"{len(machines)} machines and the depot"):
            state, lost = self._drop_lost(state, machines)
            self.machinery.ensure(supply, artifacts.depot_image)
            for machine in machines:
                if machine.name in descriptions:
                    target = self.places.hardware(machine.name) / "hardware.json"
                    write_atomically(target, json.dumps(descriptions[machine.name], indent=2) + "\n")
                if self.machinery.ensure(machine, artifacts.images[machine.system]):
                    say(f"    started '{machine.name}' at {machine.address}")
            write_atomically(self.places.root / "known_hosts", known_hosts(machines, self.places))
            self._wait_booted([supply, *machines])
            depot.wait_serving(self.machinery, supply, plan, artifacts.repositories())
        contents = inventory.Contents(
            state.shape, plan, self.machinery.host, artifacts.apt_key.read_text(), artifacts.versions
        )
        inventory.write(contents, machines, self.places)
        if state.shape.cluster:
            with step("the existing cluster: control plane and CPU workers"):
                state = self._cluster(control_plane, machines, state, lost)
        save(self.places, replace(state, complete=True))

    def _wait_booted(self, machines: Sequence[Machine]) -> None:
        for name, word in self.machinery.wait_booted(machines).items():
            if word != "running":
                machine = next(each for each in machines if each.name == name)
                say(f"    '{name}' is {word}: {', '.join(self.machinery.failed_units(machine))} failed")

    def _drop_lost(self, state: State, machines: Sequence[Machine]) -> tuple[State, frozenset[str]]:
        """Remove the machines that cannot be repaired.

        Returns:
            The state without them, and the names of all that will be made.
        """
        words = {machine.name: self.machinery.state(machine) for machine in machines}
        lost = beyond_repair(state, words)
        for machine in machines:
            if machine.name in lost and words[machine.name] != MISSING:
                if machine.name in state.busy:
                    reason = "was left half done"
                elif words[machine.name] == KILLED:
                    reason = "was killed from outside"
                else:
                    reason = "is a member of a cluster that is gone"
                say(f"    '{machine.name}' {reason}; it is made anew")
                self.machinery.remove(machine)
        if machines[0].name in lost:
            state = replace(state, cluster_ready=False)
        state = replace(state, busy=())
        save(self.places, state)
        return state, lost

    def _cluster(
        self, control_plane: Machine, machines: Sequence[Machine], state: State, anew: frozenset[str]
    ) -> State:
        members = [machine.name for machine in machines if machine.role in ("control-plane", "cpu")]
        present: set[str] = set()
        if state.cluster_ready:
            cluster.wait_ready(self.machinery, control_plane, [])
            present = set(cluster.node_conditions(self.machinery, control_plane) or {})
            # A machine that was made anew is bare; the Node object that its past left would pass for it.
            for name in sorted(present & anew):
                cluster.forget_node(self.machinery, control_plane, name)
            present -= anew
        kubeconfig = self.places.inventory / "kubeconfig"
        missing = tuple(name for name in members if name not in present)
        if missing or not kubeconfig.exists():
            save(self.places, replace(state, busy=missing))
            cluster.run_playbook(
                self.places,
                {
                    "gpulab_pod_cidr": network.POD_CIDR,
                    "gpulab_service_cidr": network.SERVICE_CIDR,
                    "gpulab_kubeconfig": str(kubeconfig),
                },
            )
        cluster.wait_ready(self.machinery, control_plane, members)
        return replace(state, cluster_ready=True, busy=())

    def down(self) -> None:
        """Remove everything that carries the lab's label, and the files that describe it."""
        end_orphan(self.places)
        cluster.close_connections(self.places)
        podman = self.machinery.podman
        removed = remove_all(podman, self.places)
        network.remove(podman)
        known = load_leniently(self.places)
        inventory.remove(self.places)
        self.places.state_file.unlink(missing_ok=True)
        (self.places.root / "known_hosts").unlink(missing_ok=True)
        for folder in ("keys", "ssh"):
            shutil.rmtree(self.places.root / folder, ignore_errors=True)
        say("The lab is down." if removed or known else "No lab was up; nothing to remove.")

    def status(self) -> dict[str, Any] | None:
        """The lab as data; None when no lab is up."""
        state = load(self.places)
        if state is None:
            return None
        running = self.machinery.podman.running()
        machines = planned(state.shape, self.places)
        conditions: dict[str, str] | None = None
        if state.shape.cluster and machines[0].container in running:
            conditions = cluster.node_conditions(self.machinery, machines[0])
        elif not state.shape.cluster:
            conditions = {}
        nodes = []
        for machine in machines:
            word = "running" if machine.container in running else self.machinery.state(machine)
            node: dict[str, Any] = {
                "name": machine.name,
                "role": machine.role,
                "state": word,
                "address": machine.address,
            }
            node["kubernetes"] = None if conditions is None else conditions.get(machine.name)
            node |= {"os": machine.system, "user_land": system(machine.system).user_land}
            if machine.role == "gpu":
                node |= {"gpus": machine.gpus, "model": state.shape.model}
            nodes.append(node)
        if not running and all(node["state"] == "missing" for node in nodes):
            return None
        plan = Plan.parse(state.shape.subnet)
        return {
            "complete": state.complete,
            "api": conditions is not None,
            "nodes": nodes,
            "depot": {
                "address": plan.depot,
                "state": "running" if f"gpulab-{DEPOT}" in running else "stopped",
            },
            "inventory": str(self.places.inventory),
            "logs": str(self.places.logs),
        }

    def reboot(self, name: str | None) -> None:
        """Reboot one machine, or all nodes at once, and wait until they have booted."""
        targets = self.machines() if name is None else [self.machine(name)]
        for machine in targets:
            if self.machinery.state(machine) != "running":
                raise InputError(
                    f"Machine '{machine.name}' is not running.", "Run 'gpulab up' to repair the lab."
                )
        cluster.close_connections(self.places)
        with step(f"reboot of {', '.join(machine.name for machine in targets)}"):
            self.machinery.reboot(targets)
            self._wait_api(targets)

    def reinstall(self, name: str) -> None:
        """Make one machine anew, bare as after its installation, and take its Node out of the cluster."""
        machine = self.machine(name)
        if machine.role not in ("gpu", "cpu"):
            raise InputError(
                f"Machine '{name}' carries the cluster.", "Run 'gpulab down' and 'gpulab up' instead."
            )
        cluster.close_connections(self.places)
        with step(f"remove '{name}'"):
            self.machinery.remove(machine)
            if self.state().cluster_ready:
                cluster.forget_node(self.machinery, self.machine("cp-1"), name)
        self.up(self.state().shape)

    def stop(self, name: str) -> None:
        """Power a machine off; `up` or `start` bring it back."""
        machine = self.machine(name)
        cluster.close_connections(self.places)
        with step(f"power off '{name}'"):
            self.machinery.podman.run("stop", "--time", "20", machine.container)

    def start(self, name: str) -> None:
        """Power a machine on."""
        machine = self.machine(name)
        with step(f"power on '{name}'"):
            self.machinery.podman.run("start", machine.container)
            self._wait_booted([machine])
            self._wait_api([machine])

    def depot(self, action: str) -> None:
        """Stop or start what gives packages and images to all machines, as if the site's mirror were down."""
        plan = Plan.parse(self.state().shape.subnet)
        supply = Machine(DEPOT, DEPOT, plan.depot)
        with step(f"{action} the depot"):
            if action == "stop":
                self.machinery.podman.run("stop", "--time", "20", supply.container)
            else:
                self.machinery.podman.run("start", supply.container)
                depot.wait_serving(self.machinery, supply, plan, [])

    def _wait_api(self, booted: Sequence[Machine]) -> None:
        """Who reboots the control plane goes on when it answers again."""
        control_plane = self.machine("cp-1")
        if control_plane in booted and self.state().cluster_ready:
            cluster.wait_ready(self.machinery, control_plane, [])

    def _gpu_machine(self, name: str) -> Machine:
        machine = self.machine(name)
        if machine.role != "gpu":
            those = ", ".join(f"'{other.name}'" for other in self.machines() if other.role == "gpu")
            raise InputError(f"Machine '{name}' has no GPUs.", f"Those with GPUs are {those}.")
        return machine

    def fault(self, name: str, kind: str, gpu: int | None, xid: int | None) -> None:
        """Break a machine in one way."""
        machine = self._gpu_machine(name)
        with step(f"fault '{kind}' on '{name}'"):
            faults.inject(self._exec_in, machine.name, kind, gpu, xid)

    def heal(self, name: str) -> None:
        """Take all faults of a machine back."""
        machine = self._gpu_machine(name)
        with step(f"heal '{name}'"):
            broken = faults.present(self._exec_in, machine.name)
            faults.heal(self._exec_in, machine.name)
            faults.follow_devices(self._exec_in, machine.name, broken)
        if not broken or name not in self._nodes():
            return
        # The device plugin never forgives a bad GPU, and a restarted one waits longer after each end.
        with step(f"the operands of '{name}' begin anew"):
            control_plane = self.machine("cp-1")
            cluster.renew_operands(self.machinery, control_plane, name)
            try:
                cluster.wait_gpus(self.machinery, control_plane, name, machine.gpus, Deadline(HEALED_S))
            except WaitTimeout as error:
                # The faults are out all the same; what is left may need a person, or site.yml.
                say(f"    {error}")

    def delay(self, name: str, wanted: dict[str, float | None]) -> Delays:
        """Make a machine slow; what is None stays.

        Returns:
            All of its delays as they are then.
        """
        folder = self.places.hardware(self._gpu_machine(name).name)
        now = delays.read(folder).changed(wanted)
        delays.write(folder, now)
        return now

    def _nodes(self) -> set[str]:
        if not self.state().cluster_ready:
            return set()
        return set(cluster.node_conditions(self.machinery, self.machine("cp-1")) or {})

    def _exec_in(self, name: str, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return self.machinery.exec_in(self.machine(name), argv)


def _installed(machine: Machine, plan: Plan, artifacts: Artifacts) -> Machine:
    """The machine with what its installer leaves on it."""
    its = system(machine.system)
    return replace(machine, files=(*its.identity(), *depot.operating_system_sources(plan, artifacts, its)))


def load_leniently(places: Places) -> bool:
    """Whether a lab was begun, even one whose state cannot be read."""
    return places.state_file.exists()
