// SPDX-License-Identifier: Apache-2.0
/*
 * Errors: a negative code from include/dlcache.h and one line of text that says what, where and
 * what to do. The text is written once, where the context is known; callers may put a prefix before
 * it.
 */
#ifndef DLC_BASE_ERR_H
#define DLC_BASE_ERR_H

#include <stdarg.h>

#include "dlcache/core.h"

struct dlc_err {
    int code;
    char text[500];
};

#define DLC_ERR_INIT                                                                               \
    {                                                                                              \
        0, ""                                                                                      \
    }

/* Set *err (may be NULL) and return code, so that `return dlc_err_set(...)` reads well. */
int dlc_err_set(struct dlc_err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, ending in ": " and the text of the current errno; the code is derived from errno. */
int dlc_err_sys(struct dlc_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Put "prefix: " before the text that is there. Returns err->code. */
int dlc_err_prefix(struct dlc_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The DLC_E* code that an errno value means. */
int dlc_err_of_errno(int e);

const char *dlc_err_name(int code); /* "EINVAL" */

#endif
