/* SPDX-License-Identifier: Apache-2.0
 *
 * table.c - every operator and every solver, one row each, from the lists in ops.h.
 * tests/op/check_table.c walks the operators, and says of each what it lacks.
 */
#include "op/ops.h"

#define OP_ROW(name) &yki_op_##name,
const yki_op *const yki_ops[] = {YKI_OPS(OP_ROW) NULL};

#define DECLARE(name) extern const yki_solver yki_solver_##name;
YKI_SOLVERS(DECLARE)

#define SOLVER_ROW(name) &yki_solver_##name,
const yki_solver *const yki_solvers[] = {YKI_SOLVERS(SOLVER_ROW) NULL};
