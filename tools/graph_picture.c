/* SPDX-License-Identifier: Apache-2.0
 *
 * graph_picture.c - see graph_picture.h.
 *
 * A node stands one row below the lowest node that it reads. An edge that passes rows has a point
 * in each of them, which takes room as a node does, so no edge crosses a box. In a row everything
 * wants to stand below the leftmost that it reads, and is pushed to the right by what stands there
 * already: a chain is straight, and what passes it by stays at its right.
 */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "frame.h"
#include "graph_picture.h"
#include "markup.h"

enum { BOX = 168, TALL = 36, DOWN = 58, ASIDE = 22, MARGIN = 12, LETTERS = 22, MOST_SPOTS = 20000 };
#define NOWHERE ((size_t)-1)

const char yki_tool_graph_style[] =
    "svg.graph{--layer:#dbe7fd;--data:#d9f2e1;--loss:#fde3d2;--other:#eef0f3;--edge:#8b95a3}\n"
    "@media (prefers-color-scheme:dark){svg.graph{--layer:#1f3a68;--data:#1c4a31;--loss:#5c3217;"
    "--other:#2a3038;--edge:#76808e}}\n"
    ".graph .box{stroke:var(--edge);stroke-width:.8;fill:var(--other)}\n"
    ".graph .layer{fill:var(--layer)}.graph .data{fill:var(--data)}.graph .loss{fill:var(--loss)}\n"
    ".graph .edge{stroke:var(--edge);stroke-width:1.3}\n"
    ".graph text{font-size:11px}\n";

/* A node, or a point of an edge. */
typedef struct spot {
    const json_t *node; /* NULL: a point */
    size_t row, index;
    double wish, x; /* of its left end */
} spot;

typedef struct edge {
    size_t from, to; /* spots; an edge is drawn from row to row */
} edge;

typedef struct layout {
    json_t *json;
    spot *spots;
    edge *edges;
    size_t spot_count, edge_count, rows, room;
    double width;
} layout;

static const char *
text_of(const json_t *node, const char *key)
{
    const char *text = json_string_value(json_object_get(node, key));

    return text ? text : "";
}

/* The spot of a node that stands before the one at `end`. */
static size_t
find(const layout *l, const char *name, size_t end)
{
    for (size_t i = 0; i < end; i++)
        if (strcmp(text_of(l->spots[i].node, "name"), name) == 0)
            return i;
    return NOWHERE;
}

static bool
grow(layout *l)
{
    const size_t room = l->room ? 2 * l->room : 256;
    spot *spots;
    edge *edges;

    if (l->spot_count < l->room && l->edge_count < l->room)
        return true;
    if (room > MOST_SPOTS)
        return false;
    spots = realloc(l->spots, room * sizeof *spots);
    if (spots)
        l->spots = spots;
    edges = realloc(l->edges, room * sizeof *edges);
    if (edges)
        l->edges = edges;
    if (!spots || !edges)
        return false;
    l->room = room;
    return true;
}

static bool
add_nodes(layout *l)
{
    const json_t *nodes = json_object_get(l->json, "nodes"), *inputs;

    for (size_t i = 0; i < json_array_size(nodes); i++) {
        spot s = {.node = json_array_get(nodes, i), .index = i};

        if (!grow(l))
            return false;
        inputs = json_object_get(s.node, "inputs");
        for (size_t k = 0; k < json_array_size(inputs); k++) {
            const char *name = json_string_value(json_array_get(inputs, k));
            const size_t from = name ? find(l, name, l->spot_count) : NOWHERE;

            if (from != NOWHERE && l->spots[from].row + 1 > s.row)
                s.row = l->spots[from].row + 1;
        }
        l->rows = s.row + 1 > l->rows ? s.row + 1 : l->rows;
        l->spots[l->spot_count++] = s;
    }
    return true;
}

