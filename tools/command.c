/* SPDX-License-Identifier: Apache-2.0
 *
 * command.c - options, --help and messages of every command, from its table.
 *
 * Idea: the table in tool.h is the only description of a command line. The parser and
 * the help text are both made from it, and a test compares the manual pages with the
 * help text.
 */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "options.h"

enum {
    MAX_OPTIONS = 96,
    HELP = 1000, /* getopt_long returns it for --help, and NAMED + i for --name number i */
    NAMED = 1001,
    HELP_COLUMN = 26 /* where the text of an option begins */
};

/* "devices" of "yoke devices"; "" of "yoke" itself. */
static const char *
short_name(const yki_tool_command *command)
{
    const char *space = strchr(command->name, ' ');

    return space ? space + 1 : "";
}

/* Which process of a job this is; `quiet`: another one writes the same warnings and notes. */
static struct {
    int rank, ranks;
    char host[64];
    bool quiet;
    bool hushed; /* no notes are wanted */
} speaker = {.ranks = 1};

void
yki_tool_speak_as(int rank, int ranks, const char *host, bool own_file)
{
    speaker.rank = rank;
    speaker.ranks = ranks;
    speaker.quiet = rank > 0 && !own_file;
    snprintf(speaker.host, sizeof speaker.host, "%s", host);
}

/* Removes the progress line from a terminal before a message is written. */
static void (*clear_line)(void);

void
yki_tool_on_message(void (*clear)(void))
{
    clear_line = clear;
}

static void
message(const yki_tool_command *command, const char *kind, const char *format, va_list args)
{
    const char *name = short_name(command);
    char who[96] = "", *text;

    if ((*kind && speaker.quiet) || vasprintf(&text, format, args) < 0)
        return;
    if (speaker.ranks > 1)
        snprintf(who, sizeof who, "rank %d on %s: ", speaker.rank, speaker.host);
    if (clear_line)
        clear_line();
    /* If both streams go to one place, earlier results stand before the message. */
    fflush(stdout);
    /* One call writes the whole line: mpirun may put other lines between two writes. */
    fprintf(stderr, "yoke: %s%s%s%s%s\n", name, *name ? ": " : "", who, kind, text);
    free(text);
}

void
yki_tool_error(const yki_tool_command *command, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    message(command, "", format, args);
    va_end(args);
}

void
yki_tool_warn(const yki_tool_command *command, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    message(command, "warning: ", format, args);
    va_end(args);
}

void
yki_tool_hush(void)
{
    speaker.hushed = true;
}

void
yki_tool_note(const yki_tool_command *command, const char *format, ...)
{
    va_list args;

    if (speaker.hushed)
        return;
    va_start(args, format);
    message(command, "note: ", format, args);
    va_end(args);
}

int
yki_tool_usage(const yki_tool_command *command, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    message(command, "", format, args);
    va_end(args);
    fprintf(stderr, "Try \"%s --help\".\n", command->name);
    return TOOL_USAGE;
}

int
yki_tool_fail(const yki_tool_command *command, yoke_status status)
{
    const char *detail = yoke_last_error();

    /* Rank 0 reports a failure of all ranks, and then ends the others: give it time to do so. */
    if (speaker.quiet)
        nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    if (speaker.quiet && status == YOKE_ERROR_COMM)
        return TOOL_FAILURE;
    yki_tool_error(command, "%s", *detail ? detail : yoke_status_string(status));
    return status == YOKE_ERROR_SELECTOR ? TOOL_USAGE : TOOL_FAILURE;
}

static void
print_log(void *user, yoke_log_level level, const char *line)
{
    const yki_tool_command *command = (const yki_tool_command *)user;

    if (level <= YOKE_LOG_WARNING)
        yki_tool_warn(command, "%s", line);
    else
        yki_tool_note(command, "%s", line);
}

yoke_log_level
yki_tool_notes(bool wanted)
{
    return wanted || isatty(STDERR_FILENO) ? YOKE_LOG_INFO : YOKE_LOG_WARNING;
}

void
yki_tool_log(const yki_tool_command *command, yoke_log_level level)
{
    /* The callback only reads `command`, so the cast is safe. */
    yoke_log_set(print_log, (void *)(uintptr_t)command, level);
}

/* ---- rows ---- */

