// SPDX-License-Identifier: Apache-2.0
/* Numbers of samples as Python writes them: anything with __index__, negative from the end. */
#include "ext.h"

#include <string.h>

static Py_ssize_t wrap(int64_t i, uint64_t count)
{
    int64_t at = i < 0 ? i + (int64_t)count : i;

    if (at < 0 || (uint64_t)at >= count) {
        raise_index((Py_ssize_t)i, count);
        return -1;
    }
    return (Py_ssize_t)at;
}

Py_ssize_t index_of(PyObject *o, uint64_t count)
{
    Py_ssize_t i = PyNumber_AsSsize_t(o, PyExc_IndexError);

    return i == -1 && PyErr_Occurred() ? -1 : wrap(i, count);
}

static int from_sequence(PyObject *o, uint64_t count, struct indices *out)
{
    PyObject *list = PySequence_List(o);
    Py_ssize_t n, i;

    if (list == NULL)
        return -1;
    n = PyList_Size(list);
    out->at = PyMem_Calloc(n > 0 ? (size_t)n : 1, sizeof(*out->at));
    out->n = (size_t)n;
    if (out->at == NULL)
        PyErr_NoMemory();
    for (Py_ssize_t k = 0; out->at != NULL && k < n; k++) {
        i = index_of(PyList_GetItem(list, k), count);
        if (i < 0) {
            PyMem_Free(out->at);
            out->at = NULL;
        } else {
            out->at[k] = (uint64_t)i;
        }
    }
    Py_DECREF(list);
    return out->at != NULL ? 0 : -1;
}

static int from_buffer(const Py_buffer *b, uint64_t count, struct indices *out)
{
    bool is_signed = strchr("lq", b->format[strlen(b->format) - 1]) != NULL;
    const int64_t *from = b->buf;
    size_t n = (size_t)b->len / sizeof(*from);

    *out = (struct indices){PyMem_Malloc(n > 0 ? n * sizeof(*out->at) : 1), n};
    if (out->at == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t k = 0; k < n; k++) {
        int64_t i = from[k];

        /* The usual case without a branch more: as unsigned, negative ones are too large. */
        if ((uint64_t)i >= count) {
            if (!is_signed && i < 0)
                i = INT64_MAX; /* only to say that it is out of range */
            i = wrap(i, count);
            if (i < 0) {
                PyMem_Free(out->at);
                out->at = NULL;
                return -1;
            }
        }
        out->at[k] = (uint64_t)i;
    }
    return 0;
}

/* 64-bit integers in a row, in this machine's byte order: array("q"), numpy, memoryview. */
static bool is_plain(const Py_buffer *b)
{
    const char *f = b->format;

    if (f == NULL || b->ndim != 1 || b->itemsize != sizeof(uint64_t))
        return false;
    if (*f == '@' || *f == '=')
        f++;
    return strlen(f) == 1 && strchr("lLqQ", *f) != NULL;
}

int indices_of(PyObject *o, uint64_t count, struct indices *out)
{
    Py_buffer b;
    int rc;

    *out = (struct indices){NULL, 0};
    if (!PyObject_CheckBuffer(o))
        return from_sequence(o, count, out);
    if (PyObject_GetBuffer(o, &b, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) < 0) {
        PyErr_Clear(); /* strided, say: item by item then */
        return from_sequence(o, count, out);
    }
    rc = is_plain(&b) ? from_buffer(&b, count, out) : from_sequence(o, count, out);
    PyBuffer_Release(&b);
    return rc;
}