/* What is read far below, as labels are, stands right above its first reader. */
static void
lower_inputs(layout *l)
{
    for (size_t i = 0; i < l->spot_count; i++) {
        size_t first = l->rows;

        if (json_array_size(json_object_get(l->spots[i].node, "inputs")))
            continue;
        for (size_t k = i + 1; k < l->spot_count; k++) {
            const json_t *inputs = json_object_get(l->spots[k].node, "inputs");

            for (size_t m = 0; m < json_array_size(inputs); m++) {
                const char *name = json_string_value(json_array_get(inputs, m));

                if (name && strcmp(name, text_of(l->spots[i].node, "name")) == 0 &&
                    l->spots[k].row < first)
                    first = l->spots[k].row;
            }
        }
        if (first > 0 && first < l->rows)
            l->spots[i].row = first - 1;
    }
}

static bool
add_edges(layout *l)
{
    const size_t nodes = l->spot_count;

    for (size_t to = 0; to < nodes; to++) {
        const json_t *inputs = json_object_get(l->spots[to].node, "inputs");

        for (size_t k = 0; k < json_array_size(inputs); k++) {
            const char *name = json_string_value(json_array_get(inputs, k));
            size_t from = name ? find(l, name, to) : NOWHERE;

            if (from == NOWHERE)
                continue;
            for (size_t row = l->spots[from].row + 1; row < l->spots[to].row; row++) {
                if (!grow(l))
                    return false;
                l->spots[l->spot_count] = (spot){.row = row, .index = l->spot_count};
                l->edges[l->edge_count++] = (edge){from, l->spot_count};
                from = l->spot_count++;
            }
            if (!grow(l))
                return false;
            l->edges[l->edge_count++] = (edge){from, to};
        }
    }
    return true;
}

/* ---- places ---- */

/* From left to right; nodes come before edges that pass by, and of these the newer ones first. */
static int
compare(const void *a, const void *b)
{
    const spot *x = *(spot *const *)a, *y = *(spot *const *)b;

    if (x->wish < y->wish || x->wish > y->wish)
        return x->wish < y->wish ? -1 : 1;
    if (!x->node != !y->node)
        return x->node ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

/* The spots of a row, each with its wish; returns their number. */
static size_t
take_row(layout *l, size_t row, spot **order)
{
    size_t count = 0;

    for (size_t i = 0; i < l->spot_count; i++)
        if (l->spots[i].row == row) {
            l->spots[i].wish = INFINITY;
            order[count++] = &l->spots[i];
        }
    for (size_t i = 0; i < l->edge_count; i++) {
        spot *to = &l->spots[l->edges[i].to];

        if (to->row == row)
            to->wish = fmin(to->wish, l->spots[l->edges[i].from].x);
    }
    return count;
}

static bool
place(layout *l)
{
    spot **order = malloc((l->spot_count + 1) * sizeof *order);

    if (!order)
        return false;
    for (size_t row = 0; row < l->rows; row++) {
        const size_t count = take_row(l, row, order);
        double room = 0; /* where it begins */

        qsort(order, count, sizeof *order, compare);
        for (size_t i = 0; i < count; i++) {
            order[i]->x = isfinite(order[i]->wish) ? fmax(order[i]->wish, room) : room;
            room = order[i]->x + (order[i]->node ? BOX : 0) + ASIDE;
            l->width = fmax(l->width, room);
        }
    }
    free(order);
    return true;
}

/* ---- drawing ---- */

static double
middle_of(const spot *s)
{
    return MARGIN + s->x + (s->node ? BOX / 2 : ASIDE / 2);
}

static double
top_of(const spot *s)
{
    return MARGIN + (double)(s->row * DOWN);
}

static const char *
class_of(const char *op)
{
    static const char *const classes[][2] = {
        {"entropy", "loss"},    {"error", "loss"},      {"loss", "loss"},
        {"accuracy", "loss"},   {"r2", "loss"},         {"top_k", "loss"},
        {"input", "data"},      {"target", "data"},     {"conv", "layer"},
        {"dense", "layer"},     {"embedding", "layer"}, {"attention", "layer"},
        {"depthwise", "layer"}, {"parameter", "data"}};

    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
        if (strstr(op, classes[i][0]))
            return classes[i][1];
    return "other";
}

/* A text that fits into a box: its end, as layers of a model differ there. The tooltip has all. */
static void
draw_words(FILE *stream, double x, double y, const char *class, const char *text)
{
    const size_t length = strlen(text);
    char word[LETTERS + 4];

    snprintf(word, sizeof word, "%s%.*s", length > LETTERS ? "..." : "", LETTERS,
             length > LETTERS ? text + length - LETTERS + 3 : text);
    yki_tool_frame_text(stream, x, y, "middle", class, word);
}

static void
shape_text(const yoke_shape *shape, char text[64])
{
    size_t used = 0;

    text[0] = '\0';
    for (int32_t i = 0; i < shape->rank && used < 48; i++)
        used += (size_t)snprintf(text + used, 64 - used, "%s%lld", i ? "x" : " ",
                                 (long long)shape->dim[i]);
}

/* The options of a node, as its text has them. */
static void
tell_options(FILE *stream, const json_t *node)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)node, key, value)
    {
        char *text;

        if (strcmp(key, "op") == 0 || strcmp(key, "name") == 0 || strcmp(key, "inputs") == 0)
            continue;
        text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        yki_tool_markup_print(stream, "\n%s: %.100s", key, text ? text : "");
        free(text);
    }
}

