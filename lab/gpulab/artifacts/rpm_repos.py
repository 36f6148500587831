"""Repositories for dnf, signed as the vendors' own are, with the key of the lab's other repositories."""

from __future__ import annotations

import shutil
from pathlib import Path

from gpulab.artifacts.repos import IDENTITY, SigningKey, gnupg
from gpulab.progress import run_logged
from gpulab.systems import BOTH, METADATA, PACKAGES
from gpusmith.paths import cache_dir


def index(folder: Path, signed: str, key: SigningKey, modules: str = "") -> None:
    """Make a folder of packages a repository.

    Args:
        folder: holds the .rpm files.
        signed: PACKAGES, METADATA, or BOTH.
        key: signs them.
        modules: module streams, as modulemd documents; empty for none.

    Raises:
        ToolError: rpmsign, createrepo_c or gpg failed; names the log.
    """
    log = cache_dir() / "logs" / "rpm-repositories.log"
    with gnupg() as gpg:
        gpg("--import", str(key.secret))
        packages = sorted(folder.glob("*.rpm"))
        if signed in (PACKAGES, BOTH) and packages:
            settings = ["--define", f"_gpg_name {IDENTITY}", "--define", f"_gpg_path {gpg.home}"]
            # rpm looks for a 'gpg2', which not every release of Debian has.
            settings += ["--define", f"__gpg {shutil.which('gpg')}"]
            run_logged(["rpmsign", *settings, "--addsign", *packages], log, env={"GNUPGHOME": gpg.home})
        run_logged(["createrepo_c", "--quiet", "--no-database", "--general-compress-type=gz", folder], log)
        metadata = folder / "repodata"
        if modules:
            (folder / "modules.yaml").write_text(modules)
            run_logged(["modifyrepo_c", "--mdtype=modules", folder / "modules.yaml", metadata], log)
            (folder / "modules.yaml").unlink()
        if signed in (METADATA, BOTH):
            listed = str(metadata / "repomd.xml")
            gpg("--armor", "--detach-sign", "--output", f"{listed}.asc", listed)
