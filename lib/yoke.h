/* SPDX-License-Identifier: Apache-2.0
 *
 * yoke.h - train neural networks on every OpenCL device within reach.
 *
 * Programs include this header alone. The five that it includes are the reference in short.
 * `man 7 yoke` is the tour, and every function has a manual page. These conventions hold
 * throughout:
 *
 *  - `create` gives an object, which the caller destroys. `destroy` takes it;
 *    it accepts NULL and never fails.
 *  - A function that returns a pointer to something inside an object lends it:
 *    the pointer is valid as long as that object, unless its comment says less.
 *    "Lent" in a comment means this. A function that fills in the caller's
 *    memory copies.
 *  - An object keeps alive the objects that it was made from, so they may be
 *    destroyed in any order.
 *  - Every function that can fail returns yoke_status. Outputs come last and
 *    are written only on success. yoke_last_error() explains this thread's
 *    last failure.
 *  - Options are structs whose zero is the default; NULL means all defaults.
 *    Where 0 is a choice of its own, a `has_...` member says that it was made.
 *  - The library exports functions that end in `_sized`. Programs call the
 *    inline function without that ending, which passes the size of the caller's
 *    struct on. So structs can grow at their end.
 *  - Numbers of samples and of values are int64_t. Lengths of lists, indices into
 *    them, and bytes are size_t.
 *  - Structs of which the caller passes an array have reserved members, which
 *    must be 0, or the inline function passes their size on too. Structs that the
 *    library lends are lent one at a time, so they can grow as well.
 *  - Only one thread at a time may use an object, unless its comment allows
 *    more. A yoke_context is locked inside and may be shared.
 */
#ifndef YOKE_H
#define YOKE_H

#include "yoke-data.h"   /* datasets */
#include "yoke-device.h" /* status, log, contexts, devices, selections */
#include "yoke-graph.h"  /* graphs and operators */
#include "yoke-model.h"  /* models and predictors */
#include "yoke-train.h"  /* optimizers, replicas, comms, teams, trainers, checkpoints */

#endif
