// SPDX-License-Identifier: Apache-2.0
/*
 * What does an image cost? Photographs of 500x375 pixels and about 90 KB, made here, in memory; one
 * thread; images a second of processor time, so that a busy machine does not show:
 *
 *   ours          RandomResizedCrop(224) and flip to uint8, NCHW
 *   ours_forms    the same from decoded images
 *   decode_only   libjpeg-turbo's whole decode to RGB, and nothing else
 *
 * usage: bench-images COUNT ROUNDS [DIRECTORY]
 * DIRECTORY: write the images there too, 00000.jpg and so on, for others to be measured with.
 * Prints one line of JSON: images a second each, a list with one figure per round.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jpeglib.h>

#include "base/err.h"
#include "base/rng.h"
#include "loader/image/image.h"

#define WIDTH   500
#define HEIGHT  375
#define QUALITY 90
#define NOISE   62

struct image {
    unsigned char *jpeg;
    unsigned long len;
    void *decoded;
    size_t decoded_len;
};

struct bench {
    struct image *images;
    unsigned n;
    struct image_spec spec;
    struct image_scratch *scratch;
    unsigned char *out;
    uint64_t epoch;
};

static void die(const char *why)
{
    fprintf(stderr, "bench-images: %s\n", why);
    exit(1);
}

/* Slopes, a few shapes and grain: as hard to code as a photograph at this quality. */
static void draw(unsigned char *rgb, struct rng *r)
{
    int slope[3][3], shape[8][5];

    for (int c = 0; c < 3; c++)
        for (int k = 0; k < 3; k++)
            slope[c][k] = (int)rng_below(r, 129) - 64;
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < 5; k++)
            shape[i][k] = (int)rng_below(r, k == 0 ? WIDTH : k == 1 ? HEIGHT : 120);
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++, rgb += 3) {
            uint64_t grain = rng_next(r);
            int lit = 0;

            for (int i = 0; i < 8; i++)
                if (abs(x - shape[i][0]) < shape[i][2] && abs(y - shape[i][1]) < shape[i][3])
                    lit += shape[i][4] - 60;
            for (int c = 0; c < 3; c++) {
                int noise = (int)(grain >> 16 * c & 0xffff) * NOISE / 65536 - NOISE / 2;
                int v = 128 + slope[c][0] + lit + noise + slope[c][1] * x / WIDTH +
                        slope[c][2] * y / HEIGHT;

                rgb[c] = (unsigned char)(v < 0 ? 0 : v > 255 ? 255 : v);
            }
        }
}

static void encode(struct image *im, const unsigned char *rgb)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;

    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &im->jpeg, &im->len);
    c.image_width = WIDTH;
    c.image_height = HEIGHT;
    c.input_components = 3;
    c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, QUALITY, TRUE);
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < HEIGHT) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(rgb + (size_t)c.next_scanline * WIDTH * 3);

        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
}

static void save(const struct image *im, const char *directory, unsigned i)
{
    char path[400];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%05u.jpg", directory, i);
    f = fopen(path, "wb");
    if (f == NULL || fwrite(im->jpeg, 1, im->len, f) != im->len || fclose(f) != 0)
        die("cannot write the images");
}

static void make_decoded(struct bench *b, struct image *im)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct image_head head;
    int64_t n;

    if (image_read_head(im->jpeg, im->len, &b->spec, &head, &err) < 0)
        die(err.text);
    im->decoded_len = image_decoded_bound(&head, &b->spec);
    im->decoded = malloc(im->decoded_len);
    n = image_decoded_make(b->scratch, im->jpeg, im->len, &b->spec, &head, im->decoded,
                           im->decoded_len, &err);
    if (n < 0)
        die(err.text);
    im->decoded_len = (size_t)n;
}

static void make(struct bench *b, bool decoded, const void *data, size_t len, unsigned i)
{
    struct dlc_err err = DLC_ERR_INIT;
    struct image_head head;
    struct image_plan plan;

    if ((decoded ? image_decoded_head(data, len, &head, &err)
                 : image_read_head(data, len, &b->spec, &head, &err)) < 0)
        die(err.text);
    image_plan(&b->spec, image_key(1, b->epoch, i), head.width, head.height, &plan);
    if (image_make(b->scratch, data, len, &b->spec, &head, &plan, b->out, &err) < 0)
        die(err.text);
}

