/* SPDX-License-Identifier: Apache-2.0
 *
 * copy.cl - copies words from one buffer to another, or to another range of the same
 * one. Some drivers run clEnqueueCopyBuffer on one core; this kernel uses all.
 *
 * Offsets are in words; `tail` bytes (0 to 3) follow the last word. The ranges do not
 * overlap. Like fill.cl it is made for CPUs.
 */
__kernel YKI_GROUP(1, 1) void
yki_copy(__global const uint *restrict from, __global uint *restrict to, ulong from_first,
         ulong to_first, ulong count, uint tail)
{
    ulong groups = get_num_groups(0), group = get_group_id(0);
    ulong begin = count * group / groups, end = count * (group + 1) / groups;

    for (; begin + 16 <= end; begin += 16)
        vstore16(vload16(0, from + from_first + begin), 0, to + to_first + begin);
    for (; begin < end; begin++)
        to[to_first + begin] = from[from_first + begin];
    if (group + 1 == groups) {
        __global const uchar *in = (__global const uchar *)(from + from_first + count);
        __global uchar *out = (__global uchar *)(to + to_first + count);

        for (uint i = 0; i < tail; i++)
            out[i] = in[i];
    }
}
