/* SPDX-License-Identifier: Apache-2.0
 *
 * report_devices.c - the devices of the run with their shares, those that made the report, and what
 * the library explains of a team of these.
 */
#include <string.h>

#include "markup.h"
#include "report.h"
#include "table.h"

static void
write_run(const yki_tool_page *r)
{
    const yki_tool_history *h = &r->history;
    char text[32];

    if (!h->names[0])
        return;
    fputs("<h3>In the run</h3>\n<table>\n<tr><th>device</th><th class=\"number\">mean share</th>"
          "<th class=\"number\">last share</th></tr>\n",
          r->stream);
    for (size_t k = 0; k < TOOL_MOST_CURVES && h->names[k]; k++) {
        const yki_tool_curve *c = &h->shares[k];
        double sum = 0;

        for (size_t i = 0; i < c->count; i++)
            sum += c->points[i].value;
        fputs("<tr>", r->stream);
        yki_tool_report_cell(r->stream, false, h->names[k]);
        snprintf(text, sizeof text, "%.1f %%", 100 * sum / (double)c->count);
        yki_tool_report_cell(r->stream, true, c->count ? text : "-");
        snprintf(text, sizeof text, "%.1f %%", c->count ? 100 * c->points[c->count - 1].value : 0);
        yki_tool_report_cell(r->stream, true, c->count ? text : "-");
        fputs("</tr>\n", r->stream);
    }
    fputs("</table>\n", r->stream);
}

static void
write_device(FILE *stream, const yoke_device_info *info)
{
    char text[32];

    fputs("<tr>", stream);
    yki_tool_report_cell(stream, false, info->id);
    yki_tool_report_cell(stream, false, info->name);
    yki_tool_report_cell(stream, false, info->vendor);
    snprintf(text, sizeof text, "%u", info->compute_units);
    yki_tool_report_cell(stream, true, text);
    yki_tool_report_cell(stream, true, yki_tool_bytes(info->memory, text));
    yki_tool_report_cell(stream, true, info->quota ? yki_tool_bytes(info->quota, text) : "-");
    fputs("</tr>\n", stream);
}

static void
put_line(void *user, const char *text)
{
    fprintf(user, "%s\n", text);
}

static yoke_status
explain(void *user, FILE *to)
{
    const yki_tool_page *r = user;

    return yoke_trainer_explain(r->evaluation.trainer, put_line, to);
}

yoke_status
yki_tool_report_devices(yki_tool_page *r)
{
    const yoke_team *team = r->evaluation.team;
    yoke_device_info info;
    yoke_status status;

    yki_tool_report_begin(r->stream, "devices", "Devices");
    write_run(r);
    fputs("<h3>Of this report</h3>\n<table>\n<tr><th>id</th><th>name</th><th>vendor</th>"
          "<th class=\"number\">units</th><th class=\"number\">memory</th><th "
          "class=\"number\">quota</th></tr>\n",
          r->stream);
    for (size_t k = 0; k < yoke_team_local_count(team); k++)
        if (!yoke_device_get_info(yoke_team_get_device(team, k), &info))
            write_device(r->stream, &info);
    fputs("</table>\n<h3>How such a team trains</h3>\n", r->stream);
    status = yki_tool_report_text(r->stream, explain, r);
    fputs("</section>\n", r->stream);
    return status;
}
