// SPDX-License-Identifier: Apache-2.0
#include "order/next_use_index.h"

#include <inttypes.h>

#include "base/mem.h"
#include "order/permutation.h"

static int check_list(const uint64_t *list, uint64_t length, uint64_t n, struct dlc_err *err)
{
    if (length > UINT32_MAX || n > PERMUTATION_MAX)
        return dlc_err_set(err, DLC_EINVAL,
                           "explicit order of %" PRIu64 " positions over %" PRIu64
                           " samples: at most 2^32 - 1 positions and 2^40 samples are possible; "
                           "hand it over in parts",
                           length, n);
    for (uint64_t k = 0; k < length; k++)
        if (list[k] >= n)
            return dlc_err_set(err, DLC_EINVAL,
                               "explicit order, position %" PRIu64 ": sample %" PRIu64
                               " does not exist; the dataset has %" PRIu64,
                               k, list[k], n);
    return 0;
}

/* While positions are filled in, at[s] is where the next use of s goes; in the end that is where
 * the uses of s + 1 begin, and at[s] is starts[s + 1]. */
static void sort_by_counting(struct order_index *ix)
{
    uint32_t *at = ix->starts + 1;
    uint32_t sum = 0;

    for (uint64_t k = 0; k < ix->length; k++)
        at[ix->list[k]]++;
    for (uint64_t s = 0; s < ix->n; s++) {
        uint32_t uses = at[s];

        at[s] = sum;
        sum += uses;
    }
    for (uint64_t k = 0; k < ix->length; k++)
        ix->positions[at[ix->list[k]]++] = (uint32_t)k;
}

int order_index_init(struct order_index *ix, const uint64_t *list, uint64_t length, uint64_t n,
                     struct dlc_err *err)
{
    int rc;

    *ix = (struct order_index)ORDER_INDEX_INIT;
    rc = check_list(list, length, n, err);
    if (rc < 0)
        return rc;
    *ix = (struct order_index){.list = list, .length = length, .n = n};
    ix->starts = mem_try_zero((n + 1) * sizeof(*ix->starts));
    ix->positions = mem_try_alloc((length + 1) * sizeof(*ix->positions));
    if (ix->starts == NULL || ix->positions == NULL) {
        order_index_release(ix);
        return dlc_err_set(err, DLC_ENOMEM,
                           "no memory for the index of an explicit order of %" PRIu64
                           " positions over %" PRIu64 " samples",
                           length, n);
    }
    sort_by_counting(ix);
    return 0;
}

void order_index_release(struct order_index *ix)
{
    mem_free(&ix->starts);
    mem_free(&ix->positions);
    *ix = (struct order_index)ORDER_INDEX_INIT;
}

uint64_t order_index_next(const struct order_index *ix, uint64_t s, uint64_t from)
{
    uint32_t lo, hi, end;

    if (s >= ix->n)
        return UINT64_MAX;
    lo = ix->starts[s];
    hi = end = ix->starts[s + 1];
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (ix->positions[mid] < from)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < end ? ix->positions[lo] : UINT64_MAX;
}
