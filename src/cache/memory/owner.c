// SPDX-License-Identifier: Apache-2.0
/*
 * Clients learn from the segment that the daemon's thread has ended, also when it was killed: the
 * kernel walks the robust list of a thread that ends and sets SHM_OWNER_DIED in the futex of each
 * entry. One thread may own several memories (one for each tenant), so they form one list.
 *
 * A list has one distance from entries to futexes. The entries are pointers, which clients must not
 * see (they tell where the daemon's memory lies), so an entry cannot be in the segment, beside its
 * futex. Each memory has two adjacent pages instead: a private one with the entry, then a second
 * mapping of the segment's first page.
 *
 *     pages: | entry ...        | header of the segment, with the futex `owner` |
 *
 * (OWNER-1) The list can be walked at any moment, since the thread may be killed at any moment: an
 *           entry is complete before it is linked, and is unlinked by one store.
 * (OWNER-2) libc's own list of the thread, which has robust mutexes, is out of use while there is
 *           ours: the thread must not lock any.
 */
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "base/check.h"
#include "base/syscalls.h"
#include "cache/memory/memory_i.h"

#define PAGE ((size_t)os_page_size())

static _Thread_local struct robust_list_head owned; /* empty: list.next is NULL or itself */
static _Thread_local struct robust_list_head *libc_list;

static bool none_owned(void)
{
    return owned.list.next == NULL || owned.list.next == &owned.list;
}

/* 0: the kernel walks our list. */
static int begin_list(void)
{
    size_t len;

    if (os_get_robust_list(&libc_list, &len) < 0)
        return -1;
    owned.list.next = &owned.list;
    owned.futex_offset = (long)(PAGE + offsetof(struct shm_segment_hdr, owner));
    return os_set_robust_list(&owned);
}

/* Written by us, read by the kernel when this thread ends: (OWNER-1). */
static void link_to(struct robust_list *from, struct robust_list *to)
{
    atomic_signal_fence(memory_order_seq_cst);
    *(struct robust_list *volatile *)&from->next = to;
    atomic_signal_fence(memory_order_seq_cst);
}

void memory_set_owner(struct memory *m)
{
    struct shm_segment_hdr *h = extents_header(&m->extents);
    char *pages;

    dlc_check(m->owner_entry == NULL);
    if (none_owned() && begin_list() < 0)
        return; /* then clients notice by the socket, when they next look at it */
    pages = os_map_private(2 * PAGE);
    if (pages != NULL && os_map_again(h, PAGE, pages + PAGE) == NULL) {
        os_unmap(pages, 2 * PAGE);
        pages = NULL;
    }
    if (pages == NULL) {
        if (none_owned())
            os_set_robust_list(libc_list);
        return;
    }
    m->owner_entry = (struct robust_list *)pages;
    m->owner_entry->next = owned.list.next;
    atomic_store_explicit(&h->owner, (uint32_t)gettid(), memory_order_relaxed); /* R clients */
    link_to(&owned.list, m->owner_entry);
}

void memory_end_owner(struct memory *m)
{
    struct shm_segment_hdr *h = extents_header(&m->extents);
    struct robust_list *before = &owned.list;

    if (m->owner_entry == NULL)
        return;
    while (before->next != m->owner_entry) {
        before = before->next;
        dlc_check(before != &owned.list); /* another thread owns it */
    }
    link_to(before, m->owner_entry->next);
    if (none_owned())
        os_set_robust_list(libc_list);
    os_unmap(m->owner_entry, 2 * PAGE);
    m->owner_entry = NULL;
    atomic_store_explicit(&h->owner, SHM_OWNER_DIED, memory_order_relaxed); /* R clients */
}
