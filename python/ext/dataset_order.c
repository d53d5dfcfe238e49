// SPDX-License-Identifier: Apache-2.0
/*
 * Handle: methods for orders. libdlcache allows one thread at a time here, so Python's threads
 * serialize on a lock (dataset_ref.c).
 */
#include "ext.h"

#include <stdlib.h>

/* The end of a method that returns None. Takes the reference. */
static PyObject *finished(struct dataset_ref *c)
{
    dataset_ref_put(&c);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* A list of samples; with targets: each sample, then its target, or itself again where it has none.
 * 0, or -1 and an exception. */
static int list_of(struct dataset_ref *c, PyObject *numbers, int targets, struct indices *out)
{
    uint64_t *both;

    if (indices_of(numbers, c->count, out) < 0)
        return -1;
    if (!targets)
        return 0;
    both = PyMem_Realloc(out->at, 2 * out->n * sizeof(*both) + 1);
    if (both == NULL) {
        PyMem_Free(out->at);
        PyErr_NoMemory();
        return -1;
    }
    for (size_t k = out->n; k-- > 0;) {
        uint64_t sample = both[k];

        both[2 * k] = sample;
        if (dlc_target(c->ds, sample, &both[2 * k + 1]) < 0)
            both[2 * k + 1] = sample;
    }
    *out = (struct indices){both, 2 * out->n};
    return 0;
}

/* (kind, numbers, rank, world, drop_last, relaxed, seed, epochs, first, count, epoch, position,
 * targets, swaps, window) */
PyObject *dataset_follow(PyObject *self, PyObject *args)
{
    unsigned long long seed, epochs, first, count, epoch, position, window;
    struct dataset_ref *c = dataset_ref_of(self);
    struct indices list = {NULL, 0};
    struct dlc_order o = {0};
    Py_buffer swaps = {0};
    PyObject *numbers;
    struct wait w;
    int targets, rc;

    if (c == NULL || !PyArg_ParseTuple(args, "IOIIIIKKKKKKpy*K:follow", &o.kind, &numbers, &o.rank,
                                       &o.world, &o.drop_last, &o.relaxed, &seed, &epochs, &first,
                                       &count, &epoch, &position, &targets, &swaps, &window))
        return finished(c);
    if (o.kind == DLC_EXPLICIT && list_of(c, numbers, targets, &list) < 0)
        goto out;
    o.seed = seed;
    o.epochs = epochs;
    o.first = first;
    o.count = count;
    o.window = window;
    o.list = list.at;
    o.list_len = list.n;
    turn_begin(c, &w);
    rc = dlc_follow_swapped(c->ds, &o, epoch, position, swaps.buf,
                            (size_t)swaps.len / sizeof(struct dlc_swap));
    if (turn_end(c, &w) && rc < 0)
        raise_last(rc);
    PyMem_Free(list.at);
out:
    PyBuffer_Release(&swaps);
    return finished(c);
}

/* (numbers, targets) */
PyObject *dataset_follow_more(PyObject *self, PyObject *args)
{
    struct dataset_ref *c = dataset_ref_of(self);
    struct indices list;
    PyObject *numbers;
    struct wait w;
    int targets, rc;

    if (c == NULL || !PyArg_ParseTuple(args, "Op:follow_more", &numbers, &targets) ||
        list_of(c, numbers, targets, &list) < 0)
        return finished(c);
    turn_begin(c, &w);
    rc = dlc_follow_more(c->ds, list.at, list.n);
    if (turn_end(c, &w) && rc < 0)
        raise_last(rc);
    PyMem_Free(list.at);
    return finished(c);
}

/* (epoch, position, ahead, waited_ns) */
PyObject *dataset_advance(PyObject *self, PyObject *args)
{
    unsigned long long epoch, position, ahead, waited_ns;
    struct dataset_ref *c = dataset_ref_of(self);
    struct dlc_progress p = {0};
    struct wait w;
    int rc;

    if (c == NULL || !PyArg_ParseTuple(args, "KKKK:advance", &epoch, &position, &ahead, &waited_ns))
        return finished(c);
    p.epoch = epoch;
    p.position = position;
    p.ahead = ahead;
    p.waited_ns = waited_ns;
    turn_begin(c, &w);
    rc = dlc_advance(c->ds, &p);
    if (turn_end(c, &w) && rc < 0)
        raise_last(rc);
    return finished(c);
}

PyObject *dataset_epoch_length(PyObject *self, PyObject *none)
{
    struct dataset_ref *c = dataset_ref_of(self);
    PyObject *got = NULL;
    struct wait w;
    int64_t n;

    (void)none;
    if (c == NULL)
        return NULL;
    turn_begin(c, &w);
    n = dlc_epoch_length(c->ds);
    if (turn_end(c, &w))
        got = n < 0 ? raise_last((int)n) : PyLong_FromLongLong(n);
    dataset_ref_put(&c);
    return got;
}

PyObject *dataset_next(PyObject *self, PyObject *none)
{
    struct dataset_ref *c = dataset_ref_of(self);
    uint64_t sample = UINT64_MAX; /* none yet: no order is set */
    struct dlc_view v = {0};
    PyObject *memory, *got = NULL;
    struct wait w;
    int rc;

    (void)none;
    if (c == NULL)
        return NULL;
    turn_begin(c, &w);
    rc = dlc_next(c->ds, &v, &sample);
    if (!turn_end(c, &w))
        dlc_put(c->ds, &v);
    else if (rc < 0)
        got = sample == UINT64_MAX ? raise_last(rc) : raise_sample(c, sample, rc);
    else if (rc == 0)
        got = Py_NewRef(Py_None);
    else if ((memory = view_wrap(c, &v)) != NULL)
        got = Py_BuildValue("KN", (unsigned long long)sample, memory);
    dataset_ref_put(&c);
    return got;
}

PyObject *dataset_tell(PyObject *self, PyObject *none)
{
    struct dataset_ref *c = dataset_ref_of(self);
    uint64_t epoch = 0, position = 0;
    PyObject *got = NULL;
    struct wait w;

    (void)none;
    if (c == NULL)
        return NULL;
    turn_begin(c, &w);
    dlc_tell(c->ds, &epoch, &position);
    if (turn_end(c, &w))
        got = Py_BuildValue("KK", (unsigned long long)epoch, (unsigned long long)position);
    dataset_ref_put(&c);
    return got;
}

/* (epoch, position, swaps): all of it at one moment. */
PyObject *dataset_state(PyObject *self, PyObject *none)
{
    struct dataset_ref *c = dataset_ref_of(self);
    uint64_t epoch = 0, position = 0;
    struct dlc_swap *swaps = NULL;
    PyObject *got = NULL;
    int64_t n = 0, cap;
    struct wait w;

    (void)none;
    if (c == NULL)
        return NULL;
    turn_begin(c, &w);
    do {
        cap = n;
        free(swaps);
        swaps = malloc((size_t)cap * sizeof(*swaps) + 1);
        n = swaps != NULL ? dlc_tell_swaps(c->ds, &epoch, &position, swaps, (size_t)cap) : 0;
    } while (n > cap);
    if (turn_end(c, &w) && swaps == NULL)
        PyErr_NoMemory();
    else if (!PyErr_Occurred() && n < 0)
        raise_last((int)n);
    else if (!PyErr_Occurred())
        got = Py_BuildValue("KKy#", (unsigned long long)epoch, (unsigned long long)position,
                            (char *)swaps, (Py_ssize_t)((size_t)n * sizeof(*swaps)));
    free(swaps);
    dataset_ref_put(&c);
    return got;
}

static PyObject *list_from(const uint64_t *samples, int64_t n)
{
    PyObject *list = PyList_New((Py_ssize_t)n);

    for (int64_t k = 0; list != NULL && k < n; k++) {
        PyObject *number = PyLong_FromUnsignedLongLong(samples[k]);

        if (number == NULL || PyList_SetItem(list, (Py_ssize_t)k, number) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* (epoch, position, n) */
PyObject *dataset_take(PyObject *self, PyObject *args)
{
    struct dataset_ref *c = dataset_ref_of(self);
    unsigned long long epoch, position, wanted;
    uint64_t *samples = NULL;
    PyObject *got = NULL;
    struct wait w;
    int64_t n;

    if (c == NULL || !PyArg_ParseTuple(args, "KKK:take", &epoch, &position, &wanted))
        goto out;
    wanted = wanted < 2 * c->count ? wanted : 2 * c->count; /* samples and targets */
    samples = PyMem_Malloc((size_t)wanted * sizeof(*samples) + 1);
    if (samples == NULL) {
        PyErr_NoMemory();
        goto out;
    }
    turn_begin(c, &w);
    n = dlc_take(c->ds, epoch, position, samples, (size_t)wanted);
    if (turn_end(c, &w))
        got = n < 0 ? raise_last((int)n) : list_from(samples, n);
out:
    PyMem_Free(samples);
    dataset_ref_put(&c);
    return got;
}
