"""containerd's configuration: which root file to keep, what our drop-in says, when a restart is due.

Pure functions; the module `containerd_config` does the reading and writing.
Schema versions by release: 2 in 1.x, 3 in 2.0 to 2.2, 4 from 2.3 (https://github.com/containerd/containerd/blob/main/docs/cri/config.md, 2026-11).
"""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import json
import re
from typing import Any, Dict, Iterator, Mapping, Tuple

ROOT = "/etc/containerd/config.toml"
IMPORTS = "/etc/containerd/conf.d/*.toml"
OURS = "# Written by gpusmith"
ROLES = {"50-gpusmith": "containerd", "60-gpusmith-nvidia": "nvidia_container_toolkit"}
"""By name of a drop-in, the role that writes it."""
# One plugin up to schema 2, several since: containerd merges old names into the new ones.
CRI_PLUGINS = ("io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images", "io.containerd.grpc.v1.cri")
Tree = Dict[str, Any]


class ConfigError(Exception):
    """The configuration on the node cannot be used; the text says why and what to do."""


def schema_of_release(version: str) -> int:
    """The newest schema that a release of containerd reads."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers >= (2, 3):
        return 4
    return 3 if numbers >= (2, 0) else 2


def _statements(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]


def is_package_default(text: str) -> bool:
    """Whether the root file only turns CRI off, as Docker's package of containerd delivers it; however it is written.

    Raises:
        ConfigError: it is no TOML.
    """
    tree = _tree(text, ROOT)
    return tree.keys() <= {"disabled_plugins", "version"} and tree.get("disabled_plugins", ["cri"]) == ["cri"]


def root_file(text: str | None, release: str) -> Tuple[str, int]:
    """The root file as it has to be, and its schema version.

    Args:
        text: what is there; None if there is no file.
        release: containerd's version.

    Returns:
        A minimal file of ours where there is none or only the package's; otherwise the existing one, completed by the
        import of the drop-ins.

    Raises:
        ConfigError: the file is somebody's own and no TOML, states no version or a newer one, or turns CRI off.
    """
    schema = schema_of_release(release)
    if text is None or is_package_default(text) or _is_newer_of_ours(text, schema):
        return (
            f'{OURS}. Settings are in the drop-ins.\nversion = {schema}\nimports = ["{IMPORTS}"]\n',
            schema,
        )
    tree = _tree(text, ROOT)
    stated = tree.get("version")
    if not isinstance(stated, int) or stated < 2:
        raise ConfigError(
            f"'{ROOT}' states no 'version' of 2 or newer. Migrate it with 'containerd config migrate'."
        )
    if stated > schema:
        raise ConfigError(
            f"'{ROOT}' has 'version' {stated}, and containerd {release} reads {schema} and older."
            " Write it for this release, or give a newer 'containerd_version'."
        )
    if _disables_cri(tree):
        raise ConfigError(f"'{ROOT}' turns the CRI plugin off. Take 'cri' out of its 'disabled_plugins'.")
    return with_import(text), stated


def _tree(text: str, path: str) -> Tree:
    """What a file says; `ConfigError` if it is no TOML."""
    # Late: on a node the probe's code comes with the module's arguments.
    from gpusmith.probe.containerd import load_toml

    try:
        return dict(load_toml(text))
    except ValueError as error:
        raise ConfigError(f"'{path}' is no TOML: {error}. Repair it, or move it away.") from None


def with_import(text: str) -> str:
    """The root file with our folder as the last of its imports; all else stays as it is.

    Raises:
        ConfigError: the text is written in a way that hides where its imports are.
    """
    tree = _tree(text, ROOT)
    before = tree.get("imports") or []
    if IMPORTS in before:
        return text
    statement = re.search(r"^[ \t]*imports[ \t]*=[ \t]*\[", text, re.MULTILINE)
    written = _in_list(text, statement.end()) if statement else _in_statement(text)
    try:
        done = _tree(written, ROOT) == {**tree, "imports": [*before, IMPORTS]}
    except ConfigError:
        done = False
    if not done:
        raise ConfigError(f"'{ROOT}' cannot be completed safely. Add \"{IMPORTS}\" to its 'imports' by hand.")
    return written


def restored(text: str | None, former: str | None) -> str | None:
    """The root file without us: as it was before the first change, or as it is now without our import if somebody changed it since.

    Args:
        text: what is there; None if there is no file.
        former: what was there before the first change; None if nothing was, or nobody kept it.
    """
    if text is None or _is_minimal(text):
        return former
    if former is None:
        # Whose the import is nobody knows.
        return text
    try:
        if not is_package_default(former) and with_import(former) == text:
            return former
        return _without_import(text)
    except ConfigError:
        return text


def _is_minimal(text: str) -> bool:
    """Whether nobody added to the file that we wrote, such as an import of the site's."""
    ours = re.compile(rf'version\s*=\s*\d+|imports\s*=\s*\["{re.escape(IMPORTS)}"\]')
    return text.startswith(OURS) and all(ours.fullmatch(line.strip()) for line in _statements(text))


