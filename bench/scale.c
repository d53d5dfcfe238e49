// SPDX-License-Identifier: Apache-2.0
/*
 * What a catalog of many samples costs.
 *
 *     bench-scale build DIR URL [SAMPLES]   put a catalog of URL (10,000,000 samples, ImageNet-like
 * keys) where a daemon that runs in DIR will find it bench-scale open URL SOCKET           open the
 * dataset through that daemon, find 1000 samples
 *
 * Prints one line of JSON.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "catalog/catalog.h"
#include "dlcache.h"

#define SAMPLES 10000000u
#define CLASSES 1000u
#define READS   1000u

static int give_up(const struct dlc_err *err)
{
    fprintf(stderr, "bench-scale: %s\n", err->text);
    return 1;
}

/* Resident bytes of this process. */
static long resident(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    long pages = 0;

    if (f == NULL || fscanf(f, "%*d %ld", &pages) != 1)
        pages = 0;
    if (f != NULL)
        fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

static double seconds_since(struct dlc_mono t)
{
    return dlc_dur_seconds(dlc_mono_since(t));
}

/* As parallel listings deliver: each class in order, the classes mixed. */
static int fill(struct catalog_builder *b, uint64_t n, struct dlc_err *err)
{
    struct rng r = {42};

    for (uint64_t i = 0; i < n; i++) {
        unsigned wnid = 1440764 + (unsigned)(i % CLASSES) * 13007;
        unsigned char md5[16];
        char key[64], etag[33];
        uint64_t half[2] = {rng_next(&r), rng_next(&r)};
        int len = snprintf(key, sizeof(key), "train/n%08u/n%08u_%u.JPEG", wnid, wnid,
                           (unsigned)(i / CLASSES * 2));

        memcpy(md5, half, sizeof(md5));
        str_hex(md5, sizeof(md5), etag);
        if (catalog_builder_add(b, key, (size_t)len, 20000 + half[0] % 200000, etag, err) < 0)
            return -1;
    }
    return 0;
}

static int build(const char *dir, const char *url, uint64_t n)
{
    /* As the daemon names it: nobody's, and no endpoint. */
    const char *const parts[] = {"dlcache catalog", "", "", "", "", url};
    char *path = catalog_path(dir, parts, sizeof(parts) / sizeof(parts[0]));
    struct catalog_builder *b = catalog_builder_new();
    struct dlc_err err = DLC_ERR_INIT;
    struct catalog *c = NULL;
    struct dlc_mono t = dlc_mono_now();
    double add_s, finish_s;
    struct rusage usage;
    int rc = 1;

    if (fill(b, n, &err) < 0)
        goto out;
    add_s = seconds_since(t);
    t = dlc_mono_now();
    if (catalog_builder_finish(b, path, url, &err) < 0)
        goto out;
    finish_s = seconds_since(t);
    if (catalog_open(path, &c, &err) < 0)
        goto out;
    getrusage(RUSAGE_SELF, &usage);
    printf(
        "{\"samples\": %llu, \"build_s\": %.3f, \"sort_and_write_s\": %.3f, \"file_bytes\": %llu, "
        "\"bytes_per_sample_catalog\": %.2f, \"build_peak_bytes\": %lld}\n",
        (unsigned long long)n, add_s + finish_s, finish_s, (unsigned long long)catalog_file_size(c),
        (double)catalog_file_size(c) / (double)n, (long long)usage.ru_maxrss * 1024);
    rc = 0;
out:
    if (rc != 0)
        give_up(&err);
    catalog_close(&c);
    catalog_builder_free(&b);
    mem_free(&path);
    return rc;
}

static int open_and_find(const char *url, const char *socket)
{
    struct dlc_options opt = {.socket = socket, .no_spawn = 1};
    struct dlc_dataset *ds;
    long before = resident(), opened;
    struct dlc_mono t = dlc_mono_now();
    double open_s, find_s;
    struct rng r = {7};
    char key[1025];
    uint64_t at;

    if (dlc_open(url, &opt, &ds) < 0) {
        fprintf(stderr, "bench-scale: %s\n", dlc_last_error());
        return 1;
    }
    open_s = seconds_since(t);
    opened = resident();
    t = dlc_mono_now();
    for (unsigned i = 0; dlc_count(ds) > 0 && i < READS; i++) {
        uint64_t k = rng_below(&r, dlc_count(ds));

        if (dlc_key(ds, k, key, sizeof(key)) < 0 || dlc_find(ds, key, &at) < 0 || at != k) {
            fprintf(stderr, "bench-scale: sample %llu is not found again\n", (unsigned long long)k);
            return 1;
        }
    }
    find_s = seconds_since(t);
    printf("{\"samples\": %llu, \"open_s\": %.6f, \"open_rss_bytes\": %ld, \"find_us\": %.2f}\n",
           (unsigned long long)dlc_count(ds), open_s, opened - before, find_s / READS * 1e6);
    dlc_close(&ds);
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t n = SAMPLES;

    if (argc == 4 && strcmp(argv[1], "open") == 0)
        return open_and_find(argv[2], argv[3]);
    if (argc >= 4 && strcmp(argv[1], "build") == 0 && (argc == 4 || str_parse_u64(argv[4], &n)))
        return build(argv[2], argv[3], n);
    fprintf(stderr, "usage: bench-scale build DIR URL [SAMPLES] | open URL SOCKET\n");
    return 2;
}
