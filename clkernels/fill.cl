/* SPDX-License-Identifier: Apache-2.0
 *
 * fill.cl - sets bytes [begin, end) of a buffer to a pattern. Some drivers run
 * clEnqueueFillBuffer on one core; this kernel uses all.
 *
 * Each work-group writes one contiguous piece. So on machines where memory belongs to
 * the core that touched it first, the pieces are spread like the work. It writes 64
 * bytes at a time, so that it loops little (common.cl says why). It is made for CPUs:
 * a GPU's own fill is better than one work-item per group.
 */
__kernel YKI_GROUP(1, 1) void
yki_fill(__global uint *out, ulong begin, ulong end, uint pattern)
{
    ulong first = (begin + 3) / 4, last = end / 4; /* whole words */
    ulong groups = get_num_groups(0), group = get_group_id(0);
    __global uchar *bytes = (__global uchar *)out;

    if (first < last) {
        ulong count = last - first;
        ulong i = first + count * group / groups, stop = first + count * (group + 1) / groups;

        for (; i + 16 <= stop; i += 16)
            vstore16((uint16)(pattern), 0, out + i);
        for (; i < stop; i++)
            out[i] = pattern;
    }
    if (group)
        return;
    /* At most three bytes before the words and three after them; all bytes if there is no whole
     * word. */
    for (ulong i = begin; i < end; i++) {
        uint place;

        if (first < last && i == 4 * first)
            i = 4 * last;
        place = (uint)(i & 3);
#ifndef __ENDIAN_LITTLE__
        place = 3 - place;
#endif
        if (i < end)
            bytes[i] = (uchar)(pattern >> (8 * place));
    }
}
