// SPDX-License-Identifier: Apache-2.0
#include "bucket/credentials/lookup_i.h"

#include <stdarg.h>
#include <stdio.h>

int lookup_elsewhere(struct lookup *l, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(l->why, sizeof(l->why), fmt, ap);
    va_end(ap);
    return LOOKUP_ELSEWHERE;
}
