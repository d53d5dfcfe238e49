// SPDX-License-Identifier: Apache-2.0
/*
 * View: the exporter behind the memoryviews of samples. It holds one pin, from when it is made
 * until it is freed; memoryviews, slices of them and numpy arrays over them hold it. No cycle can
 * go through it, since it refers to no Python object but its type: not tracked by the collector.
 */
#include "ext.h"

#include <string.h>

struct view {
    PyObject_HEAD struct dataset_ref *ref;
    struct dlc_view v;
};

static struct view *view_new(struct dataset_ref *c)
{
    struct view *view = PyObject_New(struct view, c->view);

    if (view != NULL) {
        view->ref = dataset_ref_get(c);
        view->v = (struct dlc_view){0};
    }
    return view;
}

static void view_dealloc(PyObject *self)
{
    struct view *view = (struct view *)self;
    PyTypeObject *type = Py_TYPE(self);

    dlc_put(view->ref->ds, &view->v);
    dataset_ref_put(&view->ref);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

static int view_getbuffer(PyObject *self, Py_buffer *b, int flags)
{
    struct view *view = (struct view *)self;
    const void *data = view->v.len > 0 ? view->v.data : "";

    return PyBuffer_FillInfo(b, self, (void *)(uintptr_t)data, (Py_ssize_t)view->v.len, 1, flags);
}

static char view_doc[] = "The bytes of one sample, pinned. Look at them through memoryview(view).";

static PyType_Slot view_slots[] = {
    {Py_tp_doc, view_doc},
    {Py_tp_dealloc, view_dealloc},
    {Py_bf_getbuffer, view_getbuffer},
    {0, NULL},
};

PyType_Spec view_spec = {
    .name = "dlcache._dlcache.View",
    .basicsize = sizeof(struct view),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = view_slots,
};

/* Takes a View. */
static PyObject *looked_at(struct view *view)
{
    PyObject *memory = PyMemoryView_FromObject((PyObject *)view);

    Py_DECREF((PyObject *)view);
    return memory;
}

PyObject *view_wrap(struct dataset_ref *c, struct dlc_view *v)
{
    struct view *view = view_new(c);

    if (view == NULL) {
        dlc_put(c->ds, v);
        return NULL;
    }
    view->v = *v;
    *v = (struct dlc_view){0};
    return looked_at(view);
}

bool sample_get(struct dataset_ref *c, uint64_t i, struct dlc_view *out)
{
    struct wait w;
    int rc;

    if (dlc_try_get(c->ds, i, out) == 0) /* a hit waits for nobody: keep the GIL */
        return true;
    wait_begin(&w);
    rc = dlc_get(c->ds, i, out);
    if (!wait_end(&w))
        dlc_put(c->ds, out);
    else if (rc < 0)
        raise_sample(c, i, rc);
    else
        return true;
    return false;
}

PyObject *view_get(struct dataset_ref *c, uint64_t i)
{
    struct view *view = view_new(c);

    if (view == NULL)
        return NULL;
    if (!sample_get(c, i, &view->v)) {
        Py_DECREF((PyObject *)view);
        return NULL;
    }
    return looked_at(view);
}

/* Puts what was not taken. */
static void put_all(struct dataset_ref *c, struct dlc_view *v, size_t n)
{
    for (size_t k = 0; k < n; k++)
        dlc_put(c->ds, &v[k]);
}

static PyObject *wrap_all(struct dataset_ref *c, struct dlc_view *v, size_t n)
{
    PyObject *list = PyList_New((Py_ssize_t)n);

    for (size_t k = 0; list != NULL && k < n; k++) {
        PyObject *memory = view_wrap(c, &v[k]);

        if (memory != NULL)
            PyList_SetItem(list, (Py_ssize_t)k, memory);
        else
            Py_CLEAR(list);
    }
    return list;
}

PyObject *view_get_many(struct dataset_ref *c, const struct indices *ix)
{
    struct dlc_view *v = PyMem_Calloc(ix->n > 0 ? ix->n : 1, sizeof(*v));
    PyObject *list = NULL;
    struct wait w;
    size_t bad = 0;
    int rc;

    if (v == NULL)
        return PyErr_NoMemory();
    wait_begin(&w);
    rc = dlc_get_many(c->ds, ix->at, ix->n, v, &bad);
    if (wait_end(&w))
        list = rc < 0 ? raise_sample(c, ix->at[bad], rc) : wrap_all(c, v, ix->n);
    if (list == NULL)
        put_all(c, v, ix->n);
    PyMem_Free(v);
    return list;
}
