// SPDX-License-Identifier: Apache-2.0
/* The module: its types, kept in its state. */
#include "ext.h"

static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out)
{
    *out = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *out != NULL ? PyModule_AddType(module, *out) : -1;
}

static int module_exec(PyObject *module)
{
    struct module_state *m = PyModule_GetState(module);

    dataset_ref_init();
    if (add_type(module, &view_spec, &m->view) < 0 ||
        add_type(module, &dataset_spec, &m->handle) < 0 ||
        add_type(module, &batch_spec, &m->batch) < 0 ||
        add_type(module, &loader_spec, &m->loader) < 0)
        return -1;
    return PyModule_AddStringConstant(module, "version", dlc_version());
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct module_state *m = PyModule_GetState(module);

    Py_VISIT((PyObject *)m->handle);
    Py_VISIT((PyObject *)m->view);
    Py_VISIT((PyObject *)m->batch);
    Py_VISIT((PyObject *)m->loader);
    return 0;
}

static int module_clear(PyObject *module)
{
    struct module_state *m = PyModule_GetState(module);

    Py_CLEAR(m->handle);
    Py_CLEAR(m->view);
    Py_CLEAR(m->batch);
    Py_CLEAR(m->loader);
    return 0;
}

static void module_free(void *module)
{
    module_clear(module);
}

static PyMethodDef module_methods[] = {
    {"loader_open", loader_open, METH_VARARGS, NULL},
    {"order_numbers", order_numbers, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
    {0, NULL},
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_dlcache",
    .m_doc = "libdlcache for the package dlcache, which is what programs import.",
    .m_size = sizeof(struct module_state),
    .m_methods = module_methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__dlcache(void);

PyMODINIT_FUNC PyInit__dlcache(void)
{
    return PyModuleDef_Init(&module_def);
}
