// SPDX-License-Identifier: Apache-2.0
/*
 * Handle: an open dataset, the base class of dlcache.Dataset. Methods are described there
 * (python/dlcache/dataset.py, _dlcache.pyi).
 */
#include "ext.h"

#include <string.h>

#define COPY_WITHOUT_GIL (256 * 1024) /* bytes; copying less is quicker than giving up the GIL */

struct dataset_ref *dataset_ref_of(PyObject *self)
{
    struct dataset_ref *c = ((struct handle *)self)->ref;

    if (c == NULL) {
        PyErr_SetString(PyExc_ValueError, "the dataset is closed");
        return NULL;
    }
    return dataset_ref_get(c);
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
    if (!PyErr_Occurred() && h->ref == NULL)
        h->ref = dataset_ref_new(ds, view);
    else if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "the dataset is open already");
    if (PyErr_Occurred()) {
        dlc_close(&ds);
        return NULL;
    }
    return Py_NewRef(Py_None);
}

/* A method, because only methods are told their module. */
static PyObject *dataset_open(PyObject *self, PyTypeObject *cls, PyObject *const *args,
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

static PyObject *dataset_close(PyObject *self, PyObject *none)
{
    struct handle *h = (struct handle *)self;

    (void)none;
    dataset_ref_put(&h->ref);
    return Py_NewRef(Py_None);
}

static void dataset_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc free_it = (freefunc)PyType_GetSlot(type, Py_tp_free);

    dataset_ref_put(&((struct handle *)self)->ref);
    free_it(self);
    Py_DECREF((PyObject *)type);
}

static PyObject *dataset_closed(PyObject *self, void *none)
{
    (void)none;
    return PyBool_FromLong(((struct handle *)self)->ref == NULL);
}

static PyObject *dataset_snapshot(PyObject *self, PyObject *none)
{
    struct dataset_ref *c = dataset_ref_of(self);
    PyObject *got = NULL;

    (void)none;
    if (c != NULL)
        got = PyLong_FromUnsignedLongLong(dlc_snapshot(c->ds));
    dataset_ref_put(&c);
    return got;
}

/* ---- samples ---- */

static Py_ssize_t dataset_len(PyObject *self)
{
    struct dataset_ref *c = dataset_ref_of(self);
    Py_ssize_t n = c != NULL ? (Py_ssize_t)c->count : -1;

    dataset_ref_put(&c);
    return n;
}

static PyObject *get_slice(struct dataset_ref *c, PyObject *slice)
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

static PyObject *dataset_getitem(PyObject *self, PyObject *key)
{
    struct dataset_ref *c = dataset_ref_of(self);
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
    dataset_ref_put(&c);
    return got;
}

static PyObject *dataset_item(PyObject *self, Py_ssize_t i)
{
    struct dataset_ref *c = dataset_ref_of(self);
    PyObject *got = NULL;

    if (c != NULL && i >= 0 && (uint64_t)i < c->count)
        got = view_get(c, (uint64_t)i);
    else if (c != NULL)
        raise_index(i, c->count);
    dataset_ref_put(&c);
    return got;
}

/* Takes *v. */
static PyObject *copy_of(struct dataset_ref *c, struct dlc_view *v)
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

static PyObject *dataset_read(PyObject *self, PyObject *key)
{
    struct dataset_ref *c = dataset_ref_of(self);
    struct dlc_view v = {0};
    PyObject *got = NULL;
    Py_ssize_t i = c != NULL ? index_of(key, c->count) : -1;

    if (i >= 0 && sample_get(c, (uint64_t)i, &v))
        got = copy_of(c, &v);
    dataset_ref_put(&c);
    return got;
}

static PyObject *dataset_read_many(PyObject *self, PyObject *which)
{
    struct dataset_ref *c = dataset_ref_of(self);
    struct indices ix;
    PyObject *got = NULL;

    if (c != NULL && indices_of(which, c->count, &ix) == 0) {
        got = view_get_many(c, &ix);
        PyMem_Free(ix.at);
    }
    dataset_ref_put(&c);
    return got;
}

