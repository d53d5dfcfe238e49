// SPDX-License-Identifier: Apache-2.0
/* libcurl for the whole process, once. */
#ifndef DLC_HTTP_BEGIN_H
#define DLC_HTTP_BEGIN_H

#include "base/err.h"

int http_begin(struct dlc_err *err); /* any thread, any number of times */

#endif
