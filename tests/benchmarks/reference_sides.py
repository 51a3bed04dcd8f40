"""The other implementations: installed into folders of their own, run in processes of their own.

``reference/driver.mjs`` drives the published Node packages; ``apscheduler_driver.py`` drives APScheduler.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.benchmarks.frame import Figures

REFERENCE_PACKAGES: Final = ("@deepseek-ai/dsh-schedule@0.1.0-rc.8", "node@24")
"""The reference needs Node 22 or later; npm offers Node itself as a package."""
APSCHEDULER_PACKAGES: Final = ("APScheduler==3.11.*", "SQLAlchemy==2.*")
_HERE: Final = Path(__file__).parent
_INSTALL_TIMEOUT_S: Final = 600
_RUN_TIMEOUT_S: Final = 600


def default_folder() -> Path:
    """Return where both are installed if nothing else is said."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "schedule-sm-benchmarks"


@dataclass(frozen=True, slots=True)
class Program:
    """A driver: its command takes a workload and arguments and prints its figures as JSON."""

    command: tuple[str, ...]
    versions: str
    """What is driven, for the report."""
    working_folder: Path | None = None

    def run(self, workload: str, *arguments: object) -> Figures:
        """Return the figures of one run.

        Raises:
            RuntimeError: with what it wrote to stderr, if it failed.
        """
        command = [*self.command, workload, *map(str, arguments)]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_RUN_TIMEOUT_S,
            check=False,
            cwd=self.working_folder,
        )
        if done.returncode:
            msg = f"{workload} failed: {done.stderr[-2_000:]}"
            raise RuntimeError(msg)
        figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return figures


def install_reference(folder: Path) -> Program:
    """Install the reference and its Node with npm below ``folder``, unless it is there, and return its driver."""
    root = folder / "reference"
    package = root / "node_modules" / "@deepseek-ai" / "dsh-schedule" / "package.json"
    node = root / "node_modules" / "node" / "bin" / "node"
    if not (package.exists() and node.exists()):
        root.mkdir(parents=True, exist_ok=True)
        _install("npm", "install", "--no-audit", "--no-fund", "--prefix", str(root), *REFERENCE_PACKAGES)
    number = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    version = json.loads(package.read_text(encoding="utf-8"))["version"]
    versions = f"dsh-schedule {version} on Node {number.removeprefix('v')}"
    return Program((str(node), str(_HERE / "reference" / "driver.mjs"), str(root)), versions)


def install_apscheduler(folder: Path) -> Program:
    """Install APScheduler into an environment below ``folder``, unless it is there, and return its driver."""
    root = folder / f"apscheduler-{sys.version_info.major}.{sys.version_info.minor}"
    python = root / "bin" / "python"
    if not (root / "lib").exists() or not list(root.glob("lib/*/site-packages/apscheduler")):
        venv.create(root, with_pip=True, clear=True)
        _install(str(python), "-m", "pip", "install", "-q", *APSCHEDULER_PACKAGES)
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format=freeze"], capture_output=True, text=True, check=True
    ).stdout
    found = re.findall(r"^(apscheduler|sqlalchemy)==(\S+)", listed, re.MULTILINE | re.IGNORECASE)
    versions = ", ".join(f"{name} {version}" for name, version in found)
    return Program((str(python), str(_HERE / "apscheduler_driver.py")), versions)


def _install(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_TIMEOUT_S, check=False)
    if done.returncode:
        msg = f"{' '.join(command)} failed: {done.stderr[-2_000:]}"
        raise RuntimeError(msg)