def _is_newer_of_ours(text: str, schema: int) -> bool:
    """Whether it is ours, for a newer containerd."""
    stated = re.search(r"^version = (\d+)$", text, re.MULTILINE)
    return _is_minimal(text) and stated is not None and int(stated.group(1)) > schema


def _without_import(text: str) -> str:
    """The root file with our folder not among its imports; as it is if it is written in a way that hides it."""
    tree = _tree(text, ROOT)
    left = [path for path in tree.get("imports") or [] if path != IMPORTS]
    quoted = re.escape(f'"{IMPORTS}"')
    pattern = (
        rf"^[ \t]*imports[ \t]*=[ \t]*\[{quoted}\][ \t]*\n"
        if not left
        else rf"\s*,\s*{quoted}|{quoted}\s*,?[ \t]*"
    )
    written = re.sub(pattern, "", text, count=1, flags=re.MULTILINE)
    after = _tree(written, ROOT)
    return written if (after.get("imports") or []) == left else text


def _in_list(text: str, begin: int) -> str:
    """The import as the last one of a list that begins there; a comment ends with its line."""
    end = text.find("]", begin)
    said = re.sub(r"#[^\n]*", "", text[begin:end]).strip()
    comma = ", " if said and not said.endswith(",") else ""
    inner = text[begin:end].rstrip()
    if "\n" in inner:
        return f'{text[:begin]}{inner}\n  {comma}"{IMPORTS}"\n{text[end:]}'
    gap = " " if said.endswith(",") else ""
    return f'{text[:begin]}{inner}{comma}{gap}"{IMPORTS}"{text[end:]}'


def _in_statement(text: str) -> str:
    """The import as a statement of its own behind the version."""
    stated = re.search(r"^[ \t]*version[ \t]*=[^\n]*(?:\n|\Z)", text, re.MULTILINE)
    head = text[: stated.end()] if stated else ""
    return head + ("" if head.endswith("\n") else "\n") + f'imports = ["{IMPORTS}"]\n' + text[len(head) :]


def drop_in(schema: int, name: str, runtime: Mapping[str, Any], images: Mapping[str, Any]) -> str:
    """Our file, in the schema of the root file: containerd refuses a drop-in that is newer.

    Args:
        schema: version of the root file.
        name: of its file.
        runtime: settings of the CRI runtime plugin, in the form of schema 3 and 4.
        images: settings of the CRI images plugin, in the form of schema 3 and 4.
    """
    plugins: Tree = {}
    if schema >= 3:
        if runtime:
            plugins["io.containerd.cri.v1.runtime"] = dict(runtime)
        if images:
            plugins["io.containerd.cri.v1.images"] = dict(images)
    else:
        # One plugin held both, and the sandbox image had a name of its own.
        merged = {**runtime, **{key: value for key, value in images.items() if key != "pinned_images"}}
        sandbox = (images.get("pinned_images") or {}).get("sandbox")
        if sandbox:
            merged["sandbox_image"] = sandbox
        plugins["io.containerd.grpc.v1.cri"] = merged
    return f"{OURS} (role {ROLES.get(name, name)}); changes are overwritten.\nversion = {schema}\n" + to_toml(
        {"plugins": plugins}
    )


def beside(images: Mapping[str, Any], config_path: str | None, inline: str | None) -> Tree:
    """Settings of the CRI images plugin, as they go with what the site has set of registries.

    Args:
        images: our settings.
        config_path: the site's folders of registries, which are asked after ours.
        inline: the site's file that has mirrors itself, beside which containerd takes no folders.
    """
    ours = (images.get("registry") or {}).get("config_path")
    if not ours:
        return dict(images)
    registry = {key: value for key, value in images["registry"].items() if key != "config_path"}
    if not inline:
        theirs = [folder for folder in (config_path or "").split(":") if folder]
        registry["config_path"] = ":".join(dict.fromkeys([*ours.split(":"), *theirs]))
    rest = {key: value for key, value in images.items() if key != "registry"}
    return {**rest, "registry": registry} if registry else rest


