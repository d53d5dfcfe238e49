// SPDX-License-Identifier: Apache-2.0
#include "base/cancel.h"

#include <stddef.h>

_Thread_local struct interrupt *interrupt_asked;

int interrupt_err(struct dlc_err *err)
{
    return dlc_err_set(err, DLC_ECANCELED, "interrupted by the caller");
}
