// SPDX-License-Identifier: Apache-2.0
/* Codes of libdlcache as exceptions. Which class a code has is said in dlcache/errors.py. */
#include "ext.h"

#include <stdio.h>
#include <string.h>

PyObject *raise_code(int code, const char *text)
{
    PyObject *module = PyImport_ImportModule("dlcache.errors"), *error = NULL, *said;

    said = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    if (module != NULL && said != NULL)
        error = PyObject_CallMethod(module, "of", "iO", code, said);
    if (error != NULL)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    Py_XDECREF(said);
    Py_XDECREF(module);
    return NULL;
}

PyObject *raise_last(int code)
{
    return raise_code(code, dlc_last_error());
}

PyObject *raise_sample(struct dataset_ref *c, uint64_t i, int code)
{
    char why[600], key[300], text[1000];
    int n;

    snprintf(why, sizeof(why), "%s", dlc_last_error()); /* the next call may replace it */
    n = dlc_key(c->ds, i, key, sizeof(key));
    if (n >= 0 && (size_t)n < sizeof(key))
        snprintf(text, sizeof(text), "sample %llu (%s): %s", (unsigned long long)i, key, why);
    else
        snprintf(text, sizeof(text), "sample %llu: %s", (unsigned long long)i, why);
    return raise_code(code, text);
}

PyObject *raise_index(Py_ssize_t i, uint64_t count)
{
    return PyErr_Format(PyExc_IndexError,
                        "index %zd is out of range: the dataset has %llu sample%s", i,
                        (unsigned long long)count, count == 1 ? "" : "s");
}
