#pragma once

#include "nn/ctx.h"
#include "schema/context_chunks.h"
#include "tensor/matrix.h"

namespace trireme {

// Visits to every expert by the tokens of a micro-batch that come before this rank's, for experts
// that take the first ones only. Legend: K chunks of all sequences, c those of this rank, E
// experts.
struct EarlierVisits {
  MatrixRef count_KE;   // scratch, int32; absent: no expert may refuse one for another rank's token
  MatrixRef before_cE;  // scratch, int32; likewise

  void count(Ctx& ctx, const ContextChunks& chunks, const MatrixRef& expert_Tk) const;
};

}  // namespace trireme
