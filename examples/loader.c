// SPDX-License-Identifier: Apache-2.0
/*
 * Images as a training loop wants them: cropped at random, flipped, in batches, for two epochs.
 *
 *     cc loader.c $(pkg-config --cflags --libs dlcache) -o loader
 *     ./loader s3://my-bucket/train/
 */
#include <dlcache.h>

#include <stdio.h>

#define EPOCHS 2

static int fail(const char *what)
{
    fprintf(stderr, "loader: %s: %s\n", what, dlc_last_error());
    return 1;
}

/* Here a training loop would train. */
static double brightness(const struct dlc_batch *b)
{
    const unsigned char *p = b->data;
    double sum = 0;

    for (size_t i = 0; i < b->samples * b->bytes; i++)
        sum += p[i];
    return sum / (double)(b->samples * b->bytes);
}

static void report(struct dlc_loader *l)
{
    struct dlc_loader_stats s;
    uint64_t sample;
    char why[600];

    dlc_loader_stats(l, &s);
    printf("%llu images in %llu batches, %llu bad; %llu threads at the end; waited %.3f s\n",
           (unsigned long long)s.samples, (unsigned long long)s.batches, (unsigned long long)s.bad,
           (unsigned long long)s.threads, (double)s.waited_ns / 1e9);
    for (uint64_t k = 0; dlc_loader_bad(l, k, &sample, why, sizeof(why)) >= 0; k++)
        printf("  %s\n", why);
}

int main(int argc, char **argv)
{
    const struct dlc_loader_spec spec = {
        .kind = DLC_IMAGES,
        .batch = 64,
        .on_bad = DLC_BAD_SKIP,
        .order = {.kind = DLC_SHUFFLED, .epochs = EPOCHS},
        .image = {.width = 224, .height = 224, .crop = DLC_CROP_RANDOM_RESIZED, .flip = 0.5}};
    struct dlc_dataset *ds;
    struct dlc_loader *l;
    struct dlc_batch b;

    if (argc != 2) {
        fprintf(stderr, "usage: loader URL\n");
        return 2;
    }
    if (dlc_open(argv[1], NULL, &ds) < 0)
        return fail(argv[1]);
    if (dlc_loader_open(ds, &spec, &l) < 0)
        return fail(argv[1]);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        double sum = 0, n = 0;
        int rc;

        while ((rc = dlc_loader_next(l, &b)) == 1) {
            sum += brightness(&b) * b.samples;
            n += b.samples;
            dlc_batch_put(&b);
        }
        if (rc < 0)
            return fail("a batch");
        printf("epoch %d: mean brightness %.2f\n", epoch, n > 0 ? sum / n : 0);
    }
    report(l);
    dlc_loader_close(&l);
    dlc_close(&ds);
    return 0;
}
