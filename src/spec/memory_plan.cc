#include "spec/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "spec/offload_pieces.h"

namespace trireme {
namespace {

constexpr int64_t kAlignment = 64;
int64_t align(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

constexpr size_t kMaxMessagesUnderWay = 2;  // of gradients that a rank sends

bool computes_input_grad(ActionKind kind) {
  return kind == ActionKind::B || kind == ActionKind::BW;
}
bool computes_weight_grad(ActionKind kind) {
  return kind == ActionKind::W || kind == ActionKind::BW;
}

// Interchangeable pieces of equal size: the lowest free one is taken, so their number is the
// greatest number that is live at one time.
class SlotPool {
 public:
  SlotPool(MemoryPlan& plan, std::vector<int>& slots, std::string name, MemoryClass memory_class,
           int64_t bytes)
      : plan_(plan),
        slots_(slots),
        name_(std::move(name)),
        class_(memory_class),
        bytes_(align(bytes)) {
    taken_.resize(slots.size(), false);
  }

  int take(ActionMemory& memory) {
    const auto free = std::find(taken_.begin(), taken_.end(), false);
    const int slot = static_cast<int>(free - taken_.begin());
    take(slot, memory);
    return slot;
  }
  // A particular slot, as the Program names it; nothing if it is taken already.
  void take(int slot, ActionMemory& memory) {
    while (static_cast<int>(taken_.size()) <= slot) add();
    if (taken_[slot]) return;
    const std::vector<int>& released = memory.release;
    TRIREME_CHECK(std::find(released.begin(), released.end(), slots_[slot]) == released.end(),
                  "an action takes what it gives back");
    taken_[slot] = true;
    memory.acquire.push_back(slots_[slot]);
  }
  void give_back(int slot, ActionMemory& memory) {
    taken_[slot] = false;
    memory.release.push_back(slots_[slot]);
  }

 private:
  void add() {
    slots_.push_back(static_cast<int>(plan_.regions.size()));
    plan_.regions.push_back({fmt::format("{}[{}]", name_, taken_.size()), class_, 0, bytes_});
    taken_.push_back(false);
  }

  MemoryPlan& plan_;
  std::vector<int>& slots_;
  std::string name_;
  MemoryClass class_;
  int64_t bytes_;
  std::vector<bool> taken_;
};

int add_region(MemoryPlan& plan, std::string name, MemoryClass memory_class, int64_t bytes) {
  plan.regions.push_back({std::move(name), memory_class, 0, align(bytes)});
  return static_cast<int>(plan.regions.size()) - 1;
}

int add_permanent(MemoryPlan& plan, std::string name, MemoryClass memory_class, int64_t bytes) {
  plan.permanent.push_back(add_region(plan, std::move(name), memory_class, bytes));
  return plan.permanent.back();
}

// Regions of the units that are gathered or produced: as many as may be alive at one time, which
// the units of all chunks take in turns. A tied table that both ends of one chunk use has its own.
void add_unit_slots(MemoryPlan& plan, const MemoryNeeds& needs) {
  const auto share = [&](std::vector<ChunkTables::UnitRange> ChunkTables::*ranges,
                         std::vector<int> ChunkRegions::*regions, const char* name,
                         MemoryClass memory_class) {
    std::vector<int> slots;
    size_t turn = 0;
    for (size_t c = 0; c < needs.chunks.size(); ++c) {
      const ChunkTables& chunk = *needs.chunks[c].chunk;
      if ((chunk.*ranges).empty()) continue;
      for (const UnitGroup& group : chunk.groups) {
        const ChunkTables::UnitRange& range = (chunk.*ranges)[size_t(group.first_unit)];
        const size_t slot = turn++ % size_t(needs.num_unit_slots);
        if (slot == slots.size()) {
          slots.push_back(add_region(plan, fmt::format("{}[{}]", name, slot), memory_class, 0));
        }
        MemoryRegion& region = plan.regions[size_t(slots[slot])];
        region.bytes = std::max(region.bytes, range.bytes);
        std::vector<int>& of_units = plan.chunks[c].*regions;
        of_units.insert(of_units.end(), size_t(group.num_units), slots[slot]);
      }
    }
  };
  share(&ChunkTables::unit_params, &ChunkRegions::unit_params, "unit_params", MemoryClass::Params);
  share(&ChunkTables::unit_grads, &ChunkRegions::unit_grads, "unit_grads", MemoryClass::Grads);
  for (size_t c = 0; c < needs.chunks.size(); ++c) {
    const ChunkTables& chunk = *needs.chunks[c].chunk;
    if (!stays_gathered(chunk, 0)) continue;
    plan.chunks[c].unit_params[0] = add_region(plan, fmt::format("tied_params.{}", c),
                                               MemoryClass::Params, chunk.unit_params[0].bytes);
  }
}

// Walks a Program as the executor will: what is taken before an action and given back after it.
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
    TRIREME_CHECK(in_flight_.empty(), "a micro-batch without its W");
    return actions;
  }

