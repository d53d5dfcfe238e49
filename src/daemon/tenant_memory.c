// SPDX-License-Identifier: Apache-2.0
#include "daemon/tenant_memory.h"

#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/syscalls.h"
#include "cache/memory/tenant_shares.h"

/* Addresses for segments: each is as large as the node's could ever be, and a process has 128 TiB.
 */
#define ADDRESSES ((uint64_t)64 << 40)
#define RESERVED  16                /* a later segment takes at most 1/16 of what is left */
#define DUMP_MAX  ((size_t)1 << 20) /* bytes: it is one message, made by the loop */

static struct tenant_memory *of_link(struct dlc_list *l)
{
    return dlc_container(l, struct tenant_memory, link);
}

/* ---- division ---- */

/* Page and header of an empty one, as memory_new() has it at the least. */
static uint64_t least_ceiling(void)
{
    return DLC_ALIGN_UP((uint64_t)SHM_HDR_SIZE, os_page_size()) + os_page_size();
}

void tenant_memories_divide(struct tenant_memories *t) /* (TENANT-MEMORY-2) */
{
    struct tenant_share s[TENANT_MEMORIES_MAX];
    struct memory_figures f;
    unsigned i = 0;

    if (t->n == 1) { /* what it uses does not matter */
        memory_set_ceiling(of_link(t->all.next)->memory, t->ceiling);
        return;
    }
    dlc_list_each (l, &t->all) {
        memory_figures(of_link(l)->memory, &f);
        s[i++] = (struct tenant_share){
            .open = of_link(l)->users > 0,
            .demand =
                tenant_demand(f.used, memory_to_come(of_link(l)->memory), f.ceiling, t->ceiling),
            .now = f.ceiling};
    }
    tenant_shares_divide(t->ceiling, least_ceiling(), s, i);
    for (int raise = 0; raise < 2; raise++) {
        i = 0;
        dlc_list_each (l, &t->all) {
            if ((s[i].ceiling > s[i].now) == raise)
                memory_set_ceiling(of_link(l)->memory, s[i].ceiling);
            i++;
        }
    }
}

void tenant_memories_set_ceiling(struct tenant_memories *t, uint64_t bytes)
{
    if (bytes == t->ceiling)
        return;
    t->ceiling = bytes;
    tenant_memories_divide(t);
}

/* ---- life ---- */

void tenant_memories_init(struct tenant_memories *t, uint64_t max, uint64_t ceiling,
                          const struct policy_ops *policy)
{
    uint64_t page = os_page_size();

    max = DLC_MAX(max / page * page, least_ceiling());
    *t = (struct tenant_memories){.max = max, .ceiling = DLC_MIN(ceiling, max), .policy = policy};
    dlc_list_init(&t->all);
}

static void release(struct tenant_memories *t, struct tenant_memory *m)
{
    dlc_check(m->users == 0 && dlc_list_empty(&m->unused));
    dlc_list_remove(&m->link);
    t->n--;
    memory_free(&m->memory);
    mem_free(&m->tenant);
    mem_free(&m);
}

void tenant_memories_free(struct tenant_memories *t)
{
    while (t->n > 0)
        release(t, of_link(t->all.next));
}

/* Of the segment of one more. */
static uint64_t max_of_next(const struct tenant_memories *t)
{
    uint64_t taken = 0;

    dlc_list_each (l, &t->all)
        taken += memory_size(of_link(l)->memory);
    return t->n == 0 ? t->max : DLC_MIN(t->max, (ADDRESSES - DLC_MIN(taken, ADDRESSES)) / RESERVED);
}

static int make(struct tenant_memories *t, const char *tenant, struct tenant_memory **out,
                struct dlc_err *err)
{
    struct tenant_memory *m;
    struct memory *memory;
    char size[24];
    int rc;

