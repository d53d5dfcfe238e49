// SPDX-License-Identifier: Apache-2.0
#include "loader/audio/decode_i.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <sndfile.h>

#include "base/check.h"
#include "base/err.h"
#include "base/mem.h"
#include "loader/audio/audio.h"
#include "loader/audio/ogg_check_i.h"

#define BLOCK_FLOATS 16384u
#define STREAMED     0x7f000000u /* a RIFF of this length or more: its writer did not know */
#define LOUDEST      1e30f       /* no sum of samples overflows (AUDIO-5) */

/* libsndfile's view of the bytes. */

static sf_count_t on_length(void *user)
{
    return (sf_count_t)((struct sound *)user)->len;
}

static sf_count_t on_tell(void *user)
{
    return (sf_count_t)((struct sound *)user)->pos;
}

static sf_count_t on_seek(sf_count_t offset, int whence, void *user)
{
    struct sound *s = user;
    sf_count_t base = 0, to;

    if (whence == SEEK_CUR)
        base = (sf_count_t)s->pos;
    else if (whence == SEEK_END)
        base = (sf_count_t)s->len;
    if (__builtin_add_overflow(base, offset, &to) || to < 0)
        return -1;
    s->pos = DLC_MIN((size_t)to, s->len);
    return (sf_count_t)s->pos;
}

static sf_count_t on_read(void *out, sf_count_t n, void *user)
{
    struct sound *s = user;
    size_t left = s->len - s->pos, some = n < 0 ? 0 : DLC_MIN((size_t)n, left);

    memcpy(out, s->data + s->pos, some);
    s->pos += some;
    return (sf_count_t)some;
}

static sf_count_t on_write(const void *data, sf_count_t n, void *user)
{
    (void)data;
    (void)n;
    (void)user;
    return 0;
}

static SF_VIRTUAL_IO memory_io = {on_length, on_seek, on_read, on_write, on_tell};

static bool begins(const struct sound *s, const char *magic)
{
    return s->len >= 12 && memcmp(s->data, magic, 4) == 0;
}

static int check_pages(const struct sound *s, struct dlc_err *err)
{
    const char *wrong = ogg_check(s->data, s->len);

    return wrong == NULL
               ? 0
               : dlc_err_set(err, DLC_ECORRUPT,
                             "is an OGG file that is damaged or was cut short: %s", wrong);
}

static int check_bytes(const struct sound *s, struct dlc_err *err)
{
    uint32_t riff;

    if (begins(s, "fLaC") || begins(s, "RF64"))
        return 0;
    if (begins(s, "OggS"))
        return check_pages(s, err);
    if (!begins(s, "RIFF") || memcmp(s->data + 8, "WAVE", 4) != 0)
        return dlc_err_set(
            err, DLC_EINVAL,
            "is not audio in WAV, FLAC or OGG: %zu bytes that do not begin as one does", s->len);
    riff = s->data[4] | (uint32_t)s->data[5] << 8 | (uint32_t)s->data[6] << 16 |
           (uint32_t)s->data[7] << 24;
    if (riff < STREAMED && riff > s->len - 8 + 1) /* some count a last odd byte's padding */
        return dlc_err_set(err, DLC_ECORRUPT,
                           "was cut short: its WAV header says %" PRIu32
                           " bytes and more, there are %zu",
                           riff, s->len);
    return 0;
}

static bool known_codec(int format, bool *whole)
{
    switch (format & SF_FORMAT_SUBMASK) {
    case SF_FORMAT_PCM_S8:
    case SF_FORMAT_PCM_U8:
    case SF_FORMAT_PCM_16:
    case SF_FORMAT_PCM_24:
    case SF_FORMAT_PCM_32:
    case SF_FORMAT_ULAW:
    case SF_FORMAT_ALAW: *whole = true; return true;
    case SF_FORMAT_FLOAT:
    case SF_FORMAT_DOUBLE:
    case SF_FORMAT_VORBIS:
    case SF_FORMAT_OPUS: *whole = false; return true;
    default: return false;
    }
}

static bool known_container(int format)
{
    int type = format & SF_FORMAT_TYPEMASK;

    return type == SF_FORMAT_WAV || type == SF_FORMAT_WAVEX || type == SF_FORMAT_RF64 ||
           type == SF_FORMAT_FLAC || type == SF_FORMAT_OGG;
}

/* What the header says, against what we are ready for. */
static int check_info(struct sound *s, const SF_INFO *info, uint64_t max_frames,
                      struct dlc_err *err)
{
    if (!known_container(info->format) || !known_codec(info->format, &s->whole))
        return dlc_err_set(err, DLC_EINVAL,
                           "is a sound in a codec that is not read here (libsndfile's format "
                           "0x%x); convert it to FLAC or PCM",
                           (unsigned)info->format);
    if (info->channels < 1 || info->channels > AUDIO_CHANNELS_MAX)
        return dlc_err_set(err, DLC_ECORRUPT, "says it has %d channels, which cannot be",
                           info->channels);
    if (info->samplerate < 1 || (uint32_t)info->samplerate > AUDIO_RATE_MAX)
        return dlc_err_set(err, DLC_ECORRUPT, "says its rate is %d Hz, which cannot be",
                           info->samplerate);
    if (info->frames < 1)
        return dlc_err_set(err, DLC_ECORRUPT, "has no frames; it is empty or damaged");
    s->channels = (uint32_t)info->channels;
    s->rate = (uint32_t)info->samplerate;
    s->frames = info->frames == SF_COUNT_MAX ? UINT64_MAX : (uint64_t)info->frames;
    if (s->frames != UINT64_MAX && s->frames > max_frames)
        return dlc_err_set(err, DLC_EINVAL,
                           "is %" PRIu64 " frames long, more than the limit of %" PRIu64
                           "; if that is right, raise max_frames",
                           s->frames, max_frames);
    return 0;
}

