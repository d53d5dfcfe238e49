# SPDX-License-Identifier: Apache-2.0
"""The program `dlcache` as the package brings it: python -m dlcache, and the script of that name."""
from __future__ import annotations

import os
import sys
from typing import NoReturn

PLACES = ("bin/dlcache", "../../src/cli/dlcache")  # installed, and in the build tree


def main() -> NoReturn:
    """Become the program."""
    here = os.path.dirname(os.path.abspath(__file__))
    for place in PLACES:
        program = os.path.join(here, place)
        if os.access(program, os.X_OK):
            os.execv(program, [program, *sys.argv[1:]])
    sys.exit(f"the program dlcache is not below {here}: install the package again")


if __name__ == "__main__":
    main()
