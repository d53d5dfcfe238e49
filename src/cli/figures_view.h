// SPDX-License-Identifier: Apache-2.0
/*
 * The figures of a daemon (GET /v1/figures) as text: the screen of `dlcache top` and the paragraph of
 * `dlcache explain`. Pure.
 *
 * Names of others may hold anything: control characters are shown as '?'.
 */
#ifndef DLC_CLI_FIGURES_VIEW_H
#define DLC_CLI_FIGURES_VIEW_H

#include <stdbool.h>

#include <jansson.h>

#include "base/buf.h"

enum top_sort { TOP_WAITING, TOP_READ, TOP_NAME, TOP_SORTS };
const char *top_sort_name(enum top_sort s);

/* At most `rows` lines of at most `columns` characters; 0: any number. */
struct top_screen {
    unsigned rows, columns;
    enum top_sort sort;
};
void top_render(const json_t *figures, const struct top_screen *s, struct buf *out);

/* The job of that name; "" is the readers that named none. False: it is not there. */
bool explain_render(const json_t *figures, const char *job, struct buf *out);

#endif
