// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

const char *dlc_strerror(int code)
{
    switch (code) {
    case DLC_OK: return "success";
#define ERROR(name, text)                                                                          \
    case DLC_##name:                                                                               \
        return text;
#include "base/tbl/errors.def"
#undef ERROR
    default: return "unknown error";
    }
}

const char *dlc_err_name(int code)
{
    switch (code) {
    case DLC_OK: return "OK";
#define ERROR(name, text)                                                                          \
    case DLC_##name:                                                                               \
        return #name;
#include "base/tbl/errors.def"
#undef ERROR
    default: return "?";
    }
}

int dlc_err_set(struct dlc_err *err, int code, const char *fmt, ...)
{
    va_list ap;

    dlc_check(code < 0);
    if (err == NULL)
        return code;
    err->code = code;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, ap);
    va_end(ap);
    return code;
}

int dlc_err_of_errno(int e)
{
    switch (e) {
    case 0: return DLC_OK;
    case EINVAL:
    case ENAMETOOLONG: return DLC_EINVAL;
    case ENOMEM: return DLC_ENOMEM;
    case ENOENT:
    case ENOTDIR: return DLC_ENOTFOUND;
    case EACCES:
    case EPERM:
    case EROFS: return DLC_EDENIED;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return DLC_ENOSPACE;
    case ETIMEDOUT: return DLC_ETIMEDOUT;
    case EBUSY:
    case EAGAIN:
    case EEXIST: return DLC_EBUSY;
    default: return DLC_EIO;
    }
}

int dlc_err_sys(struct dlc_err *err, const char *fmt, ...)
{
    int e = errno, code = dlc_err_of_errno(e);
    va_list ap;
    size_t n;

    dlc_check(code < 0);
    if (err == NULL)
        return code;
    err->code = code;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, ap);
    va_end(ap);
    n = strlen(err->text);
    snprintf(err->text + n, sizeof(err->text) - n, ": %s", strerror(e));
    return code;
}

int dlc_err_prefix(struct dlc_err *err, const char *fmt, ...)
{
    char old[sizeof(err->text)];
    va_list ap;
    size_t n;

    if (err == NULL)
        return DLC_EIO;
    memcpy(old, err->text, sizeof(old));
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, ap);
    va_end(ap);
    n = strlen(err->text);
    snprintf(err->text + n, sizeof(err->text) - n, ": %.*s", (int)(sizeof(old) - 1), old);
    return err->code;
}
