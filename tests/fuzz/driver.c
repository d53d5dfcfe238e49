// SPDX-License-Identifier: Apache-2.0
/*
 * Drives a fuzz target without libFuzzer: fuzz-NAME [-n MUTATIONS] FILE-OR-DIRECTORY...
 *
 * Runs the target over nothing, over each seed, and over mutations of it that are the same every
 * time: bytes changed, swapped or set to the edges of their range, tails cut off, pieces doubled.
 * Not a search, but it catches in every run of the tests what is easily broken.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/rng.h"

#define SEED_MAX (8u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned long mutations = 300, runs;

/* From memory of exactly this size, so that the sanitizers see every step beyond it. */
static void run(const char *data, size_t len)
{
    char *copy = mem_alloc(len);

    if (len > 0)
        memcpy(copy, data, len);
    LLVMFuzzerTestOneInput((const uint8_t *)copy, len);
    mem_free(&copy);
    runs++;
}

static void change_bytes(struct buf *b, struct rng *r)
{
    static const unsigned char edges[] = {0x00, 0x01, 0x7f, 0x80, 0xff, '"', '<', '/', '%', '\n'};

    for (uint64_t n = 1 + rng_below(r, 4); n > 0 && b->len > 0; n--) {
        char *p = &b->data[rng_below(r, b->len)];

        if (rng_below(r, 2) == 0)
            *p = (char)edges[rng_below(r, sizeof(edges))];
        else
            *p ^= (char)(1u << rng_below(r, 8));
    }
}

static void mutate(struct buf *b, struct rng *r)
{
    size_t at = b->len == 0 ? 0 : rng_below(r, b->len);

    switch (rng_below(r, 4)) {
    case 0: b->len = at; break;
    case 1: {
        size_t n = rng_below(r, b->len - at + 1);

        buf_reserve(b, n);
        memmove(b->data + at + n, b->data + at, b->len - at);
        b->len += n;
        break;
    }
    default: change_bytes(b, r);
    }
}

static void run_seed(const char *path)
{
    struct buf seed = BUF_INIT, b = BUF_INIT;
    struct dlc_err err = DLC_ERR_INIT;
    struct rng r = {1};

    if (os_read_file(path, SEED_MAX, &seed, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    run(seed.data, seed.len);
    for (unsigned long i = 0; i < mutations; i++) {
        buf_clear(&b);
        buf_add(&b, seed.data, seed.len);
        for (uint64_t n = 1 + rng_below(&r, 3); n > 0; n--)
            mutate(&b, &r);
        run(b.data, b.len);
    }
    buf_release(&seed);
    buf_release(&b);
}

static void run_path(const char *path)
{
    struct dirent **entries;
    struct stat st;
    int n;

    if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
        run_seed(path);
        return;
    }
    n = scandir(path, &entries, NULL, alphasort);
    if (n < 0) {
        perror(path);
        exit(1);
    }
    for (int i = 0; i < n; i++) {
        char *file = mem_fmt("%s/%s", path, entries[i]->d_name);

        if (entries[i]->d_name[0] != '.')
            run_seed(file);
        mem_free(&file);
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv)
{
    int i = 1;

    if (argc > 2 && strcmp(argv[1], "-n") == 0) {
        mutations = strtoul(argv[2], NULL, 10);
        i = 3;
    }
    run("", 0);
    for (; i < argc; i++)
        run_path(argv[i]);
    printf("%lu runs\n", runs);
    return 0;
}
