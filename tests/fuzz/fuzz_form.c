// SPDX-License-Identifier: Apache-2.0
/* Arbitrary bytes as a form that was handed over: it is sound only if it is what decoded_seal()
 * would have written. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "cache/decoded/decoded_header.h"
#include "ipc/shm.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char *form = mem_alloc(size + 1), *again = mem_alloc(size + 1);
    struct shm_decoded_hdr h = {0};

    memcpy(form, data, size);
    memcpy(again, data, size);
    memcpy(&h, data, size < sizeof(h) ? size : sizeof(h));
    dlc_check(!decoded_is_sound(form, size, h.sample + 1));
    if (decoded_is_sound(form, size, h.sample)) {
        dlc_check(size >= sizeof(h) && decoded_is_for(form, size, h.sample, h.policy));
        decoded_seal(again, h.sample, h.policy, size - sizeof(h));
        dlc_check(memcmp(form, again, offsetof(struct shm_decoded_hdr, reserved)) == 0);
    } else if (size >= sizeof(h)) { /* and any bytes can be sealed */
        decoded_seal(form, h.sample, h.policy, size - sizeof(h));
        dlc_check(decoded_is_sound(form, size, h.sample));
    }
    mem_free(&form);
    mem_free(&again);
    return 0;
}
