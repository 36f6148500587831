"""The images that podman runs as machines: a root file system with files of the lab over it."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpulab.artifacts import debian
from gpulab.artifacts.store import Inputs, digest_file, digest_tree, key_of
from gpulab.progress import run_logged, step
from gpusmith.paths import cache_dir

RECIPE = 2  # raise when this file changes what comes out
NAMESPACE = "localhost/gpulab"
TAR = ("--numeric-owner", "--xattrs", "--xattrs-include=*")  # file capabilities are extended attributes
CHROOT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
    # A person's own is not there, and mktemp fails without it.
    "TMPDIR": "/tmp",  # noqa: S108 - inside the image
}
LABEL = "io.gpusmith.lab.image"


@dataclass(frozen=True)
class MachineImage:
    """An image for one kind of machine.

    Attributes:
        name: 'node', 'depot', or a node's with its operating system.
        overlays: folders that are laid over the root file system, in this order.
        hooks: scripts that run once inside it, after the overlays.
        units: systemd units that are enabled in it.
        stamp: text that decides its content besides those, as the digest of code that made an overlay.
        base: its root file system, if that has another name.
    """

    name: str
    overlays: tuple[Path, ...]
    hooks: tuple[Path, ...] = ()
    units: tuple[str, ...] = ()
    stamp: str = ""
    base: str = ""

    @property
    def rootfs(self) -> str:
        """Name of its root file system."""
        return self.base or self.name

    def inputs(self) -> Inputs:
        """What decides its content."""
        return {
            "recipe": RECIPE,
            "rootfs": debian.load(self.rootfs).inputs(),
            "overlays": [digest_tree(path) for path in self.overlays],
            "hooks": [digest_file(path) for path in self.hooks],
            "units": list(self.units),
            "stamp": self.stamp,
        }

    @property
    def reference(self) -> str:
        """The image's name in podman."""
        return f"{NAMESPACE}/{self.name}:{key_of(self.inputs())}"


def ensure(image: MachineImage, rootfs: Callable[[], Path], scratch: Path) -> str:
    """Import the image into podman unless it is there.

    Args:
        image: what to import.
        rootfs: makes or finds the tar of its root file system.
        scratch: folder for the tar in between.

    Returns:
        Its name in podman.
    """
    reference = image.reference
    if exists(reference):
        return reference
    base = rootfs()
    log = cache_dir() / "logs" / f"image-{image.name}.log"
    log.unlink(missing_ok=True)
    with (
        step(f"machine image '{image.name}'"),
        tempfile.TemporaryDirectory(prefix=".tmp-", dir=scratch) as folder,
    ):
        root, whole = Path(folder) / "root", Path(folder) / "whole.tar"
        root.mkdir()
        run_logged(["tar", *TAR, "-C", root, "-xf", base], log)
        _lay_over(image, root, log)
        run_logged(["tar", *TAR, "-C", root, "-cf", whole, "."], log)
        changes = ["--change", f"LABEL {LABEL}={image.name}", "--change", 'CMD ["/sbin/init"]']
        run_logged(["podman", "import", *changes, whole, reference], log)
    forget_others(image.name, reference)
    return reference


def _lay_over(image: MachineImage, root: Path, log: Path) -> None:
    for overlay in image.overlays:
        # --keep-directory-symlink: '/bin' of an overlay goes through the link to '/usr/bin'.
        packed = log.with_suffix(".tar")
        run_logged(
            ["tar", "--owner=0", "--group=0", "--exclude=__pycache__", "-C", overlay, "-cf", packed, "."], log
        )
        run_logged(["tar", "--keep-directory-symlink", "--no-overwrite-dir", "-C", root, "-xpf", packed], log)
        packed.unlink()
    for hook in image.hooks:
        inside = root / "image-hook"
        inside.write_bytes(hook.read_bytes())
        inside.chmod(0o755)
        run_logged(["chroot", root, "/image-hook"], log, env=CHROOT)
        inside.unlink()
    if image.units:
        run_logged(["chroot", root, "systemctl", "enable", *image.units], log, env=CHROOT)
    # Every machine makes its own of these.
    (root / "etc" / "machine-id").write_bytes(b"")
    for path in [
        *(root / "etc" / "ssh").glob("ssh_host_*"),
        root / "etc" / "hostname",
        root / "etc" / "resolv.conf",
    ]:
        path.unlink(missing_ok=True)


def exists(reference: str) -> bool:
    """Whether podman has the image."""
    return (
        subprocess.run(["podman", "image", "exists", reference], capture_output=True, check=False).returncode
        == 0
    )


def forget_others(name: str, keep: str) -> None:
    """Remove older images of the same kind; podman refuses those that a container uses."""
    command = ["podman", "images", "--format", "{{.Repository}}:{{.Tag}}", f"{NAMESPACE}/{name}"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    old: Sequence[str] = [reference for reference in listed if reference != keep]
    for reference in old:
        subprocess.run(["podman", "image", "rm", reference], capture_output=True, check=False)