static PyObject *dataset_prefetch(PyObject *self, PyObject *which)
{
    struct dataset_ref *c = dataset_ref_of(self);
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
    dataset_ref_put(&c);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

int dataset_find_target(PyObject *self, PyObject *key, struct dataset_ref **cp, uint64_t *target)
{
    Py_ssize_t i;

    *cp = dataset_ref_of(self);
    i = *cp != NULL ? index_of(key, (*cp)->count) : -1;
    return i < 0 ? DLC_EINVAL : dlc_target((*cp)->ds, (uint64_t)i, target);
}

PyObject *dataset_no_target(int rc)
{
    if (PyErr_Occurred())
        return NULL;
    return rc == DLC_ENOTFOUND ? Py_NewRef(Py_None) : raise_last(rc);
}

static PyObject *dataset_target(PyObject *self, PyObject *key)
{
    struct dataset_ref *c;
    uint64_t target;
    int rc = dataset_find_target(self, key, &c, &target);
    PyObject *got = rc < 0 ? dataset_no_target(rc) : PyLong_FromUnsignedLongLong(target);

    dataset_ref_put(&c);
    return got;
}

static PyObject *dataset_read_target(PyObject *self, PyObject *key)
{
    struct dataset_ref *c;
    uint64_t target;
    int rc = dataset_find_target(self, key, &c, &target);
    PyObject *got = rc < 0 ? dataset_no_target(rc) : view_get(c, target);

    dataset_ref_put(&c);
    return got;
}

/* The numbers of samples, followed by those of their targets; of a sample without one: by its own
 * again. */
static int add_targets(struct dataset_ref *c, struct indices *ix)
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
        if (rc == DLC_ENOTFOUND) {
            both[ix->n + k] = both[k];
        } else if (rc < 0) {
            raise_sample(c, both[k], rc);
            return -1;
        }
    }
    ix->n *= 2;
    return 0;
}

/* None in place of the views of targets that there are not. */
static int drop_missing(PyObject *targets, const struct indices *ix)
{
    for (size_t k = 0; k < ix->n / 2; k++) {
        if (ix->at[ix->n / 2 + k] == ix->at[k] &&
            PyList_SetItem(targets, (Py_ssize_t)k, Py_NewRef(Py_None)) < 0)
            return -1;
    }
    return 0;
}

static PyObject *dataset_read_pairs(PyObject *self, PyObject *which)
{
    struct dataset_ref *c = dataset_ref_of(self);
    PyObject *views = NULL, *pair = NULL;
    struct indices ix = {NULL, 0};

    if (c != NULL && indices_of(which, c->count, &ix) == 0 && add_targets(c, &ix) == 0)
        views = view_get_many(c, &ix);
    if (views != NULL) {
        PyObject *samples = PyList_GetSlice(views, 0, (Py_ssize_t)ix.n / 2);
        PyObject *targets = PyList_GetSlice(views, (Py_ssize_t)ix.n / 2, (Py_ssize_t)ix.n);

        if (samples != NULL && targets != NULL && drop_missing(targets, &ix) == 0)
            pair = PyTuple_Pack(2, samples, targets);
        Py_XDECREF(samples);
        Py_XDECREF(targets);
        Py_DECREF(views);
    }
    PyMem_Free(ix.at);
    dataset_ref_put(&c);
    return pair;
}

/* ---- the type ---- */

