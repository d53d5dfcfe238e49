// SPDX-License-Identifier: Apache-2.0
/*
 * A thread of the test that plays a daemon: it greets, opens a dataset of FAKE_SAMPLES samples that
 * has no extents yet, and answers questions. What it sends, and when it hangs up, is for the test to
 * choose; fake_setup() makes everything good.
 */
#ifndef DLC_TESTS_FAKE_DAEMON_H
#define DLC_TESTS_FAKE_DAEMON_H

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/syscalls.h"
#include "catalog/catalog.h"
#include "dlcache.h"
#include "ipc/frame.h"
#include "ipc/shm.h"
#include "listener.h"

#define FAKE_SAMPLES 10u
#define FAKE_EXTENTS 16u

/* What a daemon sends for `open`, before somebody changes it. */
struct fake_answer {
    struct shm_segment_hdr segment;
    struct shm_index_hdr index;
    struct shm_session_hdr session;
    json_int_t segment_size, index_size; /* what it says */
    unsigned n_fds;
    const char *catalog; /* the file */
};

static struct {
    struct sockaddr_un addr;
    int listener;
    _Atomic int sock; /* of the call that it serves; -1: none */
    pthread_t thread;
    struct fake_answer answer;
    json_t *door;        /* not NULL: what a call gets before it is hung up on, unheard */
    json_t *refusal;     /* not NULL: the answer to `open`; an array: to each in turn */
    json_t *place;       /* or NULL: more members of a good answer to `open` */
    unsigned silent;     /* from this message of a call on it answers nothing; 0: never */
    unsigned progress;   /* messages before the answer */
    unsigned hang_ups;   /* calls that get no greeting */
    json_t *stat;        /* the answer to `stat`; NULL: it hangs up */
    unsigned lost_stats; /* times that it hangs up on `stat` before it answers */
    _Atomic unsigned calls, ended, opens, stats;
    json_t *hello, *question; /* the last `hello` and `open` */
    char catalog[256], other_catalog[256];
    uint64_t snapshot; /* of the catalog */
} fake;

static inline int fake_file(const void *header, size_t len, uint64_t size)
{
    int fd = os_memfd("fake");

    if (fd < 0 || ftruncate(fd, (off_t)size) < 0 || pwrite(fd, header, len, 0) != (ssize_t)len)
        return -1;
    return fd;
}

static inline void fake_send_dataset(int sock, const struct fake_answer *a)
{
    json_t *body = json_pack("{s:b, s:I, s:I}", "ok", 1, "segment_size", a->segment_size,
                             "index_size", a->index_size);
    int fds[6] = {
        fake_file(&a->segment, sizeof(a->segment), SHM_HDR_SIZE + FAKE_EXTENTS * sizeof(uint32_t)),
        fake_file(&a->index, sizeof(a->index),
                  SHM_HDR_SIZE + FAKE_SAMPLES * sizeof(struct shm_slot)),
        fake_file(&a->session, sizeof(a->session), SHM_SESSION_SIZE),
        os_eventfd(),
        os_open(a->catalog, O_RDONLY, 0),
        os_eventfd(),
    };

    if (fake.place != NULL)
        json_object_update(body, fake.place);
    msg_send(sock, body, fds, a->n_fds, NULL);
    json_decref(body);
    for (unsigned i = 0; i < 6; i++)
        os_close(&fds[i]);
}

/* Takes body. */
static inline void fake_send(int sock, json_t *body)
{
    msg_send(sock, body, NULL, 0, NULL);
    json_decref(body);
}

static inline void fake_note(json_t **last, json_t *question)
{
    json_decref(*last);
    *last = json_incref(question);
}

static inline void fake_open(int sock, json_t *question)
{
    unsigned turn = atomic_fetch_add(&fake.opens, 1);

    fake_note(&fake.question, question);
    for (unsigned i = 0; i < fake.progress; i++)
        fake_send(sock, json_pack("{s:i}", "progress", (int)i));
    if (json_is_array(fake.refusal))
        fake_send(sock, json_incref(json_array_get(fake.refusal, turn)));
    else if (fake.refusal != NULL)
        fake_send(sock, json_incref(fake.refusal));
    else
        fake_send_dataset(sock, &fake.answer);
}

/* False: it hangs up. */
static inline bool fake_stat(int sock)
{
    if (atomic_fetch_add(&fake.stats, 1) < fake.lost_stats || fake.stat == NULL)
        return false;
    fake_send(sock, json_incref(fake.stat));
    return true;
}

/* False: it hangs up. */
static inline bool fake_answer(int sock, json_t *question)
{
    const char *op = json_string_value(json_object_get(question, "op"));

    if (strcmp(op, "hello") == 0) {
        fake_note(&fake.hello, question);
        fake_send(sock, json_pack("{s:b}", "ok", 1));
    } else if (strcmp(op, "open") == 0) {
        fake_open(sock, question);
    } else if (strcmp(op, "extents") == 0) { /* it has none yet */
        fake_send(sock, json_pack("{s:b, s:[]}", "ok", 1, "extents"));
    } else if (strcmp(op, "stat") == 0) {
        return fake_stat(sock);
    }
    return true;
}

