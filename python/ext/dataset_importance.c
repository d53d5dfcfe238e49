// SPDX-License-Identifier: Apache-2.0
/*
 * Handle: importance weights, and lists drawn by them. One thread at a time may begin and draw, as
 * with orders; any thread may learn and copy weights.
 */
#include "ext.h"

#include <string.h>

/* (mode, rule, rank, world, seed, first, count, length, every, replication, prefer, job, samples)
 */
PyObject *dataset_importance(PyObject *self, PyObject *args)
{
    unsigned long long seed, first, count, length;
    struct dataset_ref *c = dataset_ref_of(self);
    struct dlc_importance s = {0};
    struct indices list = {NULL, 0};
    PyObject *samples = Py_None;
    struct wait w;
    int rc;

    if (c != NULL &&
        PyArg_ParseTuple(args, "IIIIKKKKIddz|O:importance", &s.mode, &s.rule, &s.rank, &s.world,
                         &seed, &first, &count, &length, &s.every, &s.replication, &s.prefer,
                         &s.job, &samples) &&
        (samples == Py_None || indices_of(samples, c->count, &list) == 0)) {
        s.seed = seed;
        s.first = first;
        s.count = count;
        s.length = length;
        s.samples = list.at;
        s.n_samples = list.n;
        turn_begin(c, &w);
        rc = dlc_importance(c->ds, &s);
        if (turn_end(c, &w) && rc < 0)
            raise_last(rc);
    }
    PyMem_Free(list.at);
    dataset_ref_put(&c);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* ---- floats ---- */

struct floats {
    float *at;
    size_t n;
};

static int floats_of_sequence(PyObject *o, struct floats *out)
{
    PyObject *list = PySequence_List(o);
    Py_ssize_t n = list != NULL ? PyList_Size(list) : 0;

    if (list == NULL)
        return -1;
    *out = (struct floats){PyMem_Malloc((size_t)n * sizeof(float) + 1), (size_t)n};
    if (out->at == NULL)
        PyErr_NoMemory();
    for (Py_ssize_t k = 0; out->at != NULL && k < n && !PyErr_Occurred(); k++)
        out->at[k] = (float)PyFloat_AsDouble(PyList_GetItem(list, k));
    Py_DECREF(list);
    if (!PyErr_Occurred())
        return 0;
    PyMem_Free(out->at);
    *out = (struct floats){NULL, 0}; /* the caller frees what it was given */
    return -1;
}

static bool is_plain(const Py_buffer *b)
{
    const char *f = b->format != NULL ? b->format : "B";

    if (*f == '@' || *f == '=' || *f == '<')
        f++;
    return strcmp(f, "f") == 0 && b->ndim == 1;
}

/* A buffer of float32, or a sequence of numbers: a copy. Gives; return it with PyMem_Free(). */
static int floats_of(PyObject *o, struct floats *out)
{
    Py_buffer b;
    int rc = 0;

    *out = (struct floats){NULL, 0};
    if (!PyObject_CheckBuffer(o))
        return floats_of_sequence(o, out);
    if (PyObject_GetBuffer(o, &b, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) < 0) {
        PyErr_Clear(); /* strided, say: item by item then */
        return floats_of_sequence(o, out);
    }
    if (is_plain(&b)) {
        *out = (struct floats){PyMem_Malloc((size_t)b.len + 1), (size_t)b.len / sizeof(float)};
        if (out->at != NULL)
            memcpy(out->at, b.buf, (size_t)b.len);
        else
            PyErr_NoMemory();
        rc = out->at != NULL ? 0 : -1;
    } else {
        rc = floats_of_sequence(o, out);
    }
    PyBuffer_Release(&b);
    return rc;
}

/* ---- learning ---- */

static PyObject *learn(struct dataset_ref *c, unsigned long long epoch, const struct indices *ix,
                       const struct floats *f)
{
    struct dlc_learnt got;
    PyThreadState *t;
    int rc;

    if (ix->n != f->n)
        return PyErr_Format(PyExc_ValueError, "%zu samples and %zu losses: one for each", ix->n,
                            f->n);
    t = PyEval_SaveThread(); /* a daemon that comes back may hold it up for a moment */
    rc = dlc_learn(c->ds, epoch, ix->at, f->at, ix->n, &got);
    PyEval_RestoreThread(t);
    if (rc < 0)
        return raise_last(rc);
    return Py_BuildValue("KKd", (unsigned long long)got.used, (unsigned long long)got.ignored,
                         got.mean);
}

/* (epoch, samples, losses) */
PyObject *dataset_learn(PyObject *self, PyObject *args)
{
    struct dataset_ref *c = dataset_ref_of(self);
    PyObject *samples, *losses, *got = NULL;
    struct indices ix = {NULL, 0};
    struct floats f = {NULL, 0};
    unsigned long long epoch;

    if (c != NULL && PyArg_ParseTuple(args, "KOO:learn", &epoch, &samples, &losses) &&
        indices_of(samples, c->count, &ix) == 0 && floats_of(losses, &f) == 0)
        got = learn(c, epoch, &ix, &f);
    PyMem_Free(ix.at);
    PyMem_Free(f.at);
    dataset_ref_put(&c);
    return got;
}

/* ---- drawing ---- */

/* Takes bytes. */
static PyObject *numbers(PyObject *bytes)
{
    PyObject *view = PyMemoryView_FromObject(bytes), *cast = NULL;

    if (view != NULL)
        cast = PyObject_CallMethod(view, "cast", "s", "Q");
    Py_XDECREF(view);
    Py_DECREF(bytes);
    return cast;
}

PyObject *dataset_draw(PyObject *self, PyObject *arg)
{
    struct dataset_ref *c = dataset_ref_of(self);
    unsigned long long epoch = c != NULL ? PyLong_AsUnsignedLongLong(arg) : 0;
    struct dlc_drawn d = {0};
    PyObject *bytes = NULL;
    int64_t n = -1, got;
    struct wait w;

    if (c == NULL || PyErr_Occurred())
        goto out;
    turn_begin(c, &w);
    n = dlc_draw(c->ds, epoch, NULL, 0, NULL);
    if (turn_end(c, &w) && n < 0)
        raise_last((int)n);
    if (!PyErr_Occurred())
        bytes = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(n * 8));
    if (bytes == NULL)
        goto out;
    turn_begin(c, &w);
    got = dlc_draw(c->ds, epoch, (uint64_t *)(void *)PyByteArray_AsString(bytes), (uint64_t)n, &d);
    if (turn_end(c, &w) && got < 0)
        raise_last((int)got);
    else if (!PyErr_Occurred() && got != n)
        PyErr_SetString(PyExc_RuntimeError, "importance() was called while a list was drawn");
out:
    dataset_ref_put(&c);
    if (PyErr_Occurred()) {
        Py_XDECREF(bytes);
        return NULL;
    }
    bytes = numbers(bytes);
    return bytes == NULL ? NULL
                         : Py_BuildValue("N{s:K,s:K,s:K,s:K,s:d}", bytes, "distinct",
                                         (unsigned long long)d.distinct, "forced",
                                         (unsigned long long)d.forced, "resident",
                                         (unsigned long long)d.resident, "part",
                                         (unsigned long long)d.part, "effective", d.effective);
}

