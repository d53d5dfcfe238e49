// SPDX-License-Identifier: Apache-2.0
#include "loader/sample_decoder.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "loader/decoded_policy_i.h"

#define DECODED_VERSION 1 /* one more when image_decoded_make() gives other bytes */

/* ---- from the public spec ---- */

static void range(double out[static 2], const double given[static 2], double low, double high)
{
    bool none = given[0] == 0 && given[1] == 0;

    out[0] = none ? low : given[0];
    out[1] = none ? high : given[1];
}

static int image_type_of(uint32_t dtype, enum image_type *out, struct dlc_err *err)
{
    switch (dtype) {
    case 0:
    case DLC_U8: *out = IMAGE_U8; return 0;
    case DLC_F32: *out = IMAGE_F32; return 0;
    case DLC_F16: *out = IMAGE_F16; return 0;
    default:
        return dlc_err_set(err, DLC_EINVAL, "images of type %u: uint8, float32 or float16", dtype);
    }
}

static int init_image(struct decode_spec *m, const struct dlc_image *d, struct dlc_err *err)
{
    struct image_spec *s = &m->image;
    int rc;

    if (d->crop > DLC_CROP_CENTRE || d->layout > DLC_NHWC)
        return dlc_err_set(err, DLC_EINVAL, "crop %u, layout %u: see enum dlc_crop, dlc_layout",
                           d->crop, d->layout);
    *s = (struct image_spec){.width = d->width,
                             .height = d->height,
                             .crop = (enum image_crop)d->crop,
                             .resize = d->resize,
                             .flip = d->flip,
                             .hue = {d->hue[0], d->hue[1]},
                             .layout = (enum image_layout)d->layout,
                             .normalise = d->normalise != 0,
                             .mean = {d->mean[0], d->mean[1], d->mean[2]},
                             .std = {d->std[0], d->std[1], d->std[2]},
                             .exact = d->exact != 0,
                             .max_pixels = d->max_pixels};
    range(s->scale, d->scale, 0.08, 1.0);
    range(s->ratio, d->ratio, 3.0 / 4, 4.0 / 3);
    range(s->brightness, d->brightness, 1, 1);
    range(s->contrast, d->contrast, 1, 1);
    range(s->saturation, d->saturation, 1, 1);
    rc = image_type_of(d->dtype, &s->type, err);
    if (rc == 0)
        rc = image_check_spec(s, err);
    if (rc == 0)
        m->bytes = image_bytes(s);
    return rc;
}

static int init_audio(struct decode_spec *m, const struct dlc_audio *d, struct dlc_err *err)
{
    struct audio_spec *s = &m->audio;
    int rc;

    *s = (struct audio_spec){.samples = d->samples,
                             .rate = d->rate,
                             .mono = d->mono != 0,
                             .channels = d->mono != 0 ? 1 : DLC_MAX(d->channels, 1u),
                             .random_start = d->random_start != 0,
                             .max_frames = d->max_frames};
    if (d->mels != 0)
        s->mel = (struct audio_mel){.mels = d->mels,
                                    .fft = d->fft != 0 ? d->fft : 512,
                                    .window = d->window != 0 ? d->window : 400,
                                    .hop = d->hop != 0 ? d->hop : 160,
                                    .low = d->low,
                                    .high = d->high,
                                    .floor = d->floor != 0 ? d->floor : 1e-10f};
    rc = audio_check_spec(s, err);
    if (rc == 0)
        m->bytes = audio_bytes(s);
    return rc;
}

static bool tensor_type_of(uint32_t dtype, enum tensor_type *out)
{
    static const enum tensor_type types[] = {
        [DLC_U8] = TENSOR_U8,   [DLC_F32] = TENSOR_F32, [DLC_F16] = TENSOR_F16,
        [DLC_I32] = TENSOR_I32, [DLC_I64] = TENSOR_I64, [DLC_I8] = TENSOR_I8,
        [DLC_I16] = TENSOR_I16, [DLC_U16] = TENSOR_U16, [DLC_U32] = TENSOR_U32,
        [DLC_U64] = TENSOR_U64, [DLC_F64] = TENSOR_F64, [DLC_BOOL] = TENSOR_BOOL};

    if (dtype == 0 || dtype >= DLC_COUNT(types))
        return false;
    *out = types[dtype];
    return true;
}

static int init_tensor(struct decode_spec *m, const struct dlc_tensor *d, struct dlc_err *err)
{
    struct tensor_spec *s = &m->tensor;
    int rc;

    *s = (struct tensor_spec){.format = d->raw != 0 ? TENSOR_RAW : TENSOR_NPY, .n_dims = d->ndim};
    if (!tensor_type_of(d->dtype, &s->type) ||
        !tensor_type_of(d->stored != 0 ? d->stored : d->dtype, &s->stored) ||
        d->ndim > DLC_COUNT(d->shape))
        return dlc_err_set(err, DLC_EINVAL,
                           "a tensor of type %u, stored as %u, with %u dimensions: see enum "
                           "dlc_dtype; at most %zu dimensions",
                           d->dtype, d->stored, d->ndim, DLC_COUNT(d->shape));
    for (unsigned i = 0; i < d->ndim; i++)
        s->dims[i] = d->shape[i];
    rc = tensor_check_spec(s, err);
    if (rc == 0)
        m->bytes = tensor_bytes(s);
    return rc;
}

