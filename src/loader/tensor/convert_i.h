// SPDX-License-Identifier: Apache-2.0
/* Loops that convert numbers, for any processor and for AVX2 with F16C: the same results. */
#ifndef DLC_LOADER_TENSOR_CONVERT_I_H
#define DLC_LOADER_TENSOR_CONVERT_I_H

#include "loader/tensor/tensor.h"

/* n numbers, any alignment. Returns how many were converted: the one after them does not fit. */
typedef size_t convert_f(const void *in, void *out, size_t n);

typedef convert_f *const convert_table[TENSOR_TYPES][TENSOR_OUTPUTS]; /* [stored][type] */

extern convert_table convert_plain;
extern convert_table convert_avx2; /* x86-64 only */

convert_f *convert_best(enum tensor_type stored, enum tensor_type type);

#endif