 private:
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
      if (action.kind == ActionKind::Offload) ++offloads_to_come_;
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
        if (action.grad_slot_b < 0) return;
        if (is_first_unit(action)) grads_[action.chunk].give_back(action.grad_slot_b, memory);
        return;
      case ActionKind::ReduceGrad:
        return plan_reduce(action, memory);
      case ActionKind::Unshard:
        if (!needs_.chunks[action.chunk].chunk->zero.shards_params()) return;
        for (int region : unit_regions(action, &ChunkRegions::unit_params)) {
          memory.acquire.push_back(region);
        }
        return;
      case ActionKind::Reshard:
        for (int region : unit_regions(action, &ChunkRegions::unit_params)) {
          memory.release.push_back(region);
        }
        return;
      case ActionKind::Fetch:
        staging_.take(num_fetches_++ % kStagingBuffers, memory);
        return;
      case ActionKind::Offload:
        return plan_offload(memory);
      case ActionKind::Step:
        if (action.microbatch >= 0) return;  // one piece: its gradient goes with the last one's
        while (!under_way_.empty()) finish_oldest_message(memory);
        for (const ChunkRegions& chunk : plan_.chunks) {
          if (validates_) memory.acquire.push_back(chunk.copies);
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

bool validates(const Program& program) {
  return std::any_of(program.begin(), program.end(),
                     [](const Action& action) { return action.kind == ActionKind::Validate; });
}

void place_regions(MemoryPlan& plan) {
  for (MemoryRegion& region : plan.regions) {
    region.offset = plan.arena_bytes;
    plan.arena_bytes += region.bytes;
  }
}

void find_peaks(MemoryPlan& plan) {
  int64_t live = 0;
  int64_t live_of[kNumMemoryClasses] = {};
  const auto add = [&](int region_index, int sign) {
    const MemoryRegion& region = plan.regions[region_index];
    const int c = static_cast<int>(region.memory_class);
    live += sign * region.bytes;
    live_of[c] += sign * region.bytes;
    plan.class_bytes[c] = std::max(plan.class_bytes[c], live_of[c]);
  };
  for (int region : plan.permanent) add(region, 1);
  plan.peak_bytes = live;
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    for (int region : plan.actions[i].acquire) add(region, 1);
    if (live > plan.peak_bytes) {
      plan.peak_bytes = live;
      plan.peak_action = static_cast<int64_t>(i);
    }
    for (int region : plan.actions[i].release) add(region, -1);
  }
}

}  // namespace

std::string_view name_of(MemoryClass memory_class) {
  switch (memory_class) {
    case MemoryClass::Params:
      return "params";
    case MemoryClass::Grads:
      return "grads";
    case MemoryClass::Optimizer:
      return "optimizer";
    case MemoryClass::Activations:
      return "activations";
    case MemoryClass::Comm:
      return "comm";
    case MemoryClass::Scratch:
      return "scratch";
  }
  return "?";
}

int64_t copies_bytes(const ChunkTables& chunk) {
  const DType compute = chunk.tables.params.tensors().front().dtype;
  int64_t bytes = chunk.tables.optimizer.bytes();
  for (const OwnedParam& owned : chunk.owned) bytes += align(owned.count * size_of(compute));
  return bytes;
}

bool splits_backward(const Program& program) {
  return std::any_of(program.begin(), program.end(),
                     [](const Action& action) { return action.kind == ActionKind::B; });
}

MemoryPlan plan_memory(const Program& program, const Program& eval_program,
                       const MemoryNeeds& needs) {
  MemoryPlan plan;
  plan.chunks.resize(needs.chunks.size());
  int64_t scratch_bytes = 0;
  for (size_t c = 0; c < needs.chunks.size(); ++c) {
    const ChunkTables& chunk = *needs.chunks[c].chunk;
    const std::string suffix = needs.chunks.size() > 1 ? fmt::format(".{}", c) : "";
    plan.chunks[c].params =
        add_permanent(plan, "params" + suffix, MemoryClass::Params, chunk.params_bytes);
    if (chunk.pieces.empty()) {
      plan.chunks[c].optimizer = add_permanent(plan, "optimizer" + suffix, MemoryClass::Optimizer,
                                               chunk.tables.optimizer.bytes());
    }
    scratch_bytes = std::max(scratch_bytes, chunk.tables.scratch.bytes());
    if (validates(program)) {
      plan.chunks[c].copies =
          add_region(plan, "copies" + suffix, MemoryClass::Optimizer, copies_bytes(chunk));
    }
  }
  plan.scratch = add_permanent(plan, "scratch", MemoryClass::Scratch, scratch_bytes);
  plan.exchange = add_permanent(plan, "exchange", MemoryClass::Scratch, needs.exchange_bytes);
  plan.workspace = add_permanent(plan, "workspace", MemoryClass::Scratch, needs.workspace_bytes);
  add_unit_slots(plan, needs);
  plan.actions = Walk(plan, needs, false).run(program);
  plan.eval_actions = Walk(plan, needs, true).run(eval_program);
  place_regions(plan);
  find_peaks(plan);
  return plan;
}

std::string largest_tensor(const MemoryPlan& plan, std::span<const ChunkTables> chunks) {
  const TensorSpec* largest = nullptr;
  const char* owner = "";
  const auto look = [&](const TensorTable& table, const char* name) {
    for (const TensorSpec& tensor : table.tensors()) {
      if (largest == nullptr || tensor.bytes() > largest->bytes()) {
        largest = &tensor;
        owner = name;
      }
    }
  };
  for (size_t c = 0; c < chunks.size(); ++c) {
    const StageTables& tables = chunks[c].tables;
    look(tables.params, "params");
    if (plan.chunks[c].optimizer >= 0) look(tables.optimizer, "optimizer");
    look(tables.scratch, "scratch");
    if (!plan.chunks[c].grad_slots.empty()) look(tables.grads, "grads");
    if (!plan.chunks[c].saved_slots.empty()) look(tables.saved, "saved");
  }
  return largest == nullptr
             ? ""
             : fmt::format("{}/{} {} {} ({})", owner, largest->name, largest->shape.to_string(),
                           name_of(largest->dtype), format_bytes(largest->bytes()));
}

}  // namespace trireme