int sound_open(struct sound *s, const void *data, size_t len, uint64_t max_frames,
               struct dlc_err *err)
{
    SF_INFO info = {0};
    int rc;

    *s = (struct sound){.data = data, .len = len};
    rc = check_bytes(s, err);
    if (rc != 0)
        return rc;
    s->file = sf_open_virtual(&memory_io, SFM_READ, &info, s);
    if (s->file == NULL)
        return dlc_err_set(err, DLC_ECORRUPT, "cannot be opened as a sound: %s",
                           sf_error_number(sf_error(NULL)));
    rc = check_info(s, &info, max_frames, err);
    if (rc != 0)
        sound_close(s);
    return rc;
}

void sound_close(struct sound *s)
{
    if (s->file != NULL) /* else it was never opened */
        sf_close(s->file);
    s->file = NULL;
}

int sound_seek(struct sound *s, uint64_t frame, struct dlc_err *err)
{
    if (frame != 0 && sf_seek(s->file, (sf_count_t)frame, SEEK_SET) != (sf_count_t)frame)
        return dlc_err_set(err, DLC_ECORRUPT, "is damaged before frame %" PRIu64 ": %s", frame,
                           sf_strerror(s->file));
    return 0;
}

/* Frames as they are stored, into memory for n of them. */
static int read_frames(struct sound *s, float *out, size_t n, size_t *got, struct dlc_err *err)
{
    sf_count_t there = sf_readf_float(s->file, out, (sf_count_t)n);

    *got = there < 0 ? 0 : (size_t)there;
    if (sf_error(s->file) != SF_ERR_NO_ERROR)
        return dlc_err_set(err, DLC_ECORRUPT, "is damaged: %s", sf_strerror(s->file));
    if (*got < n && s->frames != UINT64_MAX)
        return dlc_err_set(err, DLC_ECORRUPT,
                           "says it is %" PRIu64
                           " frames long and ends before; it is damaged or was cut short",
                           s->frames);
    if (s->whole)
        return 0;
    for (size_t i = 0, end = *got * s->channels; i < end; i++)
        if (!(out[i] >= -LOUDEST && out[i] <= LOUDEST))
            return dlc_err_set(err, DLC_ECORRUPT,
                               "has a sample of %g, where 1 is loud; it is damaged",
                               (double)out[i]);
    return 0;
}

static void take_mean(const float *in, size_t n, uint32_t channels, float *out)
{
    float by = (float)channels;

    if (channels == 2) {
        for (size_t i = 0; i < n; i++)
            out[i] = (in[2 * i] + in[2 * i + 1]) / 2;
        return;
    }
    for (size_t i = 0; i < n; i++, in += channels) {
        float sum = in[0];

        for (uint32_t c = 1; c < channels; c++)
            sum += in[c];
        out[i] = sum / by;
    }
}

static void take_plane(const float *in, size_t n, uint32_t channels, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = in[i * channels];
}

static int make_block(struct sound_block *b, size_t floats, struct dlc_err *err)
{
    if (b->cap >= floats)
        return 0;
    mem_free(&b->data);
    b->cap = 0;
    b->data = mem_try_alloc(floats * sizeof(float));
    if (b->data == NULL)
        return dlc_err_set(err, DLC_ENOMEM, "no memory to decode %zu samples at once", floats);
    b->cap = floats;
    return 0;
}

/* Block by block: decoded together, told apart. */
static int read_apart(struct sound *s, struct sound_block *b, size_t n, bool mean, uint32_t planes,
                      float *out, size_t stride, size_t *got, struct dlc_err *err)
{
    size_t step = DLC_MAX(BLOCK_FLOATS / s->channels, 1u), some;
    int rc = make_block(b, step * s->channels, err);

    for (*got = 0; rc == 0 && *got < n; *got += some) {
        size_t ask = DLC_MIN(step, n - *got);

        rc = read_frames(s, b->data, ask, &some, err);
        if (rc != 0 || some == 0)
            break;
        if (mean)
            take_mean(b->data, some, s->channels, out + *got);
        else
            for (uint32_t c = 0; c < DLC_MIN(planes, s->channels); c++)
                take_plane(b->data + c, some, s->channels, out + c * stride + *got);
    }
    return rc;
}

int sound_read(struct sound *s, struct sound_block *b, size_t n, bool mean, uint32_t planes,
               float *out, size_t stride, size_t *got, struct dlc_err *err)
{
    int rc;

    dlc_check(planes >= 1 && (!mean || planes == 1));
    if (s->channels == 1)
        rc = read_frames(s, out, n, got, err);
    else
        rc = read_apart(s, b, n, mean, planes, out, stride, got, err);
    if (rc == 0 && *got == 0)
        rc = dlc_err_set(err, DLC_ECORRUPT, "has no frames; it is empty or damaged");
    for (uint32_t c = s->channels; rc == 0 && c < planes; c++)
        memcpy(out + c * stride, out + (c - 1) * stride, *got * sizeof(float));
    return rc;
}
