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

typedef enum yki_tool_kind {
    TOOL_KIND_FLAG,   /* bool: true if the option is given; it takes no argument */
    TOOL_KIND_COUNT,  /* unsigned: a whole number */
    TOOL_KIND_REAL,   /* double */
    TOOL_KIND_TEXT,   /* const char *: lent */
    TOOL_KIND_CHOICE, /* int: what one of some names stands for */
    TOOL_KIND_LIST    /* const char *: lent; a function has read it and found no fault */
} yki_tool_kind;

typedef struct yki_tool_choice {
    const char *name;
    int value;
} yki_tool_choice;

/* Reads a list such as "cosine,warmup=1". On failure it returns false and writes the reason. */
enum { TOOL_WHY = 160 };
typedef bool (*yki_tool_check)(const char *text, char why[TOOL_WHY]);

/* An option, and where its value goes. The macros TOOL_FLAG and so on write the members from `kind`
 * on. */
typedef struct yki_tool_option {
    const char *name;     /* long name, without the dashes */
    int letter;           /* short name or 0 */
    const char *argument; /* "N" in "--repeats=N"; NULL: it takes none */
    const char *help;
    yki_tool_kind kind;
    size_t offset;                  /* of the value in the struct that is read into */
    double least, most;             /* of a count or a real: the bounds, which are allowed */
    const yki_tool_choice *choices; /* of a choice; ends with one that has no name */
    yki_tool_check check;           /* of a list */
    unsigned takers;                /* in a shared table: the bits of the commands that have it */
} yki_tool_option;

/* The offset of a member, which must be of this type: another one does not compile. */
#define TOOL_AT(type, member, member_type)                                                         \
    (offsetof(type, member) + 0 * sizeof(&((type *)0)->member == (member_type *)0))
#define TOOL_FLAG(type, member) .kind = TOOL_KIND_FLAG, .offset = TOOL_AT(type, member, bool)
#define TOOL_COUNT(type, member, at_least, at_most)                                                \
    .kind = TOOL_KIND_COUNT, .offset = TOOL_AT(type, member, unsigned), .least = (at_least),       \
    .most = (at_most)
#define TOOL_REAL(type, member, at_least, at_most)                                                 \
    .kind = TOOL_KIND_REAL, .offset = TOOL_AT(type, member, double), .least = (at_least),          \
    .most = (at_most)
#define TOOL_TEXT(type, member)                                                                    \
    .kind = TOOL_KIND_TEXT, .offset = TOOL_AT(type, member, const char *)
#define TOOL_CHOICE(type, member, names)                                                           \
    .kind = TOOL_KIND_CHOICE, .offset = TOOL_AT(type, member, int), .choices = (names)
#define TOOL_LIST(type, member, function)                                                          \
    .kind = TOOL_KIND_LIST, .offset = TOOL_AT(type, member, const char *), .check = (function)

typedef struct yki_tool_command yki_tool_command;
struct yki_tool_command {
    const char *name;                           /* as typed: "yoke bench devices" */
    const char *synopsis;                       /* what follows the name */
    const char *summary;                        /* one line, for the list of its parent */
    const char *description;                    /* paragraphs, for its own --help */
    const yki_tool_option *options;             /* ends with a zeroed one; NULL: none of its own */
    const yki_tool_option *shared;              /* options of several commands; NULL: none */
    unsigned taker;                             /* the bit of this command in `takers` of those */
    size_t shared_at;                           /* what those are read into, in its struct */
    const yki_tool_command *const *subcommands; /* ends with NULL; NULL: none */
    int (*run)(const yki_tool_command *self, int argc, char **argv);
    const char *example; /* a command line, for its --help */
};

/* The subcommands of `yoke`, in the order of its --help. Each is yki_tool_NAME, in a file of its
 * own; help is in main.c. */
#define TOOL_COMMANDS(X)                                                                           \
    X(train)                                                                                       \
    X(eval)                                                                                        \
    X(predict)                                                                                     \
    X(tokenize)                                                                                    \
    X(generate)                                                                                    \
    X(convert)                                                                                     \
    X(merge)                                                                                       \
    X(data)                                                                                        \
    X(info) X(plot) X(report) X(devices) X(doctor) X(plan) X(bench) X(tune) X(verify) X(help)
#define TOOL_DECLARE(name) extern const yki_tool_command yki_tool_##name;
TOOL_COMMANDS(TOOL_DECLARE)

/* ---- command.c ---- */

enum { TOOL_EXIT = -1 };
/* Reads the options of a command line by the command's rows, into the struct that the rows have
 * offsets of; NULL: the command has no options. What is not given stays as it is. Afterwards
 * argv[optind] is the first argument. Returns TOOL_OK; TOOL_EXIT if --help was printed; or the exit
 * status of an error. */
int yki_tool_read(const yki_tool_command *command, int argc, char **argv, void *to);
/* Lends an option of the command, those of its shared table first; NULL: it has no more. */
const yki_tool_option *yki_tool_row(const yki_tool_command *command, size_t index);
/* After the options: takes the argument that is left. `what` tells what it is; NULL: none is taken.
 * If it is missing, `*argument` stays as it is or, if `question` is not NULL, that is an error, and
 * `question` asks for it. Returns TOOL_OK or TOOL_USAGE. */
int yki_tool_read_argument(const yki_tool_command *command, int argc, char **argv, const char *what,
                           const char *question, const char **argument);

/* What a group of commands has options for. */
typedef struct yki_tool_group {
    bool version;
} yki_tool_group;
/* The `run` of a command that only has subcommands. */
int yki_tool_run_group(const yki_tool_command *self, int argc, char **argv);
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
/* From here on no notes are written. */
void yki_tool_hush(void);
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

typedef struct yki_tool_memory {
    uint64_t total, available; /* bytes of the host, and of them those that are free; 0: unknown */
    uint64_t limit;            /* of the control group; 0: none */
} yki_tool_memory;
yki_tool_memory yki_tool_usable_memory(const char *root);

#endif
