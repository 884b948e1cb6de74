/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx_export_sequences.c - writes for ONNX what language models have: attention, rotary positions
 * and gated units, as the operators that they are made of.
 */
#include "data/onnx_export.h"

const yki_onnx_export_row yki_onnx_export_sequences[] = {
    {NULL, NULL},
};