/* The rows of a command: those of the shared table that it takes, then its own. */
typedef struct row_list {
    const yki_tool_option *row[MAX_OPTIONS];
    size_t count;
} row_list;

static row_list
rows_of(const yki_tool_command *command)
{
    row_list list = {.count = 0};

    for (const yki_tool_option *row = command->shared; row && row->name; row++)
        if (row->takers & command->taker) {
            assert(list.count < MAX_OPTIONS);
            list.row[list.count++] = row;
        }
    for (const yki_tool_option *row = command->options; row && row->name; row++) {
        assert(list.count < MAX_OPTIONS);
        list.row[list.count++] = row;
    }
    return list;
}

const yki_tool_option *
yki_tool_row(const yki_tool_command *command, size_t index)
{
    const row_list rows = rows_of(command);

    return index < rows.count ? rows.row[index] : NULL;
}

static void
print_option(int letter, const char *name, const char *argument, const char *help)
{
    char left[64];
    int width = letter ? snprintf(left, sizeof left, "  -%c, --%s", letter, name)
                       : snprintf(left, sizeof left, "      --%s", name);

    if (argument && width > 0 && (size_t)width < sizeof left)
        snprintf(left + width, sizeof left - (size_t)width, "=%s", argument);
    printf("%-*s %s\n", HELP_COLUMN - 1, left, help);
}

static void
print_help(const yki_tool_command *command)
{
    const row_list rows = rows_of(command);

    printf("Usage: %s %s\n\n%s\n", command->name, command->synopsis, command->description);
    if (command->subcommands) {
        printf("\nCommands:\n");
        for (const yki_tool_command *const *sub = command->subcommands; *sub; sub++)
            printf("  %-*s%s\n", HELP_COLUMN - 2, strrchr((*sub)->name, ' ') + 1, (*sub)->summary);
    }
    printf("\nOptions:\n");
    for (size_t i = 0; i < rows.count; i++)
        print_option(rows.row[i]->letter, rows.row[i]->name, rows.row[i]->argument,
                     rows.row[i]->help);
    print_option('h', "help", NULL, "show this text and exit");
    printf("\nExample:\n  %s\n", command->example);
}

/* Whether the word is one of the options, with or without dashes and an argument. */
static bool
is_option(const row_list *rows, const char *word)
{
    size_t length;

    word += strspn(word, "-");
    length = strcspn(word, "=");
    for (size_t i = 0; i < rows->count; i++)
        if (strlen(rows->row[i]->name) == length && strncmp(rows->row[i]->name, word, length) == 0)
            return true;
    return false;
}

/* What options are called that had another name. */
static const char *
new_name(const char *name)
{
    static const char *const names[][2] = {{"bn", "batch-norm"},
                                           {"local-norm", "batch-norm=local"},
                                           {"memory", "recompute"},
                                           {"rate", "lr"},
                                           {"freeze", "reproducible=runs"}};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i][0], name) == 0)
            return names[i][1];
    return NULL;
}

/* Compares a word such as "--optimiser=adam" without its dashes and its argument. */
static void
find_near_option(const row_list *rows, const char *word, yki_near *near)
{
    char name[64];
    const char *now;

    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    yki_near_start(near, name + strspn(name, "-"));
    yki_near_offer(near, "help");
    for (size_t i = 0; i < rows->count; i++)
        yki_near_offer(near, rows->row[i]->name);
    now = new_name(near->word);
    if (now && is_option(rows, now))
        near->best = now;
    if (near->best)
        snprintf(near->hint, sizeof near->hint, "; did you mean \"--%s\"?", near->best);
}

/* Reports the option that getopt refused: a letter is in optopt, a whole word in argv. */
static int
bad_option(const yki_tool_command *command, const row_list *rows, int argc, char **argv,
           bool lacks_argument)
{
    const char *word = optind >= 1 && optind <= argc ? argv[optind - 1] : "";
    const bool is_word = strncmp(word, "--", 2) == 0, known = is_word && is_option(rows, word);
    const char *what = lacks_argument ? "needs an argument"
                       : known        ? "takes no argument"
                                      : "is unknown";
    yki_near near = {.hint = ""};

    if (!lacks_argument && is_word && !known)
        find_near_option(rows, word, &near);
    if (optopt > 0 && optopt < HELP)
        return yki_tool_usage(command, "option \"-%c\" %s", optopt, what);
    return yki_tool_usage(command, "option \"%s\" %s%s", word, what, near.hint);
}

