/* SPDX-License-Identifier: Apache-2.0
 *
 * axis.c - describes convolutions and gradients of their input alike, along one axis:
 * a grid of result positions, and the taps that reach each of them.
 */
#include "op/conv/conv.h"

bool
yki_conv_is_cpu(const yki_device_traits *traits)
{
    return traits->type == YOKE_DEVICE_CPU && traits->vector_width >= 4;
}

uint32_t
yki_conv_width(const yki_device_traits *traits)
{
    return traits->vector_width >= 16 ? 16 : traits->vector_width >= 8 ? 8 : 4;
}

yki_conv_axis
yki_conv_forward_axis(const yki_conv *conv, int i)
{
    return (yki_conv_axis){.count = i ? conv->ow : conv->oh,
                           .out_step = 1,
                           .in_step = conv->a.stride[i],
                           .in_at = -conv->a.pad[i],
                           .taps = conv->a.kernel[i],
                           .tap_step = conv->a.dilation[i],
                           .kernel_step = 1};
}

/* Element `residue` + j * stride of the input's gradient gets dy[j + (residue + pad - k
 * dilation) / stride] from each kernel element k for which that is a whole number. Those k are
 * `period` apart. They are taken from the last to the first, so that positions in dy rise. */
yki_conv_axis
yki_conv_gradient_axis(const yki_conv *conv, int i, int64_t residue)
{
    int64_t stride = conv->a.stride[i], dilation = conv->a.dilation[i],
            size = i ? conv->w : conv->h;
    int64_t first = -1, last = -1, period = 0;
    yki_conv_axis x = {.count = size > residue ? (size - residue + stride - 1) / stride : 0,
                       .out_step = stride,
                       .out_at = residue,
                       .in_step = 1,
                       .tap_step = 1};

    for (int64_t k = 0; k < conv->a.kernel[i]; k++) {
        if ((residue + conv->a.pad[i] - k * dilation) % stride)
            continue;
        if (first < 0)
            first = k;
        else if (!period)
            period = k - first;
        last = k;
        x.taps++;
    }
    if (!x.taps)
        return x;
    x.kernel_at = last;
    x.kernel_step = -period;
    x.in_at = (residue + conv->a.pad[i] - last * dilation) / stride;
    x.tap_step = period ? period * dilation / stride : 1;
    return x;
}

void
yki_arg_window(yki_recipe *recipe, const yki_conv *conv)
{
    const yki_conv_attrs *a = &conv->a;
    const yki_named_int values[] = {
        {"kh", a->kernel[0]}, {"kw", a->kernel[1]}, {"sh", a->stride[0]},   {"sw", a->stride[1]},
        {"ph", a->pad[0]},    {"pw", a->pad[1]},    {"dh", a->dilation[0]}, {"dw", a->dilation[1]}};

    yki_arg_ints(recipe, values, YKI_COUNT(values));
}

void
yki_arg_packed_taps(yki_recipe *recipe, const yki_conv *conv, const yki_conv_axis *vertical,
                    const yki_conv_axis *horizontal)
{
    const yki_named_int values[] = {
        {"kh", conv->a.kernel[0]},      {"kw", conv->a.kernel[1]},
        {"taps_h", vertical->taps},     {"taps_w", horizontal->taps},
        {"kh0", vertical->kernel_at},   {"khs", vertical->kernel_step},
        {"kw0", horizontal->kernel_at}, {"kws", horizontal->kernel_step}};

    yki_arg_ints(recipe, values, YKI_COUNT(values));
}

void
yki_arg_axes(yki_recipe *recipe, const yki_conv_axis *vertical, const yki_conv_axis *horizontal)
{
    const yki_conv_axis *v = vertical, *h = horizontal;
    const yki_named_int values[] = {
        {"gh", v->count},    {"gw", h->count},    {"ish", v->in_step},  {"isw", h->in_step},
        {"taps_h", v->taps}, {"taps_w", h->taps}, {"tsh", v->tap_step}, {"tsw", h->tap_step},
        {"bh", v->in_at},    {"bw", h->in_at},    {"osh", v->out_step}, {"osw", h->out_step},
        {"oah", v->out_at},  {"oaw", h->out_at}};

    yki_arg_ints(recipe, values, YKI_COUNT(values));
}
