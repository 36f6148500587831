"""Folders of package files: what their lists say and prove, what nodes keep of them, and the repositories that they become."""

from __future__ import annotations

import hashlib
import os
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import base, folder, index
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.apt_files import render_source
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.dnf import render_repository
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.repositories import repository_of
from ansible_collections.gpusmith.gpu.plugins.plugin_utils import packages_due

from tests.unit.keys import KEY

OWNER = "nvidia-driver"


def site(place: Path, *names: str) -> Path:
    """A folder as a person fills it."""
    place.mkdir()
    for name in names or ("driver_1.0_amd64.deb", "libs_1%3a2.0_all.deb"):
        (place / name).write_text(name)
    write_list(place)
    return place


def write_list(place: Path) -> None:
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(place.iterdir())
    ]
    (place / folder.SUMS).write_text("".join(lines))


def refused(work: Any) -> str:
    with pytest.raises(base.PackageError) as error:
        work()
    return str(error.value)


# --- lists ---------------------------------------------------------------------------------------------------------


def test_a_folder_is_what_its_list_says(tmp_path: Path) -> None:
    found = folder.proved(site(tmp_path / "site"))
    assert found.type == "deb"
    assert set(found.digests) == {"driver_1.0_amd64.deb", "libs_1%3a2.0_all.deb"}
    assert found.identity == hashlib.sha256(found.text.encode()).hexdigest()


@pytest.mark.parametrize("line", ["{digest} *{name}", "{digest}  ./{name}", "{digest}  {name}\r"])
def test_lists_are_read_as_sha256sum_writes_them(line: str) -> None:
    found = folder.parse(line.format(digest="a" * 64, name="x.rpm") + "\n\n", "list")
    assert (found.type, found.digests) == ("rpm", {"x.rpm": "a" * 64})


def test_without_a_list_a_folder_is_refused_with_the_command_that_makes_it(tmp_path: Path) -> None:
    place = site(tmp_path / "site")
    (place / folder.SUMS).unlink()
    told = refused(lambda: folder.proved(place))
    assert "'sha256sum *.deb > SHA256SUMS'" in told
    assert "its files from others" in told
    assert "There is no folder" in refused(lambda: folder.proved(tmp_path / "nowhere"))


def test_every_file_that_the_list_does_not_prove_is_named(tmp_path: Path) -> None:
    place = site(tmp_path / "site", "a.deb", "b.deb", "c.deb")
    (place / "a.deb").write_text("other")
    (place / "b.deb").unlink()
    (place / "d.deb").write_text("new")
    (place / "e.deb").mkdir()
    told = refused(lambda: folder.proved(place))
    assert "'b.deb' are missing" in told
    assert "'d.deb', 'e.deb' are not listed" in told
    assert "'a.deb' are others" in told
    assert "'c.deb'" not in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "lists no package"),
        ("abc  x.deb\n", "'abc  x.deb'"),
        (f"{'a' * 64}  ../x.deb\n", "../x.deb"),
        (f"{'a' * 64}  sub/x.deb\n", "sub/x.deb"),
        (f"{'a' * 64}  x.deb\n{'b' * 64}  x.deb\n", "gives no digest"),
        (f"{'a' * 64}  x.deb\n{'b' * 64}  y.rpm\n", "both kinds"),
        (f"{'a' * 64}  x.deb\n{'b' * 64}  install.sh\n", "'install.sh'"),
        # rpm calls its architecture that of the machine that built it.
        (f"{'a' * 64}  x-1-1.x86_64.rpm\n{'b' * 64}  x-1-1.src.rpm\n", "lists 'x-1-1.src.rpm'"),
    ],
)
def test_a_list_of_anything_else_is_refused(text: str, told: str) -> None:
    assert told in refused(lambda: folder.parse(text, "list"))


# --- as a repository -----------------------------------------------------------------------------------------------


