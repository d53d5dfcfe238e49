// SPDX-License-Identifier: Apache-2.0
/*
 * What does it cost to get a sample that is in memory? Contenders, on the same samples in the same
 * random order, a round of each in turn so that noise hits all alike:
 *
 *   dlcache   a view: pin, touch the first and last byte, unpin
 *   copy      dlc_read() into a buffer
 *   tmpfs     open, read, close
 *   redis     GET over a Unix socket (hiredis)
 *   memcpy    from private memory into the same buffer
 *
 * usage: bench-hit URL DAEMON-SOCKET DIRECTORY-OF-FILES REDIS-SOCKET ROUNDS
 * Prints one line of JSON: nanoseconds per sample, each a list with one figure per round.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "base/rng.h"
#include "dlcache.h"

#define READS      20000 /* of the fast ones per round */
#define SLOW_READS 4000

struct bench {
    struct dlc_dataset *ds;
    const char *dir;
    redisContext *redis;
    uint64_t n;
    char **keys;
    char **copies; /* private memory */
    size_t *sizes;
    char *buf;
    size_t cap;
    uint32_t *order; /* READS random samples, new for each round */
    uint64_t sink;
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "bench-hit: %s: %s\n", what, why);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void view(struct bench *b, uint32_t i)
{
    struct dlc_view v;

    if (dlc_get(b->ds, i, &v) < 0)
        die("dlc_get", dlc_last_error());
    b->sink += ((const unsigned char *)v.data)[0] + ((const unsigned char *)v.data)[v.len - 1];
    dlc_put(b->ds, &v);
}

static void copy(struct bench *b, uint32_t i)
{
    if (dlc_read(b->ds, i, b->buf, b->cap) < 0)
        die("dlc_read", dlc_last_error());
    b->sink += (unsigned char)b->buf[0];
}

static void tmpfs(struct bench *b, uint32_t i)
{
    char path[4096];
    size_t got = 0;
    ssize_t k = 1;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", b->dir, b->keys[i]);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && got < b->sizes[i] && (k = read(fd, b->buf + got, b->cap - got)) > 0)
        got += (size_t)k;
    if (fd < 0 || k <= 0)
        die(path, strerror(errno));
    close(fd);
    b->sink += (unsigned char)b->buf[0];
}

static void redis(struct bench *b, uint32_t i)
{
    redisReply *r = redisCommand(b->redis, "GET %b", b->keys[i], strlen(b->keys[i]));

    if (r == NULL || r->type != REDIS_REPLY_STRING || (size_t)r->len != b->sizes[i])
        die("redis GET", b->redis->errstr);
    b->sink += (unsigned char)r->str[0];
    freeReplyObject(r);
}

static void plain(struct bench *b, uint32_t i)
{
    memcpy(b->buf, b->copies[i], b->sizes[i]);
    b->sink += (unsigned char)b->buf[0];
}

static const struct {
    const char *name;
    void (*read)(struct bench *b, uint32_t i);
    unsigned reads;
} contenders[] = {
    {"dlcache_ns", view, READS},      {"dlcache_copy_ns", copy, SLOW_READS},
    {"tmpfs_ns", tmpfs, SLOW_READS},  {"redis_ns", redis, SLOW_READS},
    {"memcpy_ns", plain, SLOW_READS},
};

#define N_CONTENDERS (sizeof(contenders) / sizeof(contenders[0]))

/* Everything resident everywhere before the clock starts. */
static void load(struct bench *b)
{
    char key[2048];

    b->n = dlc_count(b->ds);
    b->keys = calloc(b->n, sizeof(*b->keys));
    b->copies = calloc(b->n, sizeof(*b->copies));
    b->sizes = calloc(b->n, sizeof(*b->sizes));
    for (uint64_t i = 0; i < b->n; i++) {
        struct dlc_view v;
        redisReply *r;

        if (dlc_key(b->ds, i, key, sizeof(key)) < 0 || dlc_get(b->ds, i, &v) < 0)
            die("loading", dlc_last_error());
        b->keys[i] = strdup(key);
        b->sizes[i] = v.len;
        b->copies[i] = malloc(v.len);
        memcpy(b->copies[i], v.data, v.len);
        b->cap = v.len > b->cap ? v.len : b->cap;
        r = redisCommand(b->redis, "SET %b %b", key, strlen(key), v.data, v.len);
        if (r == NULL || r->type == REDIS_REPLY_ERROR)
            die("redis SET", b->redis->errstr);
        freeReplyObject(r);
        dlc_put(b->ds, &v);
    }
    b->buf = malloc(b->cap);
    b->order = calloc(READS, sizeof(*b->order));
}

static double one_round(struct bench *b, unsigned c)
{
    uint64_t start = now_ns();

    for (unsigned k = 0; k < contenders[c].reads; k++)
        contenders[c].read(b, b->order[k]);
    return (double)(now_ns() - start) / contenders[c].reads;
}

int main(int argc, char **argv)
{
    struct dlc_options opt = {.no_spawn = 1};
    struct bench b = {0};
    struct rng r = {42};
    int rounds = argc == 6 ? atoi(argv[5]) : 0;
    double *ns = calloc(N_CONTENDERS * (size_t)(rounds > 0 ? rounds : 1), sizeof(*ns));

    if (rounds <= 0)
        die("usage", "bench-hit URL SOCKET DIRECTORY REDIS-SOCKET ROUNDS");
    opt.socket = argv[2];
    b.dir = argv[3];
    if (dlc_open(argv[1], &opt, &b.ds) < 0)
        die(argv[1], dlc_last_error());
    b.redis = redisConnectUnix(argv[4]);
    if (b.redis == NULL || b.redis->err)
        die(argv[4], b.redis != NULL ? b.redis->errstr : "no memory");
    load(&b);
    for (int k = 0; k < rounds; k++) {
        for (unsigned i = 0; i < READS; i++)
            b.order[i] = (uint32_t)rng_below(&r, b.n);
        for (unsigned c = 0; c < N_CONTENDERS; c++)
            ns[c * (unsigned)rounds + (unsigned)k] = one_round(&b, c);
    }
    for (unsigned c = 0; c < N_CONTENDERS; c++) {
        printf("%s\"%s\": [", c == 0 ? "{" : ", ", contenders[c].name);
        for (int k = 0; k < rounds; k++)
            printf("%s%.1f", k == 0 ? "" : ", ", ns[c * (unsigned)rounds + (unsigned)k]);
        printf("]");
    }
    printf(", \"sink\": %llu}\n", (unsigned long long)(b.sink & 1));
    dlc_close(&b.ds);
    return 0;
}
