// SPDX-License-Identifier: Apache-2.0
/*
 * Loader and Batch: dlc_loader_* as Python objects. dlcache.torch.native_loaders is written over
 * them.
 *
 *     loader_open(handle, ...) -> Loader;   loader.next() -> Batch, or None at the end of an epoch
 *
 * A Batch exports the memory of one batch as a buffer of its shape, and by DLPack; the memory goes
 * back to the ring when the Batch and all that looks at it are gone. It does not hold its Loader:
 * threads end with the Loader, also while batches of it are in use.
 */
#include "ext.h"

#include <stdlib.h>
#include <string.h>

#define DIMS 9 /* of a batch: 8, and the samples */

struct loader {
    PyObject_HEAD struct dataset_ref *ref;
    struct dlc_loader *l; /* NULL: closed */
    PyTypeObject *batch;  /* a reference */
    PyObject *buffers;    /* who owns the memory of the ring, or NULL: the library */
    Py_buffer *memory;    /* of those */
    Py_ssize_t n_memory;
    uint64_t given; /* of them, to the library; changed within dlc_loader_open() alone */
    char format[2];
    Py_ssize_t itemsize;
    int ndim; /* with the samples */
    Py_ssize_t shape[DIMS];
};

struct batch {
    PyObject_HEAD struct dlc_batch b;
    PyObject *buffers;
    char format[2];
    Py_ssize_t itemsize;
    int ndim;
    Py_ssize_t shape[DIMS], strides[DIMS];
};

/* ---- Batch ---- */

static void batch_dealloc(PyObject *self)
{
    struct batch *b = (struct batch *)self;
    PyTypeObject *type = Py_TYPE(self);

    dlc_batch_put(&b->b);
    Py_XDECREF(b->buffers);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

static PyObject *batch_new(struct loader *l, struct dlc_batch *from)
{
    struct batch *b = PyObject_New(struct batch, l->batch);
    Py_ssize_t stride = l->itemsize;

    if (b == NULL) {
        dlc_batch_put(from);
        return NULL;
    }
    b->b = *from;
    b->buffers = Py_XNewRef(l->buffers);
    memcpy(b->format, l->format, sizeof(b->format));
    b->itemsize = l->itemsize;
    b->ndim = l->ndim;
    memcpy(b->shape, l->shape, sizeof(b->shape));
    b->shape[0] = (Py_ssize_t)from->samples;
    for (int i = b->ndim; i-- > 0;) {
        b->strides[i] = stride;
        stride *= b->shape[i];
    }
    return (PyObject *)b;
}

static int batch_getbuffer(PyObject *self, Py_buffer *v, int flags)
{
    struct batch *b = (struct batch *)self;

    *v = (Py_buffer){.buf = b->b.data,
                     .obj = Py_NewRef(self),
                     .len = (Py_ssize_t)(b->b.samples * b->b.bytes),
                     .itemsize = b->itemsize,
                     .ndim = 1};
    if ((flags & PyBUF_FORMAT) == PyBUF_FORMAT)
        v->format = b->format;
    if ((flags & PyBUF_ND) == PyBUF_ND) {
        v->ndim = b->ndim;
        v->shape = b->shape;
    }
    if ((flags & PyBUF_STRIDES) == PyBUF_STRIDES)
        v->strides = b->strides;
    return 0;
}

static PyObject *copied(const void *data, size_t bytes)
{
    return PyByteArray_FromStringAndSize(data, (Py_ssize_t)bytes);
}

static PyObject *batch_index(PyObject *self, void *none)
{
    const struct dlc_batch *b = &((struct batch *)self)->b;

    (void)none;
    return copied(b->index, b->samples * sizeof(*b->index));
}

static PyObject *batch_labels(PyObject *self, void *none)
{
    const struct dlc_batch *b = &((struct batch *)self)->b;

    (void)none;
    return copied(b->labels, b->samples * sizeof(*b->labels));
}

static PyObject *batch_lengths(PyObject *self, void *none)
{
    const struct dlc_batch *b = &((struct batch *)self)->b;

    (void)none;
    return b->lengths != NULL ? copied(b->lengths, b->samples * sizeof(*b->lengths))
                              : Py_NewRef(Py_None);
}

static PyObject *batch_shape(PyObject *self, void *none)
{
    const struct batch *b = (struct batch *)self;
    PyObject *shape = PyTuple_New(b->ndim);

    (void)none;
    for (int i = 0; shape != NULL && i < b->ndim; i++)
        PyTuple_SetItem(shape, i, PyLong_FromSsize_t(b->shape[i]));
    return shape;
}

static PyObject *batch_address(PyObject *self, void *none)
{
    (void)none;
    return PyLong_FromVoidPtr(((struct batch *)self)->b.data);
}

static PyObject *batch_place(PyObject *self, void *none)
{
    const struct dlc_batch *b = &((struct batch *)self)->b;

    (void)none;
    return Py_BuildValue("KK", (unsigned long long)b->epoch, (unsigned long long)b->position);
}

/* ---- DLPack, version 0: https://dmlc.github.io/dlpack ---- */

struct dl_tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};

