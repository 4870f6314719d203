#pragma once

#include <memory>

#include "nn/ctx.h"
#include "nn/slot_memory.h"

namespace trireme {

class OpBinding;

// What computes one op of a fused graph. It is bound to its memory once, before the first step;
// nothing is looked up or allocated in a call. backward_input writes the gradients of the inputs,
// backward_weight those of the parameters; an op without either leaves it out.
class OpBody {
 public:
  virtual ~OpBody() = default;
  virtual void forward(Ctx& ctx, const MicrobatchInfo& info, const SlotMemory& m) const = 0;
  virtual void backward_input(Ctx&, const MicrobatchInfo&, const SlotMemory&) const {}
  virtual void backward_weight(Ctx&, const MicrobatchInfo&, const SlotMemory&, Write) const {}
};

// The body of an op, whatever its kind.
std::unique_ptr<OpBody> bind_op(const OpBinding& binding);

}  // namespace trireme
