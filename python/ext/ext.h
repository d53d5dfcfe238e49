// SPDX-License-Identifier: Apache-2.0
/*
 * _dlcache: the C API (include/dlcache.h) as Python objects, without policy. The package `dlcache`
 * is written over it.
 *
 *     Handle --refers to--> dataset_ref <--pins through-- View <--exports-- memoryview, numpy, ...
 *
 * A `dataset_ref` is the counted result of dlc_open(): the Handle counts it until it is closed, and
 * so does each View, and each call while it runs. The last one to release it closes the dataset. So
 * a closed Handle refuses new calls at once, and views keep their bytes as long as they live.
 *
 * (EXT-1) Counts and members of Python objects change under the GIL only. A call that waits, or may
 *      take long, runs without the GIL, on a dataset_ref that it has counted.
 * (EXT-2) A View releases its pin when it is deallocated, in any thread. In a forked child,
 *      libdlcache itself ignores the pins of the parent: (ATTACHMENT-3) in src/client/attachment.h.
 * (EXT-3) A wait in the main thread ends when a signal handler raises: nothing is lost, and next()
 *      returns the sample that it waited for at the next call.
 * (EXT-4) There are no globals, so several interpreters may load the module.
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

struct dataset_ref {
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

/* ---- dataset_ref.c: all under the GIL ---- */

void dataset_ref_init(void); /* once per process at least */

/* Gives a reference; return it, and those of dataset_ref_get(), with dataset_ref_put(). Takes ds
 * unless it fails. */
struct dataset_ref *dataset_ref_new(struct dlc_dataset *ds, PyTypeObject *view);
static inline struct dataset_ref *dataset_ref_get(struct dataset_ref *c)
{
    c->refs++;
    return c;
}
void dataset_ref_put(struct dataset_ref **cp);

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
void turn_begin(struct dataset_ref *c, struct wait *w);
bool turn_end(struct dataset_ref *c, struct wait *w);

/* ---- errors.c: all return NULL with an exception set ---- */

PyObject *raise_code(int code, const char *text); /* text may be dlc_last_error() */
PyObject *raise_last(int code);
PyObject *raise_sample(struct dataset_ref *c, uint64_t i,
                       int code); /* names it by number and key */
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
bool sample_get(struct dataset_ref *c, uint64_t i, struct dlc_view *out);

/* Memoryviews over samples. */
PyObject *view_get(struct dataset_ref *c, uint64_t i);
PyObject *view_get_many(struct dataset_ref *c, const struct indices *ix);
PyObject *view_wrap(struct dataset_ref *c, struct dlc_view *v); /* takes *v, also when it fails */

/* ---- dataset.c; dataset_info.c: what is said of samples; dataset_order.c; dataset_importance.c
 * ---- */

struct handle {
    PyObject_HEAD struct dataset_ref *ref; /* NULL: not opened yet, or closed */
};

extern PyType_Spec dataset_spec;

/* The reference of an open Handle, counted; or NULL with ValueError. */
struct dataset_ref *dataset_ref_of(PyObject *self);

PyObject *dataset_key(PyObject *self, PyObject *index);
PyObject *dataset_target_key(PyObject *self, PyObject *index);
PyObject *dataset_size(PyObject *self, PyObject *index);
PyObject *dataset_find(PyObject *self, PyObject *key);
PyObject *dataset_label(PyObject *self, PyObject *index);
PyObject *dataset_column(PyObject *self, PyObject *args);
PyObject *dataset_labels(PyObject *self, PyObject *none);
PyObject *dataset_classes(PyObject *self, PyObject *none);
PyObject *dataset_splits(PyObject *self, PyObject *none);
PyObject *dataset_location(PyObject *self, PyObject *none);
PyObject *dataset_columns(PyObject *self, PyObject *none);
PyObject *dataset_stats(PyObject *self, PyObject *none);
PyObject *dataset_daemon_stats(PyObject *self, PyObject *none);

/* Counts the handle's reference in *cp (return it with dataset_ref_put() in any case) and finds the target of
 * a sample. Returns 0 or DLC_E*, with or without an exception set. */
int dataset_find_target(PyObject *self, PyObject *index, struct dataset_ref **cp, uint64_t *target);
/* None for what has no target; NULL with an exception for what failed otherwise. */
PyObject *dataset_no_target(int rc);

PyObject *dataset_follow(PyObject *self, PyObject *args);
PyObject *dataset_follow_more(PyObject *self, PyObject *args);
PyObject *dataset_advance(PyObject *self, PyObject *args);
PyObject *dataset_epoch_length(PyObject *self, PyObject *none);
PyObject *dataset_next(PyObject *self, PyObject *none);
PyObject *dataset_tell(PyObject *self, PyObject *none);
PyObject *dataset_state(PyObject *self, PyObject *none);
PyObject *dataset_take(PyObject *self, PyObject *args);

PyObject *dataset_importance(PyObject *self, PyObject *args);
PyObject *dataset_learn(PyObject *self, PyObject *args);
PyObject *dataset_draw(PyObject *self, PyObject *epoch);
PyObject *dataset_weights(PyObject *self, PyObject *args);
PyObject *dataset_set_weights(PyObject *self, PyObject *args);
PyObject *dataset_scale(PyObject *self, PyObject *none);
PyObject *dataset_set_scale(PyObject *self, PyObject *args);

/* ---- order.c ---- */

PyObject *order_numbers(PyObject *module, PyObject *args);

/* ---- loader.c ---- */

extern PyType_Spec loader_spec, batch_spec;

PyObject *loader_open(PyObject *module, PyObject *args);

#endif
