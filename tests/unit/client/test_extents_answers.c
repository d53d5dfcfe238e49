// SPDX-License-Identifier: Apache-2.0
/* Extents that the daemon hands over: what is not one of its own is not mapped. The test plays the
 * daemon, and its answers lie in the socket before it is asked. */
#include "proc_self.h"

#include <malloc.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "base/syscalls.h"
#include "client/attach.h"
#include "client/extents.h"
#include "ipc/frame.h"

#define SHIFT   16u
#define ONE     ((uint64_t)1 << SHIFT)
#define EXTENTS 4u
#define LAST    4096u /* bytes of the last one */
#define NAME    "test-extent"

struct world {
    char *header; /* and the table of generations */
    struct shm_slot slots[3];
    struct attachment a;
    struct shm_session_hdr session;
    int end;
    struct dlc_err err;
};

static struct shm_segment_hdr *header_of(struct world *w)
{
    return (struct shm_segment_hdr *)(void *)w->header;
}

static void place(struct world *w, unsigned slot, uint64_t offset, uint32_t len)
{
    atomic_store(&w->slots[slot].where, shm_where_make(SHM_READY, offset, 1));
    atomic_store(&w->slots[slot].len, len);
}

/* Sample 0 lies in extent 0, sample 1 in extents 1 and 2, sample 2 in the short one at the end. */
static int setup(void **state)
{
    struct world *w = test_calloc(1, sizeof(*w));
    struct shm_segment_hdr *h;
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    w->header = mem_zero(SHM_HDR_SIZE + EXTENTS * sizeof(uint32_t));
    h = header_of(w);
    h->size = (EXTENTS - 1) * ONE + LAST;
    h->extent_shift = SHIFT;
    h->n_extents = EXTENTS;
    for (uint32_t k = 0; k < EXTENTS; k++)
        atomic_store(&shm_generations(h)[k], 10 + k);
    w->a.header = h;
    w->a.header_size = SHM_HDR_SIZE + EXTENTS * sizeof(uint32_t);
    w->a.session = &w->session;
    w->a.slots = w->slots;
    w->a.n = 3;
    w->a.sock = fds[0];
    w->end = fds[1];
    dlc_mtx_init(&w->a.rpc, LCK_rpc);
    assert_int_equal(extents_attach(&w->a, NULL), 0);
    place(w, 0, SHM_HDR_SIZE, 100);
    place(w, 1, 2 * ONE - 64, 128);
    place(w, 2, 3 * ONE, LAST);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    os_unmap(w->a.segment, w->a.segment_size);
    mem_free(&w->a.mapped);
    dlc_mtx_release(&w->a.rpc);
    os_close(&w->a.sock);
    os_close(&w->end);
    mem_free(&w->header);
    test_free(w);
    return 0;
}

/* One extent, of `size` bytes. */
static void answer(struct world *w, json_int_t number, uint32_t generation, uint64_t size)
{
    json_t *body =
        json_pack("{s:b, s:[[I, I]]}", "ok", 1, "extents", number, (json_int_t)generation);
    int fd = os_memfd(NAME);

    assert_int_equal(os_ftruncate(fd, size), 0);
    assert_int_equal(msg_send(w->end, body, &fd, 1, NULL), 0);
    json_decref(body);
    os_close(&fd);
}

static int map(struct world *w, uint64_t sample)
{
    w->err = (struct dlc_err)DLC_ERR_INIT;
    return extents_map(&w->a, sample, dlc_mono_add(dlc_mono_now(), DLC_SEC(5)), &w->err);
}

static bool is_there(struct world *w, uint64_t offset, uint32_t len)
{
    return extents_are_mapped(&w->a, offset, len);
}

static void test_maps(void **state)
{
    struct world *w = *state;
    unsigned before = proc_descriptors();

    answer(w, 0, 10, ONE);
    assert_int_equal(map(w, 0), 0);
    assert_true(is_there(w, SHM_HDR_SIZE, 100));
    answer(w, 1, 11, ONE);
    answer(w, 2, 12, ONE);
    assert_int_equal(map(w, 1), 0);
    assert_true(is_there(w, 2 * ONE - 64, 128));
    answer(w, 3, 13, LAST);
    assert_int_equal(map(w, 2), 0);
    assert_true(is_there(w, 3 * ONE, LAST));
    assert_int_equal(proc_mapped(NAME), 4);
    assert_int_equal(map(w, 1), 0); /* nothing is asked */
    assert_int_equal(proc_descriptors(), before);
}

/* A sample of no bytes at the beginning of an extent lies there, not in the one before. */
static void test_empty(void **state)
{
    struct world *w = *state;

    place(w, 0, ONE, 0);
    answer(w, 1, 11, ONE);
    assert_int_equal(map(w, 0), 0);
    assert_true(is_there(w, ONE, 0));
}

static void test_refused(void **state)
{
    struct world *w = *state;
    unsigned before = proc_descriptors();
    json_t *no = json_pack("{s:b, s:i}", "ok", 0, "code", DLC_EBYPASS);

    answer(w, 0, 10, ONE - 4096);
    assert_int_equal(map(w, 0), DLC_EPROTO);
    answer(w, 3, 13, ONE); /* the last one is shorter */
    assert_int_equal(map(w, 2), DLC_EPROTO);
    answer(w, EXTENTS, 10, ONE);
    assert_int_equal(map(w, 0), DLC_EPROTO);
    answer(w, -1, 10, ONE);
    assert_int_equal(map(w, 0), DLC_EPROTO);
    assert_int_equal(msg_send(w->end, no, NULL, 0, NULL), 0);
    assert_int_equal(map(w, 0), DLC_EBYPASS);
    json_decref(no);
    assert_int_equal(proc_mapped(NAME), 0);
    assert_int_equal(proc_descriptors(), before);
}

/* One that is not there any more, as the table says, is not mapped. */
static void test_old(void **state)
{
    struct world *w = *state;

    answer(w, 0, 9, ONE);
    assert_int_equal(map(w, 0), 0);
    assert_false(is_there(w, SHM_HDR_SIZE, 100));
    assert_int_equal(proc_mapped(NAME), 0);
    answer(w, 0, 10, ONE);
    assert_int_equal(map(w, 0), 0);
    atomic_store(&shm_generations(w->a.header)[0], 20); /* another one is there */
    assert_false(is_there(w, SHM_HDR_SIZE, 100));
    atomic_store(&header_of(w)->drops, 1);
    extents_look(&w->a);
    assert_int_equal(proc_mapped(NAME), 0);
    assert_int_equal(atomic_load(&w->session.drops_seen), 1); /* the daemon is told */
}

static void test_no_leak(void **state)
{
    struct world *w = *state;
    struct msg m = MSG_INIT;
    size_t used = 0;

    for (unsigned i = 0; i < 101; i++) {
        answer(w, 0, 9, ONE);
        assert_int_equal(map(w, 0), 0);
        assert_int_equal(msg_recv(w->end, &m, DLC_SEC(5), NULL), 0);
        msg_release(&m);
        used = i == 0 ? mallinfo2().uordblks : used;
    }
    assert_true(mallinfo2().uordblks < used + 3200);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {T(test_maps), T(test_empty), T(test_refused), T(test_old),
                                       T(test_no_leak)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
