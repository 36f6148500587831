"""Ubuntu's own driver packages for servers, built by DKMS or brought built; and bare machines that are refused.

What builds is the simulated dkms, and the modules that come built are signed by nobody.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from gpulab.artifacts import repos
from gpulab.simgpu import kernels

from tests.e2e.harness import Ended, Lab
from tests.e2e.upgrades import ROLLBACK_PLAYBOOK, SHORT, start, upgrade_words, wait_for

DKMS, PREBUILT = "gpu-1", "gpu-2"
NODES = (DKMS, PREBUILT)
OLD, NEXT_BRANCH = "580.173.02", "595.91.07"
"""Of Ubuntu's archive on the lab."""
KERNEL = os.uname().release
BOTH_AT_ONCE = ("-e", "gpu_upgrade_canary=2", "-e", "gpu_upgrade_max_unavailable=2")
RELEASE = "/usr/lib/os-release"
SITE = "dpkg-query -W | sort; find /etc -type f -exec sha256sum {} + | sort"
"""What a machine has, in lines."""
OF_DRIVER = (
    "dpkg-query -W -f '${Version} ${Package} ${db:Status-Abbrev}\\n' '*nvidia*' | sed -n 's/ [hi]i *$//p'"
)
HOLDER = (
    "import fcntl, time; lock = open('/var/lib/dpkg/lock-frontend', 'w'); fcntl.lockf(lock, fcntl.LOCK_EX);"
    " open('/run/held', 'w'); time.sleep(600)"
)


def module_package(version: str, kernel: str = KERNEL) -> str:
    """The package of a module that comes built."""
    return f"linux-modules-nvidia-{version.partition('.')[0]}-server-open-{kernel}"


