// SPDX-License-Identifier: Apache-2.0
/*
 * How much of a memory the pins of one user may take, where several users share it (--allow-uid).
 * Pins cannot be refused: a reader sets them in shared memory and tells nobody. What can be refused
 * is new samples, and room for them must be there when somebody pins all that is in memory at once.
 *
 * (USER-PINS-1) While another user than the daemon's has a session, at most 7/8 of the ceiling are
 *               filled, except for readers of a user (and the owner is one) beside whom all others
 *               pin more than 3/4: they find 1/8 of the ceiling beyond those pins. So a user who
 *               pins whatever it has brought in leaves the others 1/8, and they evict each other's
 *               samples there.
 * (USER-PINS-2) A user whose samples would not fit beside all pins evicts nothing: its readers go to
 *               the bucket until it, or another, lets go.
 *
 * Nobody's fetches (queued prefetches, warm-ups, peers) never get the last eighth, since any client
 * can cause them. Pins are counted by passes over all sessions (pin_scan.c), so the figures are those
 * of the last one. A sample counts once for each user, however many of its sessions pin it: sessions
 * of one user are neighbours in the scan, so it is enough to know who was seen last.
 */
#include "base/mem.h"
#include "cache/memory/memory_i.h"

#define KEPT_SHIFT 3 /* of the ceiling */

void user_pins_release(struct memory *m)
{
    dlc_check(m->users.n == 0 && m->owner.n_sessions == 0);
    map_release(&m->users);
}

static struct mem_user *user_of(struct memory *m, uint64_t id)
{
    struct mem_user *u = id == MEM_OWNER ? &m->owner : map_get(&m->users, id);

    if (u != NULL)
        return u;
    u = mem_new(struct mem_user);
    m->last_number = m->last_number == UINT16_MAX ? 1 : m->last_number + 1;
    *u = (struct mem_user){.id = id, .number = m->last_number};
    map_set(&m->users, id, u);
    return u;
}

void user_join(struct mem_session *s, uint64_t user)
{
    dlc_check(user != MEM_NOBODY);
    s->user = user_of(s->x->m, user);
    s->user->n_sessions++;
}

void user_leave(struct mem_session *s)
{
    struct mem_user *u = s->user;

    s->user = NULL;
    if (--u->n_sessions > 0 || u->id == MEM_OWNER)
        return;
    map_remove(&s->x->m->users, u->id);
    mem_free(&u);
}

/* ---- what is pinned ---- */

static void pin_sum_add(struct pin_sum *p, uint64_t pass, uint64_t bytes)
{
    if (p->now.pass != pass) {
        p->before = p->now;
        p->now.pass = pass;
        p->now.bytes = 0;
    }
    p->now.bytes += bytes;
}

static uint64_t pin_sum_of(const struct pin_sum *p, uint64_t pass)
{
    if (p->now.pass == pass)
        return p->now.bytes;
    return p->before.pass == pass ? p->before.bytes : 0;
}

void user_pins_seen(struct mem_session *s, uint64_t bytes, uint64_t seen, uint16_t seen_by)
{
    struct pin_scan *p = &s->x->m->scan;

    if (seen != p->pass)
        pin_sum_add(&p->pinned, p->pass, bytes);
    if (seen != p->pass || seen_by != s->user->number)
        pin_sum_add(&s->user->pinned, p->pass, bytes);
}

uint64_t user_pins_total(const struct memory *m)
{
    return pin_sum_of(&m->scan.pinned, m->scan.advice);
}

static uint64_t pinned_beside(const struct memory *m, uint64_t user)
{
    const struct mem_user *u = user == MEM_OWNER ? &m->owner : map_get(&m->users, user);
    uint64_t own = u != NULL ? pin_sum_of(&u->pinned, m->scan.advice) : 0;
    uint64_t all = user_pins_total(m);

    return all - DLC_MIN(own, all);
}

/* ---- limits ---- */

uint64_t memory_usable(const struct memory *m)
{
    uint64_t ceiling = m->arena.ceiling;

    return m->users.n == 0 ? ceiling : ceiling - (ceiling >> KEPT_SHIFT);
}

/* (USER-PINS-1) */
uint64_t user_pins_limit(const struct memory *m, uint64_t user)
{
    uint64_t ceiling = m->arena.ceiling, usable = memory_usable(m);

    if (m->users.n == 0)
        return UINT64_MAX;
    if (user == MEM_NOBODY)
        return usable;
    return DLC_MAX(usable, DLC_MIN(ceiling, pinned_beside(m, user) + (ceiling >> KEPT_SHIFT)));
}
