// SPDX-License-Identifier: Apache-2.0
/* Handle: methods that describe samples: keys, sizes, labels, classes, splits, columns,
 * statistics. None of them waits. */
#include "ext.h"

#include <string.h>

/* Keys are bytes, nearly always UTF-8; what is not travels as os.fsdecode() does it. */
#define CODEC  "utf-8"
#define ERRORS "surrogateescape"

/* ---- texts ---- */

/* Copies a text as dlc_key() does: that of number i, or of sample i by name. */
typedef int64_t text_f(struct dlc_dataset *ds, uint64_t i, const char *name, char *buf, size_t cap);

static PyObject *text(struct dataset_ref *c, text_f *copy, uint64_t i, const char *name)
{
    char small[400], *large;
    int64_t n = copy(c->ds, i, name, small, sizeof(small));
    PyObject *got;

    if (n < 0)
        return raise_last((int)n);
    if ((size_t)n < sizeof(small))
        return PyUnicode_DecodeUTF8(small, (Py_ssize_t)n, ERRORS);
    large = PyMem_Malloc((size_t)n + 1);
    if (large == NULL)
        return PyErr_NoMemory();
    copy(c->ds, i, name, large, (size_t)n + 1);
    got = PyUnicode_DecodeUTF8(large, (Py_ssize_t)n, ERRORS);
    PyMem_Free(large);
    return got;
}

static int64_t copy_key(struct dlc_dataset *ds, uint64_t i, const char *name, char *buf, size_t cap)
{
    (void)name;
    return dlc_key(ds, i, buf, cap);
}

static int64_t copy_class(struct dlc_dataset *ds, uint64_t i, const char *name, char *buf,
                          size_t cap)
{
    (void)name;
    return dlc_class_name(ds, i, buf, cap);
}

static int64_t copy_split(struct dlc_dataset *ds, uint64_t i, const char *name, char *buf,
                          size_t cap)
{
    (void)name;
    return dlc_split_name(ds, (unsigned)i, buf, cap);
}

static int64_t copy_column_name(struct dlc_dataset *ds, uint64_t i, const char *name, char *buf,
                                size_t cap)
{
    (void)name;
    return dlc_column_name(ds, (unsigned)i, buf, cap);
}

static int64_t copy_column(struct dlc_dataset *ds, uint64_t i, const char *name, char *buf,
                           size_t cap)
{
    return dlc_column(ds, i, name, buf, cap);
}

/* ---- one sample ---- */

PyObject *dataset_key(PyObject *self, PyObject *index)
{
    struct dataset_ref *c = dataset_ref_of(self);
    Py_ssize_t i = c != NULL ? index_of(index, c->count) : -1;
    PyObject *got = i >= 0 ? text(c, copy_key, (uint64_t)i, NULL) : NULL;

    dataset_ref_put(&c);
    return got;
}

PyObject *dataset_target_key(PyObject *self, PyObject *index)
{
    struct dataset_ref *c;
    uint64_t target;
    int rc = dataset_find_target(self, index, &c, &target);
    PyObject *got = rc < 0 ? dataset_no_target(rc) : text(c, copy_key, target, NULL);

    dataset_ref_put(&c);
    return got;
}

PyObject *dataset_size(PyObject *self, PyObject *index)
{
    struct dataset_ref *c = dataset_ref_of(self);
    Py_ssize_t i = c != NULL ? index_of(index, c->count) : -1;
    int64_t n = i >= 0 ? dlc_size(c->ds, (uint64_t)i) : 0;
    PyObject *got = NULL;

    if (i >= 0)
        got = n < 0 ? raise_last((int)n) : PyLong_FromLongLong(n);
    dataset_ref_put(&c);
    return got;
}

PyObject *dataset_find(PyObject *self, PyObject *key)
{
    PyObject *bytes = PyUnicode_AsEncodedString(key, CODEC, ERRORS), *got = NULL;
    struct dataset_ref *c = bytes != NULL ? dataset_ref_of(self) : NULL;
    char *name;
    uint64_t i;
    int rc;

    if (c != NULL && PyBytes_AsStringAndSize(bytes, &name, NULL) == 0) { /* no NUL in it */
        rc = dlc_find(c->ds, name, &i);
        got = rc < 0 ? raise_last(rc) : PyLong_FromUnsignedLongLong(i);
    }
    dataset_ref_put(&c);
    Py_XDECREF(bytes);
    return got;
}

PyObject *dataset_label(PyObject *self, PyObject *index)
{
    struct dataset_ref *c = dataset_ref_of(self);
    Py_ssize_t i = c != NULL ? index_of(index, c->count) : -1;
    int64_t label = i >= 0 ? dlc_label(c->ds, (uint64_t)i) : 0;
    PyObject *got = NULL;

    if (i >= 0 && label == DLC_ENOTFOUND)
        got = Py_NewRef(Py_None);
    else if (i >= 0)
        got = label < 0 ? raise_last((int)label) : PyLong_FromLongLong(label);
    dataset_ref_put(&c);
    return got;
}

PyObject *dataset_column(PyObject *self, PyObject *args)
{
    PyObject *index, *got = NULL;
    struct dataset_ref *c = NULL;
    const char *name;
    Py_ssize_t i = -1;

    if (PyArg_ParseTuple(args, "sO:column", &name, &index) && (c = dataset_ref_of(self)) != NULL)
        i = index_of(index, c->count);
    if (i >= 0)
        got = text(c, copy_column, (uint64_t)i, name);
    dataset_ref_put(&c);
    return got;
}

/* ---- all of them ---- */