/* ---- reading a command line ---- */

/* The rows, as getopt wants them. */
typedef struct patterns {
    struct option names[MAX_OPTIONS + 2];
    char letters[2 * MAX_OPTIONS + 4];
} patterns;

static void
write_patterns(const yki_tool_command *command, const row_list *rows, patterns *p)
{
    char *letter = p->letters;

    /* '+': a command with subcommands takes only the options before the subcommand. */
    if (command->subcommands)
        *letter++ = '+';
    *letter++ = ':';
    *letter++ = 'h';
    p->names[0] = (struct option){"help", no_argument, NULL, HELP};
    for (size_t i = 0; i < rows->count; i++) {
        const yki_tool_option *row = rows->row[i];

        p->names[i + 1] = (struct option){
            row->name, row->argument ? required_argument : no_argument, NULL, NAMED + (int)i};
        if (row->letter)
            *letter++ = (char)row->letter;
        if (row->letter && row->argument)
            *letter++ = ':';
    }
    p->names[rows->count + 1] = (struct option){NULL, 0, NULL, 0};
    *letter = '\0';
}

/* The row that getopt found: it returned the number of a name, or a letter. */
static const yki_tool_option *
find_row(const row_list *rows, int code)
{
    size_t i = 0;

    if (code >= NAMED)
        return rows->row[code - NAMED];
    while (i + 1 < rows->count && rows->row[i]->letter != code)
        i++;
    return rows->row[i];
}

int
yki_tool_read(const yki_tool_command *command, int argc, char **argv, void *to)
{
    const row_list rows = rows_of(command);
    char why[TOOL_SENTENCE];
    patterns p;
    int code;

    write_patterns(command, &rows, &p);
    opterr = 0;
    while ((code = getopt_long(argc, argv, p.letters, p.names, NULL)) != -1) {
        const yki_tool_option *row;

        if (code == 'h' || code == HELP) {
            print_help(command);
            return TOOL_EXIT;
        }
        if (code == '?' || code == ':')
            return bad_option(command, &rows, argc, argv, code == ':');
        row = find_row(&rows, code);
        if (!yki_tool_read_value(row, optarg, (char *)to + (row->takers ? command->shared_at : 0),
                                 why))
            return yki_tool_usage(command, "%s", why);
    }
    return TOOL_OK;
}

int
yki_tool_read_argument(const yki_tool_command *command, int argc, char **argv, const char *what,
                       const char *question, const char **argument)
{
    if (!what && optind < argc)
        return yki_tool_usage(command, "\"%s\" is no option; this command takes only options",
                              argv[optind]);
    if (optind >= argc)
        return question ? yki_tool_usage(command, "%s", question) : TOOL_OK;
    if (optind + 1 < argc)
        return yki_tool_usage(command, "\"%s\" is given as well; must be one %s at a time",
                              argv[optind + 1], what);
    *argument = argv[optind];
    return TOOL_OK;
}

int
yki_tool_run_group(const yki_tool_command *self, int argc, char **argv)
{
    yki_tool_group wanted = {.version = false};
    int status = yki_tool_read(self, argc, argv, &wanted);
    yki_near near;

    if (status != TOOL_OK)
        return status == TOOL_EXIT ? TOOL_OK : status;
    if (wanted.version) {
        printf("yoke %s\n", yoke_version());
        return TOOL_OK;
    }
    if (optind >= argc)
        return yki_tool_usage(self, "no command is given; must be one of those that --help lists");
    for (const yki_tool_command *const *sub = self->subcommands; *sub; sub++) {
        if (strcmp(argv[optind], strrchr((*sub)->name, ' ') + 1) == 0) {
            int first = optind;

            optind = 0; /* restarts getopt */
            return (*sub)->run(*sub, argc - first, argv + first);
        }
    }
    yki_near_start(&near, argv[optind]);
    for (const yki_tool_command *const *sub = self->subcommands; *sub; sub++)
        yki_near_offer(&near, strrchr((*sub)->name, ' ') + 1);
    return yki_tool_usage(self, "there is no command \"%s\"%s", argv[optind], yki_near_hint(&near));
}
