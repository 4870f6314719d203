#pragma once

#include "graph/graph.h"

namespace trireme {

// Joins neighbouring ops of a placed graph that one call computes, so that less memory is read and
// written and fewer values exist:
//   - a gathering redistribution with the one product that reads it (Op::enter);
//   - a sum over tp, dropout and the residual addition with the product before them (Op::leave,
//     Op::dropout, Op::early_residual, Op::late_residual);
//   - two addends of one sum over tp (Op::addend); the first is then made right before the second;
//   - the scores, counts and choice of a router; the vocabulary projection and its loss;
//   - redistributions over cp and ep with the op that needs them.
// Values that no op makes any more keep their ids and are not used.
Graph fuse(Graph placed);

}  // namespace trireme
