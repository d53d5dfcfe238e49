// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

void dlc_check_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "dlcache: BUG: %s is false at %s:%d; please report it\n", what, file, line);
    abort();
}
