// SPDX-License-Identifier: Apache-2.0
#include "base/stall.h"

#include "base/check.h"
#include "base/str.h"

static const struct {
    const char *name;
    enum usage_counter counter;
    const char *what;   /* "waits for ..." */
    const char *remedy; /* without figures */
} reasons[STALL_REASONS] = {
    [STALL_LATENCY] = {"latency", USAGE_stall_latency_ns, "the bucket's latency",
                       "at the start of a run that is normal; if it lasts, warm the dataset before "
                       "the job, or take a nearer bucket"},
    [STALL_BANDWIDTH] = {"bandwidth", USAGE_stall_bandwidth_ns, "the bucket's bandwidth",
                         "keep more of the data near: a larger --memory, a disk tier, or more "
                         "nodes"},
    [STALL_DISK] = {"disk", USAGE_stall_disk_ns, "the disk tier",
                    "use a faster disk for --dir, or a larger --memory"},
    [STALL_MEMORY] = {"memory", USAGE_stall_memory_ns, "memory to fetch ahead into",
                      "start the daemon with a larger --memory"},
    [STALL_ORDER] = {"order", USAGE_stall_client_ns, "samples that nobody announced",
                     "use dlcache.torch.DataLoader, or dlc_follow() in C, so that the daemon knows "
                     "the order of the reads"},
};

const char *stall_name(enum stall_reason r)
{
    return reasons[r].name;
}

static double share(uint64_t ns, double reader_s)
{
    return reader_s > 0 ? DLC_MIN((double)ns / 1e9 / reader_s, 1.0) : 0;
}

double stall_share(const struct usage *u, enum stall_reason r, double reader_s)
{
    return share(u->n[reasons[r].counter], reader_s);
}

double stall_share_all(const struct usage *u, double reader_s)
{
    return share(u->n[USAGE_stall_ns], reader_s);
}

static void add_rate(struct buf *out, double bytes_per_s)
{
    double bits = bytes_per_s * 8;

    if (bits >= 1e9)
        buf_addf(out, "%.1f Gbit/s", bits / 1e9);
    else
        buf_addf(out, "%.0f Mbit/s", bits / 1e6);
}

/* "; 120 GB more memory or disk would hold the whole dataset" */
static void add_room(struct buf *out, const struct stall_facts *f)
{
    char size[24];

    if (f->dataset_bytes > f->cache_bytes && f->cache_bytes > 0)
        buf_addf(out, "; %s more memory or disk would hold the whole dataset",
                 str_size(f->dataset_bytes - f->cache_bytes, size));
}

static void add_figures(struct buf *out, enum stall_reason r, const struct stall_facts *f)
{
    if (r == STALL_BANDWIDTH && f->bytes_per_s > 0) {
        add_rate(out, f->bytes_per_s);
        buf_adds(out, " used");
        if (f->most_bytes_per_s > 0) {
            buf_adds(out, " of ");
            add_rate(out, DLC_MAX(f->most_bytes_per_s, f->bytes_per_s));
            buf_adds(out, " measured");
        }
        buf_adds(out, "; ");
    }
    if (r == STALL_LATENCY && f->latency_s > 0)
        buf_addf(out, "half of its answers take more than %.0f ms; ", f->latency_s * 1e3);
}

bool stall_advice(const struct usage *u, const struct stall_facts *f, struct buf *out)
{
    enum stall_reason most = 0;

    for (enum stall_reason r = 1; r < STALL_REASONS; r++)
        if (u->n[reasons[r].counter] > u->n[reasons[most].counter])
            most = r;
    if (u->n[reasons[most].counter] == 0 ||
        (f->reader_s > 0 && stall_share_all(u, f->reader_s) < STALL_SMOOTH))
        return false;
    buf_addf(out, "waits for %s", reasons[most].what);
    if (f->reader_s > 0)
        buf_addf(out, " %.0f %% of the time",
                 DLC_MAX(stall_share(u, most, f->reader_s) * 100, 1.0));
    buf_adds(out, ": ");
    add_figures(out, most, f);
    buf_adds(out, reasons[most].remedy);
    if (most == STALL_LATENCY || most == STALL_BANDWIDTH)
        add_room(out, f);
    return true;
}