static void ours(struct bench *b)
{
    b->epoch++;
    for (unsigned i = 0; i < b->n; i++)
        make(b, false, b->images[i].jpeg, b->images[i].len, i);
}

static void ours_forms(struct bench *b)
{
    b->epoch++;
    for (unsigned i = 0; i < b->n; i++)
        make(b, true, b->images[i].decoded, b->images[i].decoded_len, i);
}

static void decode_only(struct bench *b)
{
    for (unsigned i = 0; i < b->n; i++) {
        struct jpeg_decompress_struct c;
        struct jpeg_error_mgr errors;

        c.err = jpeg_std_error(&errors);
        jpeg_create_decompress(&c);
        jpeg_mem_src(&c, b->images[i].jpeg, b->images[i].len);
        jpeg_read_header(&c, TRUE);
        jpeg_start_decompress(&c);
        while (c.output_scanline < c.output_height) {
            JSAMPROW row = b->out + (size_t)c.output_scanline * WIDTH * 3;

            jpeg_read_scanlines(&c, &row, 1);
        }
        jpeg_finish_decompress(&c);
        jpeg_destroy_decompress(&c);
    }
}

static const struct {
    const char *name;
    void (*run)(struct bench *b);
} contenders[] = {
    {"ours_1t", ours},
    {"ours_forms_1t", ours_forms},
    {"decode_only_1t", decode_only},
};

#define N_CONTENDERS (sizeof(contenders) / sizeof(contenders[0]))

static double cpu_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static size_t set_up(struct bench *b, const char *directory)
{
    struct rng r = {1};
    size_t bytes = 0;

    b->images = calloc(b->n, sizeof(*b->images));
    b->out = malloc((size_t)WIDTH * HEIGHT * 3);
    b->scratch = image_scratch_new();
    b->spec = (struct image_spec){
        .width = 224,
        .height = 224,
        .crop = IMAGE_RANDOM_RESIZED,
        .scale = {0.08, 1},
        .ratio = {3.0 / 4, 4.0 / 3},
        .flip = 0.5,
        .brightness = {1, 1},
        .contrast = {1, 1},
        .saturation = {1, 1},
    };
    if (b->images == NULL || b->out == NULL)
        die("no memory");
    for (unsigned i = 0; i < b->n; i++) {
        draw(b->out, &r);
        encode(&b->images[i], b->out);
        make_decoded(b, &b->images[i]);
        bytes += b->images[i].len;
        if (directory != NULL)
            save(&b->images[i], directory, i);
    }
    return bytes / b->n;
}

static void tear_down(struct bench *b)
{
    for (unsigned i = 0; i < b->n; i++) {
        free(b->images[i].jpeg);
        free(b->images[i].decoded);
    }
    free(b->images);
    free(b->out);
    image_scratch_free(&b->scratch);
}

int main(int argc, char **argv)
{
    struct bench b = {.n = argc >= 3 ? (unsigned)atoi(argv[1]) : 0};
    int rounds = argc >= 3 ? atoi(argv[2]) : 0;
    double *rate = calloc(N_CONTENDERS * (size_t)(rounds > 0 ? rounds : 1), sizeof(*rate));
    size_t bytes;

    if (b.n == 0 || rounds <= 0 || rate == NULL)
        die("usage: bench-images COUNT ROUNDS [DIRECTORY]");
    bytes = set_up(&b, argc > 3 ? argv[3] : NULL);
    for (int k = 0; k < rounds; k++)
        for (unsigned c = 0; c < N_CONTENDERS; c++) {
            double start = cpu_s();

            contenders[c].run(&b);
            rate[c * (unsigned)rounds + (unsigned)k] = b.n / (cpu_s() - start);
        }
    printf("{\"bytes\": %zu", bytes);
    for (unsigned c = 0; c < N_CONTENDERS; c++) {
        printf(", \"%s\": [", contenders[c].name);
        for (int k = 0; k < rounds; k++)
            printf("%s%.1f", k == 0 ? "" : ", ", rate[c * (unsigned)rounds + (unsigned)k]);
        printf("]");
    }
    printf("}\n");
    tear_down(&b);
    free(rate);
    return 0;
}
