"""Print one of the README's commands, so that the gate runs exactly what a reader runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

text = Path("README.md").read_text(encoding="utf-8")
found = re.search(rf"<!-- command: {re.escape(sys.argv[1])} -->\n```sh\n(.*?)\n```", text, re.DOTALL)
if found is None:
    sys.exit(f"README.md has no command marked {sys.argv[1]!r}")
sys.stdout.write(found.group(1) + "\n")
