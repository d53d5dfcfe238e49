// SPDX-License-Identifier: Apache-2.0
/*
 * Handle: an open dataset. The class dlcache.Dataset derives from it; what that says of a method
 * (python/dlcache/dataset.py, _dlcache.pyi) is not said again here.
 */
#include "ext.h"

#include <string.h>

#define COPY_WITHOUT_GIL (256 * 1024) /* bytes; copying less is quicker than giving up the GIL */

struct conn *handle_conn(PyObject *self)
{
    struct conn *c = ((struct handle *)self)->conn;

    if (c == NULL) {
        PyErr_SetString(PyExc_ValueError, "the dataset is closed");
        return NULL;
    }
    return conn_ref(c);
}

/* ---- open and close ---- */

static PyObject *opened(struct handle *h, PyTypeObject *view, PyObject *args)
{
    struct dlc_options opt = {0};
    struct dlc_dataset *ds = NULL;
    struct wait w;
    unsigned long long snapshot;
    const char *url;
    int rc;

    if (!PyArg_ParseTuple(args, "szzIIIIzK:open", &url, &opt.socket, &opt.endpoint, &opt.no_spawn,
                          &opt.anonymous, &opt.timeout_ms, &opt.refresh, &opt.token, &snapshot))
        return NULL;
    opt.snapshot = snapshot;
    wait_begin(&w);
    rc = dlc_open(url, &opt, &ds);
    if (wait_end(&w) && rc < 0)
        return raise_last(rc);
    if (!PyErr_Occurred() && h->conn == NULL)
        h->conn = conn_new(ds, view);
    else if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "the dataset is open already");
    if (PyErr_Occurred()) {
        dlc_close(&ds);
        return NULL;
    }
    return Py_NewRef(Py_None);
}

/* A method, because only methods are told their module. */
static PyObject *handle_open(PyObject *self, PyTypeObject *cls, PyObject *const *args,
                             Py_ssize_t nargs, PyObject *kwnames)
{
    struct module_state *m = PyType_GetModuleState(cls);
    PyObject *tuple = PyTuple_New(nargs), *got;

    (void)kwnames; /* our own caller gives none */
    if (tuple == NULL)
        return NULL;
    for (Py_ssize_t k = 0; k < nargs; k++)
        PyTuple_SetItem(tuple, k, Py_NewRef(args[k]));
    got = opened((struct handle *)self, m->view, tuple);
    Py_DECREF(tuple);
    return got;
}

static PyObject *handle_close(PyObject *self, PyObject *none)
{
    struct handle *h = (struct handle *)self;

    (void)none;
    conn_put(&h->conn);
    return Py_NewRef(Py_None);
}

static void handle_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc free_it = (freefunc)PyType_GetSlot(type, Py_tp_free);

    conn_put(&((struct handle *)self)->conn);
    free_it(self);
    Py_DECREF((PyObject *)type);
}

static PyObject *handle_closed(PyObject *self, void *none)
{
    (void)none;
    return PyBool_FromLong(((struct handle *)self)->conn == NULL);
}

static PyObject *handle_snapshot(PyObject *self, PyObject *none)
{
    struct conn *c = handle_conn(self);
    PyObject *got = NULL;

    (void)none;
    if (c != NULL)
        got = PyLong_FromUnsignedLongLong(dlc_snapshot(c->ds));
    conn_put(&c);
    return got;
}

/* ---- samples ---- */

static Py_ssize_t handle_len(PyObject *self)
{
    struct conn *c = handle_conn(self);
    Py_ssize_t n = c != NULL ? (Py_ssize_t)c->count : -1;

    conn_put(&c);
    return n;
}

