/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - the yoke command: its list of subcommands, and the last check that
 * what was printed arrived.
 *
 * Each subcommand is one file; it uses the public API alone.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

static const yki_tool_option options[] = {
    {"version", 'V', NULL, "show the version and exit"},
    {0},
};

static const yki_tool_command *const subcommands[] = {
    &yki_tool_train,
    &yki_tool_eval,
    &yki_tool_predict,
    &yki_tool_info,
    &yki_tool_plot,
    &yki_tool_devices,
    &yki_tool_bench,
    &yki_tool_tune,
    &yki_tool_verify,
    NULL,
};

static const yki_tool_command yoke = {
    .name = "yoke",
    .synopsis = "[--version] COMMAND [ARGUMENT]...",
    .description = "Train neural networks on every OpenCL device within reach, together.\n"
                   "'yoke COMMAND --help' tells more of a command; 'man yoke' is the manual.",
    .options = options,
    .subcommands = subcommands,
    .run = yki_tool_run_group,
    .example = "yoke train --model=lenet --data=examples/data",
};

int
main(int argc, char **argv)
{
    int status = yoke.run(&yoke, argc, argv);

    /* A full disk shows only now. */
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        yki_tool_error(&yoke, "cannot write the result: %s",
                       errno ? strerror(errno) : "output error");
        return status == TOOL_OK ? TOOL_FAILURE : status;
    }
    return status;
}
