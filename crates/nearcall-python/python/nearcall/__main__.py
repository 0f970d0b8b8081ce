"""``python -m nearcall list|call|...`` runs the program ``nearcall``, which a wheel may have beside
the package."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
import sysconfig

MISSING = """\
the program `nearcall` is neither beside this Python nor in PATH, and the wheel of the package
`nearcall` did not have it: install it with `cargo install nearcall-cli`"""


def main() -> None:
    """Becomes the program, which gets all arguments."""
    beside = pathlib.Path(sysconfig.get_path("scripts")) / "nearcall"
    program = str(beside) if beside.exists() else shutil.which("nearcall")
    if program is None:
        sys.exit(MISSING)
    os.execv(program, ["nearcall", *sys.argv[1:]])


if __name__ == "__main__":
    main()