@dataclass(frozen=True)
class Site:
    """A node for each way in which the module comes."""

    lab: Lab
    inventory: Path

    def want(self, group: str, **values: object) -> None:
        """Change the inventory."""
        path = self.inventory / group
        path.parent.mkdir(exist_ok=True)
        there = yaml.safe_load(path.read_text()) if path.exists() else {}
        path.write_text(yaml.safe_dump({**there, **values}))

    def site(self, *words: str) -> Ended:
        """Run site.yml, which must succeed."""
        return good(self.lab.site(*words, inventory=self.inventory))

    def unchanged(self, *words: str) -> None:
        """A run that finds nothing to do."""
        ended = self.site(*words)
        changed = {host: row["changed"] for host, row in ended.recap().items() if row["changed"]}
        assert changed == {}, str(ended)

    def play(self, *words: str) -> Ended:
        """A playbook that must succeed."""
        return good(self.lab.playbook(*words, inventory=self.inventory))

    def has(self) -> dict[str, str]:
        """What machines have."""
        return {node: self.lab.on(node, SITE) for node in NODES}

    def refused(self, *words: str) -> str:
        """What a run says that ends before any change."""
        before = self.has()
        ended = self.lab.site(*words, inventory=self.inventory)
        assert ended.status != 0, str(ended)
        assert not any(row["changed"] for row in ended.recap().values()), str(ended)
        assert self.has() == before, str(ended)
        return " ".join(ended.output.split())

    def runs(self, version: str) -> None:
        """Loaded module and all packages are of a version, each node has its module as it is wanted, and the suite is content."""
        branch = version.partition(".")[0]
        for node in NODES:
            assert self.lab.on(node, "cat /sys/module/nvidia/version") == version
            found = dict(line.split()[::-1] for line in self.lab.on(node, OF_DRIVER).splitlines())
            names = {name for name in found if name.endswith("-server") or "-server-" in name}
            assert f"nvidia-utils-{branch}-server" in names, found
            modules = {name for name in names if name.startswith("linux-modules-")}
            assert modules == ({module_package(version)} if node == PREBUILT else set()), found
            other = {name for name in names - modules if not found[name].startswith(version)}
            assert other == set(), found
            held = set(self.lab.on(node, "apt-mark showhold").split())
            assert names <= held, (names, held)
        built = self.lab.on(DKMS, f"dkms status; modinfo -n -k {KERNEL} nvidia")
        assert f"nvidia-srv/{version}, {KERNEL}" in built, built
        brought = self.lab.on(
            PREBUILT, f"command -v dkms || true; modinfo -n -k {KERNEL} nvidia | xargs dpkg -S"
        )
        assert brought.startswith(f"{module_package(version)}: "), brought
        self.lab.wait_allocatable(dict.fromkeys(NODES, 1), 60)
        self.lab.validate(inventory=self.inventory).assert_passed()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Another program has the lock of dpkg, as unattended upgrades have it."""
        for node in NODES:
            self.lab.on(node, f'rm -f /run/held; systemd-run --quiet --unit=holder python3 -c "{HOLDER}"')
            self.lab.on(node, "until test -e /run/held; do sleep 0.1; done")
        try:
            yield
        finally:
            for node in NODES:
                self.lab.on(node, "systemctl stop holder")


def good(ended: Ended) -> Ended:
    assert ended.status == 0, str(ended)
    return ended


@pytest.fixture(scope="module")
def site(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    lab = Lab(root, root / ".cache" / "long" / str(int(time.time())))
    lab.gpulab("down")
    lab.up("--gpus", "1", "--os", "ubuntu-24.04")
    inventory = lab.copy_inventory(tmp_path_factory.mktemp("inventory"))
    made = Site(lab, inventory)
    own = yaml.safe_load((inventory / "group_vars" / "os_ubuntu_24_04.yml").read_text())
    repository = own["nvidia_driver_repository"]
    # Nodes name the archive with a key of their own: another spelling of its address lets apt have both.
    uris = [uri.replace("/ubuntu-24.04/cuda/", "/ubuntu-24.04/./ubuntu/") for uri in repository["uris"]]
    made.want(
        "group_vars/os_ubuntu_24_04.yml",
        nvidia_driver_repository={**repository, "uris": uris},
        nvidia_driver_package_layout="distribution",
    )
    made.want("group_vars/gpu_nodes.yml", nvidia_driver_version=OLD)
    made.want(f"host_vars/{PREBUILT}.yml", nvidia_driver_module_build="prebuilt")
    yield made
    lab.gpulab("down")


@pytest.mark.parametrize(
    ("release", "told"),
    [
        ("ID=exotic\nID_LIKE=debian\nNAME=Exotic\nVERSION_ID=3\n", "exotic 3"),
        ("ID=other\nNAME=Other\n", "other"),
    ],
    ids=["like Debian", "like nothing"],
)
def test_a_system_that_nobody_knows_is_refused_before_any_change(site: Site, release: str, told: str) -> None:
    site.lab.on(DKMS, f"cp {RELEASE} /run/os-release; printf '{release}' > {RELEASE}")
    try:
        said = site.refused()
    finally:
        site.lab.on(DKMS, f"cp /run/os-release {RELEASE}")
    assert f"operating system: '{told}" in said
    assert "'ubuntu 24.04'" in said


def test_keys_of_others_are_refused_before_any_change(site: Site, tmp_path: Path) -> None:
    path = site.inventory / "group_vars" / "os_ubuntu_24_04.yml"
    text = path.read_text()
    there = yaml.safe_load(text)["nvidia_driver_repository"]
    other = repos.signing_key(tmp_path / "other").public.read_text()
    site.want("group_vars/os_ubuntu_24_04.yml", nvidia_driver_repository={**there, "key": other})
    try:
        said = site.refused()
    finally:
        path.write_text(text)
    assert "'nvidia_driver_repository'" in said
    assert "not signed" in said, said


def test_another_program_with_the_lock_is_named_and_nothing_is_installed(site: Site) -> None:
    before = site.lab.on(DKMS, "dpkg-query -W")
    with site.locked():
        ended = site.lab.site("-e", "gpusmith_package_lock_timeout_s=5", inventory=site.inventory)
        assert ended.status != 0, str(ended)
        said = " ".join(ended.output.split())
        pid = site.lab.on(DKMS, "systemctl show --value --property=MainPID holder")
    assert f"held by process {pid} (python3)" in said, str(ended)
    assert "'gpusmith_package_lock_timeout_s'" in said, str(ended)
    assert site.lab.on(DKMS, "dpkg-query -W") == before


def test_bare_machines_are_made_nodes_once_the_lock_is_free(
    site: Site, measured: Callable[[str, object], None]
) -> None:
    before = site.lab.on(DKMS, "dpkg-query -W")
    with site.locked():
        run = start(site.lab, site.inventory, "site.yml")
        # A task ends on all nodes before the next one begins, and they do not install the same.
        wait_for("a package manager that waits", lambda: any(waits(site.lab, node) for node in NODES), 300)
        assert site.lab.on(DKMS, "dpkg-query -W") == before
        assert run.process.poll() is None, run.said()
    first = good(run.ended())
    site.runs(OLD)
    site.unchanged()
    measured("two bare nodes", f"first site.yml {first.seconds:.0f} s")


def waits(lab: Lab, node: str) -> bool:
    """Whether apt-get waits for somebody's lock there."""
    return "install" in lab.on(node, "pgrep -a apt-get || true")


