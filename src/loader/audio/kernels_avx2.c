// SPDX-License-Identifier: Apache-2.0
/* Compiled with -mavx2, without fused multiply-add: it would round otherwise than kernels.c does.
 */
#include "loader/audio/kernels_body_i.h"

const struct audio_kernels audio_kernels_avx2 = {resample, mel};