def test_the_list_alone_says_where_a_node_keeps_the_folder(tmp_path: Path) -> None:
    place = site(tmp_path / "site", "a.rpm")
    known = folder.as_on_node({"folder": str(place), "key": KEY}, OWNER)
    assert known == {
        "type": "rpm",
        "key": KEY,
        "folder": f"/var/lib/gpusmith/repositories/{OWNER}/{folder.listed(place).identity}",
    }
    assert "is of type 'deb'" in refused(
        lambda: folder.as_on_node({"folder": str(place), "type": "deb"}, OWNER)
    )
    assert folder.as_on_node({"uris": ["x"]}, OWNER) == {"uris": ["x"]}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"uris": ["x"]}, "'uris' beside 'folder'"),
        ({"type": "deb", "key": KEY}, "no file '.deb' is signed"),
        ({"type": "rpm", "signed": "metadata", "key": KEY}, "'metadata' signed"),
        ({"type": "rpm", "fingerprint": "A" * 40}, "no 'key'"),
        ({"type": "rpm", "key": KEY, "fingerprint": "A" * 40}, "fingerprint"),
    ],
)
def test_what_contradicts_a_folder_is_refused(given: dict[str, Any], told: str) -> None:
    assert told in refused(lambda: repository_of({"folder": "/x", **given}, OWNER))


def test_package_managers_look_at_signatures_where_there_is_a_key() -> None:
    debs = repository_of({"folder": "/x", "type": "deb"}, OWNER)
    source = render_source(debs, OWNER)
    assert "URIs: file:///x\nSuites: ./\nTrusted: yes\n" in source
    assert "Signed-By" not in source
    rpms = {key: repository_of({"folder": "/x", "type": "rpm", "key": key}, OWNER) for key in ("", KEY)}
    bare, signed = (render_repository(rpms[key], OWNER, Path("/key")) for key in ("", KEY))
    assert "baseurl=file:///x\nenabled=1\ngpgcheck=0\nrepo_gpgcheck=0\nmodule_hotfixes" in bare
    assert "gpgcheck=1\nrepo_gpgcheck=0\ngpgkey=file:///key\n" in signed


def test_a_node_that_has_it_all_from_the_folder_needs_nothing(tmp_path: Path) -> None:
    place = site(tmp_path / "site")
    asked = {"name": OWNER, "repository": {"folder": str(place)}, "packages": {}}
    source = "/etc/apt/sources.list.d/gpusmith-nvidia-driver.sources"
    text = render_source(repository_of(folder.as_on_node(asked["repository"], OWNER), OWNER), OWNER)
    record: dict[str, Any] = {"packages": {}, "package_database": "dpkg", "managed_files": {}}
    assert packages_due.is_due(record, asked)
    record["managed_files"][source] = hashlib.sha256(text.encode()).hexdigest()
    assert not packages_due.is_due(record, asked)
    # Other files make it another repository.
    (place / "driver_1.0_amd64.deb").write_text("other")
    write_list_of(place)
    assert packages_due.is_due(record, asked)


def write_list_of(place: Path) -> None:
    (place / folder.SUMS).unlink()
    write_list(place)


# --- on a node -----------------------------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a node would keep the folder."""
    monkeypatch.setattr(folder, "PLACE", tmp_path / "place")
    monkeypatch.setattr(
        index.write, "__defaults__", (lambda words, *_: f"Package: {Path(words[-1]).name}\n",)
    )
    place: Path = folder.place(OWNER, folder.listed(site(tmp_path / "site")).identity)
    return place


