"""Hook of hatchling that puts the inspector's page into the sdist and the wheel."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGED = "issuer_service/pages/inspector.html"


class InspectorHook(BuildHookInterface):  # type: ignore[misc]  # hatchling is there when building only
    """Make the page, except in an sdist, which has it, and in an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Join the sources, and add the page to the files that are packed."""
        if version == "editable" or (Path(self.root) / PACKAGED).is_file():
            return
        sys.path.insert(0, self.root)
        from inspector.join import write_page

        build_data["force_include"][str(write_page())] = PACKAGED
