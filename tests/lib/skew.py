# SPDX-License-Identifier: Apache-2.0
"""Places whose wall clock is wrong: programs are started with a library that moves it (tests/lib/skew.c).

    skew.Place(-7200)      two hours behind; usable as place.Here is
"""
import os

import dl
from hosts_local import Here

LIBRARY = os.path.join(dl.BUILD, "tests/lib/libskew.so")


class Place(Here):
    def __init__(self, seconds):
        if not os.path.exists(LIBRARY):
            raise dl.Skip(LIBRARY + " is not built")
        if dl.sanitized():
            raise dl.Skip("a sanitizer's runtime must be loaded before anything else")
        self.seconds = seconds

    def command(self, argv):
        return ["env", "LD_PRELOAD=" + LIBRARY, "SKEW_S=%d" % self.seconds, *super().command(argv)]
