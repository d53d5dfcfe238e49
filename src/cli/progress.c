// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/check.h"
#include "base/str.h"
#include "cli/table.h"

#define BAR            20
#define SMOOTH_SECONDS 3.0 /* a measurement so old counts 1/e */

static const struct dlc_dur paint_every = {250000000};
static const struct dlc_dur line_every = {5000000000};

void progress_init(struct progress *p, const char *what, bool quiet)
{
    *p = (struct progress){.what = what, .out = quiet ? NULL : stderr};
    p->terminal = isatty(STDERR_FILENO) == 1;
}

static void restart(struct progress *p, const char *phase, struct dlc_mono now)
{
    snprintf(p->phase, sizeof(p->phase), "%s", phase);
    p->started = p->measured_at = now;
    p->painted_at = now; /* nothing to show yet */
    p->measured_done = p->measured_bytes = 0;
    p->done_rate = p->byte_rate = -1;
}

static void smooth(double *rate, uint64_t before, uint64_t now, double seconds)
{
    double fresh = now > before ? (double)(now - before) / seconds : 0;

    *rate = *rate < 0 ? fresh : fresh + (*rate - fresh) * exp(-seconds / SMOOTH_SECONDS);
}

static void measure(struct progress *p, struct dlc_mono now)
{
    double seconds = dlc_dur_seconds(dlc_mono_sub(now, p->measured_at));

    if (seconds < 0.2)
        return;
    smooth(&p->done_rate, p->measured_done, p->done, seconds);
    smooth(&p->byte_rate, p->measured_bytes, p->bytes, seconds);
    p->measured_at = now;
    p->measured_done = p->done;
    p->measured_bytes = p->bytes;
}

/* Seconds left, or negative: from bytes where they are known, for samples differ in size. */
static double seconds_left(const struct progress *p)
{
    if (p->total_bytes > 0 && p->byte_rate > 0)
        return (double)(p->total_bytes - DLC_MIN(p->bytes, p->total_bytes)) / p->byte_rate;
    if (p->total > 0 && p->done_rate > 0)
        return (double)(p->total - DLC_MIN(p->done, p->total)) / p->done_rate;
    return -1;
}

static double share_done(const struct progress *p)
{
    double share = p->total_bytes > 0 ? (double)p->bytes / (double)p->total_bytes
                                      : (double)p->done / (double)p->total;

    return DLC_MIN(share, 1.0);
}

static void add_rates(const struct progress *p, struct buf *out)
{
    double left = seconds_left(p);
    char text[32];

    if (p->bytes > 0 && p->byte_rate >= 0)
        buf_addf(out, "  %s/s", str_size((uint64_t)p->byte_rate, text));
    else if (p->done_rate >= 0)
        buf_addf(out, "  %s/s", table_count((uint64_t)p->done_rate, text));
    if (left >= 60)
        buf_addf(out, "  %s left", str_dur(dlc_dur_of_seconds(left), text));
    else if (left >= 0)
        buf_addf(out, "  %.0f s left", ceil(left));
}

static void format(const struct progress *p, bool bar, struct buf *out)
{
    char a[32], b[32];

    buf_adds(out, p->phase);
    if (p->total > 0 && bar) {
        int full = (int)(share_done(p) * BAR);

        buf_addf(out, " [%.*s%.*s]", full, "####################", BAR - full,
                 "--------------------");
    }
    if (p->total > 0)
        buf_addf(out, " %3d %%", (int)(share_done(p) * 100));
    buf_addf(out, "  %s", table_count(p->done, a));
    if (p->total > 0)
        buf_addf(out, " of %s", table_count(p->total, b));
    buf_addf(out, " %s", p->what);
    if (p->bytes > 0 && !bar)
        buf_addf(out, "  %s", str_size(p->bytes, a));
    add_rates(p, out);
}

void progress_format(const struct progress *p, unsigned columns, struct buf *out)
{
    format(p, p->terminal, out);
    if (columns > 0 && out->len > columns) { /* numbers before pictures */
        buf_clear(out);
        format(p, false, out);
    }
    if (columns > 0 && out->len > columns) {
        out->len = columns;
        out->data[columns] = '\0';
    }
}

static unsigned terminal_columns(FILE *f)
{
    struct winsize w;

    return ioctl(fileno(f), TIOCGWINSZ, &w) == 0 && w.ws_col > 1 ? w.ws_col - 1u : 79;
}

static void paint(struct progress *p, struct dlc_mono now)
{
    struct buf line = BUF_INIT;

    progress_format(p, p->terminal ? terminal_columns(p->out) : 0, &line);
    if (p->terminal)
        fprintf(p->out, "\r%s\033[K", buf_str(&line));
    else
        fprintf(p->out, "%s\n", buf_str(&line));
    fflush(p->out);
    p->painted = p->terminal;
    p->painted_at = now;
    buf_release(&line);
}

void progress_update(struct progress *p, const char *phase, uint64_t done, uint64_t total,
                     uint64_t bytes, uint64_t total_bytes)
{
    struct dlc_mono now = dlc_mono_now();

    if (strcmp(phase, p->phase) != 0)
        restart(p, phase, now);
    p->done = done;
    p->total = total;
    p->bytes = bytes;
    p->total_bytes = total_bytes;
    measure(p, now);
    if (p->out != NULL &&
        dlc_mono_sub(now, p->painted_at).ns >= (p->terminal ? paint_every : line_every).ns)
        paint(p, now);
}

void progress_end(struct progress *p)
{
    if (p->painted) {
        fprintf(p->out, "\r\033[K");
        fflush(p->out);
    }
    p->painted = false;
    p->phase[0] = '\0';
}
