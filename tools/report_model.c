/* SPDX-License-Identifier: Apache-2.0
 *
 * report_model.c - the model: what `yoke info` says of it, and a drawing of its graph.
 */
#include "graph_picture.h"
#include "info.h"
#include "report.h"

static yoke_status
print(void *user, FILE *to)
{
    const yki_tool_page *r = user;

    return yki_tool_info_print(r->file, to);
}

yoke_status
yki_tool_report_model(yki_tool_page *r)
{
    yoke_status status;

    yki_tool_report_begin(r->stream, "model", "Model");
    status = yki_tool_report_text(r->stream, print, r);
    if (status)
        return status;
    fputs("</section>\n", r->stream);
    yki_tool_report_begin(r->stream, "graph", "Graph");
    status = yki_tool_graph_picture(r->stream, yoke_model_get_graph(r->evaluation.model));
    fputs("</section>\n", r->stream);
    return status;
}
