// SPDX-License-Identifier: Apache-2.0
#include "loader/audio/kernels_body_i.h"

const struct audio_kernels audio_kernels_plain = {resample, mel};

const struct audio_kernels *audio_kernels_best(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        return &audio_kernels_avx2;
#endif
    return &audio_kernels_plain;
}
