// SPDX-License-Identifier: Apache-2.0
/*
 * Progress display. On a terminal, a line that is redrawn four times a second:
 *
 *     warming [##########----------]  50 %  1,000 of 2,000 samples  38.0 MB/s  3 s left
 *
 * elsewhere the same without the bar, as a line of its own every few seconds. The rate covers the
 * last seconds, so that it follows a bucket that becomes slower. One thread.
 */
#ifndef DLC_CLI_PROGRESS_H
#define DLC_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/clock.h"

struct progress {
    FILE *out; /* NULL: nothing is printed */
    bool terminal;
    bool painted;     /* the cursor stands behind a line of ours */
    const char *what; /* "samples" */
    char phase[32];   /* "warming" */
    struct dlc_mono painted_at, started, measured_at;
    uint64_t done, total, bytes, total_bytes; /* totals of 0: unknown */
    uint64_t measured_done, measured_bytes;
    double done_rate, byte_rate; /* per second, smoothed; negative: not known yet */
};

/* To standard error, unless quiet. `what` is borrowed until progress_end(). */
void progress_init(struct progress *p, const char *what, bool quiet);

/* Here we are now. Paints when it is time to. A new phase starts the rates again. */
void progress_update(struct progress *p, const char *phase, uint64_t done, uint64_t total,
                     uint64_t bytes, uint64_t total_bytes);

/* Clear the line, so that other text can be printed. */
void progress_end(struct progress *p);

/* The line, without its end; at most `columns` characters when that is not 0. */
void progress_format(const struct progress *p, unsigned columns, struct buf *out);

#endif
