"""The images of the lab's registry, from lab/images/images.yml."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpulab.artifacts import debian, oci, upstream
from gpulab.artifacts.components import versions
from gpulab.artifacts.layers import Layer
from gpulab.artifacts.sources import IMAGES
from gpulab.artifacts.store import Inputs, Store, digest_file, key_of
from gpulab.progress import run_logged
from gpulab.releases import KUBERNETES, USUAL, Releases
from gpusmith import yaml_text
from gpusmith.errors import ToolError
from gpusmith.paths import cache_dir

RECIPE = 2  # raise when this file changes what comes out
CONTENT_TAG = "content"
PYTHON_VERSION = "3.13"  # of Debian 13, which the workload images are made from
PYTHON_PACKAGES = f"/usr/local/lib/python{PYTHON_VERSION}/dist-packages"
# Newest first; every glibc up to Debian 13's can run these.
PLATFORMS = (
    "manylinux_2_28_x86_64",
    "manylinux_2_27_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux2014_x86_64",
    "manylinux2010_x86_64",
)


@dataclass(frozen=True)
class Image:
    """One image; the attributes are those of images.yml."""

    name: str
    tag: str
    base: str = ""
    programs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    applets: str = ""
    python: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    entrypoint: tuple[str, ...] = ()
    user: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def components(self) -> tuple[str, ...]:
        """The compiled components that it takes programs from."""
        return tuple(sorted({item.partition("/")[0] for items in self.programs.values() for item in items}))

    def settings(self) -> oci.Settings:
        """How its containers start."""
        return oci.Settings(self.environment, self.entrypoint, self.user, self.labels)


@dataclass(frozen=True)
class Parts:
    """What images are put together from: keys for the warm path, folders for building."""

    component_key: Callable[[str], str]
    component_folder: Callable[[str], Path]
    rootfs: Callable[[str], Path]
    sysroot: Callable[[], Path]


def load(chosen: Releases = USUAL) -> list[Image]:
    """All images, with the tags filled in that the lab's Kubernetes asks for."""
    words = {**versions(chosen), "kubeadm": chosen.of(KUBERNETES).tags}
    document = yaml_text.load((IMAGES / "images.yml").read_text())
    return [
        Image(
            name=name,
            tag=str(entry["tag"]).format(**words),
            base=entry.get("base", ""),
            programs={folder: tuple(items) for folder, items in entry.get("programs", {}).items()},
            files=entry.get("files", {}),
            applets=entry.get("applets", ""),
            python=tuple(entry.get("python", ())),
            environment=entry.get("environment", {}),
            entrypoint=tuple(entry.get("entrypoint", ())),
            user=entry.get("user", ""),
            labels=entry.get("labels", {}),
        )
        for name, entry in document.items()
    ]


def inputs(image: Image, parts: Parts) -> Inputs:
    """What decides an image's content."""
    local = [IMAGES / item.partition(":")[2] for item in image.files.values() if item.startswith("c:")]
    local += [IMAGES / name for name in image.python]
    return {
        "recipe": RECIPE,
        "components": {name: parts.component_key(name) for name in image.components},
        "base": debian.load(image.base).inputs() if image.base else None,
        "programs": {folder: list(items) for folder, items in image.programs.items()},
        "files": dict(image.files),
        "local": [digest_file(path) for path in local],
        "applets": image.applets,
        "python": list(image.python),
        "environment": dict(image.environment),
        "entrypoint": list(image.entrypoint),
        "user": image.user,
        **({"labels": dict(image.labels)} if image.labels else {}),
    }


def content_tags(found: list[Image], parts: Parts) -> dict[str, str]:
    """Image -> tag, where the tag is made from the content, so that nodes never keep an old one.

    The workload images share one tag: an inventory names one version of them.
    """
    workloads = [image for image in found if image.python]
    shared = key_of([inputs(image, parts) for image in workloads])[:12]
    tags = {image.name: image.tag for image in found}
    for image in found:
        if image.tag == CONTENT_TAG:
            tags[image.name] = shared if image in workloads else key_of(inputs(image, parts))[:12]
    return tags


def base_layer(store: Store, name: str, parts: Parts) -> oci.Packed:
    """The compressed root file system that images stand on."""

    def compress(folder: Path) -> None:
        oci.pack(parts.rootfs(name), folder)

    return oci.packed(store.get(f"layer-{name}", debian.load(name).inputs(), compress, f"layer of '{name}'"))


def own_layer(store: Store, image: Image, parts: Parts) -> oci.Packed:
    """The compressed layer with what the image itself brings."""

    def assemble(folder: Path) -> None:
        tar = folder / "layer.tar"
        with Layer(tar, merged_usr=bool(image.base)) as layer:
            for target, items in image.programs.items():
                for item in items:
                    for program in _programs(item, parts):
                        layer.file(f"{target}/{program.name}", program, 0o755)
            for path, source in image.files.items():
                fetched = _fetch(source, folder, parts)
                layer.file(path, fetched)
                if path == image.applets:
                    for applet in _applets(fetched):
                        layer.link(applet, path)
            if image.applets or not image.base:
                layer.folder("/tmp", 0o1777)  # noqa: S108 - a folder in an image
            for tree in _python(image, folder, parts):
                layer.tree(tree, PYTHON_PACKAGES)
        oci.pack(tar, folder)
        tar.unlink()
        for leftover in folder.iterdir():
            if leftover.name not in ("layer.tar.zst", "diff_id"):
                run_logged(["rm", "-rf", leftover], cache_dir() / "logs" / "images.log")

    name = f"image-{image.name.replace('/', '-')}"
    return oci.packed(store.get(name, inputs(image, parts), assemble, f"image '{image.name}'"))


