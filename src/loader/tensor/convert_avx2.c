// SPDX-License-Identifier: Apache-2.0
/* Compiled with -mavx2 -mf16c. */
#include "loader/tensor/convert_body_i.h"

convert_table convert_avx2 = CONVERSIONS;
