#include "memory/memory_walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "memory/bucket.h"
#include "memory/offload_pieces.h"
#include "memory/slot_pool.h"

namespace trireme {
namespace {

constexpr size_t kMaxMessagesUnderWay = 2;  // of gradients that a rank sends

bool computes_input_grad(ActionKind kind) {
  return kind == ActionKind::B || kind == ActionKind::BW;
}
bool computes_weight_grad(ActionKind kind) {
  return kind == ActionKind::W || kind == ActionKind::BW;
}

class Walk {
 public:
  Walk(MemoryPlan& plan, const MemoryNeeds& needs, bool forward_only)
      : plan_(plan),
        needs_(needs),
        forward_only_(forward_only),
        messages_(plan, plan.message_slots, "message", MemoryClass::Comm, needs.message_bytes),
        staging_(plan, plan.staging, "staging", MemoryClass::Optimizer, staging_bytes(needs)) {
    for (size_t c = 0; c < needs.chunks.size(); ++c) {
      const StageTables& tables = needs.chunks[c].chunk->tables;
      const std::string suffix = needs.chunks.size() > 1 ? fmt::format(".{}", c) : "";
      ChunkRegions& regions = plan.chunks[c];
      grads_.emplace_back(plan, regions.grad_slots, "grads" + suffix, MemoryClass::Grads,
                          needs.chunks[c].chunk->grad_slot_bytes);
      saved_.emplace_back(plan, regions.saved_slots, "saved" + suffix, MemoryClass::Activations,
                          tables.saved.bytes());
      weight_grad_.emplace_back(plan, regions.weight_grad_slots, "weight_grad" + suffix,
                                MemoryClass::Activations, tables.weight_grad.bytes());
    }
  }

  std::vector<ActionMemory> run(const Program& program) {
    note_transfers(program);
    std::vector<ActionMemory> actions;
    for (const Action& action : program) {
      ActionMemory memory;
      plan_action(action, memory);
      actions.push_back(std::move(memory));
    }
    for (size_t i = 0; i < program.size(); ++i) {
      if (program[i].beside == Beside::Next) join_pair(actions[i], actions[i + 1]);
    }
    TRIREME_CHECK(in_flight_.empty(), "a micro-batch without its W");
    return actions;
  }

 private:
  // Two actions that run beside each other need their memory together. F gives no memory back, so
  // the other one cannot have taken memory of F.
  static void join_pair(ActionMemory& forward, ActionMemory& backward) {
    TRIREME_CHECK(forward.release.empty() && forward.finish_activations.empty() &&
                      forward.finish_messages.empty(),
                  "F of training gives nothing back");
    forward.acquire.insert(forward.acquire.end(), backward.acquire.begin(), backward.acquire.end());
    backward.acquire.clear();
  }

  using Key = std::pair<int, int>;  // (chunk, micro-batch)
  struct InFlight {
    int saved_slot = -1;
    int weight_grad_slot = -1;
    int message_in = -1;
  };

  static int64_t staging_bytes(const MemoryNeeds& needs) {
    int64_t bytes = 0;
    for (const ChunkMemoryNeeds& chunk : needs.chunks) {
      for (const OffloadPiece& piece : chunk.chunk->pieces) bytes = std::max(bytes, piece.bytes);
    }
    return bytes;
  }

  void note_transfers(const Program& program) {
    sends_activations_.assign(needs_.chunks.size(), false);
    sends_grads_.assign(needs_.chunks.size(), false);
    for (const Action& action : program) {
      if (action.kind == ActionKind::SendActivation) sends_activations_[action.chunk] = true;
      if (action.kind == ActionKind::SendGrad) sends_grads_[action.chunk] = true;
      if (action.kind == ActionKind::OffloadPiece) ++offloads_to_come_;
      validates_ = validates_ || action.kind == ActionKind::Validate;
    }
  }

  bool is_first_unit(const Action& action) const { return action.first_unit == 0; }
  bool is_last_unit(const Action& action) const {
    return action.num_units == 0 || action.first_unit + action.num_units ==
                                        num_units(needs_.chunks[action.chunk].chunk->stage);
  }

