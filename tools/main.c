/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - the yoke command: its list of subcommands, and the final check that all
 * output was written.
 *
 * Each subcommand is one file, which uses only the public API.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

static const yki_tool_option options[] = {
    {"version", 'V', NULL, "show the version and exit"},
    {0},
};

static int run_help(const yki_tool_command *self, int argc, char **argv);

static const yki_tool_command help = {
    .name = "yoke help",
    .synopsis = "[COMMAND]...",
    .summary = "show the commands, or what one of them takes",
    .description = "Show the text of 'yoke COMMAND --help', or, without a COMMAND, the commands.",
    .run = run_help,
    .example = "yoke help train",
};

static const yki_tool_command *const subcommands[] = {
    &yki_tool_train, &yki_tool_eval, &yki_tool_predict,
    &yki_tool_info,  &yki_tool_plot, &yki_tool_devices,
    &yki_tool_bench, &yki_tool_tune, &yki_tool_verify,
    &help,           NULL,
};

static const yki_tool_command yoke = {
    .name = "yoke",
    .synopsis = "[--version] COMMAND [ARGUMENT]...",
    .description = "Train neural networks on every OpenCL device within reach, together.\n"
                   "'yoke help COMMAND' tells more of a command; 'man yoke' is its manual, and\n"
                   "'man 7 yoke' a tour of the library.",
    .options = options,
    .subcommands = subcommands,
    .run = yki_tool_run_group,
    .example = "yoke train --model=lenet --data=examples/data",
};

/* Runs "help bench devices" as "bench devices --help". */
static int
run_help(const yki_tool_command *self, int argc, char **argv)
{
    enum { WORDS = 8 };
    char *words[WORDS + 1] = {(char[]){"yoke"}};
    int count = 1, status = TOOL_OK;

    if (yki_tool_next(self, argc, argv, &status) == TOOL_EXIT)
        return status;
    if (argc - optind > WORDS - 2)
        return yki_tool_usage(self, "which of the commands?");
    while (optind < argc)
        words[count++] = argv[optind++];
    words[count++] = (char[]){"--help"};
    optind = 0; /* restarts getopt */
    return yoke.run(&yoke, count, words);
}

int
main(int argc, char **argv)
{
    int status = yoke.run(&yoke, argc, argv);

    /* A full disk is noticed only here. */
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        yki_tool_error(&yoke, "cannot write the result: %s",
                       errno ? strerror(errno) : "output error");
        return status == TOOL_OK ? TOOL_FAILURE : status;
    }
    return status;
}