static inline void fake_serve(int sock)
{
    struct msg m = MSG_INIT;
    bool here = true;

    for (unsigned i = 1; here && msg_recv(sock, &m, DLC_SEC(30), NULL) == 0; i++) {
        if (fake.silent == 0 || i < fake.silent)
            here = fake_answer(sock, m.body);
        msg_release(&m);
    }
}

static inline void *fake_main(void *arg)
{
    int sock;

    (void)arg;
    while ((sock = accept(fake.listener, NULL, NULL)) >= 0) {
        atomic_store(&fake.sock, sock);
        if (fake.door != NULL)
            fake_send(sock, json_incref(fake.door));
        else if (atomic_fetch_add(&fake.calls, 1) >= fake.hang_ups)
            fake_serve(sock);
        atomic_store(&fake.sock, -1);
        close(sock);
        atomic_fetch_add(&fake.ended, 1);
    }
    return NULL;
}

/* Returns its snapshot. */
static inline uint64_t fake_catalog(const char *path, unsigned n)
{
    struct catalog_builder *b = catalog_builder_new();
    struct catalog *c = NULL;
    uint64_t snapshot;
    char key[16];

    for (unsigned i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "s%03u", i);
        assert_int_equal(catalog_builder_add(b, key, strlen(key), 100, "e", NULL), 0);
    }
    assert_int_equal(catalog_builder_finish(b, path, "file:///fake/", NULL), 0);
    catalog_builder_free(&b);
    assert_int_equal(catalog_open(path, &c, NULL), 0);
    snapshot = catalog_snapshot(c);
    catalog_close(&c);
    return snapshot;
}

static inline void fake_good_answer(void)
{
    struct fake_answer *a = &fake.answer;

    *a = (struct fake_answer){.n_fds = 6, .catalog = fake.catalog};
    a->segment.magic = SHM_SEGMENT_MAGIC;
    a->index.magic = SHM_INDEX_MAGIC;
    a->session.magic = SHM_SESSION_MAGIC;
    a->segment.version = a->index.version = a->session.version = SHM_VERSION;
    a->segment.size = (uint64_t)FAKE_EXTENTS << 16;
    a->segment.extent_shift = 16;
    a->segment.n_extents = FAKE_EXTENTS;
    a->index.n_slots = FAKE_SAMPLES;
    a->index.slots_off = SHM_HDR_SIZE;
    a->index.snapshot = fake.snapshot;
    a->segment_size = SHM_HDR_SIZE + FAKE_EXTENTS * sizeof(uint32_t);
    a->index_size = SHM_HDR_SIZE + FAKE_SAMPLES * sizeof(struct shm_slot);
}

/* It answers calls. */
static inline void fake_start(void)
{
    char path[256];

    fake.listener = listener_open(unit_path("fake.sock", path), 8, &fake.addr);
    assert_int_equal(pthread_create(&fake.thread, NULL, fake_main, NULL), 0);
}

static inline int fake_setup(void **state)
{
    (void)state;
    unit_path("catalog", fake.catalog);
    unit_path("catalog-11", fake.other_catalog);
    fake.snapshot = fake_catalog(fake.catalog, FAKE_SAMPLES);
    fake_catalog(fake.other_catalog, FAKE_SAMPLES + 1);
    fake.sock = -1;
    fake.progress = fake.hang_ups = fake.lost_stats = fake.silent = 0;
    fake.calls = fake.ended = fake.opens = fake.stats = 0;
    fake_good_answer();
    fake_start();
    return 0;
}

/* The dataset that it serves. */
static inline struct dlc_dataset *fake_dataset(void)
{
    const struct dlc_options opt = {.socket = fake.addr.sun_path, .no_spawn = 1};
    struct dlc_dataset *ds = NULL;

    if (dlc_open("file:///fake/", &opt, &ds) < 0)
        fail_msg("%s", dlc_last_error());
    return ds;
}

/* It hangs up, and nobody listens any more. */
static inline void fake_stop(void)
{
    if (fake.listener < 0)
        return;
    shutdown(fake.listener, SHUT_RDWR);
    shutdown(atomic_load(&fake.sock),
             SHUT_RDWR); /* a test that failed has not closed its dataset */
    pthread_join(fake.thread, NULL);
    os_close(&fake.listener);
}

static inline int fake_teardown(void **state)
{
    (void)state;
    fake_stop();
    json_decref(fake.door);
    json_decref(fake.refusal);
    json_decref(fake.place);
    json_decref(fake.hello);
    json_decref(fake.question);
    json_decref(fake.stat);
    fake.door = fake.refusal = fake.place = fake.hello = fake.question = fake.stat = NULL;
    return 0;
}

#endif