static PyObject *get_slice(struct conn *c, PyObject *slice)
{
    Py_ssize_t start, stop, step, n;
    struct indices ix;
    PyObject *list;

    if (PySlice_Unpack(slice, &start, &stop, &step) < 0)
        return NULL;
    n = PySlice_AdjustIndices((Py_ssize_t)c->count, &start, &stop, step);
    ix = (struct indices){PyMem_Calloc(n > 0 ? (size_t)n : 1, sizeof(*ix.at)), (size_t)n};
    if (ix.at == NULL)
        return PyErr_NoMemory();
    for (Py_ssize_t k = 0; k < n; k++)
        ix.at[k] = (uint64_t)(start + k * step);
    list = view_get_many(c, &ix);
    PyMem_Free(ix.at);
    return list;
}

static PyObject *handle_getitem(PyObject *self, PyObject *key)
{
    struct conn *c = handle_conn(self);
    PyObject *got = NULL;
    Py_ssize_t i;

    if (c == NULL)
        return NULL;
    if (PyIndex_Check(key)) {
        i = index_of(key, c->count);
        if (i >= 0)
            got = view_get(c, (uint64_t)i);
    } else if (Py_TYPE(key) == &PySlice_Type) {
        got = get_slice(c, key);
    } else {
        PyErr_Format(PyExc_TypeError, "a dataset is indexed by integers or slices, not by %R",
                     (PyObject *)Py_TYPE(key));
    }
    conn_put(&c);
    return got;
}

static PyObject *handle_item(PyObject *self, Py_ssize_t i)
{
    struct conn *c = handle_conn(self);
    PyObject *got = NULL;

    if (c != NULL && i >= 0 && (uint64_t)i < c->count)
        got = view_get(c, (uint64_t)i);
    else if (c != NULL)
        raise_index(i, c->count);
    conn_put(&c);
    return got;
}

/* Takes *v. */
static PyObject *copy_of(struct conn *c, struct dlc_view *v)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)v->len);
    char *to = bytes != NULL ? PyBytes_AsString(bytes) : NULL;

    if (to != NULL && v->len > COPY_WITHOUT_GIL) {
        PyThreadState *t = PyEval_SaveThread();

        memcpy(to, v->data, v->len);
        PyEval_RestoreThread(t);
    } else if (to != NULL && v->len > 0) {
        memcpy(to, v->data, v->len);
    }
    dlc_put(c->ds, v);
    return bytes;
}

static PyObject *handle_read(PyObject *self, PyObject *key)
{
    struct conn *c = handle_conn(self);
    struct dlc_view v = {0};
    PyObject *got = NULL;
    Py_ssize_t i = c != NULL ? index_of(key, c->count) : -1;

    if (i >= 0 && sample_get(c, (uint64_t)i, &v))
        got = copy_of(c, &v);
    conn_put(&c);
    return got;
}

static PyObject *handle_read_many(PyObject *self, PyObject *which)
{
    struct conn *c = handle_conn(self);
    struct indices ix;
    PyObject *got = NULL;

    if (c != NULL && indices_of(which, c->count, &ix) == 0) {
        got = view_get_many(c, &ix);
        PyMem_Free(ix.at);
    }
    conn_put(&c);
    return got;
}

