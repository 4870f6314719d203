#pragma once

#include <vector>

#include "comm/group.h"
#include "models/stage.h"
#include "runtime/rank_memory.h"

namespace trireme {

// What a rank's stages hand to and take from their neighbours, on this rank or on others. Transfers
// run on the communication thread; they are waited for where their content is needed, or where
// their memory is given back.
class Pipeline {
 public:
  // Borrows everything; stages: [chunk].
  Pipeline(const RankPlan& plan, const RankMemory& memory, Group& pp,
           const std::vector<Stage>& stages);

  void start(const Action& transfer, const ActionMemory& memory);
  // Before the first part of F: the chunk's input is there.
  void take_input(const Action& action, const ActionMemory& memory);
  // Before the first part of B or BW: the gradient of the chunk's output is there.
  void take_output_grad(const Action& action, const ActionMemory& memory);
  // After the last part of B or BW.
  void give_input_grad(const Action& action, const ActionMemory& memory);
  // Waits for the sends whose memory is given back.
  void finish(const ActionMemory& memory);

  // Waits for all transfers of activations.
  void finish_activations();

  // Time that the rank has waited for transfers, since the rank began.
  int64_t waited_ns() const { return waited_ns_; }

 private:
  void wait(Work& work);
  // The message in a slot, with the extents of what it carries.
  TensorRef message(int slot, const MatrixRef& carried) const;

  const RankPlan& plan_;
  const RankMemory& memory_;
  Group& pp_;
  const std::vector<Stage>& stages_;
  // Under way, by the memory that they use.
  std::vector<std::vector<Work>> activations_in_;   // [chunk][saved slot]
  std::vector<std::vector<Work>> activations_out_;  // [chunk][saved slot]
  std::vector<Work> messages_;                      // [message slot]
  int64_t waited_ns_ = 0;
};

}  // namespace trireme