def test_the_next_branch_and_back(site: Site, measured: Callable[[str, object], None]) -> None:
    forth = site.play(*upgrade_words("gpu_nodes", NEXT_BRANCH, *BOTH_AT_ONCE))
    site.want("group_vars/gpu_nodes.yml", nvidia_driver_version=NEXT_BRANCH)
    site.runs(NEXT_BRANCH)
    site.unchanged()
    back = site.play(ROLLBACK_PLAYBOOK, "-l", "gpu_nodes", *SHORT, *BOTH_AT_ONCE)
    site.want("group_vars/gpu_nodes.yml", nvidia_driver_version=OLD)
    site.runs(OLD)
    site.unchanged()
    measured(
        f"two nodes, {OLD} to {NEXT_BRANCH}", f"upgrade {forth.seconds:.0f} s, back {back.seconds:.0f} s"
    )


META, ITS_HEADERS = "linux-image-generic", "linux-headers-generic"
"""What brings the next kernel, and what brings the headers of that."""


def causes(site: Site, *others: str) -> dict[str, str]:
    """What the suite finds wrong with each node, by the check of kernels and by others."""
    validation = site.lab.validate_nodes(inventory=site.inventory)
    assert {row["id"] for row in validation.failed()} <= {"nodes.kernels", *others}, str(validation.ended)
    return {node: found for node in NODES if (found := validation.causes(node))}


def test_a_newer_kernel_stays_away_where_modules_come_built(site: Site) -> None:
    old, new = kernels.known("ubuntu")
    without_module = f"kernel {new.release} is installed and has no module"
    # An earlier kernel on both. Whoever holds the headers keeps DKMS from building for the next one.
    site.lab.on(PREBUILT, f"apt-get -q -y install {META}={old.version}")
    names = " ".join(f"{name}={old.version}" for name in (META, ITS_HEADERS))
    site.lab.on(DKMS, f"apt-get -q -y install {names}; apt-mark hold {ITS_HEADERS}")
    site.site()
    held = {META, module_package(OLD), module_package(OLD, old.release)}
    assert held <= set(site.lab.on(PREBUILT, "apt-mark showhold").split())
    assert causes(site) == {}
    before = site.has()
    for node in NODES:
        # As the timer before that of the upgrades does.
        site.lab.on(node, "apt-get -q update")
        assert new.version in site.lab.on(node, f"apt-cache madison {META}")
        site.lab.on(node, "unattended-upgrade", timeout=180)
    assert site.has()[PREBUILT] == before[PREBUILT]
    found = causes(site)
    assert list(found) == [DKMS]
    assert without_module in found[DKMS]
    site.lab.on(DKMS, f"apt-mark unhold {ITS_HEADERS}")
    site.site()
    assert causes(site) == {}

    # The kernel of the other one, as docs/operating_systems.md says it.
    site.lab.on(PREBUILT, f"apt-get -q -y install --allow-change-held-packages {META}")
    # apt has let go of it.
    found = causes(site, "nodes.holds")
    assert list(found) == [PREBUILT]
    assert without_module in found[PREBUILT]
    assert f"not held and can be changed by any upgrade: {META}." in found[PREBUILT]
    site.site("-l", PREBUILT)
    held = {META, module_package(OLD, new.release)}
    assert held <= set(site.lab.on(PREBUILT, "apt-mark showhold").split())
    assert causes(site) == {}
    site.unchanged()


LEFT = (
    "dpkg-query -W -f '${Package} ${db:Status-Abbrev}\\n' '*nvidia*' | grep ' [hi]i' | grep -v container || true",
    "apt-mark showhold | grep -E 'nvidia|linux-' | grep -v container || true",
    f"find /lib/modules/{KERNEL} -name 'nvidia*.ko'; cat /sys/module/nvidia/version 2>/dev/null || true",
    "dkms status 2>/dev/null || true",
)


def test_a_machine_gives_its_driver_back(site: Site) -> None:
    site.play("playbooks/remove_nodes.yml", "-l", ",".join(NODES))
    site.site("-e", "nvidia_driver_state=absent")
    for node in NODES:
        assert {words: site.lab.on(node, words) for words in LEFT} == dict.fromkeys(LEFT, "")
    site.unchanged("-e", "nvidia_driver_state=absent")
