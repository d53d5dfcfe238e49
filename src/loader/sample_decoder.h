// SPDX-License-Identifier: Apache-2.0
/*
 * Sample decoder: turns the encoded bytes of one sample into its part of a batch, as the spec says.
 * Random choices follow from (seed, epoch, sample), and in an explicit order, where a sample may
 * come more than once in an epoch, also from its position. A struct decode_spec is shared and
 * constant; each thread has a struct sample_decoder, which is scratch memory only.
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

/* Which part of a sample of the dataset a sample of the loader is. */
struct sample_part {
    uint64_t sample;     /* of the dataset */
    uint64_t row, count; /* tensors: which one of how many in it */
};

struct decode_spec {
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
int decode_spec_init(struct decode_spec *m, const struct dlc_loader_spec *spec,
                     struct dlc_err *err);

struct sample_decoder;
struct decoded_sample;
struct decoded_policy;
struct sample_decoder *sample_decoder_new(const struct decode_spec *m); /* borrows m */
void sample_decoder_free(struct sample_decoder **mp);

/* What is random of a sample is drawn with this key. place: 0, or another number for each time that
 * it comes in an epoch. */
uint64_t decode_spec_random_key(const struct decode_spec *m, uint64_t epoch, uint64_t sample,
                                uint64_t place);

/* What the bytes of a sample are. They are never asked: a bucket may hold anything. */
enum sample_encoding { SAMPLE_ENCODED, SAMPLE_DECODED };

/* Writes m->bytes to out, and *length for sounds; or fails and says why. */
int sample_decoder_run(struct sample_decoder *k, enum sample_encoding input, const void *data,
                       size_t len, uint64_t key, const struct sample_part *part, void *out,
                       uint32_t *length, struct dlc_err *err);

/* Equal where decoded samples are: what image_decoded_make() depends on. */
uint64_t decode_spec_decoded_key(const struct decode_spec *m);

/* The decoded sample of an encoded image. Gives: *out, to decoded_policy_put(). False: none is
 * wanted, there is no room, or it cannot be made; the image itself then says why. */
bool sample_decoder_make_decoded(struct sample_decoder *k, struct decoded_policy *policy,
                                 const void *data, size_t len, uint64_t sample,
                                 struct decoded_sample *out);

#endif
