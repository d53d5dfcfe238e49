// SPDX-License-Identifier: Apache-2.0
/* The stores that the same tests run against, each test on an empty one. */
#ifndef DLC_TESTS_METADATA_STORES_H
#define DLC_TESTS_METADATA_STORES_H

#include "manager/store/store.h"

struct test_store {
    const char *name, *backend;
    bool (*start)(void);               /* once; NULL: nothing to start. False: cannot run here */
    void (*url)(char out[static 512]); /* of another, empty store each time */
    void (*stop)(void);                /* may be NULL */
};

extern const struct test_store stores[];
extern const size_t n_stores;

#endif
