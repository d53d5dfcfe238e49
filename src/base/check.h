// SPDX-License-Identifier: Apache-2.0
/*
 * Assertions for our own bugs, which stay on in release builds, and tags that catch a wrong void
 * pointer.
 */
#ifndef DLC_BASE_CHECK_H
#define DLC_BASE_CHECK_H

#include <stdint.h>

_Noreturn void dlc_check_failed(const char *what, const char *file, int line);

#define dlc_check(cond) ((cond) ? (void)0 : dlc_check_failed(#cond, __FILE__, __LINE__))

#define DLC_TAG4(a, b, c, d)                                                                       \
    ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)

#define DLC_MIN(a, b)                  ((a) < (b) ? (a) : (b))
#define DLC_MAX(a, b)                  ((a) > (b) ? (a) : (b))
#define DLC_CLAMP(x, lo, hi)           DLC_MIN(DLC_MAX(x, lo), hi)
#define DLC_COUNT(array)               (sizeof(array) / sizeof((array)[0]))
#define DLC_ALIGN_UP(x, a)             (((x) + (a)-1) & ~((__typeof__(x))(a)-1))
#define dlc_container(p, type, member) ((type *)(void *)((char *)(p)-offsetof(type, member)))

#endif
