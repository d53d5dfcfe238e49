// SPDX-License-Identifier: Apache-2.0
/*
 * Sample decoder: turns the encoded bytes of one sample into its part of a batch, as the spec says.
 * Random choices follow from (seed, epoch, sample), and in an explicit order, where a sample may
 * come more than once in an epoch, also from its position. A struct making is shared and constant;
 * each thread has a maker, which is scratch memory only.
 */
#ifndef DLC_LOADER_SAMPLE_DECODER_H
#define DLC_LOADER_SAMPLE_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "dlcache/loader.h"
#include "loader/audio/audio.h"
#include "loader/image/image.h"
#include "loader/tensor/tensor.h"

/* Where a sample of the loader lies. */
struct making_part {
    uint64_t sample;     /* of the dataset */
    uint64_t row, count; /* tensors: which one of how many in it */
};

struct making {
    enum dlc_loader_kind kind;
    union {
        struct image_spec image;
        struct audio_spec audio;
        struct tensor_spec tensor;
    };
    uint64_t seed;
    size_t bytes; /* of one sample */
};

/* From the public spec. DLC_EINVAL, and what is wrong. */
int making_init(struct making *m, const struct dlc_loader_spec *spec, struct dlc_err *err);

struct maker;
struct decoded_sample;
struct decoded_policy;
struct maker *maker_new(const struct making *m); /* borrows m */
void maker_free(struct maker **mp);

/* What is random of a sample is drawn with this key. place: 0, or another number for each time that
 * it comes in an epoch. */
uint64_t making_key(const struct making *m, uint64_t epoch, uint64_t sample, uint64_t place);

/* What the bytes of a sample are. They are never asked: a bucket may hold anything. */
enum maker_input { MAKER_ENCODED, MAKER_DECODED };

/* Writes m->bytes to out, and *length for sounds; or fails and says why. */
int maker_make(struct maker *k, enum maker_input input, const void *data, size_t len, uint64_t key,
               const struct making_part *part, void *out, uint32_t *length, struct dlc_err *err);

/* Equal where decoded samples are: what image_decoded_make() depends on. */
uint64_t making_decoded_key(const struct making *m);

/* The decoded sample of an encoded image. Gives: *out, to decoded_policy_put(). False: none is
 * wanted, there is no room, or it cannot be made; the image itself then says why. */
bool maker_decoded(struct maker *k, struct decoded_policy *policy, const void *data, size_t len,
                   uint64_t sample, struct decoded_sample *out);

#endif
