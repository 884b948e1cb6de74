/* SPDX-License-Identifier: Apache-2.0
 *
 * report_samples.c - the samples of which the model is most wrong, and those of which it is most
 * right; as images, if they are. Large images become smaller: each pixel is one of the image.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"
#include "markup.h"
#include "png_write.h"
#include "progress.h"
#include "report.h"
#include "sheet.h"

enum { MOST_SIDE = 96 };

/* ---- the worst and the best ---- */

/* The loss of the label in nats, and the answer. */
static yki_tool_answer
judge(const yki_tool_subject *subject, const float *result, int64_t sample, size_t label)
{
    yki_tool_answer a = {.sample = sample, .label = label, .answer = 0};
    double sum = 0;

    for (size_t i = 1; i < subject->count; i++)
        if (result[i] > result[a.answer] || isnan(result[a.answer]))
            a.answer = i;
    for (size_t i = 0; i < subject->count; i++)
        sum += exp((double)result[i] - (double)result[a.answer]);
    a.loss = subject->logits ? (double)result[a.answer] - (double)result[label] + log(sum)
                             : -log((double)result[label]);
    if (isnan(a.loss))
        a.loss = INFINITY;
    return a;
}

/* `sign` is 1 for the largest losses and -1 for the least; of equal ones the first sample counts.
 */
static void
keep(yki_tool_answers *all, const yki_tool_answer *a, int sign)
{
    size_t at = all->count;

    while (at > 0 && sign * a->loss > sign * all->list[at - 1].loss)
        at--;
    if (at == TOOL_SHOWN)
        return;
    if (all->count < TOOL_SHOWN)
        all->count++;
    memmove(all->list + at + 1, all->list + at, (all->count - at - 1) * sizeof *a);
    all->list[at] = *a;
}

void
yki_tool_report_see(void *user, int64_t sample, const float *result, size_t label)
{
    yki_tool_page *r = user;
    const yki_tool_answer a = judge(&r->evaluation.subject, result, sample, label);

    keep(&r->worst, &a, 1);
    keep(&r->best, &a, -1);
}

/* ---- images ---- */

typedef struct pictures {
    const yoke_field *field;
    uint32_t channels, height, width; /* of a sample; 0 channels: these are no images */
    uint32_t rows, columns;           /* of what is shown */
    size_t bytes;
    void *sample;
    uint8_t *pixels;
    double least, most; /* of all samples that are shown */
} pictures;

static void
measure(const yki_tool_page *r, pictures *p)
{
    const yoke_field *field = r->evaluation.source.data;
    const int64_t *dim = field->shape.dim;
    const int32_t rank = field->shape.rank;
    int64_t side, times;

    p->field = field;
    if (rank != 2 && (rank != 3 || (dim[0] != 1 && dim[0] != 3)))
        return;
    if (dim[rank - 2] < 2 || dim[rank - 1] < 2 || dim[rank - 2] > 65536 || dim[rank - 1] > 65536)
        return;
    p->channels = rank == 3 ? (uint32_t)dim[0] : 1;
    p->height = (uint32_t)dim[rank - 2];
    p->width = (uint32_t)dim[rank - 1];
    side = p->height > p->width ? p->height : p->width;
    times = (side + MOST_SIDE - 1) / MOST_SIDE;
    p->rows = (uint32_t)((p->height + times - 1) / times);
    p->columns = (uint32_t)((p->width + times - 1) / times);
    p->bytes = yki_tool_values_of(field->shape) * yki_tool_type_bytes(field->type);
}

static yoke_status
read_sample(const yki_tool_page *r, pictures *p, int64_t sample)
{
    return yoke_dataset_read(r->evaluation.source.train, p->field->name, &sample, 1, p->sample,
                             p->bytes);
}

static yoke_status
find_range(const yki_tool_page *r, pictures *p)
{
    const yki_tool_answers *const both[] = {&r->worst, &r->best};
    yoke_status status = YOKE_OK;

    p->least = INFINITY;
    p->most = -INFINITY;
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < both[i]->count && !status; k++) {
            status = read_sample(r, p, both[i]->list[k].sample);
            for (size_t at = 0; at < yki_tool_values_of(p->field->shape); at++) {
                p->least = fmin(p->least, yki_tool_number_at(p->field->type, p->sample, at));
                p->most = fmax(p->most, yki_tool_number_at(p->field->type, p->sample, at));
            }
        }
    return status;
}

static bool
write_image(FILE *stream, pictures *p)
{
    for (size_t y = 0; y < p->rows; y++)
        for (size_t x = 0; x < p->columns; x++)
            for (size_t c = 0; c < p->channels; c++) {
                const size_t row = y * p->height / p->rows, column = x * p->width / p->columns;

                p->pixels[(y * p->columns + x) * p->channels + c] =
                    yki_tool_shade(p->field->type, p->sample,
                                   (c * p->height + row) * p->width + column, p->least, p->most);
            }
    return yki_tool_png_write_uri(stream, p->pixels, p->rows, p->columns, p->channels);
}

static yoke_status
write_answer(const yki_tool_page *r, pictures *p, const yki_tool_answer *a)
{
    const yoke_model *model = r->evaluation.model;
    yoke_status status = YOKE_OK;
    char number[24], loss[TOOL_LOSS];

    fputs("<li>", r->stream);
    if (p->channels) {
        status = read_sample(r, p, a->sample);
        fputs("<img alt=\"\" src=\"", r->stream);
        if (!status && !write_image(r->stream, p))
            status = yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for an image");
        fputs("\"/>", r->stream);
    }
    yki_tool_markup(r->stream, yki_tool_class_name(model, a->label, number));
    if (a->answer != a->label) {
        fputs("<span class=\"wrong\"> taken for ", r->stream);
        yki_tool_markup(r->stream, yki_tool_class_name(model, a->answer, number));
        fputs("</span>", r->stream);
    }
    fprintf(r->stream, "<br/><span>sample %lld<br/>loss %s</span></li>\n", (long long)a->sample,
            yki_tool_loss_text(a->loss, loss));
    return status;
}

static yoke_status
write_answers(const yki_tool_page *r, pictures *p, const yki_tool_answers *all)
{
    yoke_status status = YOKE_OK;

    fputs("<ul class=\"samples\">\n", r->stream);
    for (size_t i = 0; i < all->count && !status; i++)
        status = write_answer(r, p, &all->list[i]);
    fputs("</ul>\n", r->stream);
    return status;
}

yoke_status
yki_tool_report_samples(yki_tool_page *r)
{
    pictures p = {0};
    yoke_status status = YOKE_OK;

    measure(r, &p);
    if (p.channels) {
        p.sample = malloc(p.bytes);
        p.pixels = malloc((size_t)p.rows * p.columns * p.channels);
        status = p.sample && p.pixels
                     ? find_range(r, &p)
                     : yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for images");
    }
    if (!status) {
        yki_tool_report_begin(r->stream, "samples", "Worst and best samples");
        fputs("<h3>Most wrong</h3>\n", r->stream);
        status = write_answers(r, &p, &r->worst);
    }
    if (!status) {
        fputs("<h3>Most right</h3>\n", r->stream);
        status = write_answers(r, &p, &r->best);
        fputs("</section>\n", r->stream);
    }
    free(p.sample);
    free(p.pixels);
    return status;
}
