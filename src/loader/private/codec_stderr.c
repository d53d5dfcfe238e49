// SPDX-License-Identifier: Apache-2.0
/*
 * The variable that replaces stderr in the private libjpeg and libpng (meson.build). The loader
 * sets error handlers that print nothing, so it is read only by handlers that are never called.
 */
#include <stdio.h>

extern FILE *dlc_codec_stderr;
FILE *dlc_codec_stderr;

__attribute__((constructor)) static void codec_stderr_init(void)
{
    dlc_codec_stderr = stderr;
}
