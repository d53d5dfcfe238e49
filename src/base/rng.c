// SPDX-License-Identifier: Apache-2.0
#include "base/rng.h"

#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"

uint64_t rng_seed(void)
{
    uint64_t seed;

    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
        seed = (uint64_t)dlc_mono_now().ns ^ (uint64_t)getpid() << 48;
    return seed;
}
