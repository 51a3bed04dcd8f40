"""``python -m schedule_sm``: the command line without its script."""

from __future__ import annotations

from schedule_sm.cli.app import main

if __name__ == "__main__":
    main()
