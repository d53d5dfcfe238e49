// SPDX-License-Identifier: Apache-2.0
#include "loader/tensor/convert_body_i.h"

convert_table convert_plain = CONVERSIONS;

convert_f *convert_best(enum tensor_type stored, enum tensor_type type)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) /* F16C is older: what has the one has the other */
        return convert_avx2[stored][type];
#endif
    return convert_plain[stored][type];
}
