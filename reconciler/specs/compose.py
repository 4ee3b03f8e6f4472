"""What does a document say once its groups are put together?  Hydra's semantics, without a disk.

The only importer of hydra and omegaconf.  A virtual configuration root holds the group files of
one commit, the packaged base and the document beside them; Hydra's own defaults list and merge
run over it.  Nothing is read from a folder, so links, path escapes and search paths cannot exist;
resolvers are forgotten in ``worker``, the process this runs in; look-ups are counted.

Uses private parts of Hydra (pinned below 1.4), held by a test that compares with ``compose()``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository
from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
from hydra._internal.defaults_list import create_defaults_list
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from omegaconf import OmegaConf
from omegaconf.basecontainer import BaseContainer
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from reconciler.specs.codes import Code
from reconciler.specs.composed import (
    BASE,
    DOCUMENT,
    Composed,
    ComposeError,
    GroupFile,
    mapping_over_list,
)

MAX_LOOKUPS = 400
"""Configurations one document may look up; a usual one needs about 60."""


@dataclass(slots=True)
class _Mount:
    """What one virtual root holds, and what a composition looked at."""

    files: Mapping[str, GroupFile]
    folders: set[str]
    parsed: dict[str, Any] = field(default_factory=dict)
    loaded: set[str] = field(default_factory=set)
    listed: set[str] = field(default_factory=set)


_MOUNTS: dict[str, _Mount] = {}


class _MemorySource(ConfigSource):  # type: ignore[misc]
    """Hydra's view of a mount."""

    @staticmethod
    def scheme() -> str:
        return "headway"

    @property
    def mount(self) -> _Mount:
        return _MOUNTS[self.path]

    def available(self) -> bool:
        return self.path in _MOUNTS

    def is_group(self, config_path: str) -> bool:
        path = config_path.strip("/")
        self.mount.listed.add(path.rpartition("/")[0])
        return path in self.mount.folders

    def is_config(self, config_path: str) -> bool:
        name = self._normalize_file_name(config_path).strip("/")
        self.mount.listed.add(name.rpartition("/")[0])
        return name in self.mount.files

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        path = config_path.strip("/")
        self.mount.listed.add(path)
        prefix = f"{path}/" if path else ""
        names = set()
        for name in self.mount.files:
            if name.startswith(prefix):
                child, _, below = name[len(prefix) :].partition("/")
                if results_filter is not ObjectType.GROUP and not below:
                    names.add(child.removesuffix(".yaml"))
                elif results_filter is not ObjectType.CONFIG and below:
                    names.add(child)
        return sorted(names)

    def load_config(self, config_path: str) -> ConfigResult:
        name = self._normalize_file_name(config_path).strip("/")
        mount = self.mount
        found = mount.files.get(name)
        if found is None:
            raise ConfigLoadError(f"no file {name}")
        mount.loaded.add(name)
        if found.value is None:
            raise ComposeError(Code.BAD_GROUP_FILE, f"conf/{name} has problems of its own", name)
        if name not in mount.parsed:
            mount.parsed[name] = OmegaConf.create(dict(found.value))
        return ConfigResult(
            config=mount.parsed[name].copy(),
            path=f"headway://{self.path}",
            provider=self.provider,
            header={"package": found.package},
        )


class _BoundedRepository(CachingConfigRepository):  # type: ignore[misc]
    """Counts look-ups: files are cached per composition, so counting loads would miss fan-out."""

    lookups = 0

    def load_config(self, config_path: str) -> ConfigResult | None:
        self.lookups += 1
        if self.lookups > MAX_LOOKUPS:
            raise ComposeError(
                Code.UNBOUNDED,
                f"more than {MAX_LOOKUPS} group files are looked up for one document",
            )
        return super().load_config(config_path)