struct dl_managed {
    struct dl_tensor tensor;
    void *context; /* the Batch; a reference */
    void (*deleter)(struct dl_managed *);
    int64_t shape[DIMS];
};

#define DL_CPU 1

static void dl_delete(struct dl_managed *m)
{
    if (Py_IsInitialized()) { /* whoever held it: any thread */
        PyGILState_STATE state = PyGILState_Ensure();

        Py_DECREF((PyObject *)m->context);
        PyGILState_Release(state);
    }
    free(m);
}

static void capsule_unused(PyObject *capsule)
{
    struct dl_managed *m;

    if (!PyCapsule_IsValid(capsule, "dltensor"))
        return; /* somebody took it, and renamed it */
    m = PyCapsule_GetPointer(capsule, "dltensor");
    m->deleter(m);
}

static uint8_t dl_code(char format)
{
    return strchr("efd", format) != NULL ? 2 : strchr("bhiq", format) != NULL ? 0 : 1;
}

static PyObject *batch_dlpack(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct batch *b = (struct batch *)self;
    struct dl_managed *m = calloc(1, sizeof(*m));
    PyObject *capsule;

    (void)args; /* streams are of devices, and this is memory */
    (void)kwargs;
    if (m == NULL)
        return PyErr_NoMemory();
    for (int i = 0; i < b->ndim; i++)
        m->shape[i] = b->shape[i];
    m->tensor = (struct dl_tensor){.data = b->b.data,
                                   .device = {DL_CPU, 0},
                                   .ndim = b->ndim,
                                   .dtype = {dl_code(b->format[0]), (uint8_t)(8 * b->itemsize), 1},
                                   .shape = m->shape};
    m->deleter = dl_delete;
    m->context = Py_NewRef(self);
    capsule = PyCapsule_New(m, "dltensor", capsule_unused);
    if (capsule == NULL)
        dl_delete(m);
    return capsule;
}

static PyObject *batch_dlpack_device(PyObject *self, PyObject *none)
{
    (void)self;
    (void)none;
    return Py_BuildValue("ii", DL_CPU, 0);
}

