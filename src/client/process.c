// SPDX-License-Identifier: Apache-2.0
#include "client/process.h"

#include <pthread.h>

#include "base/list.h"

static pthread_mutex_t mtx = PTHREAD_MUTEX_INITIALIZER;
struct dlc_list client_datasets = {&client_datasets, &client_datasets};

void client_lock(void)
{
    pthread_mutex_lock(&mtx);
}

void client_unlock(void)
{
    pthread_mutex_unlock(&mtx);
}
