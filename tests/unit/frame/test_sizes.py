"""A file has one subject: none of the product is longer than a person reads at once."""

from __future__ import annotations

from gpusmith.paths import repo_root

MOST = 450


def test_no_file_is_too_long() -> None:
    files = [path for folder in ("src", "plugins") for path in (repo_root() / folder).rglob("*.py")]
    assert len(files) > 100
    lines = {str(path.relative_to(repo_root())): len(path.read_text().splitlines()) for path in files}
    assert {name: count for name, count in lines.items() if count > MOST} == {}