static PyMethodDef batch_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))batch_dlpack, METH_VARARGS | METH_KEYWORDS, NULL},
    {"__dlpack_device__", batch_dlpack_device, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef batch_getset[] = {
    {"index", batch_index, NULL, "Numbers of the samples: uint64, copied.", NULL},
    {"labels", batch_labels, NULL, "Their classes, or -1: int64, copied.", NULL},
    {"lengths", batch_lengths, NULL, "What is not padding: uint32, copied; or None.", NULL},
    {"shape", batch_shape, NULL, "Of the batch.", NULL},
    {"address", batch_address, NULL, "Where it lies.", NULL},
    {"place", batch_place, NULL, "(epoch, position) once this batch is used.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static char batch_doc[] = "One batch: a buffer of its shape, and DLPack.";

static PyType_Slot batch_slots[] = {
    {Py_tp_doc, batch_doc},
    {Py_tp_dealloc, batch_dealloc},
    {Py_tp_methods, batch_methods},
    {Py_tp_getset, batch_getset},
    {Py_bf_getbuffer, batch_getbuffer},
    {0, NULL},
};

PyType_Spec batch_spec = {
    .name = "dlcache._dlcache.Batch",
    .basicsize = sizeof(struct batch),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = batch_slots,
};

/* ---- opening ---- */

/* Buffers of the caller, one after the other. Called without the GIL, and does not need it. */
static void *next_buffer(size_t bytes, void *arg)
{
    struct loader *l = arg;
    Py_buffer *b = l->given < (uint64_t)l->n_memory ? &l->memory[l->given] : NULL;

    if (b == NULL || (size_t)b->len < bytes)
        return NULL;
    l->given++;
    return b->buf;
}

static int take_buffers(struct loader *l, PyObject *buffers)
{
    Py_ssize_t n;

    if (buffers == Py_None)
        return 0;
    n = PySequence_Size(buffers);
    if (n < 0)
        return -1;
    l->memory = PyMem_Calloc((size_t)(n > 0 ? n : 1), sizeof(*l->memory));
    l->buffers = Py_NewRef(buffers);
    for (; l->memory != NULL && l->n_memory < n; l->n_memory++) {
        PyObject *one = PySequence_GetItem(buffers, l->n_memory);
        int rc =
            one != NULL ? PyObject_GetBuffer(one, &l->memory[l->n_memory], PyBUF_WRITABLE) : -1;

        Py_XDECREF(one);
        if (rc < 0)
            return -1;
    }
    if (l->memory == NULL)
        PyErr_NoMemory();
    return l->memory != NULL ? 0 : -1;
}

static int parse_image(PyObject *args, struct dlc_image *d)
{
    unsigned long long pixels;

    if (!PyArg_ParseTuple(args, "IIII(dd)(dd)d(dd)(dd)(dd)(dd)III(fff)(fff)IK", &d->width,
                          &d->height, &d->crop, &d->resize, &d->scale[0], &d->scale[1],
                          &d->ratio[0], &d->ratio[1], &d->flip, &d->brightness[0],
                          &d->brightness[1], &d->contrast[0], &d->contrast[1], &d->saturation[0],
                          &d->saturation[1], &d->hue[0], &d->hue[1], &d->dtype, &d->layout,
                          &d->normalise, &d->mean[0], &d->mean[1], &d->mean[2], &d->std[0],
                          &d->std[1], &d->std[2], &d->exact, &pixels))
        return -1;
    d->max_pixels = pixels;
    return 0;
}

static int parse_audio(PyObject *args, struct dlc_audio *d)
{
    unsigned long long frames;

    if (!PyArg_ParseTuple(args, "IIIIIIIIIfffK", &d->samples, &d->rate, &d->mono, &d->channels,
                          &d->random_start, &d->mels, &d->fft, &d->window, &d->hop, &d->low,
                          &d->high, &d->floor, &frames))
        return -1;
    d->max_frames = frames;
    return 0;
}

/* The shape of a sample is that of the buffer. */
static int parse_tensor(PyObject *args, const struct loader *l, struct dlc_tensor *d)
{
    if (!PyArg_ParseTuple(args, "IIII", &d->dtype, &d->raw, &d->stored, &d->rows))
        return -1;
    d->ndim = (uint32_t)l->ndim - 1;
    for (int i = 1; i < l->ndim; i++)
        d->shape[i - 1] = (uint64_t)l->shape[i];
    return 0;
}

static int parse_kind(PyObject *args, const struct loader *l, struct dlc_loader_spec *spec)
{
    switch (spec->kind) {
    case DLC_IMAGES: return parse_image(args, &spec->image);
    case DLC_AUDIO: return parse_audio(args, &spec->audio);
    case DLC_TENSORS: return parse_tensor(args, l, &spec->tensor);
    default: PyErr_SetString(PyExc_ValueError, "a loader of no kind"); return -1;
    }
}

static int parse_shape(PyObject *shape, const char *format, Py_ssize_t itemsize, struct loader *l)
{
    Py_ssize_t n = PyTuple_Size(shape);

    if (n < 0 || n + 1 > DIMS) {
        PyErr_Format(PyExc_ValueError, "a shape of %zd dimensions: at most %d", n, DIMS - 1);
        return -1;
    }
    l->format[0] = format[0];
    l->itemsize = itemsize;
    l->ndim = (int)n + 1;
    for (Py_ssize_t i = 0; i < n; i++)
        l->shape[i + 1] = PyLong_AsSsize_t(PyTuple_GetItem(shape, i));
    return PyErr_Occurred() ? -1 : 0;
}

/* (kind, batch, drop_last, on_bad, threads, threads_most, ring, decoded_cache) */
static int parse_common(PyObject *args, struct dlc_loader_spec *s)
{
    return PyArg_ParseTuple(args, "IIIIIIII", &s->kind, &s->batch, &s->drop_last, &s->on_bad,
                            &s->threads, &s->threads_most, &s->ring, &s->decoded_cache)
               ? 0
               : -1;
}

/* (kind, rank, world, drop_last, seed, epochs, first, count, epoch, position, once) */
static int parse_order(PyObject *args, struct dlc_loader_spec *s)
{
    unsigned long long seed, epochs, first, count, epoch, position;
    struct dlc_order *o = &s->order;

    if (!PyArg_ParseTuple(args, "IIIIKKKKKKI", &o->kind, &o->rank, &o->world, &o->drop_last, &seed,
                          &epochs, &first, &count, &epoch, &position, &s->once))
        return -1;
    o->seed = seed;
    o->epochs = epochs;
    o->first = first;
    o->count = count;
    s->epoch = epoch;
    s->position = position;
    return 0;
}

/* Do the bytes of a sample fill its shape? */
static int check_shape(const struct loader *l, const struct dlc_loader_spec *spec)
{
    int64_t bytes = dlc_loader_bytes(spec, NULL), said = l->itemsize * spec->batch;

    if (bytes < 0) {
        raise_last((int)bytes);
        return -1;
    }
    for (int i = 1; i < l->ndim; i++)
        said *= l->shape[i];
    if (said == bytes)
        return 0;
    PyErr_Format(PyExc_ValueError, "the shape has %lld bytes, and a batch %lld", (long long)said,
                 (long long)bytes);
    return -1;
}

static int open_it(struct loader *l, struct dlc_loader_spec *spec)
{
    struct wait w;
    int rc;

    if (l->memory != NULL) {
        spec->alloc = next_buffer;
        spec->alloc_arg = l;
    }
    turn_begin(l->ref, &w);
    rc = dlc_loader_open(l->ref->ds, spec, &l->l);
    if (!turn_end(l->ref, &w))
        return -1;
    if (rc < 0)
        raise_last(rc);
    return rc < 0 ? -1 : 0;
}

/* (handle, common, order, kind's own, shape of a sample, format, itemsize, buffers or None) */
PyObject *loader_open(PyObject *module, PyObject *args)
{
    struct module_state *m = PyModule_GetState(module);
    PyObject *handle, *common, *order, *own, *shape, *buffers;
    struct dlc_loader_spec spec = {0};
    const char *format;
    Py_ssize_t itemsize;
    struct loader *l;

    if (!PyArg_ParseTuple(args, "O!OOOO!snO:loader_open", m->handle, &handle, &common, &order, &own,
                          &PyTuple_Type, &shape, &format, &itemsize, &buffers))
        return NULL;
    l = PyObject_New(struct loader, m->loader);
    if (l == NULL)
        return NULL;
    memset((char *)l + sizeof(PyObject), 0, sizeof(*l) - sizeof(PyObject));
    l->batch = (PyTypeObject *)Py_NewRef((PyObject *)m->batch);
    l->ref = dataset_ref_of(handle);
    if (l->ref == NULL || parse_common(common, &spec) < 0 || parse_order(order, &spec) < 0 ||
        parse_shape(shape, format, itemsize, l) < 0 || parse_kind(own, l, &spec) < 0 ||
        check_shape(l, &spec) < 0 || take_buffers(l, buffers) < 0 || open_it(l, &spec) < 0)
        Py_CLEAR(l);
    return (PyObject *)l;
}

/* ---- Loader ---- */

static void loader_dealloc(PyObject *self)
{
    struct loader *l = (struct loader *)self;
    PyTypeObject *type = Py_TYPE(self);

    dlc_loader_close(&l->l); /* its threads do not need the GIL */
    dataset_ref_put(&l->ref);
    for (Py_ssize_t i = 0; i < l->n_memory; i++)
        PyBuffer_Release(&l->memory[i]);
    PyMem_Free(l->memory);
    Py_XDECREF(l->buffers);
    Py_XDECREF((PyObject *)l->batch);
    PyObject_Free(self);
    Py_DECREF((PyObject *)type);
}

static bool is_open(struct loader *l)
{
    if (l->l == NULL && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "the loader is closed");
    return l->l != NULL;
}

static PyObject *take_next(PyObject *self, int (*next)(struct dlc_loader *, struct dlc_batch *))
{
    struct loader *l = (struct loader *)self;
    struct dlc_batch b = {0};
    struct wait w;
    int rc = 0;

    turn_begin(l->ref, &w);
    if (l->l != NULL)
        rc = next(l->l, &b);
    if (!turn_end(l->ref, &w) || !is_open(l)) {
        dlc_batch_put(&b);
        return NULL;
    }
    if (rc == DLC_EMISS)
        return Py_NewRef(Py_False);
    if (rc < 0)
        return raise_last(rc);
    return rc == 0 ? Py_NewRef(Py_None) : batch_new(l, &b);
}

static PyObject *loader_next(PyObject *self, PyObject *none)
{
    (void)none;
    return take_next(self, dlc_loader_next);
}

static PyObject *loader_try_next(PyObject *self, PyObject *none)
{
    (void)none;
    return take_next(self, dlc_loader_try_next);
}

static PyObject *loader_seek(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    unsigned long long epoch, position;
    struct wait w;
    int rc = 0;

    if (!PyArg_ParseTuple(args, "KK:seek", &epoch, &position))
        return NULL;
    turn_begin(l->ref, &w);
    if (l->l != NULL)
        rc = dlc_loader_seek(l->l, epoch, position);
    if (!turn_end(l->ref, &w) || !is_open(l))
        return NULL;
    return rc < 0 ? raise_last(rc) : Py_NewRef(Py_None);
}

/* Which numbers there are is said by the library. */
static int list_of(PyObject *numbers, struct indices *out)
{
    return indices_of(numbers, INT64_MAX, out);
}

/* (numbers, epoch, position) */
static PyObject *loader_follow(PyObject *self, PyObject *args)
{
    struct loader *l = (struct loader *)self;
    unsigned long long epoch, position;
    struct indices list;
    PyObject *numbers;
    struct wait w;
    bool ended;
    int rc = 0;

    if (!PyArg_ParseTuple(args, "OKK:follow", &numbers, &epoch, &position) ||
        list_of(numbers, &list) < 0)
        return NULL;
    turn_begin(l->ref, &w);
    if (l->l != NULL)
        rc = dlc_loader_follow(l->l, list.at, list.n, epoch, position);
    ended = turn_end(l->ref, &w);
    PyMem_Free(list.at);
    if (!ended || !is_open(l))
        return NULL;
    return rc < 0 ? raise_last(rc) : Py_NewRef(Py_None);
}

/* (numbers) */
static PyObject *loader_follow_more(PyObject *self, PyObject *numbers)
{
    struct loader *l = (struct loader *)self;
    struct indices list;
    struct wait w;
    bool ended;
    int rc = 0;

    if (list_of(numbers, &list) < 0)
        return NULL;
    turn_begin(l->ref, &w);
    if (l->l != NULL)
        rc = dlc_loader_follow_more(l->l, list.at, list.n);
    ended = turn_end(l->ref, &w);
    PyMem_Free(list.at);
    if (!ended || !is_open(l))
        return NULL;
    return rc < 0 ? raise_last(rc) : Py_NewRef(Py_None);
}

static PyObject *loader_close(PyObject *self, PyObject *none)
{
    struct loader *l = (struct loader *)self;
    struct wait w;

    (void)none;
    turn_begin(l->ref, &w);
    dlc_loader_close(&l->l);
    return turn_end(l->ref, &w) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *loader_tell(PyObject *self, PyObject *none)
{
    struct loader *l = (struct loader *)self;
    uint64_t epoch, position;

    (void)none;
    if (!is_open(l))
        return NULL;
    dlc_loader_tell(l->l, &epoch, &position);
    return Py_BuildValue("KK", (unsigned long long)epoch, (unsigned long long)position);
}

static PyObject *loader_stats(PyObject *self, PyObject *none)
{
    struct loader *l = (struct loader *)self;
    struct dlc_loader_stats s;

    (void)none;
    if (!is_open(l))
        return NULL;
    dlc_loader_stats(l->l, &s);
    return Py_BuildValue(
        "{sKsKsKsKsKsKsKsdsdsdsdsKsK}", "batches", (unsigned long long)s.batches, "samples",
        (unsigned long long)s.samples, "bad", (unsigned long long)s.bad, "from_decoded_cache",
        (unsigned long long)s.from_decoded_cache, "decoded", (unsigned long long)s.decoded,
        "decoded_cache_samples", (unsigned long long)s.decoded_cache_samples, "decoded_cache_bytes",
        (unsigned long long)s.decoded_cache_bytes, "waited_s", (double)s.waited_ns / 1e9, "step_s",
        (double)s.step_ns / 1e9, "busy_s", (double)s.busy_ns / 1e9, "starved_s",
        (double)s.starved_ns / 1e9, "threads", (unsigned long long)s.threads, "ready",
        (unsigned long long)s.ready);
}

static PyObject *loader_bad(PyObject *self, PyObject *none)
{
    struct loader *l = (struct loader *)self;
    PyObject *list = is_open(l) ? PyList_New(0) : NULL;
    uint64_t sample;
    char why[600];

    (void)none;
    for (uint64_t k = 0; list != NULL && dlc_loader_bad(l->l, k, &sample, why, sizeof(why)) >= 0;
         k++) {
        PyObject *text = PyUnicode_DecodeUTF8(why, (Py_ssize_t)strlen(why), "replace");
        PyObject *one = text != NULL ? Py_BuildValue("KN", (unsigned long long)sample, text) : NULL;

        if (one == NULL || PyList_Append(list, one) < 0)
            Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

static Py_ssize_t loader_len(PyObject *self)
{
    struct loader *l = (struct loader *)self;

    return is_open(l) ? (Py_ssize_t)dlc_loader_length(l->l) : -1;
}

static PyMethodDef loader_methods[] = {
    {"next", loader_next, METH_NOARGS, "The next Batch, or None at the end of an epoch."},
    {"try_next", loader_try_next, METH_NOARGS, "The same, or False when none is ready."},
    {"seek", loader_seek, METH_VARARGS, "Go on at (epoch, position)."},
    {"follow", loader_follow, METH_VARARGS, "Go on with this list, at (epoch, position)."},
    {"follow_more", loader_follow_more, METH_O, "The list of the next epoch."},
    {"tell", loader_tell, METH_NOARGS, "(epoch, position): where next() stands."},
    {"stats", loader_stats, METH_NOARGS, "What was measured, by name."},
    {"bad", loader_bad, METH_NOARGS, "[(sample, why)]: bad samples that are remembered."},
    {"close", loader_close, METH_NOARGS, "End its threads. Batches that are held stay good."},
    {NULL, NULL, 0, NULL},
};

static char loader_doc[] = "Batches of an open dataset; see dlcache.torch.ImageLoader.";

static PyType_Slot loader_slots[] = {
    {Py_tp_doc, loader_doc},
    {Py_tp_dealloc, loader_dealloc},
    {Py_tp_methods, loader_methods},
    {Py_sq_length, loader_len},
    {0, NULL},
};

PyType_Spec loader_spec = {
    .name = "dlcache._dlcache.Loader",
    .basicsize = sizeof(struct loader),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = loader_slots,
};
