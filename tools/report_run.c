/* SPDX-License-Identifier: Apache-2.0
 *
 * report_run.c - the options of the run, the hash of its weights, and the versions of what made the
 * report.
 */
#include <stdlib.h>
#include <string.h>

#include "markup.h"
#include "report.h"

static void
write_options(const yki_tool_page *r)
{
    const char *name;
    json_t *value;

    json_object_foreach(r->options, name, value)
    {
        char *text = json_is_string(value)
                         ? strdup(json_string_value(value))
                         : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));

        yki_tool_report_row(r->stream, name, text ? text : "");
        free(text);
    }
}

/* Devices of one driver have one row. */
static void
write_drivers(const yki_tool_page *r)
{
    const yoke_team *team = r->evaluation.team;
    char text[400], last[400] = "";
    yoke_device_info info;

    for (size_t k = 0; k < yoke_team_local_count(team); k++) {
        if (yoke_device_get_info(yoke_team_get_device(team, k), &info))
            continue;
        snprintf(text, sizeof text, "%s: %.100s, %.100s", info.platform, info.version, info.driver);
        if (strcmp(text, last) != 0)
            yki_tool_report_row(r->stream, "OpenCL", text);
        memcpy(last, text, sizeof last);
    }
}

yoke_status
yki_tool_report_run(yki_tool_page *r)
{
    char hash[33] = "";
    yoke_status status = yoke_trainer_hash(r->evaluation.trainer, NULL, hash);

    if (status)
        return status;
    yki_tool_report_begin(r->stream, "run", "Options, hash and versions");
    fputs("<table>\n", r->stream);
    yki_tool_report_row(r->stream, "file", r->file);
    yki_tool_report_row(r->stream, "hash of the weights", hash);
    yki_tool_report_row(r->stream, "yoke", yoke_version());
    write_drivers(r);
    fputs("</table>\n<h3>Options of the run</h3>\n", r->stream);
    if (json_object_size(r->options) == 0) {
        fputs("<p>No file of options is beside the weights.</p>\n", r->stream);
    } else {
        fputs("<table>\n", r->stream);
        write_options(r);
        fputs("</table>\n", r->stream);
    }
    fputs("</section>\n", r->stream);
    return YOKE_OK;
}
