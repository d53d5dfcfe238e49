// SPDX-License-Identifier: Apache-2.0
/*
 * The demonstration's dataset: PNG images of coloured discs in class folders. The deflate stream is
 * made of stored blocks, so that a picture needs no library and every viewer opens it.
 */
#include "cli/cmd_demo.h"

#include <fcntl.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/syscalls.h"
#include "base/rng.h"

#define SIDE    128
#define CLASSES 10
#define STORED  65535 /* bytes in one stored block, at most */

static void be32(struct buf *b, uint32_t v)
{
    unsigned char p[4] = {(unsigned char)(v >> 24), (unsigned char)(v >> 16),
                          (unsigned char)(v >> 8), (unsigned char)v};

    buf_add(b, p, sizeof(p));
}

/* PNG's CRC-32, a nibble at a time: the pictures are small. */
static uint32_t png_crc(const char *p, size_t n)
{
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
                                       0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                       0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    uint32_t c = ~0u;

    for (size_t i = 0; i < n; i++) {
        c ^= (unsigned char)p[i];
        c = c >> 4 ^ table[c & 15];
        c = c >> 4 ^ table[c & 15];
    }
    return ~c;
}

static uint32_t adler(const char *p, size_t n)
{
    uint32_t a = 1, b = 0;

    for (size_t i = 0; i < n; i++) {
        a = (a + (unsigned char)p[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

static void png_chunk(struct buf *out, const char *type, const struct buf *data)
{
    size_t start;

    be32(out, (uint32_t)data->len);
    start = out->len;
    buf_add(out, type, 4);
    buf_add(out, buf_str(data), data->len);
    be32(out, png_crc(out->data + start, out->len - start));
}

static void stored_zlib(struct buf *out, const struct buf *raw)
{
    buf_add(out, "\x78\x01", 2);
    for (size_t at = 0; at < raw->len; at += STORED) {
        size_t n = raw->len - at < STORED ? raw->len - at : STORED;
        unsigned char head[5] = {at + n == raw->len, (unsigned char)n, (unsigned char)(n >> 8),
                                 (unsigned char)~n, (unsigned char)(~n >> 8)};

        buf_add(out, head, sizeof(head));
        buf_add(out, raw->data + at, n);
    }
    be32(out, adler(raw->data, raw->len));
}

/* A disc of the class's colour, somewhere, on noise. */
static void paint(struct buf *raw, unsigned class, struct rng *r)
{
    int cx = 32 + (int)rng_below(r, 64), cy = 32 + (int)rng_below(r, 64);
    int radius = 12 + (int)rng_below(r, 20);

    for (int y = 0; y < SIDE; y++) {
        buf_addc(raw, 0); /* filter: none */
        for (int x = 0; x < SIDE; x++) {
            uint64_t noise = rng_next(r);
            bool in = (x - cx) * (x - cx) + (y - cy) * (y - cy) < radius * radius;

            for (unsigned c = 0; c < 3; c++) {
                unsigned v = (unsigned)(noise >> (8 * c) & 63);

                buf_addc(raw, (char)(in ? v + (class * (37 + 50 * c) % 192) : v));
            }
        }
    }
}

static void png(struct buf *out, unsigned class, struct rng *r)
{
    struct buf raw = BUF_INIT, part = BUF_INIT;

    buf_add(out, "\x89PNG\r\n\x1a\n", 8);
    be32(&part, SIDE);
    be32(&part, SIDE);
    buf_add(&part, "\x08\x02\x00\x00\x00", 5); /* 8 bits, RGB */
    png_chunk(out, "IHDR", &part);
    paint(&raw, class, r);
    buf_clear(&part);
    stored_zlib(&part, &raw);
    png_chunk(out, "IDAT", &part);
    buf_clear(&part);
    png_chunk(out, "IEND", &part);
    buf_release(&raw);
    buf_release(&part);
}

static int write_image(const char *path, const struct buf *image, struct dlc_err *err)
{
    int fd = os_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600), rc = 0;

    if (fd < 0 || os_write_all(fd, image->data, image->len) < 0)
        rc = dlc_err_sys(err, "cannot write %s", path);
    os_close(&fd);
    return rc;
}

int demo_make_images(const char *dir, uint64_t n, struct dlc_err *err)
{
    struct rng r = {20230523};
    struct buf image = BUF_INIT;
    int rc = 0;

    for (uint64_t i = 0; i < n && rc == 0; i++) {
        unsigned class = (unsigned)(i % CLASSES);
        char *folder = mem_fmt("%s/class-%u", dir, class);
        char *path = mem_fmt("%s/%05llu.png", folder, (unsigned long long)i);

        buf_clear(&image);
        png(&image, class, &r);
        if (os_mkdirs(folder, 0700) < 0)
            rc = dlc_err_sys(err, "cannot make %s", folder);
        else
            rc = write_image(path, &image, err);
        mem_free(&folder);
        mem_free(&path);
    }
    buf_release(&image);
    return rc;
}
