// SPDX-License-Identifier: Apache-2.0
/*
 * Arbitrary bytes as npy or raw records. The first byte picks shape and type, the rest is the file.
 * Whatever comes: an error with a text, or rows that all lie in the bytes.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/err.h"
#include "base/mem.h"
#include "loader/tensor/tensor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void convert(const struct tensor_rows *rows, const struct tensor_spec *spec)
{
    void *out = mem_alloc(rows->count * tensor_bytes(spec) + 1);
    struct dlc_err err = DLC_ERR_INIT;
    int rc = tensor_make(rows, spec, 0, rows->count, out, &err);

    dlc_check(rc == 0 || (rc == DLC_EINVAL && err.text[0] != '\0'));
    mem_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t how = size > 0 ? data[0] : 0;
    struct tensor_spec spec = {.format = how & 1 ? TENSOR_RAW : TENSOR_NPY,
                               .stored = (enum tensor_type)(how / 2 % TENSOR_TYPES),
                               .type = (enum tensor_type)(how / 4 % TENSOR_OUTPUTS),
                               .n_dims = how / 64,
                               .dims = {2, 3, 1}};
    struct dlc_err err = DLC_ERR_INIT;
    struct tensor_rows rows;
    size_t each;
    int rc;

    if (size == 0)
        return 0;
    dlc_check(tensor_check_spec(&spec, &err) == 0);
    rc = tensor_open(data + 1, size - 1, &spec, &rows, &err);
    dlc_check(rc == 0 || (rc == err.code && err.text[0] != '\0'));
    if (rc != 0)
        return 0;
    each = tensor_bytes(&spec) / tensor_type_bytes(spec.type) * tensor_type_bytes(rows.stored);
    dlc_check(rows.count <= (size - 1) / each);
    dlc_check((const uint8_t *)rows.data + rows.count * each == data + size);
    convert(&rows, &spec);
    return 0;
}
