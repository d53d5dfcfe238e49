// SPDX-License-Identifier: Apache-2.0
/*
 * Divides the memory of a node between its tenants: one pure function. Each tenant has a memory of
 * its own (docs/design/0013); this decides how large each may be.
 *
 * Below, `open` tenants are those with an open dataset, and a tenant wants MAX(demand, least).
 *
 * (TENANT-SHARES-1) The ceilings add up to at most `total`, and each is at least MIN(least, total /
 *                   n).
 * (TENANT-SHARES-2) An open tenant gets what it wants up to its guaranteed share, which is `total`,
 *                   less `least` for each tenant that is not open, divided by the number of open
 *                   tenants (where `total` is at least n times `least`). What the others want, have
 *                   or do does not matter.
 * (TENANT-SHARES-3) A tenant gets more than its guaranteed share only from what others do not want
 *                   (it borrows), and no open tenant gets more than another one that gets less than
 *                   it wants.
 * (TENANT-SHARES-4) What nobody wants stays with those who have it (`now`), so that no sample is
 *                   evicted for nothing, and the rest goes to the open tenants in equal parts:
 *                   nothing is left but a remainder of less than n bytes. One open tenant alone
 *                   gets everything.
 * (TENANT-SHARES-5) Equal tenants get equal ceilings; their order in the array does not matter.
 *
 * The work is quadratic in the number of tenants in the worst case, and does not depend on bytes or
 * samples.
 */
#ifndef DLC_CACHE_MEMORY_TENANT_SHARES_H
#define DLC_CACHE_MEMORY_TENANT_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tenant_share {
    bool open;
    uint64_t demand;  /* bytes: what it uses, and what it will use soon */
    uint64_t now;     /* its ceiling at present */
    uint64_t ceiling; /* the answer */
};

/* least: what a memory takes when it is empty. */
void tenant_shares_divide(uint64_t total, uint64_t least, struct tenant_share *s, size_t n);

/* The demand of a tenant that uses so much below such a ceiling, and whose datasets in use may bring
 * in so much more, of a node that has `total`. One that is full may have evicted what is not among
 * those (decoded samples, samples for peers): it asks for twice as much as it has. */
uint64_t tenant_demand(uint64_t used, uint64_t to_come, uint64_t ceiling, uint64_t total);

#endif