  void plan_action(const Action& action, ActionMemory& memory) {
    const Key key{action.chunk, action.microbatch};
    switch (action.kind) {
      case ActionKind::F:
        return plan_forward(action, memory);
      case ActionKind::B:
      case ActionKind::W:
      case ActionKind::BW:
        return plan_backward(action, memory);
      case ActionKind::RecvActivation:
        memory.saved_slot = in_flight_[key].saved_slot = saved_[action.chunk].take(memory);
        return;
      case ActionKind::SendActivation:
        memory.saved_slot = in_flight_[key].saved_slot;
        if (forward_only_) drop_saved(key, memory);
        return;
      case ActionKind::RecvGrad:
        memory.message_in = in_flight_[key].message_in = messages_.take(memory);
        return;
      case ActionKind::SendGrad:
        memory.message_out = outgoing_.at(key);
        outgoing_.erase(key);
        under_way_.push_back(memory.message_out);
        if (under_way_.size() > kMaxMessagesUnderWay) finish_oldest_message(memory);
        return;
      case ActionKind::SumGrad:  // the last part is unit 0
        if (is_first_unit(action)) grads_[action.chunk].give_back(action.grad_slot_b, memory);
        return;
      case ActionKind::ReduceGrad:
        return plan_reduce(action, memory);
      case ActionKind::Unshard:
        if (!needs_.chunks[action.chunk].chunk->zero.shards_params() ||
            needs_.chunks[action.chunk].chunk->params_in_file) {
          return;
        }
        for (int region : unit_regions(action, &ChunkRegions::unit_params)) {
          memory.acquire.push_back(region);
        }
        return;
      case ActionKind::Reshard:
        for (int region : unit_regions(action, &ChunkRegions::unit_params)) {
          memory.release.push_back(region);
        }
        return;
      case ActionKind::FetchUnits:
        for (int region : unit_regions(action, &ChunkRegions::unit_params)) {
          memory.acquire.push_back(region);
        }
        return;
      case ActionKind::FetchPiece:
        staging_.take(num_fetches_++ % kStagingBuffers, memory);
        return;
      case ActionKind::OffloadPiece:
        return plan_offload(memory);
      case ActionKind::JoinDirections:
      case ActionKind::JoinTiedTable:
      case ActionKind::OffloadUnits:
      case ActionKind::StepPiece:  // its gradient goes with that of the last piece
        return;
      case ActionKind::Step:
        while (!under_way_.empty()) finish_oldest_message(memory);
        for (const ChunkRegions& chunk : plan_.chunks) {
          if (validates_) memory.acquire.push_back(chunk.copies);
        }
        if (plan_.newton_schulz >= 0) {
          memory.acquire.push_back(plan_.newton_schulz);
          memory.release.push_back(plan_.newton_schulz);
        }
        if (offloads_to_come_ == 0 && !validates_) drop_gradients(memory);
        return;
      case ActionKind::Validate:
        for (const ChunkRegions& chunk : plan_.chunks) memory.release.push_back(chunk.copies);
        return drop_gradients(memory);
      default:
        TRIREME_CHECK(false, "no memory is planned for " + to_string(action, 2));
    }
  }

  void drop_gradients(ActionMemory& memory) {
    for (SlotPool& grads : grads_) grads.give_back(0, memory);
  }

  // Buffers are given back once everything has left them.
  void plan_offload(ActionMemory& memory) {
    if (--offloads_to_come_ > 0) return;
    memory.finish_offload = true;
    drop_gradients(memory);
    for (int buffer = 0; buffer < std::min(num_fetches_, kStagingBuffers); ++buffer) {
      staging_.give_back(buffer, memory);
    }
  }

  void plan_forward(const Action& action, ActionMemory& memory) {
    const Key key{action.chunk, action.microbatch};
    InFlight& here = in_flight_[key];
    const ChunkMemoryNeeds& chunk = needs_.chunks[action.chunk];
    if (here.saved_slot < 0) here.saved_slot = saved_[action.chunk].take(memory);
    memory.saved_slot = here.saved_slot;
    if (is_first_unit(action) && chunk.previous_chunk >= 0) {
      const Key before{chunk.previous_chunk, action.microbatch};
      memory.input_slot = in_flight_.at(before).saved_slot;
      if (forward_only_) drop_saved(before, memory);
    }
    const bool is_over =
        is_last_unit(action) && chunk.next_chunk < 0 && !sends_activations_[action.chunk];
    if (forward_only_ && is_over) drop_saved(key, memory);
  }

  void drop_saved(const Key& key, ActionMemory& memory) {
    const auto found = in_flight_.find(key);
    const int slot = found->second.saved_slot;
    if (sends_activations_[key.first]) memory.finish_activations.push_back({key.first, slot});
    saved_[key.first].give_back(slot, memory);
    in_flight_.erase(found);
  }

