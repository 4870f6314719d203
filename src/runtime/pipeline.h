#pragma once

#include <map>
#include <memory>
#include <vector>

#include "comm/group.h"
#include "models/stage.h"
#include "runtime/rank_memory.h"
#include "schema/message_cut.h"

namespace trireme {

// What a rank's stages hand to and take from their neighbours, on this rank or on others. Transfers
// run on the communication thread; they are waited for where their content is needed, or where
// their memory is given back. Ranks that have received parts of a message (schema/message_cut.h)
// gather it where its content is needed.
class Pipeline {
 public:
  // Borrows everything; stages: [chunk]. All ranks of `tp` call it.
  Pipeline(const RankPlan& plan, const RankMemory& memory, Group& pp, Group& tp,
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
  // The same for the gathers of messages among tp ranks.
  int64_t gather_waited_ns() const { return gather_waited_ns_; }
  // Of the gathers among tp ranks.
  Traffic gather_traffic() const;
  int64_t scratch_bytes() const;

 private:
  // A message that is sent or received, or none.
  struct Message {
    std::vector<Work> parts;
    int received_from = -1;  // place of the pipeline, until the message is taken
  };

  void reserve_gathers();
  // Starts to send x_TC to the ranks of the other place, or to receive it from them.
  void start_parts(Message& message, const TensorRef& x_TC, const Action& transfer);
  void wait(Message& message);
  // Waits for a message that was received into x_TC, and gathers it.
  void take(Message& message, const TensorRef& x_TC);
  CollectiveArgs gather_args(int place, const TensorRef& x_TC);
  const MessageCut& cut_of(int place) const { return cuts_[size_t(place)]; }
  // The message in a slot, with the extents of what it carries.
  TensorRef message(int slot, const MatrixRef& carried) const;

  const RankPlan& plan_;
  const RankMemory& memory_;
  Group& pp_;
  const std::vector<Stage>& stages_;
  std::vector<MessageCut> cuts_;                   // [place]
  std::map<int, std::unique_ptr<Group>> gathers_;  // [number of ranks that gather a message]
  std::vector<int64_t> gathered_;                  // elements of each rank, of the running gather
  // Under way, by the memory that they use.
  std::vector<std::vector<Message>> activations_in_;   // [chunk][saved slot]
  std::vector<std::vector<Message>> activations_out_;  // [chunk][saved slot]
  std::vector<Message> messages_;                      // [message slot]
  int64_t waited_ns_ = 0;
  int64_t gather_waited_ns_ = 0;
};

}  // namespace trireme
