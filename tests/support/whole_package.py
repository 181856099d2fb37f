"""A contract of import-linter: it sees all three folders of the package (docs/decisions/0008).

import-linter loads this class first, and with it roambench, whose `__path__` names the folders. Without that
it would look into the first one only.
"""

from __future__ import annotations

from pathlib import Path

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output

import roambench


class WholePackage(Contract):
    """Every source file of the three folders is a module that the other contracts are checked on."""

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Broken where a file is in none of the modules."""
        files = {
            (*path.relative_to(folder).parts[:-1], path.stem)
            for folder in map(Path, roambench.__path__)
            for path in folder.rglob("*.py")
        }
        names = {".".join(("roambench", *parts)).removesuffix(".__init__") for parts in files}
        unseen = sorted(names - set(graph.modules))
        folders = len(roambench.__path__)
        return ContractCheck(
            kept=not unseen and folders == 3, metadata={"unseen": unseen, "folders": folders}
        )

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print what was not seen."""
        output.print_error(f"{check.metadata['folders']} of 3 folders; not seen: {check.metadata['unseen']}")
