/* SPDX-License-Identifier: Apache-2.0
 *
 * sheet.h - sixteen samples of a dataset as one picture.
 */
#ifndef YOKE_TOOLS_SHEET_H
#define YOKE_TOOLS_SHEET_H

#include <yoke.h>

/* One of some numbers as a shade of grey; a NaN is black. */
uint8_t yki_tool_shade(yoke_type type, const void *image, size_t at, double least, double most);

/* Draws samples from all over the dataset into a file, whose ending says the format. `field` has
 * images; `least` is drawn black, `most` white. */
yoke_status yki_tool_draw_sheet(const yoke_dataset *dataset, const yoke_field *field, double least,
                                double most, const char *path);

#endif