int decode_spec_init(struct decode_spec *m, const struct dlc_loader_spec *spec, struct dlc_err *err)
{
    *m = (struct decode_spec){.kind = (enum dlc_loader_kind)spec->kind, .seed = spec->order.seed};
    switch (m->kind) {
    case DLC_IMAGES: return init_image(m, &spec->image, err);
    case DLC_AUDIO: return init_audio(m, &spec->audio, err);
    case DLC_TENSORS: return init_tensor(m, &spec->tensor, err);
    default:
        return dlc_err_set(err, DLC_EINVAL, "a loader of kind %u: 1 images, 2 audio, 3 tensors",
                           spec->kind);
    }
}

/* ---- one sample ---- */

struct sample_decoder {
    const struct decode_spec *m;
    struct image_scratch *image;
    struct audio_scratch *audio;
};

struct sample_decoder *sample_decoder_new(const struct decode_spec *m)
{
    struct sample_decoder *k = mem_new(struct sample_decoder);

    k->m = m;
    if (m->kind == DLC_IMAGES)
        k->image = image_scratch_new();
    else if (m->kind == DLC_AUDIO)
        k->audio = audio_scratch_new();
    return k;
}

void sample_decoder_free(struct sample_decoder **mp)
{
    struct sample_decoder *k = *mp;

    *mp = NULL;
    if (k == NULL)
        return;
    image_scratch_free(&k->image);
    audio_scratch_free(&k->audio);
    mem_free(&k);
}

static int make_image(struct sample_decoder *k, enum sample_encoding input, const void *data,
                      size_t len, uint64_t key, void *out, struct dlc_err *err)
{
    const struct image_spec *s = &k->m->image;
    struct image_head head;
    struct image_plan plan;
    int rc = input == SAMPLE_DECODED ? image_decoded_head(data, len, &head, err)
                                     : image_read_head(data, len, s, &head, err);

    if (rc < 0)
        return rc;
    image_plan(s, key, head.width, head.height, &plan);
    return image_make(k->image, data, len, s, &head, &plan, out, err);
}

static int make_tensor(const struct tensor_spec *s, const void *data, size_t len,
                       const struct sample_part *part, void *out, struct dlc_err *err)
{
    struct tensor_rows rows;
    int rc = tensor_open(data, len, s, &rows, err);

    if (rc < 0)
        return rc;
    if (rows.count != part->count)
        return dlc_err_set(err, DLC_EINVAL, "it holds %llu tensors of this shape, not %llu",
                           (unsigned long long)rows.count, (unsigned long long)part->count);
    return tensor_make(&rows, s, part->row, 1, out, err);
}

uint64_t decode_spec_random_key(const struct decode_spec *m, uint64_t epoch, uint64_t sample,
                                uint64_t place)
{
    uint64_t key = image_key(m->seed, epoch, sample);

    return place == 0 ? key : image_key(key, place, 0);
}

int sample_decoder_run(struct sample_decoder *k, enum sample_encoding input, const void *data,
                       size_t len, uint64_t key, const struct sample_part *part, void *out,
                       uint32_t *length, struct dlc_err *err)
{
    const struct decode_spec *m = k->m;

    *length = 0;
    switch (m->kind) {
    case DLC_IMAGES: return make_image(k, input, data, len, key, out, err);
    case DLC_AUDIO: return audio_make(k->audio, data, len, &m->audio, key, out, length, err);
    case DLC_TENSORS: return make_tensor(&m->tensor, data, len, part, out, err);
    }
    return dlc_err_set(err, DLC_EINVAL, "a loader of no kind");
}

uint64_t decode_spec_decoded_key(const struct decode_spec *m)
{
    const struct image_spec *s = &m->image;
    const double told[] = {DECODED_VERSION,      s->crop,     s->width,    s->height,   s->resize,
                           s->scale[0],          s->scale[1], s->ratio[0], s->ratio[1], s->exact,
                           (double)s->max_pixels};

    return m->kind == DLC_IMAGES ? hash64(told, sizeof(told)) : 0;
}

bool sample_decoder_make_decoded(struct sample_decoder *k, struct decoded_policy *policy,
                                 const void *data, size_t len, uint64_t sample,
                                 struct decoded_sample *out)
{
    const struct image_spec *s = &k->m->image;
    struct image_head head;
    size_t bound;
    int64_t made;

    if (k->m->kind != DLC_IMAGES || !decoded_policy_wanted(policy) ||
        image_read_head(data, len, s, &head, NULL) < 0)
        return false;
    bound = image_decoded_bound(&head, s);
    if (!decoded_policy_reserve(policy, sample, bound, out))
        return false;
    made = image_decoded_make(k->image, data, len, s, &head, out->upload.data, bound, NULL);
    if (made < 0) {
        decoded_policy_put(policy, out);
        return false;
    }
    out->data = out->upload.data;
    out->len = (size_t)made;
    return true;
}
