// SPDX-License-Identifier: Apache-2.0
/*
 * _dlcache: the C API (include/dlcache.h) with Python's manners, and no policy. The package
 * `dlcache` is written over it.
 *
 *     Handle --refers to--> conn <--pins through-- View <--exports-- memoryview, numpy array, ...
 *
 * A `conn` is what dlc_open() gave, counted: by the Handle until it is closed, by each View, and by
 * each call for as long as it runs. Whoever lets go of it last closes it. So a closed Handle
 * refuses new calls at once, and views keep their bytes for as long as anybody looks at them.
 *
 * (E1) Counts and members of Python objects change under the GIL only. What waits, or may take
 *      long, runs without it, on a conn that it counts itself.
 * (E2) A View's pin goes back when the View does, in whatever thread that is. In a forked child,
 *      libdlcache itself leaves alone what the parent pinned: (A3) in src/client/client_i.h.
 * (E3) A wait in the main thread ends when a signal's handler raises: nothing is lost, and the
 *      sample that next() waited for comes again.
 * (E4) Nothing here outlives an interpreter but what its objects hold: no globals, so several
 *      interpreters may load it.
 *
 * The stable ABI of 3.11, the first with buffers in it: one binary for 3.11 and later.
 */
#ifndef DLC_PYTHON_EXT_H
#define DLC_PYTHON_EXT_H

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cancel.h"
#include "dlcache.h"

struct conn {
    struct dlc_dataset *ds;
    uint64_t count;       /* samples, without targets */
    Py_ssize_t refs;      /* G: the GIL */
    PyTypeObject *view;   /* the type View; a reference */
    pthread_mutex_t turn; /* one thread at a time in what concerns the order; taken without GIL */
    unsigned generation;  /* of forks, when `turn` was made */
};

struct module_state {
    PyTypeObject *handle, *view, *loader, *batch;
};

/* ---- conn.c: all under the GIL ---- */

void conn_init(void); /* once per process at least */

/* Gives a conn; return it, and what conn_ref() counts, with conn_put(). Takes ds
 * unless it fails. */
struct conn *conn_new(struct dlc_dataset *ds, PyTypeObject *view);
static inline struct conn *conn_ref(struct conn *c)
{
    c->refs++;
    return c;
}
void conn_put(struct conn **cp);

/* A call that may wait: the GIL is free between these two. In the main thread it is looked several
 * times per second whether a signal has come, such as Ctrl-C; when its handler raises, the call is
 * given up. false: the exception is set, and what the call gave must be dropped. */
struct wait {
    struct interrupt interrupt;
    PyThreadState *thread;
    struct dlc_mono next; /* when to look again */
};
void wait_begin(struct wait *w);
bool wait_end(struct wait *w);

/* The same for what one thread may do at a time: it waits for its turn first, without the GIL, so
 * that threads cannot wait for each other twice. */
void turn_begin(struct conn *c, struct wait *w);
bool turn_end(struct conn *c, struct wait *w);

/* ---- errors.c: all return NULL with an exception set ---- */

PyObject *raise_code(int code, const char *text); /* text may be dlc_last_error() */
PyObject *raise_last(int code);
PyObject *raise_sample(struct conn *c, uint64_t i, int code); /* names it by number and key */
PyObject *raise_index(Py_ssize_t i, uint64_t count);

/* ---- indices.c ---- */

/* A Python integer as the number of a sample, negative from the end; or -1 and IndexError. */
Py_ssize_t index_of(PyObject *o, uint64_t count);

struct indices {
    uint64_t *at;
    size_t n;
};

/* A sequence of integers, or a buffer of 64-bit ones. Gives *out; return it with PyMem_Free(). */
int indices_of(PyObject *o, uint64_t count, struct indices *out);

/* ---- view.c ---- */

extern PyType_Spec view_spec;

/* Pin sample i, waiting for it where it must; false with an exception set. Gives *out. */
bool sample_get(struct conn *c, uint64_t i, struct dlc_view *out);

/* Memoryviews over samples. */
PyObject *view_get(struct conn *c, uint64_t i);
PyObject *view_get_many(struct conn *c, const struct indices *ix);
PyObject *view_wrap(struct conn *c, struct dlc_view *v); /* takes *v, also when it fails */

/* ---- handle.c; handle_describe.c: what is said of samples; handle_order.c; handle_importance.c
 * ---- */

struct handle {
    PyObject_HEAD struct conn *conn; /* NULL: not opened yet, or closed */
};

extern PyType_Spec handle_spec;

/* The conn of an open Handle, counted; or NULL with ValueError. */
struct conn *handle_conn(PyObject *self);

PyObject *handle_key(PyObject *self, PyObject *index);
PyObject *handle_target_key(PyObject *self, PyObject *index);
PyObject *handle_size(PyObject *self, PyObject *index);
PyObject *handle_find(PyObject *self, PyObject *key);
PyObject *handle_label(PyObject *self, PyObject *index);
PyObject *handle_column(PyObject *self, PyObject *args);
PyObject *handle_labels(PyObject *self, PyObject *none);
PyObject *handle_classes(PyObject *self, PyObject *none);
PyObject *handle_splits(PyObject *self, PyObject *none);
PyObject *handle_columns(PyObject *self, PyObject *none);
PyObject *handle_stats(PyObject *self, PyObject *none);
PyObject *handle_daemon_stats(PyObject *self, PyObject *none);

/* Counts the handle's conn in *cp (return it with conn_put() in any case) and finds the target of
 * a sample. Returns 0 or DLC_E*, with or without an exception set. */
int handle_find_target(PyObject *self, PyObject *index, struct conn **cp, uint64_t *target);
/* None for what has no target; NULL with an exception for what failed otherwise. */
PyObject *handle_no_target(int rc);

PyObject *handle_follow(PyObject *self, PyObject *args);
PyObject *handle_follow_more(PyObject *self, PyObject *args);
PyObject *handle_advance(PyObject *self, PyObject *args);
PyObject *handle_epoch_length(PyObject *self, PyObject *none);
PyObject *handle_next(PyObject *self, PyObject *none);
PyObject *handle_tell(PyObject *self, PyObject *none);
PyObject *handle_state(PyObject *self, PyObject *none);
PyObject *handle_take(PyObject *self, PyObject *args);

PyObject *handle_importance(PyObject *self, PyObject *args);
PyObject *handle_learn(PyObject *self, PyObject *args);
PyObject *handle_draw(PyObject *self, PyObject *epoch);
PyObject *handle_weights(PyObject *self, PyObject *args);
PyObject *handle_set_weights(PyObject *self, PyObject *args);
PyObject *handle_scale(PyObject *self, PyObject *none);
PyObject *handle_set_scale(PyObject *self, PyObject *args);

/* ---- order.c ---- */

PyObject *order_numbers(PyObject *module, PyObject *args);

/* ---- loader.c ---- */

extern PyType_Spec loader_spec, batch_spec;

PyObject *loader_open(PyObject *module, PyObject *args);

#endif