static PyObject *handle_prefetch(PyObject *self, PyObject *which)
{
    struct conn *c = handle_conn(self);
    struct indices ix;
    struct wait w;
    int rc;

    if (c != NULL && indices_of(which, c->count, &ix) == 0) {
        wait_begin(&w);
        rc = dlc_prefetch(c->ds, ix.at, ix.n);
        if (wait_end(&w) && rc < 0)
            raise_last(rc);
        PyMem_Free(ix.at);
    }
    conn_put(&c);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

int handle_find_target(PyObject *self, PyObject *key, struct conn **cp, uint64_t *target)
{
    Py_ssize_t i;

    *cp = handle_conn(self);
    i = *cp != NULL ? index_of(key, (*cp)->count) : -1;
    return i < 0 ? DLC_EINVAL : dlc_target((*cp)->ds, (uint64_t)i, target);
}

PyObject *handle_no_target(int rc)
{
    if (PyErr_Occurred())
        return NULL;
    return rc == DLC_ENOTFOUND ? Py_NewRef(Py_None) : raise_last(rc);
}

static PyObject *handle_target(PyObject *self, PyObject *key)
{
    struct conn *c;
    uint64_t target;
    int rc = handle_find_target(self, key, &c, &target);
    PyObject *got = rc < 0 ? handle_no_target(rc) : PyLong_FromUnsignedLongLong(target);

    conn_put(&c);
    return got;
}

static PyObject *handle_read_target(PyObject *self, PyObject *key)
{
    struct conn *c;
    uint64_t target;
    int rc = handle_find_target(self, key, &c, &target);
    PyObject *got = rc < 0 ? handle_no_target(rc) : view_get(c, target);

    conn_put(&c);
    return got;
}

/* The numbers of samples, followed by those of their targets. */
static int add_targets(struct conn *c, struct indices *ix)
{
    uint64_t *both = PyMem_Realloc(ix->at, 2 * ix->n * sizeof(*both) + 1);
    int rc;

    if (both == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    ix->at = both;
    for (size_t k = 0; k < ix->n; k++) {
        rc = dlc_target(c->ds, both[k], &both[ix->n + k]);
        if (rc < 0) {
            raise_sample(c, both[k], rc);
            return -1;
        }
    }
    ix->n *= 2;
    return 0;
}

static PyObject *handle_read_pairs(PyObject *self, PyObject *which)
{
    struct conn *c = handle_conn(self);
    PyObject *views = NULL, *pair = NULL;
    struct indices ix = {NULL, 0};

    if (c != NULL && indices_of(which, c->count, &ix) == 0 && add_targets(c, &ix) == 0)
        views = view_get_many(c, &ix);
    if (views != NULL) {
        PyObject *samples = PyList_GetSlice(views, 0, (Py_ssize_t)ix.n / 2);
        PyObject *targets = PyList_GetSlice(views, (Py_ssize_t)ix.n / 2, (Py_ssize_t)ix.n);

        if (samples != NULL && targets != NULL)
            pair = PyTuple_Pack(2, samples, targets);
        Py_XDECREF(samples);
        Py_XDECREF(targets);
        Py_DECREF(views);
    }
    PyMem_Free(ix.at);
    conn_put(&c);
    return pair;
}

/* ---- the type ---- */

static PyMethodDef handle_methods[] = {
    {"_open", (PyCFunction)(void (*)(void))handle_open, METH_METHOD | METH_FASTCALL | METH_KEYWORDS,
     NULL},
    {"_close", handle_close, METH_NOARGS, NULL},
    {"_snapshot", handle_snapshot, METH_NOARGS, NULL},
    {"read", handle_read, METH_O, "read($self, index, /)\n--\n\nThe bytes of a sample, copied."},
    {"read_many", handle_read_many, METH_O,
     "read_many($self, indices, /)\n--\n\n"
     "Memoryviews of several samples. Those not in memory are fetched at the same time, and other\n"
     "threads run meanwhile. All or nothing."},
    {"prefetch", handle_prefetch, METH_O,
     "prefetch($self, indices, /)\n--\n\nHave samples fetched; does not wait for them."},
    {"target", handle_target, METH_O,
     "target($self, index, /)\n--\n\nNumber of the sample's target, or None."},
    {"read_target", handle_read_target, METH_O,
     "read_target($self, index, /)\n--\n\nMemoryview of the sample's target, or None."},
    {"read_pairs", handle_read_pairs, METH_O,
     "read_pairs($self, indices, /)\n--\n\n"
     "As read_many(), for samples whose targets are files: (list of samples, list of targets)."},
    {"key", handle_key, METH_O, "key($self, index, /)\n--\n\nThe sample's key below the URL."},
    {"target_key", handle_target_key, METH_O,
     "target_key($self, index, /)\n--\n\nThe key of the sample's target, or None."},
    {"size", handle_size, METH_O, "size($self, index, /)\n--\n\nBytes of the sample."},
    {"find", handle_find, METH_O,
     "find($self, key, /)\n--\n\nNumber of the sample with this key; NotFoundError if there is "
     "none."},
    {"label", handle_label, METH_O,
     "label($self, index, /)\n--\n\nNumber of the sample's class, or None."},
    {"column", handle_column, METH_VARARGS,
     "column($self, name, index, /)\n--\n\nWhat the manifest says of a sample in a column."},
    {"_labels", handle_labels, METH_NOARGS, NULL},
    {"_classes", handle_classes, METH_NOARGS, NULL},
    {"_splits", handle_splits, METH_NOARGS, NULL},
    {"_columns", handle_columns, METH_NOARGS, NULL},
    {"_stats", handle_stats, METH_NOARGS, NULL},
    {"_daemon_stats", handle_daemon_stats, METH_NOARGS, NULL},
    {"_follow", handle_follow, METH_VARARGS, NULL},
    {"_follow_more", handle_follow_more, METH_VARARGS, NULL},
    {"_advance", handle_advance, METH_VARARGS, NULL},
    {"_state", handle_state, METH_NOARGS, NULL},
    {"_take", handle_take, METH_VARARGS, NULL},
    {"epoch_length", handle_epoch_length, METH_NOARGS,
     "epoch_length($self, /)\n--\n\nSamples per epoch of this rank, in the order that is set."},
    {"next", handle_next, METH_NOARGS,
     "next($self, /)\n--\n\n"
     "(index, memoryview) of the order's next sample, or None at the end of an epoch."},
    {"tell", handle_tell, METH_NOARGS,
     "tell($self, /)\n--\n\n(epoch, position): where next() stands."},
    {"importance", handle_importance, METH_VARARGS,
     "importance($self, mode, rule, rank, world, seed, first, count, length, every, replication,\n"
     "           prefer, job, samples=None, /)\n--\n\n"
     "Begin to weigh samples, or go on with another spec (struct dlc_importance in dlcache.h)."},
    {"learn", handle_learn, METH_VARARGS,
     "learn($self, epoch, samples, losses, /)\n--\n\n"
     "One batch: a loss for each sample. (used, ignored, mean): how many, and their mean."},
    {"draw", handle_draw, METH_O,
     "draw($self, epoch, /)\n--\n\n"
     "(samples, figures): this rank's list of an epoch, a memoryview of 64-bit numbers; and what\n"
     "came out, as struct dlc_drawn in dlcache.h names it."},
    {"weights", handle_weights, METH_VARARGS,
     "weights($self, first, n, /)\n--\n\nWeights of samples as float32, 0: never learnt."},
    {"set_weights", handle_set_weights, METH_VARARGS,
     "set_weights($self, first, weights, /)\n--\n\nBring back what weights() gave."},
    {"scale", handle_scale, METH_NOARGS,
     "scale($self, /)\n--\n\n"
     "(first, mean, sum, count, epoch): what the rule remembers of losses, to save with weights."},
    {"set_scale", handle_set_scale, METH_VARARGS,
     "set_scale($self, first, mean, sum, count, epoch, /)\n--\n\nBring back what scale() gave."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef handle_getset[] = {
    {"closed", handle_closed, NULL, "True when close() was called.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static char handle_doc[] = "An open dataset; see dlcache.Dataset, which derives from it.";

static PyType_Slot handle_slots[] = {
    {Py_tp_doc, handle_doc},
    {Py_tp_dealloc, handle_dealloc},
    {Py_tp_methods, handle_methods},
    {Py_tp_getset, handle_getset},
    {Py_mp_length, handle_len},
    {Py_mp_subscript, handle_getitem},
    {Py_sq_length, handle_len},
    {Py_sq_item, handle_item},
    {0, NULL},
};

PyType_Spec handle_spec = {
    .name = "dlcache._dlcache.Handle",
    .basicsize = sizeof(struct handle),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = handle_slots,
};