class Composer:
    """Composes documents over the group files of one commit."""

    def __init__(self, files: Mapping[str, GroupFile], root: str = "root") -> None:
        version.setbase("1.3")
        Plugins.instance()
        SourcesRegistry.instance().register(_MemorySource)
        folders = {""}
        for name in files:
            parts = name.split("/")[:-1]
            folders.update("/".join(parts[:count]) for count in range(1, len(parts) + 1))
        self._mount = _Mount(dict(files), folders)
        _MOUNTS[root] = self._mount
        search_path = ConfigSearchPathImpl()
        search_path.append("main", f"headway://{root}")
        search_path.append("schema", "structured://")
        self._loader = ConfigLoaderImpl(config_search_path=search_path)
        self._parser = OverridesParser.create()

    def compose(
        self, base: Mapping[str, Any], body: Mapping[str, Any], overrides: Sequence[str] = ()
    ) -> Composed:
        """Return the composed document.  Raises :class:`ComposeError`."""
        mount = self._mount
        mount.loaded.clear()
        mount.listed.clear()
        mount.parsed.pop(f"{DOCUMENT}.yaml", None)
        mount.parsed.pop(f"{BASE}.yaml", None)
        defaults = list(body.get("defaults") or ["_self_"])
        mounted = {**body, "defaults": [f"{BASE}@_here_", *defaults]}
        files = mount.files
        mount.files = {
            **files,
            f"{BASE}.yaml": GroupFile(dict(base), None),
            f"{DOCUMENT}.yaml": GroupFile(mounted, None),
        }
        try:
            return self._compose(overrides)
        except ComposeError as error:
            error.loaded, error.listed = self._looked_at()
            raise
        except (HydraException, OmegaConfBaseException, ValueError, AssertionError) as error:
            said = _translate(error)
            said.loaded, said.listed = self._looked_at()
            raise said from error
        finally:
            mount.files = files

    def _compose(self, overrides: Sequence[str]) -> Composed:
        parsed = self._parser.parse_overrides(list(overrides))
        for override in parsed:
            _check_override(override)
        repository = _BoundedRepository(self._loader.repository)
        listed = create_defaults_list(
            repo=repository,
            config_name=DOCUMENT,
            overrides_list=parsed,
            prepend_hydra=False,
            skip_missing=False,
        )
        config = self._loader._compose_config_from_defaults_list(
            defaults=listed.defaults, repo=repository
        )
        OmegaConf.set_struct(config, True)
        ConfigLoaderImpl._apply_overrides_to_config(listed.config_overrides, config)
        document = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
        if not isinstance(document, dict):
            raise ComposeError(Code.BAD_DEFAULTS, "the composed document is not a mapping")
        sections = [
            (default.config_path, default.package or "")
            for default in listed.defaults
            if default.config_path not in (BASE, DOCUMENT)
        ]
        loaded, seen = self._looked_at()
        touched = [
            override.key_or_group
            for override in listed.config_overrides
            if not override.is_delete()
        ]
        plain = {str(key): value for key, value in document.items()}
        return Composed(plain, sections, touched, loaded, seen)

    def _looked_at(self) -> tuple[list[str], list[str]]:
        own = (f"{BASE}.yaml", f"{DOCUMENT}.yaml")
        return sorted(self._mount.loaded.difference(own)), sorted(self._mount.listed)


def forget_resolvers() -> None:
    """Clear OmegaConf's resolvers in this process: ``${oc.env:NAME}`` means nothing after it."""
    BaseContainer._resolvers.clear()


def _check_override(override: Override) -> None:
    line = override.input_line or ""
    key = override.key_or_group
    if override.is_sweep_override():
        raise ComposeError(
            Code.SWEEP,
            f"`{line}` names several values: that is a sweep",
            hint="use `headway submit`, which writes one spec a value; "
            "for one list write key=[a,b]",
        )
    if key.split("/")[0].split(".")[0] in ("hydra", "defaults", "kind", "api_version"):
        raise ComposeError(
            Code.BAD_OVERRIDE,
            f"`{line}` would change how the document is read",
            hint="edit the file",
        )
    value = override.value()
    if ".." in key or (isinstance(value, str) and "../" in value):
        raise ComposeError(Code.BAD_OVERRIDE, f"`{line}` leaves the folder of groups")


def _translate(error: Exception) -> ComposeError:
    """Return Hydra's or OmegaConf's error as ours, in a few words."""
    text = " ".join(str(error).split())
    if isinstance(error, OverrideParseException):
        line = getattr(error, "override", "")
        return ComposeError(
            Code.BAD_OVERRIDE,
            f"`{line}` is no override",
            hint="write key=value; quote values that hold spaces, commas or braces",
        )
    if isinstance(error, MissingConfigException):
        return _missing_option(str(error))
    if isinstance(error, MissingMandatoryValue):
        return ComposeError(Code.UNRESOLVED, f"a value is `???` and nothing sets it: {text[:200]}")
    if "Could not override" in text:
        return _no_such_override(str(error))
    if "Cannot merge DictConfig with ListConfig" in text:
        return mapping_over_list()
    cause = error.__cause__ or error
    if isinstance(cause, OmegaConfBaseException):
        key = getattr(cause, "full_key", None)
        at = f" at `{key}`" if key else ""
        return ComposeError(
            Code.UNRESOLVED,
            f"cannot be resolved{at}: {' '.join(str(cause).split('full_key')[0].split())[:200]}",
        )
    return ComposeError(Code.BAD_DEFAULTS, text[:300])


def _missing_option(text: str) -> ComposeError:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = next((line for line in lines if "Could not" in line), lines[0] if lines else "")
    quoted = found.split("'")[1::2]
    named = next((name for name in quoted if name != DOCUMENT), found)
    start = next((i for i, line in enumerate(lines) if line.startswith("Available options")), None)
    options = [] if start is None else lines[start + 1 :]
    options = [option for option in options if not option.startswith(("Config search", "provider"))]
    hint = "options are " + ", ".join(options) if options else "no such folder under conf/"
    return ComposeError(Code.NO_SUCH_OPTION, f"conf/ has no `{named}`", named, hint)


def _no_such_override(text: str) -> ComposeError:
    key = text.split("'")[1] if "'" in text else text
    if "defaults list" in text:
        return ComposeError(
            Code.BAD_OVERRIDE,
            f"this document's defaults list has no `{key}`",
            hint=f"add `/{key}: ...` to its defaults list, or write +{key}=...",
        )
    return ComposeError(Code.BAD_OVERRIDE, f"no key `{key}` to override", key)
