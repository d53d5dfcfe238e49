// SPDX-License-Identifier: Apache-2.0
/*
 * Headers of decoded images whose numbers agree nearly: a window of the input's size somewhere in a
 * frame of any size, of an image of any size. The bytes after the header are as many as it says, so
 * that a sound header leads to a crop. What fuzz_image.h says of images holds here too.
 */
#include "fuzz_image.h"
#include "fuzz_numbers.h"

#define SIDE_MAX 64

struct header { /* as in loader/image/decoded.c */
    uint32_t magic;
    uint8_t kind, orientation, format, components;
    uint32_t width, height;
    uint64_t frame[2], at[2];
    uint32_t size[2], reserved[2];
};

/* One axis: a frame, and a window at its beginning, its end, or at an edge of numbers. */
static void take_axis(struct fuzz_bytes *b, struct header *h, int a)
{
    uint8_t how = fuzz_byte(b);

    h->size[a] = 1 + fuzz_byte(b) % SIDE_MAX;
    h->frame[a] = how & 1 ? fuzz_take(b) : (uint64_t)INT32_MAX - fuzz_byte(b);
    if (how & 2)
        h->frame[a] = h->size[a];
    if (how & 4)
        h->at[a] = fuzz_take(b);
    else if (how & 8 && h->frame[a] >= h->size[a])
        h->at[a] = h->frame[a] - h->size[a];
    if (how & 16 && h->frame[a] > h->at[a])
        h->size[a] = (uint32_t)DLC_MIN(h->frame[a] - h->at[a], (uint64_t)SIDE_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes b = {data, size};
    uint8_t options = fuzz_byte(&b), key = fuzz_byte(&b), kind = fuzz_byte(&b);
    struct header h = {.magic = DLC_TAG4('D', 'L', 'i', 'f'),
                       .kind = 1 + (kind & 1),
                       .orientation = 1 + (kind >> 1 & 7),
                       .format = kind >> 4 & 3,
                       .components = kind >> 6};
    size_t len;
    uint8_t *image;

    take_axis(&b, &h, 0);
    take_axis(&b, &h, 1);
    h.width = kind & 1 ? h.size[0] : (uint32_t)fuzz_take(&b);
    h.height = kind & 1 ? h.size[1] : (uint32_t)fuzz_take(&b);
    len = 2 + sizeof(h) + 3 * (size_t)h.size[0] * h.size[1] + 64;
    image = mem_alloc(len);
    image[0] = options;
    image[1] = key;
    memcpy(image + 2, &h, sizeof(h));
    for (size_t i = 2 + sizeof(h); i < len; i++)
        image[i] = (uint8_t)(i * 31 + key);
    fuzz_image(image, len, true);
    mem_free(&image);
    return 0;
}