/* ---- saving and bringing back ---- */

/* (first, n) */
PyObject *dataset_weights(PyObject *self, PyObject *args)
{
    struct dataset_ref *c = dataset_ref_of(self);
    unsigned long long first, n;
    PyObject *bytes = NULL;
    PyThreadState *t;
    int rc;

    if (c != NULL && PyArg_ParseTuple(args, "KK:weights", &first, &n)) {
        if (n > (uint64_t)PY_SSIZE_T_MAX / sizeof(float))
            PyErr_NoMemory();
        else
            bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(n * sizeof(float)));
    }
    if (bytes != NULL) {
        float *to = (float *)(void *)PyBytes_AsString(bytes);

        t = PyEval_SaveThread();
        rc = dlc_weights(c->ds, first, n, to);
        PyEval_RestoreThread(t);
        if (rc < 0) {
            Py_DECREF(bytes);
            bytes = raise_last(rc);
        }
    }
    dataset_ref_put(&c);
    return bytes;
}

/* (first, weights) */
PyObject *dataset_set_weights(PyObject *self, PyObject *args)
{
    struct dataset_ref *c = dataset_ref_of(self);
    unsigned long long first;
    struct floats f = {NULL, 0};
    PyThreadState *t;
    PyObject *from;
    int rc;

    if (c != NULL && PyArg_ParseTuple(args, "KO:set_weights", &first, &from) &&
        floats_of(from, &f) == 0) {
        t = PyEval_SaveThread();
        rc = dlc_set_weights(c->ds, first, f.n, f.at);
        PyEval_RestoreThread(t);
        if (rc < 0)
            raise_last(rc);
    }
    PyMem_Free(f.at);
    dataset_ref_put(&c);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

PyObject *dataset_scale(PyObject *self, PyObject *none)
{
    struct dataset_ref *c = dataset_ref_of(self);
    struct dlc_scale s;

    (void)none;
    if (c == NULL)
        return NULL;
    dlc_scale(c->ds, &s);
    dataset_ref_put(&c);
    return Py_BuildValue("dddKK", s.first, s.mean, s.sum, (unsigned long long)s.count,
                         (unsigned long long)s.epoch);
}

/* (first, mean, sum, count, epoch) */
PyObject *dataset_set_scale(PyObject *self, PyObject *args)
{
    struct dataset_ref *c = dataset_ref_of(self);
    unsigned long long count, epoch;
    struct dlc_scale s = {0};
    int rc;

    if (c != NULL &&
        PyArg_ParseTuple(args, "dddKK:set_scale", &s.first, &s.mean, &s.sum, &count, &epoch)) {
        s.count = count;
        s.epoch = epoch;
        rc = dlc_set_scale(c->ds, &s);
        if (rc < 0)
            raise_last(rc);
    }
    dataset_ref_put(&c);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}
