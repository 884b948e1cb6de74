/* SPDX-License-Identifier: Apache-2.0
 *
 * tool.h - what the subcommands of `yoke` share: a table that describes each
 * command, messages, and the library's log on standard error. The parser of options
 * and --help both read the table, so the two cannot differ.
 *
 * Results go to standard output, everything else to standard error. The exit
 * status is 0, 1 (failure), 2 (wrong usage) or 3 (training was stopped).
 */
#ifndef YOKE_TOOLS_TOOL_H
#define YOKE_TOOLS_TOOL_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <yoke.h>

#include "base/near.h"

#if defined(__GNUC__) || defined(__clang__)
#define TOOL_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define TOOL_PRINTF(text, first)
#endif

/* TOOL_STOPPED: a signal asked training to end early, and it ended in order. */
enum { TOOL_OK = 0, TOOL_FAILURE = 1, TOOL_USAGE = 2, TOOL_STOPPED = 3 };

typedef struct yki_tool_option {
    const char *name;     /* long name, without the dashes */
    int letter;           /* short name or 0 */
    const char *argument; /* "N" in "--repeats=N"; NULL: it takes none */
    const char *help;
} yki_tool_option;

typedef struct yki_tool_command yki_tool_command;
struct yki_tool_command {
    const char *name;                           /* as typed: "yoke bench devices" */
    const char *synopsis;                       /* what follows the name */
    const char *summary;                        /* one line, for the list of its parent */
    const char *description;                    /* paragraphs, for its own --help */
    const yki_tool_option *options;             /* ends with a zeroed one; NULL: only --help */
    const yki_tool_command *const *subcommands; /* ends with NULL; NULL: none */
    int (*run)(const yki_tool_command *self, int argc, char **argv);
    const char *example; /* a command line, for its --help */
};

/* One file each. */
extern const yki_tool_command yki_tool_devices;
extern const yki_tool_command yki_tool_bench;
extern const yki_tool_command yki_tool_tune;
extern const yki_tool_command yki_tool_verify;
extern const yki_tool_command yki_tool_train;
extern const yki_tool_command yki_tool_eval;
extern const yki_tool_command yki_tool_predict;
extern const yki_tool_command yki_tool_info;
extern const yki_tool_command yki_tool_plot;

/* ---- command.c ---- */

enum { TOOL_END = -1, TOOL_EXIT = -2 };
/* Returns the index of the next option in the command's table, or one of these. Works like getopt:
 * `optarg` is the option's argument, and after TOOL_END argv[optind] is the first argument.
 * TOOL_EXIT: --help was printed or the option is wrong, and *status is the exit status. */
int yki_tool_next(const yki_tool_command *command, int argc, char **argv, int *status);
/* Reads all options and gives each to `take`, until a call does not return TOOL_OK. Returns
 * TOOL_EXIT if --help was printed, TOOL_OK, or the exit status of an error. */
int yki_tool_read_options(const yki_tool_command *command, int argc, char **argv,
                          int (*take)(const yki_tool_command *command, int option, void *user),
                          void *user);
/* After the options: takes the one argument that must be left, a file that `yoke train` wrote. */
int yki_tool_read_model_file(const yki_tool_command *command, int argc, char **argv,
                             const char **file);
/* The `run` of a command that only has subcommands. */
int yki_tool_run_group(const yki_tool_command *self, int argc, char **argv);
/* Reads a whole number in [1, maximum]; false: `text` is none. */
bool yki_tool_parse_count(const char *text, unsigned maximum, unsigned *count);

/* Reads the name of a planning level; false: `text` is none. */
bool yki_tool_parse_level(const char *text, yoke_plan_level *level);
/* Returns the "did you mean" hint for a text that is no level. */
const char *yki_tool_near_level(const char *text, yki_near *near);

/* Writes "yoke: devices: ..." to standard error. */
void yki_tool_error(const yki_tool_command *command, const char *format, ...) TOOL_PRINTF(2, 3);
void yki_tool_warn(const yki_tool_command *command, const char *format, ...) TOOL_PRINTF(2, 3);
/* Writes an error of usage and how to see the help; returns TOOL_USAGE. */
int yki_tool_usage(const yki_tool_command *command, const char *format, ...) TOOL_PRINTF(2, 3);
/* Writes the library's last error, or the text of `status`. Returns the exit status: TOOL_USAGE for
 * a selector that cannot be read, TOOL_FAILURE for all else. */
int yki_tool_fail(const yki_tool_command *command, yoke_status status);
/* Tells that this is one process of a job: its messages begin with rank and host, and only rank 0
 * writes warnings and notes, unless each process has a file of its own for them. */
void yki_tool_speak_as(int rank, int ranks, const char *host, bool own_file);
/* Sets a function that is called before each message is written; NULL: none. */
void yki_tool_on_message(void (*clear)(void));
/* Writes a note to standard error. */
void yki_tool_note(const yki_tool_command *command, const char *format, ...) TOOL_PRINTF(2, 3);
/* Makes the lines of the library's log, up to `level`, warnings and notes of this command. */
void yki_tool_log(const yki_tool_command *command, yoke_log_level level);
/* Returns a level for yki_tool_log: with the library's notes, such as those on long work before the
 * first step, if they are wanted or standard error is a terminal; else without. */
yoke_log_level yki_tool_notes(bool wanted);

/* ---- cores.c ---- */

typedef struct yki_tool_cores {
    double count;       /* cores of the host that this process may use; a quota may be 1.5 */
    const char *reason; /* a constant text that says what limits them */
} yki_tool_cores;
/* `root` is put before /proc and /sys; it is "" except in tests. */
yki_tool_cores yki_tool_usable_cores(const char *root);

#endif