/* Without the GIL. Does any sample have one? */
static bool copy_labels(struct dataset_ref *c, int64_t *to)
{
    bool some = false;

    for (uint64_t i = 0; i < c->count; i++) {
        int64_t label = dlc_label(c->ds, i);

        to[i] = label < 0 ? -1 : label;
        some = some || label >= 0;
    }
    return some;
}

/* -> bytes of int64, -1 where a sample has none; or None when no sample has a label */
PyObject *dataset_labels(PyObject *self, PyObject *none)
{
    struct dataset_ref *c = dataset_ref_of(self);
    PyObject *bytes = NULL;
    PyThreadState *t;
    bool some = true;

    (void)none;
    if (c != NULL)
        bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(c->count * sizeof(int64_t)));
    if (bytes != NULL) {
        t = PyEval_SaveThread();
        some = copy_labels(c, (int64_t *)(void *)PyBytes_AsString(bytes));
        PyEval_RestoreThread(t);
    }
    dataset_ref_put(&c);
    if (!some) {
        Py_DECREF(bytes);
        return Py_NewRef(Py_None);
    }
    return bytes;
}

static PyObject *texts(struct dataset_ref *c, text_f *copy, uint64_t n)
{
    PyObject *list = PyList_New((Py_ssize_t)n);

    for (uint64_t k = 0; list != NULL && k < n; k++) {
        PyObject *name = text(c, copy, k, NULL);

        if (name == NULL)
            Py_CLEAR(list);
        else
            PyList_SetItem(list, (Py_ssize_t)k, name);
    }
    return list;
}

PyObject *dataset_classes(PyObject *self, PyObject *none)
{
    struct dataset_ref *c = dataset_ref_of(self);
    PyObject *list = c != NULL ? texts(c, copy_class, dlc_class_count(c->ds)) : NULL;

    (void)none;
    dataset_ref_put(&c);
    return list;
}

static int64_t copy_location(struct dlc_dataset *ds, uint64_t i, const char *name, char *buf,
                             size_t cap)
{
    (void)i;
    (void)name;
    return dlc_location(ds, buf, cap);
}

PyObject *dataset_location(PyObject *self, PyObject *none)
{
    struct dataset_ref *c = dataset_ref_of(self);
    PyObject *got = c != NULL ? text(c, copy_location, 0, NULL) : NULL;

    (void)none;
    dataset_ref_put(&c);
    return got;
}

PyObject *dataset_columns(PyObject *self, PyObject *none)
{
    struct dataset_ref *c = dataset_ref_of(self);
    PyObject *list = c != NULL ? texts(c, copy_column_name, dlc_column_count(c->ds)) : NULL;

    (void)none;
    dataset_ref_put(&c);
    return list;
}

static PyObject *split(struct dataset_ref *c, unsigned k)
{
    PyObject *name = text(c, copy_split, k, NULL), *bytes, *got = NULL;
    uint64_t first, count;
    int rc;

    if (name == NULL)
        return NULL;
    bytes = PyUnicode_AsEncodedString(name, CODEC, ERRORS);
    if (bytes != NULL) {
        rc = dlc_split(c->ds, PyBytes_AsString(bytes), &first, &count);
        got = rc < 0 ? raise_last(rc)
                     : Py_BuildValue("OKK", name, (unsigned long long)first,
                                     (unsigned long long)count);
    }
    Py_XDECREF(bytes);
    Py_DECREF(name);
    return got;
}

/* -> [(name, first, count)] */
PyObject *dataset_splits(PyObject *self, PyObject *none)
{
    struct dataset_ref *c = dataset_ref_of(self);
    PyObject *list = c != NULL ? PyList_New(0) : NULL;

    (void)none;
    for (unsigned k = 0; list != NULL && k < dlc_split_count(c->ds); k++) {
        PyObject *one = split(c, k);

        if (one == NULL || PyList_Append(list, one) < 0)
            Py_CLEAR(list);
        Py_XDECREF(one);
    }
    dataset_ref_put(&c);
    return list;
}

PyObject *dataset_stats(PyObject *self, PyObject *none)
{
    struct dataset_ref *c = dataset_ref_of(self);
    struct dlc_stats s;

    (void)none;
    if (c == NULL)
        return NULL;
    dlc_dataset_stats(c->ds, &s);
    dataset_ref_put(&c);
    return Py_BuildValue("KKKKdKK", (unsigned long long)s.hits, (unsigned long long)s.misses,
                         (unsigned long long)s.bypasses, (unsigned long long)s.bytes,
                         (double)s.stall_ns / 1e9, (unsigned long long)s.reconnects,
                         (unsigned long long)s.without_daemon);
}

/* -> str of JSON. It may have grown between two looks at it. */
PyObject *dataset_daemon_stats(PyObject *self, PyObject *none)
{
    struct dataset_ref *c = dataset_ref_of(self);
    size_t cap = 16 * 1024;
    PyObject *got = NULL;
    struct wait w;
    char *text = NULL;
    int64_t n = -1;

    (void)none;
    while (c != NULL && got == NULL && !PyErr_Occurred()) {
        PyMem_Free(text);
        text = PyMem_Malloc(cap);
        if (text == NULL) {
            PyErr_NoMemory();
            break;
        }
        wait_begin(&w);
        n = dlc_daemon_stats(c->ds, text, cap);
        if (!wait_end(&w))
            break;
        if (n < 0)
            raise_last((int)n);
        else if ((size_t)n < cap)
            got = PyUnicode_DecodeUTF8(text, (Py_ssize_t)n, "replace");
        else
            cap = 2 * (size_t)n;
    }
    PyMem_Free(text);
    dataset_ref_put(&c);
    return got;
}
