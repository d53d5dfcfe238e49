// SPDX-License-Identifier: Apache-2.0
#include "client/last_error.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/err.h"
#include "dlcache.h"

static _Thread_local char last_error[sizeof(((struct dlc_err *)0)->text)];

const char *dlc_last_error(void)
{
    return last_error;
}

int client_fail(const struct dlc_err *err)
{
    snprintf(last_error, sizeof(last_error), "%s", err->text);
    return err->code;
}

int client_failf(int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(last_error, sizeof(last_error), fmt, ap);
    va_end(ap);
    return code;
}

const char *dlc_version(void)
{
#define TEXT2(x) #x
#define TEXT(x)  TEXT2(x)
    return TEXT(DLC_VERSION_MAJOR) "." TEXT(DLC_VERSION_MINOR) "." TEXT(DLC_VERSION_PATCH);
}
