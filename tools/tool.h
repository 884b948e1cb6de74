/* SPDX-License-Identifier: Apache-2.0
 *
 * tool.h - what the subcommands of `yoke` share: a table that describes each
 * command, from which its options are parsed and its --help is printed (so the
 * two cannot differ), messages, and the library's log on standard error.
 *
 * Results go to standard output, everything else to standard error. The exit
 * status is 0, 1 (it failed), 2 (it was called wrongly) or 3 (training was stopped).
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

/* STOPPED: training ended early because that was asked for, and in order. */
enum { TOOL_OK = 0, TOOL_FAILURE = 1, TOOL_USAGE = 2, TOOL_STOPPED = 3 };

typedef struct yki_tool_option {
    const char *name;     /* long name, without the dashes */
    int letter;           /* short name or 0 */
    const char *argument; /* "N" in "--repeats=N"; NULL: takes none */
    const char *help;
} yki_tool_option;

typedef struct yki_tool_command yki_tool_command;
struct yki_tool_command {
    const char *name;                           /* as typed: "yoke bench devices" */
    const char *synopsis;                       /* what follows the name */
    const char *summary;                        /* one line, for the list of its parent */
    const char *description;                    /* paragraphs, for its own --help */
    const yki_tool_option *options;             /* ends with a zeroed one; NULL: --help alone */
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

/* The place of the next option in the command's table, or one of these. */
enum { TOOL_END = -1, TOOL_EXIT = -2 };
/* Works like getopt: after TOOL_END, argv[optind] is the first argument. TOOL_EXIT: --help was
 * answered or the option is wrong, and *status is what to exit with. */
int yki_tool_next(const yki_tool_command *command, int argc, char **argv, int *status);
/* All of them, each given to `take`, until one returns other than TOOL_OK. TOOL_EXIT: --help was
 * answered; else what to exit with, or TOOL_OK. */
int yki_tool_read_options(const yki_tool_command *command, int argc, char **argv,
                          int (*take)(const yki_tool_command *command, int option, void *user),
                          void *user);
/* The one argument that is left when options are read: a file that `yoke train` wrote. */
int yki_tool_read_model_file(const yki_tool_command *command, int argc, char **argv,
                             const char **file);
/* `run` of a command that only has subcommands. */
int yki_tool_run_group(const yki_tool_command *self, int argc, char **argv);
/* A whole number in [1, maximum]. */
bool yki_tool_parse_count(const char *text, unsigned maximum, unsigned *count);

/* The name of a planning level. */
bool yki_tool_parse_level(const char *text, yoke_plan_level *level);
/* The hint for what is none. */
const char *yki_tool_near_level(const char *text, yki_near *near);

/* "yoke: devices: ..." on standard error. */
void yki_tool_error(const yki_tool_command *command, const char *format, ...) TOOL_PRINTF(2, 3);
void yki_tool_warn(const yki_tool_command *command, const char *format, ...) TOOL_PRINTF(2, 3);
/* An error of usage, with where to read more; returns TOOL_USAGE. */
int yki_tool_usage(const yki_tool_command *command, const char *format, ...) TOOL_PRINTF(2, 3);
/* What the library says of `status`; returns the exit status: a selector that cannot be read is
 * a mistake of usage, all else a failure. */
int yki_tool_fail(const yki_tool_command *command, yoke_status status);
/* One of the processes of a job: rank and host stand before what it says, and only rank 0 gives
 * warnings and notes, unless each has a file for them. */
void yki_tool_speak_as(int rank, int ranks, const char *host, bool own_file);
/* Called before a message is written; NULL: nothing is. */
void yki_tool_on_message(void (*clear)(void));
/* Something to know, on standard error. */
void yki_tool_note(const yki_tool_command *command, const char *format, ...) TOOL_PRINTF(2, 3);
/* Lines of the library's log, up to `level`, become warnings and notes of this command. */
void yki_tool_log(const yki_tool_command *command, yoke_log_level level);
/* The level with the library's notes, such as on what takes long before the first step: if they
 * are wanted, and on a terminal; else the one without. */
yoke_log_level yki_tool_notes(bool wanted);

/* ---- cores.c ---- */

typedef struct yki_tool_cores {
    double count;       /* of the host's cores that this process may use; a quota may be 1.5 */
    const char *reason; /* what limits it: "affinity", "cgroup quota"; constant */
} yki_tool_cores;
/* `root` stands before /proc and /sys; "" but in tests. */
yki_tool_cores yki_tool_usable_cores(const char *root);

#endif
