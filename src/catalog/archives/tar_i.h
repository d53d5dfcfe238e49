// SPDX-License-Identifier: Apache-2.0
/*
 * The members of a tar that is read as a stream; their pieces are ranges of the stream, of this
 * kind.
 */
#ifndef DLC_CATALOG_ARCHIVES_TAR_I_H
#define DLC_CATALOG_ARCHIVES_TAR_I_H

#include "catalog/archives/byte_stream_i.h"

int tar_scan(struct scan *s, struct stream *in, enum piece_kind kind, struct dlc_err *err);

#endif
