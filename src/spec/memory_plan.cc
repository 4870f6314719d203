#include "spec/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/units.h"

namespace trireme {
namespace {

bool computes_forward(ActionKind kind) { return kind == ActionKind::F; }
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
      : plan_(plan), slots_(slots), name_(std::move(name)), class_(memory_class), bytes_(bytes) {}

  int take() {
    const auto free = std::find(taken_.begin(), taken_.end(), false);
    const int slot = static_cast<int>(free - taken_.begin());
    if (free == taken_.end()) add();
    taken_[slot] = true;
    return slot;
  }
  // A particular slot, as the Program names it.
  void take(int slot) {
    while (static_cast<int>(taken_.size()) <= slot) add();
    taken_[slot] = true;
  }
  bool is_taken(int slot) const { return slot < static_cast<int>(taken_.size()) && taken_[slot]; }
  void give_back(int slot) { taken_[slot] = false; }
  int region(int slot) const { return slots_[slot]; }
  int64_t bytes() const { return bytes_; }

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

int add_permanent(MemoryPlan& plan, const char* name, MemoryClass memory_class, int64_t bytes) {
  const int region = static_cast<int>(plan.regions.size());
  plan.regions.push_back({name, memory_class, 0, bytes});
  plan.permanent.push_back(region);
  return region;
}

// Walks the Program as the executor will: what is taken before an action and given back after it.
void walk_actions(MemoryPlan& plan, const Program& program, const StageTables& tables) {
  SlotPool grads(plan, plan.grad_slots, "grads", MemoryClass::Grads, tables.grads.bytes());
  SlotPool saved(plan, plan.saved_slots, "saved", MemoryClass::Activations, tables.saved.bytes());
  SlotPool weight_grad(plan, plan.weight_grad_slots, "weight_grad", MemoryClass::Activations,
                       tables.weight_grad.bytes());
  std::map<std::pair<int, int>, ActionMemory> in_flight;  // (chunk, micro-batch) -> its slots
  for (const Action& action : program) {
    ActionMemory memory;
    const std::pair<int, int> key{action.chunk, action.microbatch};
    if (computes_forward(action.kind)) {
      memory.saved_slot = saved.take();
      memory.acquire.push_back(saved.region(memory.saved_slot));
      in_flight[key] = memory;
    } else if (computes_input_grad(action.kind) || computes_weight_grad(action.kind)) {
      const auto found = in_flight.find(key);
      TRIREME_CHECK(found != in_flight.end(), "a backward action before its F");
      memory.saved_slot = found->second.saved_slot;
      memory.weight_grad_slot = found->second.weight_grad_slot;
    }
    if (action.kind == ActionKind::B) {
      memory.weight_grad_slot = weight_grad.take();
      memory.acquire.push_back(weight_grad.region(memory.weight_grad_slot));
      in_flight[key].weight_grad_slot = memory.weight_grad_slot;
    }
    if (computes_weight_grad(action.kind)) {
      if (!grads.is_taken(action.grad_slot)) {
        grads.take(action.grad_slot);
        memory.acquire.push_back(grads.region(action.grad_slot));
      }
      saved.give_back(memory.saved_slot);
      memory.release.push_back(saved.region(memory.saved_slot));
      if (memory.weight_grad_slot >= 0) {
        weight_grad.give_back(memory.weight_grad_slot);
        memory.release.push_back(weight_grad.region(memory.weight_grad_slot));
      }
      in_flight.erase(key);
    }
    if (action.kind == ActionKind::SumGrad) {
      grads.give_back(action.grad_slot_b);
      memory.release.push_back(grads.region(action.grad_slot_b));
    }
    if (action.kind == ActionKind::Step) {
      grads.give_back(0);
      memory.release.push_back(grads.region(0));
    }
    plan.actions.push_back(std::move(memory));
  }
  TRIREME_CHECK(in_flight.empty(), "a micro-batch without its W");
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

MemoryPlan plan_memory(const Program& program, const StageTables& tables, int64_t workspace_bytes) {
  MemoryPlan plan;
  plan.params = add_permanent(plan, "params", MemoryClass::Params, tables.params.bytes());
  plan.optimizer =
      add_permanent(plan, "optimizer", MemoryClass::Optimizer, tables.optimizer.bytes());
  plan.scratch = add_permanent(plan, "scratch", MemoryClass::Scratch, tables.scratch.bytes());
  plan.step = add_permanent(plan, "step", MemoryClass::Scratch, tables.step.bytes());
  plan.workspace = add_permanent(plan, "workspace", MemoryClass::Scratch, workspace_bytes);
  walk_actions(plan, program, tables);
  place_regions(plan);
  find_peaks(plan);
  return plan;
}

std::string largest_tensor(const MemoryPlan& plan, const StageTables& tables) {
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
  look(tables.params, "params");
  look(tables.optimizer, "optimizer");
  look(tables.scratch, "scratch");
  if (!plan.grad_slots.empty()) look(tables.grads, "grads");
  if (!plan.saved_slots.empty()) look(tables.saved, "saved");
  return largest == nullptr
             ? ""
             : fmt::format("{}/{} {} {} ({})", owner, largest->name, largest->shape.to_string(),
                           name_of(largest->dtype), format_bytes(largest->bytes()));
}

}  // namespace trireme
