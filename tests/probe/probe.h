// SPDX-License-Identifier: Apache-2.0
/* NAME=VALUE arguments, and a file in memory. */
#ifndef DLC_TESTS_PROBE_H
#define DLC_TESTS_PROBE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/syscalls.h"

#define PROBE_MAX ((size_t)64 << 20)

/* The text after NAME=, or NULL. */
static inline const char *probe_text(char **argv, const char *name)
{
    for (; *argv != NULL; argv++)
        if (strncmp(*argv, name, strlen(name)) == 0 && (*argv)[strlen(name)] == '=')
            return *argv + strlen(name) + 1;
    return NULL;
}

static inline double probe_number(char **argv, const char *name)
{
    const char *text = probe_text(argv, name);

    return text == NULL ? 0 : strtod(text, NULL);
}

/* Ends the program with the text when rc is an error. */
static inline void probe_good(int rc, const struct dlc_err *err)
{
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", dlc_err_name(rc), err->text);
        exit(1);
    }
}

static inline struct buf probe_file(const char *path)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct buf b = BUF_INIT;

    probe_good(os_read_file(path, PROBE_MAX, &b, &err), &err);
    return b;
}

#endif
