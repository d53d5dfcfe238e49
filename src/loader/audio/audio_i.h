// SPDX-License-Identifier: Apache-2.0
/* For tests: a scratch that uses other kernels than the best ones. */
#ifndef DLC_LOADER_AUDIO_AUDIO_I_H
#define DLC_LOADER_AUDIO_AUDIO_I_H

struct audio_kernels;
struct audio_scratch;

void audio_scratch_use(struct audio_scratch *s, const struct audio_kernels *k);

#endif
