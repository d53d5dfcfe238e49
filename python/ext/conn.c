// SPDX-License-Identifier: Apache-2.0
/* What dlc_open() gave, counted; and the lock that gives threads their turn in an order. */
#include "ext.h"

/* How often this process is a fork of the one that loaded us. Written in the child before it has a
 * second thread. */
static unsigned generation;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void in_child(void)
{
    generation++;
}

static void init_once(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

struct conn *conn_new(struct dlc_dataset *ds, PyTypeObject *view)
{
    struct conn *c = PyMem_Calloc(1, sizeof(*c));

    if (c == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    pthread_once(&once, init_once);
    *c = (struct conn){.ds = ds, .count = dlc_count(ds), .refs = 1, .generation = generation};
    pthread_mutex_init(&c->turn, NULL);
    c->view = (PyTypeObject *)Py_NewRef((PyObject *)view);
    return c;
}

void conn_put(struct conn **cp)
{
    struct conn *c = *cp;

    *cp = NULL;
    if (c == NULL || --c->refs > 0)
        return;
    dlc_close(&c->ds);
    pthread_mutex_destroy(&c->turn);
    Py_DECREF((PyObject *)c->view);
    PyMem_Free(c);
}

void conn_lock(struct conn *c)
{
    /* Held by a thread that stayed with the parent, for all we know. */
    if (c->generation != generation) {
        pthread_mutex_init(&c->turn, NULL);
        c->generation = generation;
    }
    pthread_mutex_lock(&c->turn);
}

void conn_unlock(struct conn *c)
{
    pthread_mutex_unlock(&c->turn);
}
