/* SPDX-License-Identifier: Apache-2.0
 *
 * check_picture.c - images as PNG have their pixels, in blocks that decoders check; in drawings of
 * graphs boxes stand apart, and what passes them by goes through none.
 */
#include <stdlib.h>
#include <string.h>

#include <yoke.h>

#include "../tools/graph_picture.h"
#include "../tools/png_write.h"
#include "support/support.h"

/* ---- PNG ---- */

static uint32_t
number_at(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Takes stored blocks to `rows`; returns the bytes. */
static size_t
unpack(const uint8_t *at, uint8_t *rows)
{
    size_t count = 0;
    bool last = false;

    ck_assert_uint_eq((at[0] * 256u + at[1]) % 31, 0);
    for (at += 2; !last;) {
        const size_t length = at[1] + 256u * at[2];

        ck_assert_uint_le(at[0], 1);
        ck_assert_uint_eq(length ^ (at[3] + 256u * at[4]), 0xffff);
        last = at[0] == 1;
        memcpy(rows + count, at + 5, length);
        count += length;
        at += 5 + length;
    }
    return count;
}

/* 90,300 bytes of rows, so two blocks. */
START_TEST(stores_pixels)
{
    enum { ROWS = 100, COLUMNS = 301, ROW = COLUMNS * 3 };
    static uint8_t pixels[ROWS * ROW], rows[ROWS * (ROW + 1)];
    char *file = NULL;
    size_t size;
    FILE *stream = open_memstream(&file, &size);

    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 31 + i / 7);
    ck_assert(yki_tool_png_write(stream, pixels, ROWS, COLUMNS, 3));
    ck_assert_int_eq(fclose(stream), 0);
    ck_assert_mem_eq(file, "\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR", 16);
    ck_assert_uint_eq(number_at((uint8_t *)file + 16), COLUMNS);
    ck_assert_uint_eq(number_at((uint8_t *)file + 20), ROWS);
    ck_assert_mem_eq(file + 24, "\x08\x02\0\0\0", 5);
    ck_assert_mem_eq(file + 37, "IDAT", 4);
    ck_assert_mem_eq(file + size - 12, "\0\0\0\0IEND\xae\x42\x60\x82", 12);
    ck_assert_uint_eq(unpack((uint8_t *)file + 41, rows), sizeof rows);
    for (size_t y = 0; y < ROWS; y++) {
        ck_assert_uint_eq(rows[y * (ROW + 1)], 0);
        ck_assert_mem_eq(rows + y * (ROW + 1) + 1, pixels + y * ROW, ROW);
    }
    free(file);
}
END_TEST

/* A pixel of 1 x 1, as other programs write it. */
START_TEST(writes_a_uri)
{
    const uint8_t pixel = 0x80;
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    ck_assert(yki_tool_png_write_uri(stream, &pixel, 1, 1, 1));
    ck_assert_int_eq(fclose(stream), 0);
    ck_assert_str_eq(
        text, "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAADUlEQVR4"
              "AQECAP3/AIAAggCBw24l4AAAAABJRU5ErkJggg==");
    free(text);
}
END_TEST

/* ---- graphs ---- */

enum { MOST = 400, BOX = 168, TALL = 36 };

typedef struct drawing {
    double x[MOST], y[MOST];                   /* of boxes */
    double across[MOST], from[MOST], to[MOST]; /* of what passes rows: upright lines */
    size_t boxes, lines;
} drawing;

static void
look(const char *svg, drawing *d)
{
    static const char box[] = "<rect class=\"box ", edge[] = "<path class=\"edge\" d=\"M";
    double at[8], length;

    for (const char *p = svg; (p = strstr(p, box)) != NULL; p++, d->boxes++)
        ck_assert_int_eq(
            sscanf(strstr(p, "x="), "x=\"%lf\" y=\"%lf\"", &d->x[d->boxes], &d->y[d->boxes]), 2);
    for (const char *p = svg; (p = strstr(p, edge)) != NULL; p++) {
        const int found = sscanf(p + sizeof edge - 1, "%lf %lfC%lf %lf %lf %lf %lf %lfv%lf", at,
                                 at + 1, at + 2, at + 3, at + 4, at + 5, at + 6, at + 7, &length);

        ck_assert_int_ge(found, 8);
        if (found < 9)
            continue;
        d->across[d->lines] = at[6];
        d->from[d->lines] = at[7];
        d->to[d->lines++] = at[7] + length;
    }
}

START_TEST(keeps_boxes_apart)
{
    static drawing d;
    yoke_graph *graph = NULL;
    char *svg = NULL;
    size_t size;
    FILE *stream = open_memstream(&svg, &size);

    ck_assert_int_eq(yoke_zoo("unet", NULL, &graph), YOKE_OK);
    ck_assert_int_eq(yki_tool_graph_picture(stream, graph), YOKE_OK);
    ck_assert_int_eq(fclose(stream), 0);
    look(svg, &d);
    ck_assert_uint_ge(d.boxes, 60);
    ck_assert_uint_ge(d.lines, 40);
    for (size_t i = 0; i < d.boxes; i++) {
        for (size_t k = 0; k < i; k++)
            ck_assert(d.x[i] >= d.x[k] + BOX || d.x[k] >= d.x[i] + BOX || d.y[i] >= d.y[k] + TALL ||
                      d.y[k] >= d.y[i] + TALL);
        for (size_t k = 0; k < d.lines; k++)
            ck_assert(d.across[k] < d.x[i] || d.across[k] > d.x[i] + BOX || d.to[k] < d.y[i] ||
                      d.from[k] > d.y[i] + TALL);
    }
    free(svg);
    yoke_graph_destroy(graph);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("picture");
    TCase *tcase = test_case(suite, "picture");

    tcase_add_test(tcase, stores_pixels);
    tcase_add_test(tcase, writes_a_uri);
    tcase_add_test(tcase, keeps_boxes_apart);
    return suite;
}