def _programs(item: str, parts: Parts) -> list[Path]:
    component, _, program = item.partition("/")
    folder = parts.component_folder(component)
    return sorted(folder.iterdir()) if program == "*" else [folder / program]


def _fetch(source: str, folder: Path, parts: Parts) -> Path:
    kind, _, rest = source.partition(":")
    if kind == "c":
        target = folder / Path(rest).stem
        command: list[str | Path] = [
            "gcc",
            f"--sysroot={parts.sysroot()}",
            "-static",
            "-Os",
            "-s",
            "-Wall",
            "-Werror",
            "-o",
            target,
            IMAGES / rest,
        ]
        run_logged(command, cache_dir() / "logs" / "images.log")
        return target
    name, _, path = rest.partition(":")
    if kind == "deb":
        target = folder / name
        upstream.package_file(name, path, target)
        return target
    if kind == "upstream":
        return upstream.module_file(name, path)
    raise ToolError(f"'images.yml' names a file of unknown kind '{source}'.")


def _applets(busybox: Path) -> list[str]:
    listed = subprocess.run([str(busybox), "--list-full"], capture_output=True, text=True, check=True).stdout
    return [f"/{path}" for path in listed.split() if path != "bin/busybox"]


def _python(image: Image, folder: Path, parts: Parts) -> list[Path]:
    """Folders of Python packages, with byte code: pods cannot write it, and TensorFlow starts three times as slowly without."""
    if not image.python:
        return []
    root = folder / "python"
    root.mkdir()
    log = cache_dir() / "logs" / f"python-{image.name.replace('/', '-')}.log"
    found = [_install(requirements, root / Path(requirements).stem, log) for requirements in image.python]
    # Compiled by the image's own interpreter, whose version the builder's need not be; of the image, only what that needs.
    left_out = [
        f"--exclude=./{path}" for path in ("usr/lib/python3/dist-packages", "usr/share", "var", "dev")
    ]
    run_logged(
        ["tar", "--extract", *left_out, f"--directory={root}", f"--file={parts.rootfs(image.base)}"], log
    )
    python = ("chroot", root, f"/usr/bin/python{PYTHON_VERSION}")
    for tree in found:
        inside = f"/{tree.name}"
        renamed = ("-s", inside, "-p", PYTHON_PACKAGES)
        run_logged(
            [*python, "-m", "compileall", "-qq", "--invalidation-mode=unchecked-hash", *renamed, inside], log
        )
    return found


def _install(requirements: str, target: Path, log: Path) -> Path:
    command: list[str | Path] = [
        *(sys.executable, "-m", "pip", "install", "--target", target),
        *("--require-hashes", "--no-deps", "--no-compile", "--only-binary=:all:"),
        *(f"--python-version={PYTHON_VERSION}", "--implementation=cp"),
        *(f"--platform={platform}" for platform in PLATFORMS),
        *("--disable-pip-version-check", "--no-input", "-r", IMAGES / requirements),
    ]
    run_logged(command, log, hint="Is the Python package index reachable?")
    return target


def check_tags(programs: Path, tags: Mapping[str, str], store: Store) -> None:
    """Compare the tags with what kubeadm will ask for, once per kubeadm and set of tags.

    Raises:
        ToolError: kubeadm asks for an image that is not there.
    """
    kubeadm = programs / "kubeadm"

    def compare(folder: Path) -> None:
        _compare_tags(kubeadm, tags)
        (folder / "agrees").touch()

    store.get(
        "kubeadm-tags",
        {"programs": programs.name, "tags": dict(tags)},
        compare,
        "image tags compared with kubeadm's",
    )


def _compare_tags(kubeadm: Path, tags: Mapping[str, str]) -> None:
    command = [str(kubeadm), "config", "images", "list", "--kubernetes-version", _version(kubeadm)]
    wanted = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    there = {f"{name}:{tag}" for name, tag in tags.items()}
    missing = [image for image in wanted if image not in there]
    if missing:
        raise ToolError(
            f"kubeadm asks for images that 'images.yml' does not have: {json.dumps(missing)}.",
            "Correct the tags in that file or in 'releases.yml'.",
        )


def _version(kubeadm: Path) -> str:
    answer = subprocess.run(
        [str(kubeadm), "version", "-o", "short"], capture_output=True, text=True, check=True
    ).stdout
    return re.sub(r"\s", "", answer)


def registry_inputs(found: list[Image], tags: Mapping[str, str], parts: Parts) -> Inputs:
    """What decides the registry's content."""
    return {f"{image.name}:{tags[image.name]}": inputs(image, parts) for image in found}


def registry(store: Store, name: str, found: list[Image], tags: Mapping[str, str], parts: Parts) -> Path:
    """The registry's storage folder with all images in it, kept by that name."""

    def fill(folder: Path) -> None:
        storage = oci.Registry(folder)
        for image in found:
            layers = [base_layer(store, image.base, parts)] if image.base else []
            layers.append(own_layer(store, image, parts))
            storage.add(image.name, tags[image.name], layers, image.settings())

    return store.get(name, registry_inputs(found, tags, parts), fill, f"registry with {len(found)} images")
