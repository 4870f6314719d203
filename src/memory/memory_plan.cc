#include "memory/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/align.h"
#include "base/units.h"
#include "memory/memory_walk.h"
#include "memory/newton_schulz_memory.h"
#include "memory/slot_pool.h"

namespace trireme {
namespace {

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

// Chunks run one after the other and share their scratch, unless actions of two chunks run beside
// each other.
void add_scratch(MemoryPlan& plan, const Program& program, const MemoryNeeds& needs) {
  int64_t most = 0;
  for (const ChunkMemoryNeeds& chunk : needs.chunks) {
    most = std::max(most, chunk.chunk->tables.scratch.bytes());
  }
  if (!has_pairs(program)) {
    const int shared = add_permanent(plan, "scratch", MemoryClass::Scratch, most);
    for (ChunkRegions& chunk : plan.chunks) chunk.scratch = shared;
    return;
  }
  for (size_t c = 0; c < needs.chunks.size(); ++c) {
    plan.chunks[c].scratch = add_permanent(plan, fmt::format("scratch.{}", c), MemoryClass::Scratch,
                                           needs.chunks[c].chunk->tables.scratch.bytes());
  }
}

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

// Actions as they run in a step: the next one's first stand before Validate.
std::vector<size_t> order_of(const Program& program, int num_ahead) {
  std::vector<size_t> order;
  for (size_t i = 0; i < program.size(); ++i) {
    const int ahead = program[i].kind == ActionKind::Validate ? num_ahead : 0;
    for (int next = 0; next < ahead; ++next) order.push_back(size_t(next));
    order.push_back(i);
  }
  return order;
}

void find_peaks(MemoryPlan& plan, const std::vector<size_t>& order) {
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
  for (const size_t i : order) {
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
    case MemoryClass::Snapshot:
      return "snapshot";
  }
  return "?";
}

int64_t copies_bytes(const ChunkTables& chunk) {
  const DType compute = chunk.tables.params.tensors().front().dtype;
  int64_t bytes = chunk.tables.optimizer.bytes();
  for (const OwnedParam& owned : chunk.owned) {
    if (owned.has_grad()) bytes += aligned_bytes(owned.count * size_of(compute));
  }
  return bytes;
}

int64_t checkpoint_bytes(const ChunkTables& chunk, const OwnedParam& owned) {
  const TensorTable& state = chunk.tables.optimizer;
  const auto width = [&](const char* kind) {
    const std::string name = kind + owned.name;
    return state.contains(name) ? size_of(state.at(name).dtype) : 0;
  };
  const int64_t master = width("master/");
  const int64_t param = size_of(chunk.tables.params.tensors().front().dtype);
  return owned.count * ((master > 0 ? master : param) + width("exp_avg/") + width("exp_avg_sq/"));
}

bool splits_backward(const Program& program) {
  return std::any_of(program.begin(), program.end(),
                     [](const Action& action) { return action.kind == ActionKind::B; });
}

MemoryPlan plan_memory(const Program& program, const Program& eval_program,
                       const MemoryNeeds& needs) {
  MemoryPlan plan;
  plan.chunks.resize(needs.chunks.size());
  int64_t newton_schulz = 0;
  for (size_t c = 0; c < needs.chunks.size(); ++c) {
    const ChunkTables& chunk = *needs.chunks[c].chunk;
    const std::string suffix = needs.chunks.size() > 1 ? fmt::format(".{}", c) : "";
    if (!chunk.params_in_file) {
      plan.chunks[c].params =
          add_permanent(plan, "params" + suffix, MemoryClass::Params, chunk.params_bytes);
    }
    if (chunk.pieces.empty()) {
      plan.chunks[c].optimizer = add_permanent(plan, "optimizer" + suffix, MemoryClass::Optimizer,
                                               chunk.tables.optimizer.bytes());
    }
    newton_schulz = std::max(newton_schulz, newton_schulz_bytes(chunk));
    if (validates(program)) {
      plan.chunks[c].copies =
          add_region(plan, "copies" + suffix, MemoryClass::Optimizer, copies_bytes(chunk));
    }
  }
  add_scratch(plan, program, needs);
  plan.exchange = add_permanent(plan, "exchange", MemoryClass::Scratch, needs.exchange_bytes);
  plan.workspace = add_permanent(plan, "workspace", MemoryClass::Scratch, needs.workspace_bytes);
  if (newton_schulz > 0) {
    plan.newton_schulz = add_region(plan, "newton_schulz", MemoryClass::Scratch, newton_schulz);
  }
  if (needs.snapshot_bytes > 0) {
    plan.snapshot = add_permanent(plan, "snapshot", MemoryClass::Snapshot, needs.snapshot_bytes);
  }
  if (needs.move_bytes > 0) {
    plan.moves = add_permanent(plan, "parity", MemoryClass::Snapshot, needs.move_bytes);
  }
  add_unit_slots(plan, needs);
  plan.actions = walk_memory(program, needs, false, plan);
  plan.eval_actions = walk_memory(eval_program, needs, true, plan);
  place_regions(plan);
  find_peaks(plan, order_of(program, needs.num_ahead));
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
