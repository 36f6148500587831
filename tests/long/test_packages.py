"""One contract of all package managers: the same cases over apt 2.6 and 3.0, dnf 4.14 and 4.23. Needs root, and no lab."""

from __future__ import annotations

import json
import os
import re
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import (
    apt,
    authorities,
    base,
    dnf,
    manifests,
    preview,
    rpm,
)
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.folder_work import FolderWork
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.repositories import repository_of
from ansible_collections.gpusmith.gpu.plugins.modules import preflight
from ansible_collections.gpusmith.gpu.plugins.plugin_utils import packages_due

from gpusmith.expect import foreign
from gpusmith.probe import managed
from gpusmith.probe import packages as probe
from gpusmith.probe.collect import as_json
from gpusmith.probe.record import SCHEMA, Record
from tests.authorities import authority
from tests.long import package_systems as systems
from tests.long import record
from tests.long.package_systems import NEW, OLD, Machine, inside

KINDS = {
    "apt 2.6": (systems.APT, "bookworm"),
    "apt 3.0": (systems.APT, "trixie"),
    "dnf 4.14": (systems.DNF, "bookworm"),
    "dnf 4.23": (systems.DNF, "trixie"),
}
DRIVER = ("drv-cuda", "drv-libs", "drv-tool")
OF_DRIVER = (*DRIVER, "drv-open", "drv-closed", "drv-module")
"""All that 'drv-*' means in one version."""
KIT = ("kit", "kit-base", "kit-tools", "kit-library")
DEFAULTS = {**packages_due.DEFAULTS, "autoremove": False}
PLACES = ("/etc", "/var/cache", "/var/lib/apt", "/var/lib/dpkg", "/var/lib/dnf", "/tmp", "/root")
Lab = dict[str, Machine]


@pytest.fixture(scope="module")
def machines() -> Iterator[Lab]:
    """All kinds of systems, and the repositories."""
    if os.geteuid() != 0:
        pytest.skip("systems of their own need root")
    with tempfile.TemporaryDirectory(prefix="gpusmith-packages-") as name:
        yield systems.make(Path(name), KINDS)


