/* SPDX-License-Identifier: Apache-2.0
 *
 * plot.c - `yoke plot LOG`: draws a training as SVG (picture.c).
 */
#include <errno.h>
#include <string.h>

#include "options.h"
#include "picture.h"

typedef struct request {
    const char *out, *log; /* `out` NULL: standard output */
} request;

static const yki_tool_option options[] = {
    {"out", 'o', "FILE", "write the picture there (default: standard output)",
     TOOL_TEXT(request, out)},
    {0},
};

static yoke_status
write_picture(const char *out, const yki_tool_history *h, const char *path)
{
    FILE *stream = out ? fopen(out, "w") : stdout;
    char sentence[512];
    bool good;

    if (stream) {
        fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", stream);
        yki_tool_picture(stream, h, path, true);
        good = fflush(stream) == 0 && !ferror(stream);
        if (out && fclose(stream) != 0)
            good = false;
        if (good || !out) /* main checks standard output when the command ends */
            return YOKE_OK;
    }
    snprintf(sentence, sizeof sentence, "%s: cannot be written: %s", out, strerror(errno));
    return yoke_fail(YOKE_ERROR_IO, sentence);
}

static int
run(const yki_tool_command *self, int argc, char **argv)
{
    static yki_tool_history h;
    request wanted = {0};
    int status = yki_tool_read(self, argc, argv, &wanted);
    yoke_status failed;

    if (status == TOOL_OK)
        status = yki_tool_read_argument(
            self, argc, argv, "log",
            "no log is given; must be a file that \"yoke train --log\" wrote", &wanted.log);
    if (status != TOOL_OK)
        return status == TOOL_EXIT ? TOOL_OK : status;
    failed = yki_tool_history_read(wanted.log, &h);
    if (!failed)
        failed = write_picture(wanted.out, &h, wanted.log);
    if (failed)
        status = yki_tool_fail(self, failed);
    yki_tool_history_clear(&h);
    return status;
}

const yki_tool_command yki_tool_plot = {
    .name = "yoke plot",
    .synopsis = "[OPTION]... LOG",
    .summary = "draw loss, accuracy, speed and shares of a training",
    .description =
        "Draw what \"yoke train --log\" wrote: loss, accuracy, learning rate, speed and the\n"
        "shares of the devices over the steps, as a picture in SVG.",
    .options = options,
    .run = run,
    .example = "yoke plot --out=training.svg training.jsonl",
};
