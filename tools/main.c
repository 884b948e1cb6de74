/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - the yoke command: `yoke help`, and the final check that all output was
 * written.
 *
 * Each subcommand is one file, which uses only the public API; tool.h has their list.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

static const yki_tool_option options[] = {
    {"version", 'V', NULL, "show the version and exit", TOOL_FLAG(yki_tool_group, version)},
    {0},
};

static int run_help(const yki_tool_command *self, int argc, char **argv);

const yki_tool_command yki_tool_help = {
    .name = "yoke help",
    .synopsis = "[COMMAND]...",
    .summary = "show the commands, or what one of them takes",
    .description = "Show the text of \"yoke COMMAND --help\", or, without a COMMAND, the commands.",
    .run = run_help,
    .example = "yoke help train",
};

#define ADDRESS(name) &yki_tool_##name,
static const yki_tool_command *const subcommands[] = {TOOL_COMMANDS(ADDRESS) NULL};

static const yki_tool_command yoke = {
    .name = "yoke",
    .synopsis = "[--version] COMMAND [ARGUMENT]...",
    .description =
        "Train neural networks on every OpenCL device within reach, together.\n"
        "\"yoke help COMMAND\" tells more of a command; \"man yoke\" is its manual, and\n"
        "\"man 7 yoke\" a tour of the library.",
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
    int count = 1, status = yki_tool_read(self, argc, argv, NULL);

    if (status != TOOL_OK)
        return status == TOOL_EXIT ? TOOL_OK : status;
    if (argc - optind > WORDS - 2)
        return yki_tool_usage(self,
                              "%d words are given; must be a command, such as \"bench devices\"",
                              argc - optind);
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