@pytest.fixture(params=KINDS)
def machine(
    machines: Lab, request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Machine:
    record_property(record.ROW, request.param)
    return machines[request.param]


def configure(machine: Machine, which: str = "good", **changes: Any) -> Any:
    """The repository is configured, and its list read; the backend."""
    backend = machine.family.backend()
    systems.write(
        backend.repository_files("test", repository_of(systems.given(machine, which, **changes), "test"))
    )
    backend.refresh("test")
    return backend


def full(machine: Machine, version: str, *names: str) -> dict[str, str]:
    """Full versions by name."""
    return {name: machine.family.full(name, version) for name in names}


def versions(backend: Any, *names: str) -> dict[str, str]:
    return {name: found.version for name, found in backend.installed(names).items()}


def pins(machine: Machine, version: str) -> dict[str, list[str]]:
    """Of the driver's set, as module packages makes them."""
    return dict(base.pins(full(machine, version, "drv-cuda"), ["drv-*", "src:drv-*"]))


def refused(work: Any) -> str:
    """Why something is refused."""
    with pytest.raises(base.PackageError) as error:
        work()
    return str(error.value)


# --- looking -------------------------------------------------------------------------------------------------------


@inside
def test_a_repository_is_asked_aside_and_nothing_stays(machine: Machine) -> None:
    backend = machine.family.backend()
    assert backend.offered(["drv-cuda"]) == {}
    before = set(systems.files(*PLACES))
    with backend.aside({"test": repository_of(systems.given(machine), "test")}) as asked:
        assert asked.offered(["drv-cuda", "nothing"]) == {
            "drv-cuda": [machine.family.full("drv-cuda", version) for version in (NEW, OLD)]
        }
    assert backend.offered(["drv-cuda"]) == {}
    assert set(systems.files(*PLACES)) - before == set()


@inside
def test_what_is_there_is_told_with_source_and_owner(machine: Machine) -> None:
    backend = configure(machine)
    backend.install({**full(machine, OLD, "codec", "drv-libs"), **full(machine, "2.0", "epoch")})
    assert backend.installed(["src:drv-source", "ep*", "none"]) == {
        "codec": base.Installed(machine.family.full("codec", OLD), False, "drv-source"),
        "epoch": base.Installed(machine.family.full("epoch", "2.0"), False, "epoch"),
    }
    assert backend.owner("/opt/codec") == "codec"
    assert backend.owner("/opt/nobody") is None
    assert backend.owner("/etc/hostname-of-nobody") is None


# --- repositories --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("how", ["wrong key", "unsigned metadata", "down"])
@inside
def test_a_wrong_repository_is_refused(machine: Machine, how: str, beside: bool) -> None:
    changes: dict[str, Any] = {"key": machine.keys["wrong"]} if how == "wrong key" else {}
    which = {"wrong key": "good", "unsigned metadata": "unsigned-metadata", "down": "nonexistent"}[how]
    backend = machine.family.backend()
    given = repository_of(systems.given(machine, which, **changes), "test")

    def ask() -> None:
        with backend.aside({"test": given}, beside_node=beside) as asked:
            asked.offered(["drv-cuda"])

    assert f"/{which}" in refused(ask) or "repo" in refused(ask)
    # Configured, it is refused as well, also where the right one was read before.
    configure(machine)
    systems.write(backend.repository_files("test", given))
    refused(lambda: backend.refresh("test"))


@inside
def test_an_altered_package_is_not_installed(machine: Machine) -> None:
    backend = configure(machine, "altered")
    wanted = full(machine, OLD, "drv-libs")
    refused(lambda: backend.install(wanted))
    assert versions(backend, "drv-*") == {}
    assert not (Path("/tmp/saved") / manifests.MANIFEST).exists()
    refused(lambda: backend.fetch(wanted, Path("/tmp/saved")))
    assert not (Path("/tmp/saved") / manifests.MANIFEST).exists()


@pytest.mark.parametrize("signed", ["packages", "both"])
@inside
def test_unsigned_packages_are_neither_installed_nor_saved(machine: Machine, signed: str) -> None:
    if machine.family.name == "apt":
        return  # signs lists, which have the digests of packages
    backend = configure(machine, "unsigned-packages", signed=signed)
    wanted = full(machine, OLD, "drv-libs")
    assert "not signed" in refused(lambda: backend.install(wanted))
    assert versions(backend, "drv-*") == {}
    assert "not signed" in refused(lambda: backend.fetch(wanted, Path("/tmp/saved")))
    assert not (Path("/tmp/saved") / manifests.MANIFEST).exists()


@inside
def test_packages_signed_with_another_key_are_neither_installed_nor_saved(machine: Machine) -> None:
    if machine.family.name == "apt":
        return
    backend = configure(machine, signed="packages", key=machine.keys["wrong"])
    refused(lambda: backend.install(full(machine, OLD, "drv-libs")))
    assert "not signed" in refused(lambda: backend.fetch(full(machine, OLD, "drv-libs"), Path("/tmp/saved")))


@pytest.mark.parametrize("wanted", [["drv-cuda", "drv-libs"], ["drv-module"]])
@pytest.mark.parametrize(
    ("key", "which"), [("wrong", "good"), ("right", "unsigned-packages"), ("right", "good")]
)
@inside
def test_keys_of_others_are_told_before_anything_is_changed(
    machine: Machine, key: str, which: str, wanted: list[str]
) -> None:
    if machine.family.name == "apt" and which != "good":
        return
    changes = {} if machine.family.name == "apt" else {"signed": "packages"}
    given = systems.given(machine, which, key=machine.keys[key], **changes)
    asked = {
        "name": "drv",
        "repository": given,
        "packages": dict.fromkeys(wanted, OLD),
        "patterns": ["drv-*"],
    }
    before = set(systems.files(*PLACES))
    found = preflight.ask_all(machine.family.backend(), {"nvidia_driver": asked}, {})
    assert set(systems.files(*PLACES)) == before
    error = found.repositories["nvidia_driver"]["error"]
    if (key, which) == ("right", "good"):
        assert error is None
    else:
        assert re.search("NO_PUBKEY|not signed", error), error


@pytest.mark.parametrize(
    ("which", "signed"), [("unsigned-packages", "metadata"), ("unsigned-metadata", "packages")]
)
@inside
def test_one_signature_is_enough_where_it_is_said_so(machine: Machine, which: str, signed: str) -> None:
    if machine.family.name == "apt":
        return
    backend = configure(machine, which, signed=signed)
    wanted = full(machine, OLD, "drv-libs")
    backend.fetch(wanted, Path("/tmp/saved"))
    backend.install(wanted)
    assert versions(backend, "drv-*") == wanted


@inside
def test_a_repository_of_the_other_type_is_refused(machine: Machine) -> None:
    other = systems.DNF if machine.family.name == "apt" else systems.APT
    given = {**systems.given(machine), "type": other.type, "suites": ["./"], "signed": ""}
    wrong = repository_of(given, "test")
    backend = machine.family.backend()
    assert f"'{machine.family.type}'" in refused(lambda: backend.repository_files("test", wrong))
    refused(lambda: backend.aside({"test": wrong}).__enter__())


@inside
def test_a_repository_that_goes_leaves_no_file(machine: Machine) -> None:
    before = set(systems.files("/etc"))
    backend = configure(machine)
    assert set(systems.files("/etc")) - before
    systems.write(backend.repository_files("test", None))
    assert set(systems.files("/etc")) == before


# --- exact ---------------------------------------------------------------------------------------------------------


@inside
def test_pins_keep_a_newer_version_away_from_what_comes_along(machine: Machine) -> None:
    backend = configure(machine)
    cuda = full(machine, OLD, "drv-cuda")
    loose = backend.simulate({**cuda, **full(machine, OLD, "drv-libs")}, {})
    assert loose.installed["drv-tool"] == machine.family.full("drv-tool", NEW)
    pinned = backend.simulate(cuda, pins(machine, OLD))
    assert pinned == base.Plan(full(machine, OLD, *DRIVER), {}, {})
    assert versions(backend, "*").keys() & set(DRIVER) == set()
    systems.write(backend.pin_files("test", pins(machine, OLD)))
    assert backend.simulate(cuda, {}) == pinned
    backend.install(cuda)
    assert versions(backend, *DRIVER) == full(machine, OLD, *DRIVER)


@inside
def test_pins_are_simulated_where_the_plugin_for_locks_is_still_to_come(machine: Machine) -> None:
    if machine.family.name == "apt":
        return
    backend = configure(machine)
    systems.take_out_command("versionlock")
    assert backend.simulate(full(machine, OLD, "drv-cuda"), pins(machine, OLD)).installed == full(
        machine, OLD, *DRIVER
    )


@inside
def test_a_pin_by_source_reaches_what_no_pattern_of_names_does(machine: Machine) -> None:
    backend = configure(machine)
    assert backend.simulate({"codec": ""}, {}).installed == full(machine, NEW, "codec")
    assert backend.simulate({"codec": ""}, pins(machine, OLD)).installed == full(machine, OLD, "codec")


@inside
def test_pins_leave_what_only_has_such_a_name_alone(machine: Machine) -> None:
    backend = configure(machine)
    systems.write(backend.pin_files("test", pins(machine, OLD)))
    backend.install({"drv-container": ""})
    assert versions(backend, "drv-*") == full(machine, "1.20.1", "drv-container")


@inside
def test_a_set_goes_there_and_back_and_away(machine: Machine) -> None:
    backend = configure(machine)
    systems.write(backend.pin_files("test", pins(machine, OLD)))
    backend.install(full(machine, OLD, "drv-cuda"))
    backend.hold(full(machine, OLD, *DRIVER))
    assert all(found.held for found in backend.installed(DRIVER).values())
    # To a newer set, past holds.
    systems.write(backend.pin_files("test", pins(machine, NEW)))
    plan = backend.simulate(full(machine, NEW, *DRIVER), {})
    assert plan.changed == {
        name: (machine.family.full(name, OLD), machine.family.full(name, NEW)) for name in DRIVER
    }
    backend.install(full(machine, NEW, *DRIVER))
    assert versions(backend, *DRIVER) == full(machine, NEW, *DRIVER)
    backend.hold(full(machine, NEW, *DRIVER))
    # And back.
    systems.write(backend.pin_files("test", pins(machine, OLD)))
    assert backend.simulate(full(machine, OLD, *DRIVER), {}).changed["drv-libs"][1] == machine.family.full(
        "drv-libs", OLD
    )
    backend.install(full(machine, OLD, *DRIVER))
    assert versions(backend, *DRIVER) == full(machine, OLD, *DRIVER)
    backend.hold(full(machine, OLD, *DRIVER))
    assert all(found.held for found in backend.installed(DRIVER).values())
    backend.release(["drv-libs"])
    assert {name for name, found in backend.installed(DRIVER).items() if found.held} == {
        "drv-cuda",
        "drv-tool",
    }
    backend.remove(["drv-cuda"])
    assert sorted(backend.installed(DRIVER)) == ["drv-libs", "drv-tool"]


@inside
def test_the_other_kind_of_module_takes_the_place_of_the_one_that_is_there(machine: Machine) -> None:
    backend = configure(machine)
    backend.install(full(machine, OLD, "drv-open", "drv-libs"))
    closed = full(machine, OLD, "drv-closed")
    assert backend.simulate(closed, {}) == base.Plan(closed, {}, full(machine, OLD, "drv-open"))
    backend.install(closed)
    assert versions(backend, "drv-open", "drv-closed") == closed


@inside
def test_what_came_along_goes_with_what_needed_it(machine: Machine) -> None:
    backend = configure(machine)
    systems.write(backend.pin_files("test", pins(machine, OLD)))
    backend.install(full(machine, OLD, "drv-cuda"))
    backend.hold(full(machine, OLD, "drv-cuda"))
    backend.remove(["drv-cuda"], unused=True)
    assert backend.installed(["drv-*"]) == {}


@inside
def test_a_removal_takes_nothing_of_others_along(machine: Machine) -> None:
    backend = configure(machine)
    systems.write(backend.pin_files("test", pins(machine, OLD)))
    backend.install({**full(machine, OLD, "drv-cuda"), **full(machine, "1.0", "site-tool", "neighbour")})
    backend.hold(full(machine, OLD, *DRIVER))
    before = versions(backend, "*")
    for unused in (False, True):
        for take in (backend.removal, backend.remove):
            told = refused(lambda take=take, unused=unused: take(DRIVER, unused))
            assert "'site-tool' (1.0" in told
            assert "neighbour" not in told
    # Parts of the same set count as others where they are not asked for.
    assert "'drv-cuda'" in refused(lambda: backend.removal(["drv-libs"]))
    assert versions(backend, "*") == before
    assert all(found.held for found in backend.installed(DRIVER).values())
    # With it, and with what it needs, all of them go.
    gone = full(machine, OLD, *DRIVER) | full(machine, "1.0", "site-tool")
    assert backend.removal(gone) == gone
    assert versions(backend, "*") == before
    assert backend.remove(gone) == gone
    assert versions(backend, *gone) == {}


@inside
def test_what_somebody_edited_stays_where_a_package_goes(machine: Machine) -> None:
    backend = configure(machine)
    backend.install(full(machine, "1.0", "daemon"))
    edited = Path("/etc/daemon/edited.conf")
    edited.write_text("of the site\n")
    assert backend.remove(["daemon"]) == full(machine, "1.0", "daemon")
    left = edited if machine.family.name == "apt" else Path(f"{edited}.rpmsave")
    assert left.read_text() == "of the site\n"


@inside
def test_what_others_need_or_left_stays_where_what_came_along_goes(machine: Machine) -> None:
    backend = configure(machine)
    # Nothing needs this tool, which came along with something else.
    systems.write(backend.pin_files("test", pins(machine, OLD)))
    backend.install(full(machine, OLD, "drv-cuda"))
    backend.remove(["drv-cuda"])
    backend.install(full(machine, "1.0", "toolkit", "site-job"))
    assert backend.removal(["toolkit"]) == full(machine, "1.0", "toolkit")
    gone = full(machine, "1.0", "toolkit", "toolkit-compiler", "toolkit-headers")
    assert backend.removal(["toolkit"], unused=True) == gone
    # What somebody holds stays as well.
    backend.hold(full(machine, "1.0", "toolkit-headers"))
    del gone["toolkit-headers"]
    assert backend.remove(["toolkit"], unused=True) == gone
    left = versions(backend, "toolkit*", "site-job", *DRIVER)
    assert left == {
        **full(machine, "1.0", "toolkit-headers", "toolkit-runtime", "site-job"),
        **full(machine, OLD, "drv-libs", "drv-tool"),
    }


@inside
def test_a_gap_is_named_and_nothing_is_installed(machine: Machine) -> None:
    backend = configure(machine)
    assert "nowhere-to-be-found" in refused(lambda: backend.simulate(full(machine, "1.0", "broken"), {}))
    assert "nowhere-to-be-found" in refused(lambda: backend.install(full(machine, "1.0", "broken")))
    refused(lambda: backend.install(full(machine, "9.9", "neighbour")))
    assert versions(backend, "broken", "neighbour") == {}


@inside
def test_a_long_name_is_understood(machine: Machine) -> None:
    backend = configure(machine)
    wanted = full(machine, "1.0", systems.LONG, "neighbour")
    assert backend.simulate(wanted, {}) == base.Plan(wanted, {}, {})
    backend.install(wanted)
    assert versions(backend, *wanted) == wanted
    backend.hold(wanted)
    assert all(found.held for found in backend.installed(wanted).values())


@inside
def test_a_simulation_changes_nothing(machine: Machine) -> None:
    backend = configure(machine)
    before = systems.files("/etc", "/opt", "/tmp")
    assert backend.simulate(full(machine, OLD, "drv-cuda"), pins(machine, OLD)).installed
    assert systems.files("/etc", "/opt", "/tmp") == before
    assert versions(backend, "drv-*") == {}


# --- sets, beside the node -----------------------------------------------------------------------------------------


def previewed(machine: Machine, *sets: dict[str, str], **others: Any) -> dict[str, Any]:
    """What the simulation of preflight finds."""
    backend = machine.family.backend()
    asks = {
        f"role{number}": {
            "name": f"set{number}",
            "repository": systems.given(machine),
            "packages": each,
            **others,
        }
        for number, each in enumerate(sets)
    }
    lacks = {role: preview.needs(backend, asked) for role, asked in asks.items()}
    repositories = {asked["name"]: repository_of(asked["repository"], role) for role, asked in asks.items()}
    with backend.aside(repositories, beside_node=True) as beside:
        found: dict[str, Any] = preview.simulate(beside, asks, lacks)
    return found


@inside
def test_all_sets_are_simulated_at_once_and_nothing_stays(machine: Machine) -> None:
    before = systems.files("/etc", "/var/lib/apt", "/var/lib/dnf", "/var/cache/dnf")
    found = previewed(machine, dict.fromkeys(KIT, "1.20.1"), {"drv-cuda": OLD}, patterns=["drv-*"])
    assert (found["error"], found["trouble"]) == ("", "")
    assert found["plan"]["installed"] == {**full(machine, "1.20.1", *KIT), **full(machine, OLD, *DRIVER)}
    assert systems.files("/etc", "/var/lib/apt", "/var/lib/dnf", "/var/cache/dnf") == before


@inside
def test_our_own_pins_of_yesterday_do_not_count(machine: Machine) -> None:
    backend = configure(machine)
    systems.write(backend.pin_files("set0", pins(machine, NEW)))
    lists = systems.files("/var/lib/apt/lists", "/var/cache/dnf")
    found = previewed(machine, {"drv-cuda": OLD}, patterns=["drv-*"])
    assert found["error"] == ""
    assert found["plan"]["installed"] == full(machine, OLD, *DRIVER)
    assert systems.files("/var/lib/apt/lists", "/var/cache/dnf") == lists


@inside
def test_headers_of_the_running_kernel_are_simulated_with_what_needs_any(machine: Machine) -> None:
    if machine.family.name == "apt":
        return  # has a kernel's version in its name
    configure(machine).install(full(machine, "1.0", "core"))
    alone = previewed(machine, {"builder": "1.0"})
    assert alone["plan"]["changed"] == {
        "core": tuple(machine.family.full("core", each) for each in ("1.0", "2.0"))
    }
    found = previewed(
        machine, {"builder": "1.0"}, optional=["matched-1.0-1.el9.noarch", "none-1.0-1.el9.noarch"]
    )
    assert (found["error"], found["plan"]["changed"]) == ("", {})
    assert found["plan"]["installed"] == full(machine, "1.0", "builder", "matched")


@inside
def test_a_held_package_in_the_way_is_told(machine: Machine) -> None:
    backend = configure(machine)
    backend.install(full(machine, NEW, "drv-libs"))
    backend.hold(full(machine, NEW, "drv-libs"))
    assert "drv-libs" in previewed(machine, {"drv-cuda": OLD})["error"]
    found = previewed(machine, {"drv-cuda": OLD}, patterns=["drv-*"], release=["drv-libs"])
    assert found["error"] == ""
    assert found["plan"]["changed"] == {
        "drv-libs": tuple(machine.family.full("drv-libs", each) for each in (NEW, OLD))
    }
    assert found["held"] == ["drv-libs"]


@inside
def test_what_would_go_is_told(machine: Machine) -> None:
    backend = configure(machine)
    backend.install(full(machine, "1.0", "other"))
    found = previewed(machine, {"drv-cuda": OLD}, patterns=["drv-*"])
    assert found["plan"]["removed"] == full(machine, "1.0", "other")


@inside
def test_a_repository_of_others_that_is_down_is_told_and_only_that(machine: Machine) -> None:
    systems.add_repository(machine, "nonexistent-mirror")
    found = previewed(machine, dict.fromkeys(KIT, "1.20.1"))
    assert found["error"] == ""
    assert "nonexistent-mirror" in found["trouble"]
    # Nor does it keep what is asked for from being installed.
    backend = configure(machine)
    backend.install(full(machine, "1.20.1", *KIT))
    assert versions(backend, *KIT) == full(machine, "1.20.1", *KIT)


@inside
def test_what_a_machine_does_after_an_update_waits_for_one_of_all_sources(machine: Machine) -> None:
    if machine.family.name == "dnf":
        return  # has no such thing
    stamp, hooks = Path("/tmp/update-success-stamp"), Path("/etc/apt/apt.conf.d/15update-stamp")
    hooks.write_text(
        f'APT::Update::Post-Invoke-Success {{ "touch {stamp}"; }};\nAPT::Update::Post-Invoke {{ "false"; }};\n'
    )
    backend = configure(machine)
    with backend.aside({"test": repository_of(systems.given(machine), "test")}, beside_node=True) as beside:
        assert beside.trouble == ""
    assert not stamp.exists()
    assert "Post-Invoke" in refused(backend.refresh)
    assert stamp.exists()


@inside
def test_a_repository_that_needs_a_plugin_of_the_package_manager_is_read(machine: Machine) -> None:
    if machine.family.name == "apt":
        return
    systems.add_plugin()
    systems.add_repository(machine, "behind-a-plugin")
    backend, wanted = machine.family.backend(), full(machine, "1.0", "neighbour")
    with backend.aside({}, beside_node=True) as beside:
        assert beside.trouble == ""
        assert beside.simulate(wanted, {}).installed == wanted
    backend.refresh()
    assert backend.simulate(wanted, {}).installed == wanted
    assert {each.name for each in backend.fetch(wanted, Path("/tmp/saved"))} == {"neighbour"}
    backend.install(wanted)
    assert versions(backend, "neighbour") == wanted


# --- folders -------------------------------------------------------------------------------------------------------


@inside
def test_saved_packages_bring_a_version_back_without_a_repository(machine: Machine) -> None:
    backend, folder = configure(machine), Path("/tmp/saved")
    wanted = {**full(machine, OLD, *DRIVER), **full(machine, "2.0", "epoch")}
    saved = backend.fetch(wanted, folder)
    assert {each.name: each.version for each in saved} == wanted
    stamp = (folder / manifests.MANIFEST).stat().st_mtime_ns
    assert backend.fetch(wanted, folder) == saved
    assert (folder / manifests.MANIFEST).stat().st_mtime_ns == stamp
    backend.install(full(machine, NEW, *DRIVER))
    # The repository is gone with its lists, and pins and holds say something else.
    systems.write(backend.pin_files("test", pins(machine, NEW)))
    backend.hold(full(machine, NEW, *DRIVER))
    systems.write(backend.repository_files("test", None))
    for lists in ("/var/lib/apt/lists", "/var/cache/dnf"):
        shutil.rmtree(lists, ignore_errors=True)
    backend.install_from(folder)
    assert versions(backend, *wanted) == wanted


@inside
def test_a_spoiled_or_unfinished_folder_is_not_installed(machine: Machine) -> None:
    backend, folder = configure(machine), Path("/tmp/saved")
    (one,) = backend.fetch(full(machine, OLD, "drv-libs"), folder)
    backend.install(full(machine, "1.0", "neighbour"))
    (folder / one.file).write_bytes(b"something else")
    assert "not what 'manifest.json' says" in refused(lambda: backend.install_from(folder, ["neighbour"]))
    (folder / manifests.MANIFEST).unlink()
    assert "not complete" in refused(lambda: backend.install_from(folder, ["neighbour"]))
    assert versions(backend, "neighbour"), "nothing is removed for a folder that cannot be installed"
    assert backend.fetch(full(machine, OLD, "drv-libs"), folder)[0].sha256 == one.sha256


@inside
def test_what_no_repository_has_any_more_is_saved_from_what_was_kept(machine: Machine) -> None:
    wanted = full(machine, OLD, "drv-libs")
    with systems.served(machine) as address:
        backend = configure(machine, uris=[f"{address}/good"])
        unknown = full(machine, "1.0", "drv-libs")
        assert "Neither a repository nor" in refused(lambda: backend.fetch(unknown, Path("/tmp/saved")))
        assert not (Path("/tmp/saved") / manifests.MANIFEST).exists()
        backend.install(wanted)
    configure(machine, "empty")
    assert backend.offered(wanted) == {}
    (saved,) = backend.fetch(wanted, Path("/tmp/saved"))
    assert (saved.name, saved.version) == ("drv-libs", wanted["drv-libs"])


SITE = authority()
SERVER = SITE.server("mirror.example.com")


@inside
def test_a_repository_of_a_private_authority_is_asked_before_it_is_trusted(machine: Machine) -> None:
    pair = Path("/tmp/server.pem")
    pair.write_text(SERVER.certificate + SERVER.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    Path("/etc/hosts").write_text("127.0.0.1 mirror.example.com\n")
    with systems.served(machine, context) as local:
        address = local.replace("127.0.0.1", "mirror.example.com")
        given = {"test": repository_of(systems.given(machine, uris=[f"{address}/good"]), "test")}
        backend = machine.family.backend()
        assert address in refused(lambda: backend.aside(given).__enter__())
        os.environ[authorities.ENVIRONMENT] = SITE.certificate
        for beside in (False, True):
            with backend.aside(given, beside_node=beside) as asked:
                assert asked.offered(["drv-libs"])["drv-libs"]


# --- module packages -----------------------------------------------------------------------------------------------

SET: dict[str, Any] = {
    "name": "nvidia-driver",
    "packages": {"drv-cuda": OLD},
    "patterns": ["drv-*"],
    "unversioned": ["neighbour"],
}


def work(machine: Machine, check: bool = False, **changes: Any) -> Any:
    """What module packages would do on this machine."""
    params = {**DEFAULTS, **SET, "repository": systems.given(machine), **changes}
    return FolderWork(params, check, machine.family.backend())


def is_due(machine: Machine, **changes: Any) -> bool:
    """Whether the controller would call the module, by the node's record."""
    vars(probe)["PATTERNS"] = ("*",)
    found = as_json(Record(SCHEMA, packages=probe.gather(probe.ask(), []), package_locks=probe.locks(),
                           package_database=probe.database(probe.ask()), managed_files=managed.gather()))  # fmt: skip
    return bool(
        packages_due.is_due(json.loads(found), {**SET, "repository": systems.given(machine), **changes})
    )


@inside
def test_a_set_that_is_there_needs_nothing_and_nothing_stays_of_one_that_went(machine: Machine) -> None:
    before = systems.files("/etc")
    assert is_due(machine)
    predicted = work(machine, check=True)
    predicted.present()
    assert predicted.changed
    assert systems.files("/etc") == before
    work(machine).present()
    assert versions(machine.family.backend(), "drv-*", "neighbour") == {
        **full(machine, OLD, *DRIVER),
        **full(machine, "2.0", "neighbour"),
    }
    assert not is_due(machine)
    again = work(machine)
    again.present()
    assert (again.changed, again.diff) == (False, []), "".join(
        each["before"] + "======" + each["after"] for each in again.diff
    )
    assert is_due(machine, packages={"drv-cuda": NEW})
    gone = work(machine)
    gone.absent()
    assert versions(machine.family.backend(), "drv-*", "neighbour") == {}
    left = {line.partition(" ")[0] for line in set(systems.files("/etc")) - set(before)}
    assert left == set()


@inside
def test_a_set_that_others_need_stays_as_a_whole(machine: Machine) -> None:
    work(machine).present()
    configure(machine).install(full(machine, "1.0", "site-tool"))
    before = systems.files("/etc", "/opt")
    for check in (True, False):
        gone = work(machine, check=check)
        assert "'site-tool'" in refused(gone.absent)
        assert (gone.packages, gone.diff) == ({}, [])
        assert systems.files("/etc", "/opt") == before
    assert not is_due(machine)


def counterpart(of: str, *names: str) -> dict[str, Any]:
    return {"of": of, "names": list(names), "version": NEW}


@inside
def test_what_is_there_besides_comes_under_its_next_name(machine: Machine) -> None:
    patterns = ["drv-*", "extra*"]
    work(machine, patterns=patterns).present()
    configure(machine).install(full(machine, OLD, "extra-580"))
    newer: dict[str, Any] = {"packages": {"drv-cuda": NEW}, "release": [*DRIVER], "patterns": patterns}
    newer["counterparts"] = [counterpart("extra-580", "extra-595", "extra"), counterpart("none-580", "none")]
    folder = Path("/tmp/target")
    work(machine, **newer).fetched(folder)
    assert {each.name for each in manifests.read(folder, machine.family.name)} == {*DRIVER, "extra"}
    # One that was fetched before is not complete any more.
    work(machine, **{**newer, "counterparts": []}).fetched(Path("/tmp/other"))
    work(machine, **newer).fetched(Path("/tmp/other"))
    assert "extra" in {each.name for each in manifests.read(Path("/tmp/other"), machine.family.name)}
    predicted = work(machine, check=True, **newer)
    predicted.present()
    assert predicted.plan["installed"] == full(machine, NEW, "extra")
    work(machine, **newer).present()
    found = machine.family.backend().installed(["extra*"])
    assert found["extra"][:2] == (machine.family.full("extra", NEW), True)
    again = work(machine, **{**newer, "release": []})
    again.present()
    assert again.changed is False


@inside
def test_what_has_no_next_name_stops_the_change(machine: Machine) -> None:
    work(machine).present()
    configure(machine).install(full(machine, OLD, "gone-580"))
    newer: dict[str, Any] = {"packages": {"drv-cuda": NEW}, "release": [*DRIVER]}
    newer["counterparts"] = [counterpart("gone-580", "gone-595", "gone")]
    told = f"'gone-580' is installed, and no repository offers 'gone-595' or 'gone' in version '{NEW}' for it"
    before = versions(machine.family.backend(), "*"), systems.files("/etc")
    assert told in refused(lambda: work(machine, **newer).present())
    assert told in refused(lambda: work(machine, **newer).fetched(Path("/tmp/target")))
    found = previewed(machine, {"drv-cuda": NEW}, **{key: newer[key] for key in ("release", "counterparts")})
    assert found["lacking"] == [told]
    assert (versions(machine.family.backend(), "*"), systems.files("/etc")) == before


@inside
def test_an_upgrade_goes_and_comes_back_from_its_folders(machine: Machine) -> None:
    work(machine).present()
    target, present = Path("/tmp/target"), Path("/tmp/present")
    release = [*DRIVER]
    newer: dict[str, Any] = {"packages": {"drv-cuda": NEW}, "release": release}
    work(machine, **newer).fetched(target)
    work(machine).fetched(present)
    configure(machine, "empty")
    went = work(machine, **newer, repository=None)
    went.from_folder(target)
    assert went.changed
    assert versions(machine.family.backend(), *DRIVER) == full(machine, NEW, *DRIVER)
    back = work(machine, release=release, repository=None)
    back.from_folder(present)
    found = machine.family.backend().installed(DRIVER)
    assert {name: (each.version, each.held) for name, each in found.items()} == {
        name: (version, True) for name, version in full(machine, OLD, *DRIVER).items()
    }


@pytest.mark.parametrize("by_folder", [True, False])
@inside
def test_parts_with_epoch_and_revision_of_their_own_do_not_stay_behind(
    machine: Machine, by_folder: bool
) -> None:
    patterns = ["drv-*", "fabric*"]
    work(machine, patterns=patterns).present()
    configure(machine).install(full(machine, OLD, "fabric"))
    again = work(machine, patterns=patterns)
    again.present()
    assert machine.family.backend().installed(["fabric"])["fabric"].held
    newer: dict[str, Any] = {"packages": {"drv-cuda": NEW}, "patterns": patterns}
    newer["release"] = [*DRIVER, "fabric"]
    if by_folder:
        work(machine, **newer).fetched(Path("/tmp/target"))
        work(machine, **newer, repository=None).from_folder(Path("/tmp/target"))
    else:
        work(machine, **newer).present()
    found = machine.family.backend().installed([*DRIVER, "fabric"])
    assert {name: (each.version, each.held) for name, each in found.items()} == {
        name: (version, True) for name, version in full(machine, NEW, *DRIVER, "fabric").items()
    }


@pytest.mark.parametrize("by_folder", [True, False])
@inside
def test_what_has_files_of_the_others_makes_room_for_them(machine: Machine, by_folder: bool) -> None:
    configure(machine).install(full(machine, OLD, "fabric"))
    asked: dict[str, Any] = {"unversioned": [], "release": ["fabric"], "displaced": ["fabric", "not-there"]}
    if by_folder:
        work(machine, **asked).fetched(Path("/tmp/displacing"))
        work(machine, **asked, repository=None).from_folder(Path("/tmp/displacing"))
    else:
        work(machine, **asked).present()
    assert versions(machine.family.backend(), "fabric", *DRIVER) == full(machine, OLD, *DRIVER)


@inside
def test_what_was_saved_outlives_the_next_installation(machine: Machine) -> None:
    """Dnf notes what it has downloaded, and deletes it then; it notes nothing of repositories with file://."""
    older, newer = full(machine, OLD, *DRIVER), full(machine, NEW, *DRIVER)
    places = Path("/tmp/older"), Path("/tmp/newer")
    with systems.served(machine) as address:
        backend = configure(machine, uris=[f"{address}/good"])
        backend.install(older)
        backend.fetch(older, places[0])
        backend.fetch(newer, places[1])
        backend.install_from(places[1])
        backend.install({"neighbour": ""})
    for place in places:
        assert manifests.read(place, backend.name)
    backend.install_from(places[0])
    assert versions(backend, *DRIVER) == older


@inside
def test_a_part_that_stayed_behind_alone_is_brought(machine: Machine) -> None:
    patterns = ["drv-*", "fabric*"]
    configure(machine).install(full(machine, OLD, "fabric"))
    asked: dict[str, Any] = {"packages": {"drv-cuda": NEW}, "patterns": patterns}
    configure(machine).install(full(machine, NEW, *DRIVER))
    work(machine, **asked, release=["fabric"]).present()
    assert versions(machine.family.backend(), "fabric") == full(machine, NEW, "fabric")
    again = work(machine, **asked)
    again.present()
    assert (again.changed, again.diff) == (False, [])


FROM_SET: dict[str, Any] = {"packages": {"drv-cuda": OLD, "drv-libs": OLD}, "unversioned": ["neighbour"]}


# --- what is not of the set ------------------------------------------------------------------------------------------


def as_it_is(machine: Machine) -> tuple[list[str], dict[str, Any]]:
    """Files, packages and holds."""
    return systems.files("/etc", "/opt"), dict(machine.family.backend().installed(["*"]))


@pytest.mark.parametrize("how", ["repository", "saved packages"])
@inside
def test_packages_of_others_stay_unless_they_are_permitted_to_go(machine: Machine, how: str) -> None:
    asked: dict[str, Any] = {**FROM_SET, "release": [*DRIVER], "repository": systems.given(machine)}
    saved = Path("/tmp/present")
    if how == "saved packages":
        work(machine, **asked).fetched(saved)
        asked["repository"] = None
    backend = configure(machine)
    backend.install({**full(machine, "1.0", "other"), **full(machine, NEW, "drv-tool")})
    # Of an earlier day.
    systems.write(backend.pin_files("nvidia-driver", pins(machine, NEW)))
    backend.hold(full(machine, NEW, "drv-tool"))

    def put(check: bool = False, **more: Any) -> Any:
        done = work(machine, check, **{**asked, **more})
        if how == "saved packages":
            done.from_folder(saved)
        else:
            done.present()
        return done

    told = f"Installing 'nvidia-driver' would remove 'other' ({machine.family.full('other', '1.0')}). Nothing was changed."
    before = as_it_is(machine)
    assert told in refused(put)
    assert as_it_is(machine) == before
    if how == "repository":
        # What a list of a new repository says, check mode does not know.
        systems.write(backend.repository_files("nvidia-driver", repository_of(asked["repository"], "")))
        backend.refresh("nvidia-driver")
        before = as_it_is(machine)
    assert told in refused(lambda: put(check=True))
    assert told in refused(lambda: put(removable=["another*"]))
    assert as_it_is(machine) == before
    if how != "saved packages":
        assert told in refused(lambda: work(machine, **asked).fetched(Path("/tmp/target")))
        assert not Path("/tmp/target").exists()
    permitted: dict[str, Any] = {"removable": ["oth*"]}
    assert put(check=True, **permitted).plan["removed"] == full(machine, "1.0", "other")
    assert as_it_is(machine) == before
    assert put(**permitted).changed
    assert versions(backend, "other", *DRIVER) == full(machine, OLD, *DRIVER)
    assert all(found.held for found in backend.installed(DRIVER).values())
    again = put(release=[])
    assert (again.changed, again.diff) == (False, [])


@inside
def test_on_a_node_that_serves_nothing_of_others_changes(machine: Machine) -> None:
    backend = configure(machine)
    backend.install(full(machine, "1.20.1", "kit-base"))
    asked: dict[str, Any] = {
        "packages": dict.fromkeys(("kit", "kit-tools", "kit-library"), "1.21.0"),
        "patterns": [],
        "unversioned": [],
    }
    before = as_it_is(machine)
    told = " to ".join(machine.family.full("kit-base", each) for each in ("1.20.1", "1.21.0"))
    serving = FolderWork(
        {**DEFAULTS, **SET, "repository": systems.given(machine), **asked},
        False,
        machine.family.backend(),
        serves=True,
    )
    assert f"would change 'kit-base' ({told}). Nothing was changed." in refused(serving.present)
    assert as_it_is(machine) == before
    work(machine, **asked).present()
    assert versions(backend, *KIT) == full(machine, "1.21.0", *KIT)


@inside
def test_what_somebody_holds_stays(machine: Machine) -> None:
    backend = configure(machine)
    backend.install(full(machine, "1.20.1", "kit-base"))
    systems.hold_by_hand(machine, "kit-base", machine.family.full("kit-base", "1.20.1"))
    asked: dict[str, Any] = {
        "packages": dict.fromkeys(("kit", "kit-tools", "kit-library"), "1.21.0"),
        "patterns": [],
        "unversioned": [],
    }
    before = as_it_is(machine)
    told = refused(lambda: work(machine, **asked).present())
    assert "kit-base" in told
    assert "othing was changed" in told
    assert as_it_is(machine) == before


@inside
def test_a_gap_is_named_before_anything_is_changed(machine: Machine) -> None:
    before = as_it_is(machine)
    asked: dict[str, Any] = {"packages": {"broken": "1.0"}, "patterns": [], "unversioned": []}
    told = refused(lambda: work(machine, **asked).present())
    assert "nowhere-to-be-found" in told
    assert "nothing was changed" in told
    assert as_it_is(machine) == before


@inside
def test_lists_that_are_missing_are_read_for_the_simulation_too(machine: Machine) -> None:
    """As of a fresh image, which knows nothing of its distribution's repositories yet."""
    systems.add_repository(machine, "good")
    backend, wanted = machine.family.backend(), full(machine, "1.0", "neighbour")
    refused(lambda: backend.simulate(wanted, {}))
    assert backend.simulate(wanted, {}, reads=True) == base.Plan(wanted, {}, {})
    assert versions(backend, "neighbour") == {}


# --- others on the machine -----------------------------------------------------------------------------------------


@inside
def test_an_upgrade_of_everything_leaves_a_set_alone(machine: Machine) -> None:
    backend = configure(machine)
    systems.write(backend.pin_files("test", pins(machine, OLD)))
    backend.install({**full(machine, OLD, *DRIVER, "codec"), **full(machine, "1.0", "neighbour")})
    backend.hold(full(machine, OLD, *DRIVER, "codec"))
    systems.upgrade_all(machine)
    assert versions(backend, *DRIVER, "codec") == full(machine, OLD, *DRIVER, "codec")
    assert versions(backend, "neighbour") == full(machine, "2.0", "neighbour")


@inside
def test_an_upgrade_that_holds_make_fail_is_told_and_its_way_round_works(machine: Machine) -> None:
    """As where a package of others needs a newer driver than the one that is locked, and dnf wants the best of everything."""
    backend = configure(machine)
    backend.install({**full(machine, "1.0", "bystander", "neighbour"), **full(machine, OLD, "drv-libs")})
    assert backend.blocked() == ""
    backend.hold(full(machine, OLD, "drv-libs"))
    told = backend.blocked()
    if machine.family.name == "apt":
        systems.upgrade_all(machine)
    else:
        assert "since bystander needs newer ones" in told
        with pytest.raises(AssertionError, match="bystander"):
            systems.upgrade_all(machine)
        assert versions(backend, "neighbour") == full(machine, "1.0", "neighbour")
        systems.upgrade_all(machine, "--nobest")
    assert versions(backend, "drv-libs") == full(machine, OLD, "drv-libs")
    assert versions(backend, "bystander") == full(machine, "1.0", "bystander")
    assert versions(backend, "neighbour") == full(machine, "2.0", "neighbour")
    # What is not for us to say is not blamed on what we hold.
    backend.release(["drv-libs"])
    systems.hold_by_hand(machine, "drv-libs", machine.family.full("drv-libs", OLD))
    assert backend.blocked() == ""


@inside
def test_dnf_automatic_leaves_a_set_alone(machine: Machine) -> None:
    if machine.family.name == "apt":
        return
    backend = configure(machine)
    systems.write(backend.pin_files("test", pins(machine, OLD)))
    backend.install({**full(machine, OLD, *DRIVER), **full(machine, "1.0", "neighbour")})
    backend.hold(full(machine, OLD, *DRIVER))
    systems.dnf_automatic()
    assert versions(backend, *DRIVER) == full(machine, OLD, *DRIVER)
    assert versions(backend, "neighbour") == full(machine, "2.0", "neighbour")


@inside
def test_lines_and_holds_of_an_administrator_stay(machine: Machine) -> None:
    backend = configure(machine)
    backend.install({**full(machine, "1.0", "neighbour"), **full(machine, OLD, "drv-libs")})
    systems.hold_by_hand(machine, "neighbour", "1.0")
    before = systems.held_by_hand(machine)
    assert backend.installed(["neighbour"])["neighbour"].held
    systems.write(backend.pin_files("test", pins(machine, OLD)))
    backend.hold(full(machine, OLD, "drv-libs"))
    backend.install(full(machine, NEW, "drv-libs"))
    backend.release(["drv-libs"])
    backend.remove(["drv-libs"])
    systems.write(backend.pin_files("test", {}))
    assert systems.held_by_hand(machine) == before
    assert backend.installed(["neighbour"])["neighbour"].held
    systems.upgrade_all(machine)
    assert versions(backend, "neighbour") == full(machine, "1.0", "neighbour")


@inside
def test_a_missing_list_of_locks_is_in_nobodys_way(machine: Machine) -> None:
    """Dnf's plugin refuses all that dnf does where its list is missing, as it is on Debian, and where somebody deleted it."""
    if machine.family.name == "apt":
        return
    backend = configure(machine)
    systems.LIST.unlink(missing_ok=True)
    with pytest.raises(AssertionError, match="version lock configuration"):
        systems.upgrade_all(machine)
    backend.refresh()
    assert (backend.repair(), backend.blocked()) == (False, "")
    cuda, wanted = full(machine, OLD, "drv-cuda"), full(machine, OLD, *DRIVER)
    assert backend.simulate(cuda, pins(machine, OLD), reads=True) == base.Plan(wanted, {}, {})
    assert backend.fetch(wanted, Path("/tmp/saved"))
    assert not systems.LIST.exists()
    # What has to be there is brought, and goes, without a list as well.
    backend.install(full(machine, "1.0", "neighbour", "daemon"))
    assert backend.removal(["daemon"]) == full(machine, "1.0", "daemon")
    backend.remove(["daemon"])
    assert not systems.LIST.exists()
    asked: dict[str, Any] = {"unversioned": [], "repository": None}
    assert backend.simulate_from(Path("/tmp/saved"), {}).installed == wanted
    work(machine, **asked).from_folder(Path("/tmp/saved"))
    assert all(found.held for found in backend.installed(DRIVER).values())
    # From here on there is one, and lines of others in it stay.
    systems.LIST.write_text(f"# of the site\nneighbour-1.0*\n{systems.LIST.read_text()}")
    systems.upgrade_all(machine)
    assert versions(backend, "neighbour", *DRIVER) == {**wanted, **full(machine, "1.0", "neighbour")}
    work(machine, **asked).absent()
    assert versions(backend, *DRIVER) == {}
    assert systems.LIST.read_text() == "# of the site\nneighbour-1.0*\n"


@inside
def test_a_lock_of_others_at_another_version_is_named_and_nothing_is_changed(machine: Machine) -> None:
    if machine.family.name == "apt":
        return  # holds no versions; preflight refuses what is held
    backend = configure(machine)
    systems.hold_by_hand(machine, "drv-libs", machine.family.full("drv-libs", NEW))
    for work in (backend.simulate, lambda versions, _pins: backend.install(versions)):
        assert "'dnf versionlock delete drv-libs'" in refused(
            lambda work=work: work(full(machine, OLD, "drv-libs"), {})
        )
    assert versions(backend, "drv-libs") == {}


@inside
def test_what_dnf_versionlock_rewrites_is_still_ours(machine: Machine) -> None:
    if machine.family.name == "apt":
        return
    backend = configure(machine)
    systems.write(backend.pin_files("test", pins(machine, OLD)))
    backend.install(full(machine, OLD, "drv-cuda"))
    systems.versionlock("add", "neighbour")
    systems.versionlock("delete", "drv-tool")
    assert "gpusmith" not in systems.LIST.read_text()
    backend.hold(full(machine, OLD, *DRIVER))
    systems.write(backend.pin_files("test", pins(machine, NEW)))
    backend.install(full(machine, NEW, *DRIVER))
    assert versions(backend, *DRIVER) == full(machine, NEW, *DRIVER)
    backend.release(DRIVER)
    systems.write(backend.pin_files("test", {}))
    left = {line for line in systems.LIST.read_text().splitlines() if line}
    assert left == {"neighbour-0:1.0-1.el9.*", "neighbour-0:2.0-1.el9.*"}


@inside
def test_the_order_of_versions_is_rpms(machine: Machine) -> None:
    if machine.family.name == "apt":
        return
    texts = [
        "1.0",
        "1.0~rc1",
        "1.0^git1",
        "1.0.1",
        "1.10",
        "1.9",
        "1a",
        "1",
        "01",
        "1.el9",
        "1.el10",
        "2~~",
        "1_1",
        "1.0.a",
        "a",
    ]
    for first in texts:
        for second in texts:
            told = systems.rpm_order(first, second)
            assert rpm.compare(f"{first}-1", f"{second}-1") == told, (first, second)


@pytest.mark.parametrize("whose", ["front end", "database"])
@inside
def test_another_program_with_the_lock_is_told_as_that(machine: Machine, whose: str) -> None:
    configure(machine)
    backend = machine.family.backend(lock_timeout_s=0.5)
    with systems.busy(machine, whose), pytest.raises(base.BusyError):
        backend.install(full(machine, OLD, "drv-libs"))
    assert versions(backend, "drv-libs") == {}
    backend.install(full(machine, OLD, "drv-libs"))


@inside
def test_another_program_with_the_lock_is_no_repair(machine: Machine) -> None:
    backend = configure(machine)
    backend.install(full(machine, OLD, "drv-libs"))
    wanted = systems.leave_half_done(machine, "drv-libs", OLD, NEW)
    with systems.busy(machine, "front end"), pytest.raises(base.BusyError):
        machine.family.backend(lock_timeout_s=0.5).repair()
    assert backend.repair() is True
    assert versions(backend, "drv-libs") == full(machine, wanted, "drv-libs")


def seen_by_probe() -> Record:
    """What the probe sees of packages, all of which matter to it here."""
    vars(probe)["PATTERNS"] = ("*",)
    asked = probe.ask()
    return Record(SCHEMA, half_packages=probe.halves(asked, []), package_database=probe.database(asked))


@pytest.mark.parametrize(("there", "coming"), [(OLD, NEW), (NEW, OLD)])
@inside
def test_what_a_killed_run_left_is_named_and_a_person_can_finish_it(
    machine: Machine, there: str, coming: str
) -> None:
    backend = configure(machine)
    backend.install(full(machine, there, "drv-libs"))
    assert seen_by_probe().half_packages == {}
    systems.leave_half_done(machine, "drv-libs", there, coming)
    seen = seen_by_probe()
    assert set(seen.half_packages) == {"drv-libs"}
    subprocess.run(foreign.finishing(seen).split(), input="y\n", text=True, capture_output=True, check=True)
    assert seen_by_probe().half_packages == {}
    # Of two versions dnf keeps the newer one, and installs it once more.
    stays = there if machine.family.name == "apt" else NEW
    assert versions(backend, "drv-libs") == full(machine, stays, "drv-libs")
    assert Path("/opt/drv-libs").read_text().strip() == stays


@inside
def test_what_takes_too_long_may_finish_its_packages_and_is_not_begun_anew(machine: Machine) -> None:
    backend, wanted = configure(machine), full(machine, "1.0", "neighbour")
    for module in (apt, dnf):
        vars(module)["INSTALL_TIMEOUT_S"] = 8
    systems.SLOW.touch()
    with pytest.raises(base.UnfinishedError, match="was asked to"):
        backend.install(wanted)
    assert systems.SLOW.read_text() == "begun\n"
    systems.SLOW.unlink()
    assert versions(backend, "neighbour") == wanted
    backend.repair()
    backend.install(full(machine, "1.0", "bystander"))


@pytest.mark.parametrize(("there", "coming"), [(OLD, NEW), (NEW, OLD)])
@pytest.mark.parametrize("which", ["good", "empty"])
@inside
def test_what_a_killed_run_left_is_finished(machine: Machine, there: str, coming: str, which: str) -> None:
    backend = configure(machine)
    assert backend.repair() is False
    backend.install(full(machine, there, "drv-libs"))
    wanted = systems.leave_half_done(machine, "drv-libs", there, coming)
    configure(machine, which)
    assert backend.installed(["drv-libs"]) == {}
    assert backend.repair() is True
    assert versions(backend, "drv-libs") == full(machine, wanted, "drv-libs")
    assert Path("/opt/drv-libs").read_text().strip() == wanted
    assert backend.repair() is False
