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

#include "tool.h"

enum {
    MAX_OPTIONS = 32,
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
yki_tool_note(const yki_tool_command *command, const char *format, ...)
{
    va_list args;

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
    fprintf(stderr, "Try '%s --help'.\n", command->name);
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

static void
print_option(int letter, const char *name, const char *argument, const char *help)
{
    char left[64];
    int width = letter ? snprintf(left, sizeof left, "  -%c, --%s", letter, name)
                       : snprintf(left, sizeof left, "      --%s", name);

    if (argument && width > 0 && (size_t)width < sizeof left)
        snprintf(left + width, sizeof left - (size_t)width, "=%s", argument);
    printf("%-*s%s\n", HELP_COLUMN, left, help);
}

static void
print_help(const yki_tool_command *command)
{
    printf("Usage: %s %s\n\n%s\n", command->name, command->synopsis, command->description);
    if (command->subcommands) {
        printf("\nCommands:\n");
        for (const yki_tool_command *const *sub = command->subcommands; *sub; sub++)
            printf("  %-*s%s\n", HELP_COLUMN - 2, strrchr((*sub)->name, ' ') + 1, (*sub)->summary);
    }
    printf("\nOptions:\n");
    for (const yki_tool_option *option = command->options; option && option->name; option++)
        print_option(option->letter, option->name, option->argument, option->help);
    print_option('h', "help", NULL, "show this text and exit");
    printf("\nExample:\n  %s\n", command->example);
}

/* Compares a word such as "--optimiser=adam" without its dashes and its argument. */
static const char *
near_option(const yki_tool_command *command, const char *word, yki_near *near)
{
    char name[64];

    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    yki_near_start(near, name + strspn(name, "-"));
    yki_near_offer(near, "help");
    for (const yki_tool_option *option = command->options; option && option->name; option++)
        yki_near_offer(near, option->name);
    if (near->best)
        snprintf(near->hint, sizeof near->hint, "; did you mean \"--%s\"?", near->best);
    return near->hint;
}

/* Whether the word is an option of the command, with or without an argument. */
static bool
is_option(const yki_tool_command *command, const char *word)
{
    size_t length = strcspn(word + 2, "=");

    for (const yki_tool_option *option = command->options; option && option->name; option++)
        if (strlen(option->name) == length && strncmp(option->name, word + 2, length) == 0)
            return true;
    return false;
}

/* Reports the option that getopt refused: a letter is in optopt, a whole word in argv. */
static int
bad_option(const yki_tool_command *command, int argc, char **argv, bool lacks_argument)
{
    const char *word = optind >= 1 && optind <= argc ? argv[optind - 1] : "";
    const char *what = lacks_argument ? "needs an argument" : "is unknown or takes no argument";
    yki_near near = {.hint = ""};

    if (!lacks_argument && strncmp(word, "--", 2) == 0 && !is_option(command, word))
        near_option(command, word, &near);
    if (optopt > 0 && optopt < HELP)
        return yki_tool_usage(command, "option '-%c' %s", optopt, what);
    return yki_tool_usage(command, "option '%s' %s%s", word, what, near.hint);
}

int
yki_tool_next(const yki_tool_command *command, int argc, char **argv, int *status)
{
    struct option names[MAX_OPTIONS + 2] = {{"help", no_argument, NULL, HELP}};
    char letters[2 * MAX_OPTIONS + 4];
    size_t count = 0;
    char *letter = letters;
    int code;

    /* '+': a command with subcommands takes only the options before the subcommand. */
    *letter++ = command->subcommands ? '+' : ':';
    if (command->subcommands)
        *letter++ = ':';
    *letter++ = 'h';
    for (const yki_tool_option *option = command->options; option && option->name; option++) {
        assert(count < MAX_OPTIONS);
        names[count + 1] =
            (struct option){option->name, option->argument ? required_argument : no_argument, NULL,
                            NAMED + (int)count};
        count++;
        if (!option->letter)
            continue;
        *letter++ = (char)option->letter;
        if (option->argument)
            *letter++ = ':';
    }
    names[count + 1] = (struct option){NULL, 0, NULL, 0};
    *letter = '\0';

    opterr = 0;
    code = getopt_long(argc, argv, letters, names, NULL);
    if (code == -1)
        return TOOL_END;
    if (code == 'h' || code == HELP) {
        print_help(command);
        *status = TOOL_OK;
        return TOOL_EXIT;
    }
    if (code == '?' || code == ':') {
        *status = bad_option(command, argc, argv, code == ':');
        return TOOL_EXIT;
    }
    if (code >= NAMED)
        return code - NAMED;
    for (size_t i = 0; i < count; i++)
        if (command->options[i].letter == code)
            return (int)i;
    *status = TOOL_USAGE;
    return TOOL_EXIT;
}

int
yki_tool_read_options(const yki_tool_command *command, int argc, char **argv,
                      int (*take)(const yki_tool_command *command, int option, void *user),
                      void *user)
{
    int option, status = TOOL_OK;

    while ((option = yki_tool_next(command, argc, argv, &status)) != TOOL_END) {
        if (option == TOOL_EXIT)
            return status == TOOL_OK ? TOOL_EXIT : status;
        status = take(command, option, user);
        if (status != TOOL_OK)
            return status;
    }
    return TOOL_OK;
}

int
yki_tool_read_model_file(const yki_tool_command *command, int argc, char **argv, const char **file)
{
    if (optind >= argc)
        return yki_tool_usage(command, "which model? A file that yoke train wrote");
    if (optind + 1 < argc)
        return yki_tool_usage(command, "one file at a time: '%s'", argv[optind + 1]);
    *file = argv[optind];
    return TOOL_OK;
}

int
yki_tool_run_group(const yki_tool_command *self, int argc, char **argv)
{
    int status = TOOL_USAGE;
    yki_near near;

    while (true) {
        int option = yki_tool_next(self, argc, argv, &status);

        if (option == TOOL_EXIT)
            return status;
        if (option == TOOL_END)
            break;
        /* The only option of a group apart from --help. */
        if (strcmp(self->options[option].name, "version") == 0) {
            printf("yoke %s\n", yoke_version());
            return TOOL_OK;
        }
    }
    if (optind >= argc)
        return yki_tool_usage(self, "which command?");
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
    return yki_tool_usage(self, "there is no command '%s'%s", argv[optind], yki_near_hint(&near));
}

bool
yki_tool_parse_count(const char *text, unsigned maximum, unsigned *count)
{
    char *end;
    unsigned long value;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    value = strtoul(text, &end, 10);
    if (errno || *end || value < 1 || value > maximum)
        return false;
    *count = (unsigned)value;
    return true;
}

static const char *const levels[] = {"measure", "estimate", "patient"};

const char *
yki_tool_near_level(const char *text, yki_near *near)
{
    return yki_near_among(near, text, levels, 3);
}

bool
yki_tool_parse_level(const char *text, yoke_plan_level *level)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(text, levels[i]) == 0) {
            *level = (yoke_plan_level)i;
            return true;
        }
    return false;
}