def test_what_was_brought_is_kept_whole_or_not_at_all(tmp_path: Path, kept: Path) -> None:
    place = tmp_path / "site"
    text = (place / folder.SUMS).read_text()
    assert "not on the node" in refused(lambda: folder.prove_kept(kept))
    spoiled = shutil.copytree(place, tmp_path / "spoiled")
    (spoiled / "driver_1.0_amd64.deb").write_text("cut off")
    assert "driver_1.0_amd64.deb" in refused(lambda: folder.keep(spoiled, text, kept))
    assert not kept.exists()
    folder.keep(place, text, kept)
    assert folder.prove_kept(kept).text == text
    assert (kept / "Packages").read_text().count("Filename: ./") == 2
    (kept / "driver_1.0_amd64.deb").write_text("other")
    assert "driver_1.0_amd64.deb" in refused(lambda: folder.prove_kept(kept))
    # What is kept under a digest is that, and no other folder that proves itself.
    write_list_of_kept(kept)
    assert "not the list that was brought" in refused(lambda: folder.prove_kept(kept))
    folder.keep(place, text, kept)
    assert folder.prove_kept(kept).text == text
    assert folder.others(OWNER, but=str(kept)) == []


def test_everybody_may_read_what_is_kept(tmp_path: Path, kept: Path) -> None:
    half = kept.with_name(".other.new")
    half.mkdir(parents=True)
    before = os.umask(0o077)
    try:
        folder.keep(tmp_path / "site", (tmp_path / "site" / folder.SUMS).read_text(), kept)
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in kept.iterdir()} == {0o644}
    assert {path.stat().st_mode & 0o777 for path in (kept, *list(kept.parents)[:2])} == {0o755}
    # What a killed run left half done goes.
    assert not half.exists()


def test_an_archive_of_a_kept_folder_is_found_and_proved(tmp_path: Path, kept: Path) -> None:
    folder.keep(tmp_path / "site", (tmp_path / "site" / folder.SUMS).read_text(), kept)
    assert folder.archive("libs_1%3a2.0_*.deb") == kept / "libs_1%3a2.0_all.deb"
    assert folder.archive("libs_3_*.deb") is None
    (kept / "driver_1.0_amd64.deb").write_text("other")
    assert "driver_1.0_amd64.deb" in refused(lambda: folder.archive("libs_1%3a2.0_*.deb"))


def write_list_of_kept(place: Path) -> None:
    (place / "Packages").unlink()
    write_list_of(place)


def test_the_metadata_of_rpms_has_what_dependencies_go_by() -> None:
    said = (
        "drv\tx86_64\t3\t580.1\t1.el9\tsource-580.1-1.el9.src.rpm\t100\t5\tMIT & others\n"
        "provides\tdrv\t8\t3:580.1-1.el9\n"
        "requires\tlibs(x86-64)\t8\t3:580.1-1.el9\n"
        "requires\t/bin/sh\t0\t\n"
        "requires\tkernel >= 5\t12\t5\n"
        "requires\trpmlib(CompressedFileNames)\t16777226\t3.0.4-1\n"
        "conflicts\t(none)\t(none)\t(none)\n"
        "file\t/usr/bin/a&b\n"
    )
    text = index.package(said, "drv.rpm", "d" * 64, 7)
    common, rpm = "{http://linux.duke.edu/metadata/common}", "{http://linux.duke.edu/metadata/rpm}"
    (root,) = ET.fromstring(f"<metadata {index.COMMON}>{text}</metadata>")
    version = root.find(f"{common}version")
    assert version is not None
    assert version.attrib == {"epoch": "3", "ver": "580.1", "rel": "1.el9"}
    entries = {
        each.attrib["name"]: each.attrib for each in root.iter(f"{rpm}entry") if each.attrib["name"] != "drv"
    }
    assert entries == {
        "libs(x86-64)": {"name": "libs(x86-64)", "flags": "EQ", "epoch": "3", "ver": "580.1", "rel": "1.el9"},
        "/bin/sh": {"name": "/bin/sh"},
        "kernel >= 5": {"name": "kernel >= 5", "flags": "GE", "epoch": "0", "ver": "5"},
    }
    assert [each.text for each in root.iter(f"{common}file")] == ["/usr/bin/a&b"]
