// SPDX-License-Identifier: Apache-2.0
#include "http/begin.h"

#include <curl/curl.h>
#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CURLcode result;

static void begin(void)
{
    result = curl_global_init(CURL_GLOBAL_DEFAULT);
}

int http_begin(struct dlc_err *err)
{
    pthread_once(&once, begin);
    if (result != CURLE_OK)
        return dlc_err_set(err, DLC_ENOMEM, "libcurl cannot be started: %s",
                           curl_easy_strerror(result));
    return 0;
}
