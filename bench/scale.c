// SPDX-License-Identifier: Apache-2.0
/*
 * What a catalog of many samples costs.
 *
 *     bench-scale build PATH [SAMPLES]   make a catalog (10,000,000 samples) of ImageNet-like keys
 *     bench-scale open PATH              open it in this process and read 1000 entries at random
 *
 * Prints one line of JSON.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/str.h"
#include "catalog/catalog.h"

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

static int build(const char *path, uint64_t n)
{
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
    if (catalog_builder_finish(b, path, "s3://bench/imagenet", &err) < 0)
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
    return rc;
}

static int open_and_read(const char *path)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct catalog_entry e;
    struct catalog *c;
    long before = resident(), opened;
    struct dlc_mono t = dlc_mono_now();
    double open_s, get_s;
    struct rng r = {7};
    uint64_t at;

    if (catalog_open(path, &c, &err) < 0)
        return give_up(&err);
    open_s = seconds_since(t);
    opened = resident();
    t = dlc_mono_now();
    for (unsigned i = 0; catalog_count(c) > 0 && i < READS; i++) {
        uint64_t k = rng_below(&r, catalog_count(c));

        if (catalog_get(c, k, &e, &err) < 0)
            return give_up(&err);
        if (catalog_find(c, e.key, &at) < 0 || at != k) {
            fprintf(stderr, "bench-scale: %s is not found again\n", e.key);
            return 1;
        }
    }
    get_s = seconds_since(t);
    printf("{\"samples\": %llu, \"open_s\": %.6f, \"open_rss_bytes\": %ld, \"get_find_us\": %.2f, "
           "\"read_rss_bytes\": %ld}\n",
           (unsigned long long)catalog_count(c), open_s, opened - before, get_s / READS * 1e6,
           resident() - before);
    catalog_close(&c);
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t n = SAMPLES;

    if (argc >= 3 && strcmp(argv[1], "open") == 0)
        return open_and_read(argv[2]);
    if (argc >= 3 && strcmp(argv[1], "build") == 0 && (argc == 3 || str_parse_u64(argv[3], &n)))
        return build(argv[2], n);
    fprintf(stderr, "usage: bench-scale build PATH [SAMPLES] | open PATH\n");
    return 2;
}
