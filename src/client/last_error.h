// SPDX-License-Identifier: Apache-2.0
/*
 * The calling thread's latest error, for dlc_last_error(). Every public function sets it on
 * failure.
 */
#ifndef DLC_CLIENT_LAST_ERROR_H
#define DLC_CLIENT_LAST_ERROR_H

#include "base/err.h"

/* Both return the code. */
int client_fail(const struct dlc_err *err);
int client_failf(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