  void plan_backward(const Action& action, ActionMemory& memory) {
    const Key key{action.chunk, action.microbatch};
    const auto found = in_flight_.find(key);
    TRIREME_CHECK(found != in_flight_.end(), "a backward action before its F");
    InFlight& here = found->second;
    memory.saved_slot = here.saved_slot;
    // Where B and W are apart, BW has what lives between them for itself too.
    const bool is_split = needs_.chunks[action.chunk].chunk->tables.weight_grad.bytes() > 0;
    if (is_split && here.weight_grad_slot < 0) {
      here.weight_grad_slot = weight_grad_[action.chunk].take(memory);
    }
    memory.weight_grad_slot = here.weight_grad_slot;
    if (computes_input_grad(action.kind)) plan_input_grad(action, here, memory);
    if (!computes_weight_grad(action.kind)) return;
    plan_weight_grad(action, memory);
    if (!is_first_unit(action)) return;  // the backward pass ends with unit 0
    if (here.weight_grad_slot >= 0) {
      weight_grad_[action.chunk].give_back(here.weight_grad_slot, memory);
    }
    drop_saved(key, memory);
  }

  // The gradient of the chunk's output is read by the first part, that of its input is written by
  // the last.
  void plan_input_grad(const Action& action, InFlight& here, ActionMemory& memory) {
    const bool reads_message = is_last_unit(action) && here.message_in >= 0;
    if (reads_message) memory.message_in = here.message_in;
    if (is_first_unit(action)) plan_message_out(action, memory);
    // Only now: what an action gives back it cannot take again.
    if (reads_message) messages_.give_back(here.message_in, memory);
  }

  void plan_message_out(const Action& action, ActionMemory& memory) {
    const int previous = needs_.chunks[action.chunk].previous_chunk;
    if (previous >= 0) {
      memory.message_out = messages_.take(memory);
      in_flight_.at({previous, action.microbatch}).message_in = memory.message_out;
    } else if (sends_grads_[action.chunk]) {
      memory.message_out = messages_.take(memory);
      outgoing_[{action.chunk, action.microbatch}] = memory.message_out;
    }
  }

  void plan_weight_grad(const Action& action, ActionMemory& memory) {
    if (!needs_.chunks[action.chunk].chunk->zero.shards_grads()) {
      grads_[action.chunk].take(action.grad_slot, memory);
      return;
    }
    for (int region : unit_regions(action, &ChunkRegions::unit_grads)) {
      memory.acquire.push_back(region);
    }
  }

  // Where shards are stored, the unit's whole gradient becomes this rank's shard of it.
  void plan_reduce(const Action& action, ActionMemory& memory) {
    if (!needs_.chunks[action.chunk].chunk->zero.shards_grads() || action.microbatch < 0) return;
    grads_[action.chunk].take(action.grad_slot, memory);
    reduces_under_way_.push_back(unit_regions(action, &ChunkRegions::unit_grads));
    const bool is_last = is_first_unit(action);  // the next W may want any of the slots
    const size_t most = is_last ? 0 : size_t(needs_.num_unit_slots) - 1;
    while (reduces_under_way_.size() > most) {
      const std::vector<int>& regions = reduces_under_way_.front();
      memory.release.insert(memory.release.end(), regions.begin(), regions.end());
      reduces_under_way_.erase(reduces_under_way_.begin());
      ++memory.finish_reduces;
    }
  }

  std::vector<int> unit_regions(const Action& action,
                                std::vector<int> ChunkRegions::*regions) const {
    const std::vector<int>& of_units = plan_.chunks[action.chunk].*regions;
    if (of_units.empty()) return {};
    TRIREME_CHECK(action.num_units > 0, "sharded units are handled group by group");
    return {of_units[size_t(action.first_unit)]};
  }

  void finish_oldest_message(ActionMemory& memory) {
    memory.finish_messages.push_back(under_way_.front());
    messages_.give_back(under_way_.front(), memory);
    under_way_.erase(under_way_.begin());
  }

  MemoryPlan& plan_;
  const MemoryNeeds& needs_;
  bool forward_only_;
  std::vector<SlotPool> grads_, saved_, weight_grad_;  // [chunk]
  SlotPool messages_, staging_;
  int num_fetches_ = 0;
  int offloads_to_come_ = 0;
  bool validates_ = false;
  std::vector<bool> sends_activations_, sends_grads_;  // [chunk]
  std::map<Key, InFlight> in_flight_;
  std::map<Key, int> outgoing_;                      // made, not yet sent
  std::vector<int> under_way_;                       // message slots, oldest first
  std::vector<std::vector<int>> reduces_under_way_;  // regions of units, oldest first
};

}  // namespace

std::vector<ActionMemory> walk_memory(const Program& program, const MemoryNeeds& needs,
                                      bool forward_only, MemoryPlan& plan) {
  return Walk(plan, needs, forward_only).run(program);
}

}  // namespace trireme
