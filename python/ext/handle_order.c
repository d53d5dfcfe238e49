// SPDX-License-Identifier: Apache-2.0
/*
 * Handle: the order it is read in. libdlcache wants one thread at a time here; Python's threads
 * wait for their turn (conn_lock()), without the GIL, so that they cannot wait for each other
 * twice.
 */
#include "ext.h"

#include <string.h>

PyObject *handle_follow(PyObject *self, PyObject *args)
{
    unsigned long long seed, epochs, first, count, epoch, position;
    struct conn *c = handle_conn(self);
    struct indices list = {NULL, 0};
    struct dlc_order o = {0};
    PyObject *numbers;
    int rc = -1, drop_last, relaxed;

    if (c == NULL ||
        !PyArg_ParseTuple(args, "IOIIppKKKKKK:follow", &o.kind, &numbers, &o.rank, &o.world,
                          &drop_last, &relaxed, &seed, &epochs, &first, &count, &epoch,
                          &position) ||
        (o.kind == DLC_EXPLICIT && indices_of(numbers, c->count, &list) < 0))
        goto out;
    o.drop_last = (uint32_t)drop_last;
    o.relaxed = (uint32_t)relaxed;
    o.seed = seed;
    o.epochs = epochs;
    o.first = first;
    o.count = count;
    o.list = list.at;
    o.list_len = list.n;
    Py_BEGIN_ALLOW_THREADS conn_lock(c);
    rc = dlc_follow(c->ds, &o, epoch, position);
    conn_unlock(c);
    Py_END_ALLOW_THREADS if (rc < 0) raise_last(rc);
out:
    PyMem_Free(list.at);
    conn_put(&c);
    return rc < 0 ? NULL : Py_NewRef(Py_None);
}

PyObject *handle_follow_more(PyObject *self, PyObject *numbers)
{
    struct conn *c = handle_conn(self);
    struct indices list = {NULL, 0};
    int rc = -1;

    if (c != NULL && indices_of(numbers, c->count, &list) == 0) {
        Py_BEGIN_ALLOW_THREADS conn_lock(c);
        rc = dlc_follow_more(c->ds, list.at, list.n);
        conn_unlock(c);
        Py_END_ALLOW_THREADS if (rc < 0) raise_last(rc);
        PyMem_Free(list.at);
    }
    conn_put(&c);
    return rc < 0 ? NULL : Py_NewRef(Py_None);
}

/* (epoch, position, ahead, waited_ns) */
PyObject *handle_advance(PyObject *self, PyObject *args)
{
    unsigned long long epoch, position, ahead, waited_ns;
    struct conn *c = handle_conn(self);
    struct dlc_progress p = {0};
    int rc = -1;

    if (c != NULL &&
        PyArg_ParseTuple(args, "KKKK:advance", &epoch, &position, &ahead, &waited_ns)) {
        p.epoch = epoch;
        p.position = position;
        p.ahead = ahead;
        p.waited_ns = waited_ns;
        Py_BEGIN_ALLOW_THREADS conn_lock(c);
        rc = dlc_advance(c->ds, &p);
        conn_unlock(c);
        Py_END_ALLOW_THREADS if (rc < 0) raise_last(rc);
    }
    conn_put(&c);
    return rc < 0 ? NULL : Py_NewRef(Py_None);
}

PyObject *handle_epoch_length(PyObject *self, PyObject *none)
{
    struct conn *c = handle_conn(self);
    int64_t n;

    (void)none;
    if (c == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS conn_lock(c);
    n = dlc_epoch_length(c->ds);
    conn_unlock(c);
    Py_END_ALLOW_THREADS conn_put(&c);
    return n < 0 ? raise_last((int)n) : PyLong_FromLongLong(n);
}

PyObject *handle_next(PyObject *self, PyObject *none)
{
    struct conn *c = handle_conn(self);
    struct dlc_view v = {0};
    PyObject *memory, *got = NULL;
    uint64_t sample = 0;
    int rc;

    (void)none;
    if (c == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS conn_lock(c);
    rc = dlc_next(c->ds, &v, &sample);
    conn_unlock(c);
    Py_END_ALLOW_THREADS if (rc < 0) raise_last(rc);
    else if (rc == 0) got = Py_NewRef(Py_None);
    else if ((memory = view_wrap(c, &v)) != NULL) got =
        Py_BuildValue("KN", (unsigned long long)sample, memory);
    conn_put(&c);
    return got;
}

PyObject *handle_tell(PyObject *self, PyObject *none)
{
    struct conn *c = handle_conn(self);
    uint64_t epoch = 0, position = 0;

    (void)none;
    if (c == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS conn_lock(c);
    dlc_tell(c->ds, &epoch, &position);
    conn_unlock(c);
    Py_END_ALLOW_THREADS conn_put(&c);
    return Py_BuildValue("KK", (unsigned long long)epoch, (unsigned long long)position);
}
