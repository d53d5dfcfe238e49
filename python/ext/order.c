// SPDX-License-Identifier: Apache-2.0
/* The numbers of an order, by the very code that the daemon and dlc_next() follow. */
#include "ext.h"

#include <string.h>

#include "order/order.h"

/* (n, first, seed, epoch, rank, world, drop_last, shuffle, start, stop) -> bytes of uint64; stop
 * beyond the end of the order means its end */
PyObject *order_numbers(PyObject *module, PyObject *args)
{
    unsigned long long n, first, seed, epoch, start, stop;
    struct order_spec spec = {0};
    struct dlc_err err = DLC_ERR_INIT;
    struct order o;
    PyThreadState *t;
    PyObject *bytes;
    int drop_last, shuffle;
    uint64_t *to;

    (void)module;
    if (!PyArg_ParseTuple(args, "KKKKIIppKK:order_numbers", &n, &first, &seed, &epoch, &spec.rank,
                          &spec.world, &drop_last, &shuffle, &start, &stop))
        return NULL;
    spec.kind = shuffle ? ORDER_SHUFFLED : ORDER_SEQUENTIAL;
    spec.n = n;
    spec.first = first;
    spec.seed = seed;
    spec.drop_last = drop_last != 0;
    if (order_init(&o, &spec, epoch, &err) < 0)
        return raise_code(err.code, err.text);
    stop = stop < o.length ? stop : o.length;
    start = start < stop ? start : stop;
    bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)((stop - start) * sizeof(*to)));
    if (bytes == NULL)
        return NULL;
    to = (uint64_t *)(void *)PyBytes_AsString(bytes);
    t = PyEval_SaveThread();
    for (uint64_t k = start; k < stop; k++)
        to[k - start] = order_at(&o, k);
    PyEval_RestoreThread(t);
    return bytes;
}
