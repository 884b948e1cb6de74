/* SPDX-License-Identifier: Apache-2.0
 *
 * report_parts.c - what the sections of a report share: headings, cells, text, the style.
 */
#include <stdlib.h>

#include "markup.h"
#include "report.h"

const char yki_tool_report_style[] =
    ":root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--text:#24292f;--soft:#667080;"
    "--line:#e0e4e9;--good:37,99,235;--bad:217,72,15}\n"
    "@media (prefers-color-scheme:dark){:root{--page:#0d0f12;--card:#15181d;--text:#e6e8eb;"
    "--soft:#98a2b0;--line:#2d333b;--good:110,168,254;--bad:255,157,92}}\n"
    "body{margin:0 auto;padding:24px;max-width:980px;background:var(--page);color:var(--text);"
    "font:15px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:24px;margin:0 0 4px;overflow-wrap:anywhere}\n"
    "h2{font-size:18px;margin:0 0 12px}h3{font-size:15px;margin:20px 0 8px}\n"
    "p{margin:6px 0;color:var(--soft)}\n"
    "section{background:var(--card);border:1px solid var(--line);border-radius:10px;"
    "padding:18px 20px;margin:18px 0;overflow-x:auto}\n"
    "nav a{margin-right:14px;color:rgb(var(--good));text-decoration:none}\n"
    ".tiles{display:flex;flex-wrap:wrap;gap:12px;margin:16px 0}\n"
    ".tiles div{background:var(--card);border:1px solid var(--line);border-radius:10px;"
    "padding:10px 16px;min-width:110px}\n"
    ".tiles b{display:block;font-size:22px;font-weight:600}.tiles span{color:var(--soft);"
    "font-size:13px}\n"
    "pre{font:12.5px/1.45 ui-monospace,monospace;margin:8px 0;overflow-x:auto}\n"
    "table{border-collapse:collapse;font-size:13.5px}\n"
    "td,th{padding:3px 12px 3px 0;text-align:left;vertical-align:top}"
    "td{overflow-wrap:anywhere;border-top:1px solid var(--line)}\n"
    "th{font-weight:600;color:var(--soft);white-space:nowrap}.number{text-align:right}\n"
    ".confusion td,.confusion th{padding:4px 8px;text-align:right;border:0}\n"
    ".confusion td{border:1px solid var(--card);min-width:22px}\n"
    ".confusion thead .long{writing-mode:vertical-rl;text-align:left;max-height:140px}\n"
    ".good{background:rgba(var(--good),var(--part))}.bad{background:rgba(var(--bad),var(--part))}\n"
    ".samples{display:flex;flex-wrap:wrap;gap:12px;margin:0;padding:0;list-style:none}\n"
    ".samples li{width:128px;font-size:12.5px;line-height:1.35;overflow-wrap:anywhere}\n"
    ".samples img{width:128px;height:128px;object-fit:contain;image-rendering:pixelated;"
    "background:#8884;border-radius:6px;display:block;margin-bottom:4px}\n"
    ".samples span{color:var(--soft)}.samples .wrong{color:rgb(var(--bad))}\n"
    "svg.yoke{max-width:100%;height:auto}svg.graph{max-width:none;height:auto}\n"
    "details{margin:8px 0}summary{cursor:pointer;color:var(--soft)}\n"
    "@media print{section{break-inside:avoid}}\n";

void
yki_tool_report_begin(FILE *stream, const char *id, const char *title)
{
    fprintf(stream, "<section id=\"%s\">\n<h2>%s</h2>\n", id, title);
}

yoke_status
yki_tool_report_text(FILE *stream, yoke_status (*print)(void *user, FILE *to), void *user)
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    yoke_status status;

    if (!to)
        return yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for a text");
    status = print(user, to);
    if (fclose(to) != 0 && !status)
        status = yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for a text");
    if (!status) {
        fputs("<pre>", stream);
        yki_tool_markup(stream, text);
        fputs("</pre>\n", stream);
    }
    free(text);
    return status;
}

void
yki_tool_report_row(FILE *stream, const char *name, const char *value)
{
    fputs("<tr><th>", stream);
    yki_tool_markup(stream, name);
    fputs("</th>", stream);
    yki_tool_report_cell(stream, false, value);
    fputs("</tr>\n", stream);
}

void
yki_tool_report_cell(FILE *stream, bool numeric, const char *text)
{
    fputs(numeric ? "<td class=\"number\">" : "<td>", stream);
    yki_tool_markup(stream, text);
    fputs("</td>", stream);
}
