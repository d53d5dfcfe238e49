// SPDX-License-Identifier: Apache-2.0
/* Two more bits of the first byte pick the compression. */
#include "fuzz_scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const keys[] = {"box.tar.gz", "box.tar.bz2", "box.tar.xz", "box.tar.zst"};

    return fuzz_scan(keys[size == 0 ? 0 : data[0] >> 1 & 3], data, size);
}