static void
draw_node(FILE *stream, const yoke_graph *graph, const spot *s)
{
    const char *name = text_of(s->node, "name"), *op = text_of(s->node, "op");
    const yoke_shape shape = yoke_node_shape(yoke_graph_get_node(graph, name));
    char dims[64], line[128];

    shape_text(&shape, dims);
    snprintf(line, sizeof line, "%.60s%s", op, dims);
    fputs("<g><title>", stream);
    yki_tool_markup(stream, name);
    yki_tool_markup_print(stream, ": %s%s", op, dims);
    tell_options(stream, s->node);
    fprintf(stream,
            "</title><rect class=\"box %s\" x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" "
            "rx=\"5\"/>\n",
            class_of(op), MARGIN + s->x, top_of(s), BOX, TALL);
    draw_words(stream, middle_of(s), top_of(s) + 15, "title", name);
    draw_words(stream, middle_of(s), top_of(s) + 29, "weak", line);
    fputs("</g>\n", stream);
}

static void
draw_edge(FILE *stream, const layout *l, const edge *e)
{
    const spot *from = &l->spots[e->from], *to = &l->spots[e->to];
    const double y = top_of(from) + TALL, end = top_of(to), half = (end - y) / 2;

    fprintf(stream, "<path class=\"edge\" d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f",
            middle_of(from), y, middle_of(from), y + half, middle_of(to), end - half, middle_of(to),
            end);
    fprintf(stream, to->node ? "\"/>\n" : "v%d\"/>\n", TALL);
}

static void
draw(FILE *stream, const yoke_graph *graph, const layout *l)
{
    const double width = l->width + 2 * MARGIN;
    const double height = 2 * MARGIN + TALL + (double)(l->rows ? (l->rows - 1) * DOWN : 0);

    fprintf(stream,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"yoke graph\" width=\"%.0f\" "
            "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n",
            width, height, width, height);
    for (size_t i = 0; i < l->edge_count; i++)
        draw_edge(stream, l, &l->edges[i]);
    for (size_t i = 0; i < l->spot_count; i++)
        if (l->spots[i].node)
            draw_node(stream, graph, &l->spots[i]);
    fputs("</svg>\n", stream);
}

yoke_status
yki_tool_graph_picture(FILE *stream, const yoke_graph *graph)
{
    layout l = {0};
    char *text = NULL;
    yoke_status status = yoke_graph_to_json(graph, &text);
    bool good;

    if (status)
        return status;
    l.json = json_loads(text, 0, NULL);
    yoke_free(text);
    good = l.json && add_nodes(&l);
    if (good) {
        lower_inputs(&l);
        good = add_edges(&l) && place(&l);
    }
    if (good)
        draw(stream, graph, &l);
    else
        fputs("<p>The graph is too large to be drawn.</p>\n", stream);
    json_decref(l.json);
    free(l.spots);
    free(l.edges);
    return YOKE_OK;
}