    if (t->n >= TENANT_MEMORIES_MAX || (t->n > 0 && t->ceiling / (t->n + 1) < TENANT_MEMORY_MIN))
        return dlc_err_set(err, DLC_EBUSY,
                           "%u tenants share %s of memory here, and another one would get too "
                           "little: close datasets of others, or give the daemon more --memory",
                           t->n, str_size(t->ceiling, size));
    rc = memory_new(max_of_next(t), t->n == 0 ? t->ceiling : 0, &memory, err);
    if (rc < 0)
        return rc;
    memory_set_owner(memory);
    if (t->policy != NULL)
        memory_set_policy(memory, t->policy, &t->policy_options);
    memory_beat(memory);
    if (t->closing)
        memory_set_closing(memory);
    m = mem_new(struct tenant_memory);
    m->tenant = mem_str(tenant);
    m->memory = memory;
    dlc_list_init(&m->room.demand);
    dlc_list_init(&m->room.prefetch);
    dlc_list_init(&m->unused);
    dlc_list_push_tail(&t->all, &m->link);
    t->n++;
    *out = m;
    return 0;
}

int tenant_memory_get(struct tenant_memories *t, const char *tenant, struct tenant_memory **out,
                      struct dlc_err *err)
{
    struct tenant_memory *m = NULL;
    int rc = 0;

    *out = NULL;
    dlc_list_each (l, &t->all)
        if (strcmp(of_link(l)->tenant, tenant) == 0)
            m = of_link(l);
    if (m == NULL)
        rc = make(t, tenant, &m, err);
    if (rc < 0)
        return rc;
    if (m->users++ == 0)
        tenant_memories_divide(t); /* at once: what others have to give back takes its time */
    *out = m;
    return 0;
}

void tenant_memory_put(struct tenant_memory **mp)
{
    struct tenant_memory *m = *mp;

    *mp = NULL;
    if (m == NULL)
        return;
    dlc_check(m->users > 0);
    m->users--; /* (TENANT-MEMORY-3): tenant_memories_free_some() does the rest */
}

/* ---- all of them ---- */

void tenant_memories_tick(struct tenant_memories *t)
{
    dlc_list_each (l, &t->all) {
        memory_beat(of_link(l)->memory);
        memory_tick(of_link(l)->memory);
    }
    if (t->n > 1)
        tenant_memories_divide(t);
}

/* (TENANT-MEMORY-3) */
static bool is_empty(const struct tenant_memory *m)
{
    struct memory_figures f;

    if (m->users > 0)
        return false;
    memory_figures(m->memory, &f);
    return f.used == 0;
}

bool tenant_memories_free_some(struct tenant_memories *t)
{
    for (unsigned i = t->n; i > 0; i--) {
        struct tenant_memory *m = of_link(dlc_list_pop_head(&t->all));

        dlc_list_push_tail(&t->all, &m->link); /* each in its turn */
        if (memory_free_some(m->memory))
            return true;
        if (is_empty(m)) {
            release(t, m);
            tenant_memories_divide(t);
        }
    }
    return false;
}

bool tenant_memories_room_is_coming(const struct tenant_memories *t)
{
    dlc_list_each (l, &t->all)
        if (memory_room_is_coming(of_link(l)->memory))
            return true;
    return false;
}

void tenant_memories_give_back(struct tenant_memories *t)
{
    dlc_list_each (l, &t->all)
        memory_give_back(of_link(l)->memory);
}

void tenant_memories_set_closing(struct tenant_memories *t)
{
    t->closing = true;
    dlc_list_each (l, &t->all)
        memory_set_closing(of_link(l)->memory);
}

void tenant_memories_figures(const struct tenant_memories *t, struct memory_figures *out)
{
    *out = (struct memory_figures){.max = t->max, .ceiling = t->ceiling};
    dlc_list_each (l, &t->all) {
        struct memory_figures f;

        memory_figures(of_link(l)->memory, &f);
        if (t->n == 1)
            out->ceiling = f.ceiling; /* where it is by now */
        out->used += f.used;
        out->retired += f.retired;
        out->residents += f.residents;
        out->decoded += f.decoded;
        out->decoded_bytes += f.decoded_bytes;
        out->populated += f.populated;
        out->largest_free = DLC_MAX(out->largest_free, f.largest_free);
    }
}

void tenant_memories_dump(const struct tenant_memories *t, struct buf *out)
{
    dlc_list_each (l, &t->all) {
        if (out->len > DUMP_MAX) {
            buf_addf(out, "... and more tenants: there are %u in all\n", t->n);
            break;
        }
        if (t->n > 1)
            buf_addf(out, "tenant \"%s\"\n", of_link(l)->tenant);
        memory_dump(of_link(l)->memory, out);
    }
}
