// SPDX-License-Identifier: Apache-2.0
#include "loader/table_rows_i.h"

#include "base/mem.h"

/* Bytes before the first row, and of a row, as the first partition has them. */
static int read_first(struct dlc_dataset *ds, const struct tensor_spec *s, uint64_t first,
                      uint64_t *head, uint64_t *each, struct dlc_err *err)
{
    struct tensor_rows rows;
    struct dlc_view v;
    int rc = dlc_get(ds, first, &v);

    if (rc < 0)
        return dlc_err_set(err, rc, "%s", dlc_last_error());
    rc = tensor_open(v.data, v.len, s, &rows, err);
    if (rc == 0) {
        *head = (uint64_t)((const char *)rows.data - (const char *)v.data);
        *each = tensor_type_bytes(rows.stored);
        for (uint32_t i = 0; i < s->n_dims; i++)
            *each *= s->dims[i];
    }
    dlc_put(ds, &v);
    return rc;
}

int rows_init(struct rows *r, struct dlc_dataset *ds, const struct decode_spec *m, uint64_t first,
              uint64_t n, struct dlc_err *err)
{
    uint64_t head = 0, each = 1, sum = 0;
    int rc = read_first(ds, &m->tensor, first, &head, &each, err);

    if (rc < 0)
        return rc;
    *r = (struct rows){.first = first, .n = n, .starts = mem_try_alloc((n + 1) * sizeof(uint64_t))};
    if (r->starts == NULL) {
        r->n = 0;
        return dlc_err_set(err, DLC_ENOMEM, "no memory for %llu tables", (unsigned long long)n);
    }
    for (uint64_t i = 0; i < n; i++) {
        int64_t size = dlc_size(ds, first + i);

        r->starts[i] = sum;
        if (size > (int64_t)head)
            sum += ((uint64_t)size - head) / each;
    }
    r->starts[n] = sum;
    return 0;
}

void rows_release(struct rows *r)
{
    mem_free(&r->starts);
    r->n = 0;
}

struct sample_part rows_find(const struct rows *r, uint64_t number)
{
    uint64_t low = 0, high = r->n; /* starts[low] <= number < starts[high] */

    if (r->n == 0)
        return (struct sample_part){number, 0, 1};
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;

        if (r->starts[middle] <= number)
            low = middle;
        else
            high = middle;
    }
    return (struct sample_part){r->first + low, number - r->starts[low],
                                r->starts[low + 1] - r->starts[low]};
}