static PyMethodDef dataset_methods[] = {
    {"_open", (PyCFunction)(void (*)(void))dataset_open,
     METH_METHOD | METH_FASTCALL | METH_KEYWORDS, NULL},
    {"_close", dataset_close, METH_NOARGS, NULL},
    {"_snapshot", dataset_snapshot, METH_NOARGS, NULL},
    {"read", dataset_read, METH_O, "read($self, index, /)\n--\n\nThe bytes of a sample, copied."},
    {"read_many", dataset_read_many, METH_O,
     "read_many($self, indices, /)\n--\n\n"
     "Memoryviews of several samples. Those not in memory are fetched at the same time, and other\n"
     "threads run meanwhile. All or nothing."},
    {"prefetch", dataset_prefetch, METH_O,
     "prefetch($self, indices, /)\n--\n\nHave samples fetched; does not wait for them."},
    {"target", dataset_target, METH_O,
     "target($self, index, /)\n--\n\nNumber of the sample's target, or None."},
    {"read_target", dataset_read_target, METH_O,
     "read_target($self, index, /)\n--\n\nMemoryview of the sample's target, or None."},
    {"read_pairs", dataset_read_pairs, METH_O,
     "read_pairs($self, indices, /)\n--\n\n"
     "As read_many(), for samples whose targets are files: (list of samples, list of targets).\n"
     "None in place of a target that there is not."},
    {"key", dataset_key, METH_O, "key($self, index, /)\n--\n\nThe sample's key below the URL."},
    {"target_key", dataset_target_key, METH_O,
     "target_key($self, index, /)\n--\n\nThe key of the sample's target, or None."},
    {"size", dataset_size, METH_O, "size($self, index, /)\n--\n\nBytes of the sample."},
    {"find", dataset_find, METH_O,
     "find($self, key, /)\n--\n\nNumber of the sample with this key; NotFoundError if there is "
     "none."},
    {"label", dataset_label, METH_O,
     "label($self, index, /)\n--\n\nNumber of the sample's class, or None."},
    {"column", dataset_column, METH_VARARGS,
     "column($self, name, index, /)\n--\n\nWhat the manifest says of a sample in a column."},
    {"_labels", dataset_labels, METH_NOARGS, NULL},
    {"_classes", dataset_classes, METH_NOARGS, NULL},
    {"_splits", dataset_splits, METH_NOARGS, NULL},
    {"_location", dataset_location, METH_NOARGS, NULL},
    {"_columns", dataset_columns, METH_NOARGS, NULL},
    {"_stats", dataset_stats, METH_NOARGS, NULL},
    {"_daemon_stats", dataset_daemon_stats, METH_NOARGS, NULL},
    {"_follow", dataset_follow, METH_VARARGS, NULL},
    {"_follow_more", dataset_follow_more, METH_VARARGS, NULL},
    {"_advance", dataset_advance, METH_VARARGS, NULL},
    {"_state", dataset_state, METH_NOARGS, NULL},
    {"_take", dataset_take, METH_VARARGS, NULL},
    {"epoch_length", dataset_epoch_length, METH_NOARGS,
     "epoch_length($self, /)\n--\n\nSamples per epoch of this rank, in the order that is set."},
    {"next", dataset_next, METH_NOARGS,
     "next($self, /)\n--\n\n"
     "(index, memoryview) of the order's next sample, or None at the end of an epoch."},
    {"tell", dataset_tell, METH_NOARGS,
     "tell($self, /)\n--\n\n(epoch, position): where next() stands."},
    {"importance", dataset_importance, METH_VARARGS,
     "importance($self, mode, rule, rank, world, seed, first, count, length, every, replication,\n"
     "           prefer, job, samples=None, /)\n--\n\n"
     "Begin to weigh samples, or go on with another spec (struct dlc_importance in "
     "dlcache/importance.h)."},
    {"learn", dataset_learn, METH_VARARGS,
     "learn($self, epoch, samples, losses, /)\n--\n\n"
     "One batch: a loss for each sample. (used, ignored, mean): how many, and their mean."},
    {"draw", dataset_draw, METH_O,
     "draw($self, epoch, /)\n--\n\n"
     "(samples, figures): this rank's list of an epoch, a memoryview of 64-bit numbers; and what\n"
     "came out, as struct dlc_drawn in dlcache/importance.h names it."},
    {"weights", dataset_weights, METH_VARARGS,
     "weights($self, first, n, /)\n--\n\nWeights of samples as float32, 0: never learnt."},
    {"set_weights", dataset_set_weights, METH_VARARGS,
     "set_weights($self, first, weights, /)\n--\n\nBring back what weights() gave."},
    {"scale", dataset_scale, METH_NOARGS,
     "scale($self, /)\n--\n\n"
     "(first, mean, sum, count, epoch): what the rule remembers of losses, to save with weights."},
    {"set_scale", dataset_set_scale, METH_VARARGS,
     "set_scale($self, first, mean, sum, count, epoch, /)\n--\n\nBring back what scale() gave."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef dataset_getset[] = {
    {"closed", dataset_closed, NULL, "True when close() was called.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static char dataset_doc[] = "An open dataset; see dlcache.Dataset, which derives from it.";

static PyType_Slot dataset_slots[] = {
    {Py_tp_doc, dataset_doc},
    {Py_tp_dealloc, dataset_dealloc},
    {Py_tp_methods, dataset_methods},
    {Py_tp_getset, dataset_getset},
    {Py_mp_length, dataset_len},
    {Py_mp_subscript, dataset_getitem},
    {Py_sq_length, dataset_len},
    {Py_sq_item, dataset_item},
    {0, NULL},
};

PyType_Spec dataset_spec = {
    .name = "dlcache._dlcache.Handle",
    .basicsize = sizeof(struct handle),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = dataset_slots,
};
