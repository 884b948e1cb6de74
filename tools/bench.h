/* SPDX-License-Identifier: Apache-2.0
 *
 * bench.h - the subcommands of `yoke bench` that have a file of their own.
 */
#ifndef YOKE_TOOLS_BENCH_H
#define YOKE_TOOLS_BENCH_H

#include "tool.h"

/* bench_ops.c */
extern const yki_tool_command yki_tool_bench_peak;
extern const yki_tool_command yki_tool_bench_gemm;
extern const yki_tool_command yki_tool_bench_conv;
extern const yki_tool_command yki_tool_bench_attention;
extern const yki_tool_command yki_tool_bench_eltwise;
/* bench_model.c: one for each built-in model */
extern const yki_tool_command yki_tool_bench_tiny;
extern const yki_tool_command yki_tool_bench_mlp;
extern const yki_tool_command yki_tool_bench_simplecnn;
extern const yki_tool_command yki_tool_bench_lenet;
extern const yki_tool_command yki_tool_bench_resnet18;
extern const yki_tool_command yki_tool_bench_resnet34;
extern const yki_tool_command yki_tool_bench_resnet50;
extern const yki_tool_command yki_tool_bench_mobilenet;
extern const yki_tool_command yki_tool_bench_unet;
extern const yki_tool_command yki_tool_bench_autoencoder;
extern const yki_tool_command yki_tool_bench_gpt;
extern const yki_tool_command yki_tool_bench_char;
extern const yki_tool_command yki_tool_bench_gpt2;
extern const yki_tool_command yki_tool_bench_llama;

#endif
