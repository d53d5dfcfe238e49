// SPDX-License-Identifier: Apache-2.0
/*
 * Handle: the order it is read in. libdlcache wants one thread at a time here; Python's threads
 * wait for their turn (conn.c).
 */
#include "ext.h"

/* The end of a method that returns None. Takes the conn. */
static PyObject *finished(struct conn *c)
{
    conn_put(&c);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* (kind, numbers, rank, world, drop_last, relaxed, seed, epochs, first, count, epoch, position) */
PyObject *handle_follow(PyObject *self, PyObject *args)
{
    unsigned long long seed, epochs, first, count, epoch, position;
    struct conn *c = handle_conn(self);
    struct indices list = {NULL, 0};
    struct dlc_order o = {0};
    PyObject *numbers;
    struct wait w;
    int rc;

    if (c == NULL ||
        !PyArg_ParseTuple(args, "IOIIIIKKKKKK:follow", &o.kind, &numbers, &o.rank, &o.world,
                          &o.drop_last, &o.relaxed, &seed, &epochs, &first, &count, &epoch,
                          &position) ||
        (o.kind == DLC_EXPLICIT && indices_of(numbers, c->count, &list) < 0))
        return finished(c);
    o.seed = seed;
    o.epochs = epochs;
    o.first = first;
    o.count = count;
    o.list = list.at;
    o.list_len = list.n;
    turn_begin(c, &w);
    rc = dlc_follow(c->ds, &o, epoch, position);
    if (turn_end(c, &w) && rc < 0)
        raise_last(rc);
    PyMem_Free(list.at);
    return finished(c);
}

PyObject *handle_follow_more(PyObject *self, PyObject *numbers)
{
    struct conn *c = handle_conn(self);
    struct indices list;
    struct wait w;
    int rc;

    if (c == NULL || indices_of(numbers, c->count, &list) < 0)
        return finished(c);
    turn_begin(c, &w);
    rc = dlc_follow_more(c->ds, list.at, list.n);
    if (turn_end(c, &w) && rc < 0)
        raise_last(rc);
    PyMem_Free(list.at);
    return finished(c);
}

/* (epoch, position, ahead, waited_ns) */
PyObject *handle_advance(PyObject *self, PyObject *args)
{
    unsigned long long epoch, position, ahead, waited_ns;
    struct conn *c = handle_conn(self);
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

PyObject *handle_epoch_length(PyObject *self, PyObject *none)
{
    struct conn *c = handle_conn(self);
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
    conn_put(&c);
    return got;
}

PyObject *handle_next(PyObject *self, PyObject *none)
{
    struct conn *c = handle_conn(self);
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
    conn_put(&c);
    return got;
}

PyObject *handle_tell(PyObject *self, PyObject *none)
{
    struct conn *c = handle_conn(self);
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
    conn_put(&c);
    return got;
}