def in_schema(schema: int, name: str, text: str) -> str:
    """A drop-in of ours, as it has to be beside a root file of this schema: containerd refuses one that is newer."""
    tree = _tree(text, name)
    if tree.get("version", 0) <= schema:
        return text
    plugins = tree.get("plugins") or {}
    return drop_in(schema, name, *(plugins.get(plugin) or {} for plugin in CRI_PLUGINS[:2]))


def merged(settings: Mapping[str, Any]) -> str:
    """The file that has all settings of the CRI plugin, for containerd 1.x."""
    head = f"{OURS}: all settings of the CRI plugin, of which containerd 1.x reads the last file only. Change the other files, and run site.yml.\n"
    return f"{head}version = 2\n" + to_toml({"plugins": {CRI_PLUGINS[-1]: settings}})


def _quoted(text: str) -> str:
    # What JSON writes of a text TOML reads as the same one, but for a control character that JSON leaves as it is.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(key: str) -> str:
    return key if re.match(r"^[A-Za-z0-9_-]+$", key) else _quoted(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + "}"
    return _quoted(str(value))


def to_toml(tree: Mapping[str, Any], path: Tuple[str, ...] = ()) -> str:
    """TOML of nested tables, with every table under its full name."""
    plain = [(key, value) for key, value in tree.items() if not isinstance(value, Mapping)]
    tables = [(key, value) for key, value in tree.items() if isinstance(value, Mapping)]
    text = ""
    if path and (plain or not tables):
        text += "\n[" + ".".join(map(_key, path)) + "]\n"
    text += "".join(f"{_key(key)} = {_value(value)}\n" for key, value in plain)
    return text + "".join(to_toml(value, (*path, key)) for key, value in tables)


def hosts_toml(endpoint: str) -> str:
    """certs.d/<host>/hosts.toml: where images of a registry are fetched."""
    return f'{OURS}.\nserver = {_quoted(endpoint)}\n\n[host.{_quoted(endpoint)}]\ncapabilities = ["pull", "resolve"]\n'


def restart_due(
    effective: str, running: str | None, config_changed: float | None, started: float | None
) -> bool:
    """Whether the running containerd has another configuration than the files now give.

    Args:
        effective: digest of what the files give.
        running: digest that was noted when this containerd was started; None if nobody noted it.
        config_changed: Unix time of the youngest file.
        started: Unix time of containerd's start; None if it does not run.
    """
    if started is None:
        return True
    if running is not None:
        return effective != running
    return config_changed is not None and config_changed > started


# --- who else sets what is ours ------------------------------------------------------------------------------------


def _cri_settings(tree: Tree) -> Dict[Tuple[str, ...], Any]:
    """Settings of the CRI plugins by their path below the plugin, whatever it is called."""

    def leaves(inner: Mapping[str, Any], path: Tuple[str, ...]) -> Iterator[Tuple[Tuple[str, ...], Any]]:
        for key, value in inner.items():
            if isinstance(value, Mapping):
                yield from leaves(value, (*path, key))
            else:
                yield (*path, key), value

    plugins = tree.get("plugins") or {}
    return dict(pair for name in CRI_PLUGINS for pair in leaves(plugins.get(name) or {}, ()))


def _disables_cri(tree: Tree) -> bool:
    return any("cri" in str(name).split(".") for name in tree.get("disabled_plugins") or [])


def overrides(ours: Mapping[str, Tree], others: Mapping[str, Tree], effective: Tree) -> list[str]:
    """Which files of others are the reason that the effective configuration has not what ours say, one sentence each.

    Args:
        ours: content of our files, by path.
        others: content of the other files that containerd reads, by path.
        effective: what containerd makes of all of them.
    """
    now, wanted = _cri_settings(effective), {}
    for path in sorted(ours):
        # Of two drop-ins the later one wins, as with containerd.
        wanted.update(_cri_settings(ours[path]))
    lost = {path: value for path, value in wanted.items() if path in now and now[path] != value}
    found = []
    for file, tree in sorted(others.items()):
        theirs = _cri_settings(tree)
        found += [
            f"'{file}' sets '{'.'.join(path)}' to {_value(theirs[path])}, ours is {_value(value)}"
            for path, value in lost.items()
            if path in theirs and theirs[path] != value
        ]
        if _disables_cri(effective) and _disables_cri(tree):
            found.append(f"'{file}' turns the CRI plugin off with 'disabled_plugins'")
    return found
