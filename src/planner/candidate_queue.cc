#include "planner/candidate_queue.h"

#include <algorithm>
#include <utility>

#include "schema/run_config_validate.h"

namespace trireme {
namespace {

// The parts of an exchange that make a difference on a mesh.
LayerExchange exchange_on(const Mesh& mesh, const LayerExchange& exchange) {
  return {exchange.sequence && mesh.tp > 1, exchange.tp_overlap && mesh.tp > 1,
          mesh.cp > 1 ? exchange.context : ContextExchange::Ring};
}

// The numbers of the layouts of a mesh, so that those which differ only in ZeRO and its shards
// follow each other: they share most of their bounds. In the list itself they are far apart.
std::vector<size_t> by_schedule(const std::vector<LayoutChoice>& layouts) {
  const auto is_other_zero = [&](const LayoutChoice& layout) {
    return layout.zero != layouts.front().zero || layout.hsdp_shard != layouts.front().hsdp_shard;
  };
  const auto other = std::find_if(layouts.begin(), layouts.end(), is_other_zero);
  const auto schedules = size_t(other - layouts.begin());
  std::vector<size_t> numbers;
  for (size_t schedule = 0; schedule < schedules; ++schedule) {
    for (size_t i = schedule; i < layouts.size(); i += schedules) numbers.push_back(i);
  }
  return numbers;
}

}  // namespace

CandidateQueue::CandidateQueue(const SearchTask& task, LayoutBounds& bounds)
    : task_(task),
      bounds_(bounds),
      refusals_(task.limit),
      recomputes_(recomputes_of(task.recompute)),
      candidates_(&comes_after) {}

std::optional<Candidate> CandidateQueue::pop() {
  if (candidates_.empty()) return std::nullopt;
  const Candidate candidate = candidates_.top();
  candidates_.pop();
  return candidate;
}

bool CandidateQueue::split(const Candidate& candidate) {
  if (candidate.is_even) {
    push_closer(candidate);
  } else if (candidate.has_any_exchange) {
    push_choices(candidate);
  } else {
    return false;
  }
  return true;
}

void CandidateQueue::refuse(const Candidate& candidate, const Refusal& refusal, int64_t count) {
  const bool is_last =
      !task_.tries_all_offloads || candidate.offload == task_.transfers.largest_offload();
  if (is_last) refusals_.add(candidate.layout, refusal, count);
}

void CandidateQueue::refuse_schedule(const Candidate& candidate, const Error& error,
                                     int64_t count) {
  refuse(candidate, {"schedule", error.message}, count);
}

void CandidateQueue::refuse_memory(const Candidate& candidate, const NeededBytes& needed,
                                   int64_t count) {
  if (candidate.offload == task_.transfers.largest_offload()) {
    if (count > 0) refusals_.add_memory(candidate.layout, needed, count);
  } else if (!task_.tries_all_offloads) {
    push(candidate, candidate.offload + 1);
  }
}

// Why no layout of the mesh can be, or nullopt if one may be. The layout that is asked has
// micro-batches of one sequence: a rule that refuses these may take others.
std::optional<Refusal> CandidateQueue::refusal_of(const Mesh& mesh,
                                                  const LayerExchange& exchange) const {
  const RunConfig config = with_layout(task_.config, {.mesh = mesh, .exchange = exchange});
  for (const ConfigProblem& problem : validate_with_data(config, task_.host.data_vocab_size)) {
    if (problem.key == "batch.micro_sequences") continue;
    return Refusal{problem.key, problem.message()};
  }
  return std::nullopt;
}

// The exchanges of a mesh that no rule refuses. The first one, which shares nothing, breaks no
// rule that others keep.
std::vector<LayerExchange> CandidateQueue::allowed_exchanges(const Mesh& mesh,
                                                             int64_t num_layouts) {
  std::vector<LayerExchange> allowed;
  const std::optional<LayerExchange>& given = task_.space.exchange;
  const std::vector<LayerExchange> all =
      given ? std::vector{exchange_on(mesh, *given)} : exchanges_of(mesh);
  num_layouts_ += int64_t(all.size()) * num_layouts;
  for (const LayerExchange& exchange : all) {
    const auto refusal = refusal_of(mesh, exchange);
    if (!refusal) {
      allowed.push_back(exchange);
      continue;
    }
    const bool refuses_all = exchange == all.front();
    refusals_.add(LayoutChoice{.mesh = mesh, .exchange = exchange}, *refusal,
                  (refuses_all ? int64_t(all.size()) : 1) * num_layouts);
    if (refuses_all) break;
  }
  return allowed;
}

bool CandidateQueue::is_searched(const LayoutChoice& layout) const {
  const LayoutSpace& space = task_.space;
  if (space.micro_sequences && layout.micro_sequences != *space.micro_sequences) return false;
  const auto is_like = [&](LayoutChoice other) {
    other.mesh.order = layout.mesh.order;
    other.recompute = layout.recompute;
    other.exchange = layout.exchange;
    other.transfers = layout.transfers;
    return other == layout;
  };
  if (!space.like.empty() && std::none_of(space.like.begin(), space.like.end(), is_like))
    return false;
  return std::count(space.zero_levels.begin(), space.zero_levels.end(), layout.zero) > 0;
}

void CandidateQueue::add_layouts(const Mesh& mesh) {
  const int ranks_per_node = task_.hardware.nodes().least_size(task_.num_ranks());
  std::vector<MeshOrder> orders = trireme::orders_of(mesh, task_.space.orders, ranks_per_node);
  std::vector<LayoutChoice> layouts =
      layouts_of(mesh, orders, task_.started.model, task_.started.global_sequences, recomputes_,
                 ranks_per_node);
  std::erase_if(layouts, [&](const LayoutChoice& layout) { return !is_searched(layout); });
  std::vector<LayerExchange> exchanges =
      allowed_exchanges(mesh, std::max<int64_t>(1, int64_t(layouts.size())));
  if (exchanges.empty()) return;
  bounds_.take_any_of(exchanges, orders);
  const auto num_exchanges = int64_t(exchanges.size());
  mesh_choices_.push_back({std::move(exchanges), std::move(orders)});
  const int64_t first_index = num_candidates_;
  num_candidates_ += int64_t(layouts.size());
  for (const size_t number : by_schedule(layouts))
    add_layout(layouts[number], first_index + int64_t(number), num_exchanges);
}

// Adds the candidate for all exchanges and orders of a layout of the last mesh.
void CandidateQueue::add_layout(const LayoutChoice& layout, int64_t index, int64_t num_exchanges) {
  Candidate candidate{.layout = layout,
                      .index = kMostExchanges * index,
                      .mesh = int(mesh_choices_.size()) - 1,
                      .offload = task_.transfers.largest_offload(),
                      .has_any_exchange = true};
  candidate.layout.mesh.order = mesh_choices_.back().orders.front();
  candidate.layout.exchange = mesh_choices_.back().exchanges.front();
  candidate.layout.transfers = task_.transfers.with_offload(candidate.offload);
  const NeededBytes even = bounds_.even_bytes(candidate.layout);
  if (!task_.limit.allows(even)) {
    refusals_.add_memory(candidate.layout, even, num_exchanges);
  } else if (set_bounds(candidate, num_exchanges)) {
    candidates_.push(candidate);
  }
}

// Sets the bounds of a candidate. Returns false if they refuse all the layouts for which it
// stands.
bool CandidateQueue::set_bounds(Candidate& candidate, int64_t num_layouts) {
  const LayoutChoice& layout = candidate.layout;
  const Result<NeededBytes> bytes = bounds_.bytes(layout);
  if (!bytes.ok()) {
    refuse_schedule(candidate, bytes.error(), num_layouts);
    return false;
  }
  if (!task_.limit.allows(*bytes)) {
    refuse_memory(candidate, *bytes, num_layouts);
    return false;
  }
  candidate.least_bytes = bytes->of_rank;
  if (!candidate.has_any_exchange)
    candidate.again = bounds_.cheapest_again(layout, task_.limit.bytes());
  candidate.is_even = candidate.has_any_exchange;
  candidate.least_s = candidate.is_even ? bounds_.even_step_s(layout)
                                        : bounds_.step_s(layout, candidate.again).value();
  return true;
}

// Gives a candidate for all exchanges its closer bound of time. Most candidates never need it.
void CandidateQueue::push_closer(Candidate candidate) {
  const MeshChoices& any_of = mesh_choices_[size_t(candidate.mesh)];
  bounds_.take_any_of(any_of.exchanges, any_of.orders);
  candidate.is_even = false;
  candidate.least_s = least_s_with_any_offload(candidate.layout);
  bounds_.take_any_of({}, any_of.orders);
  candidates_.push(candidate);
}

// A larger choice of memory.offload is never faster, so the bound is that of the smallest choice
// with which the layout may fit.
double CandidateQueue::least_s_with_any_offload(LayoutChoice layout) {
  int offload = 0;
  layout.transfers = task_.transfers.with_offload(offload);
  while (offload < task_.transfers.largest_offload() &&
         !task_.limit.allows(bounds_.bytes(layout).value())) {
    layout.transfers = task_.transfers.with_offload(++offload);
  }
  return bounds_.step_s(layout).value();
}

void CandidateQueue::push(Candidate candidate, int offload) {
  candidate.offload = offload;
  candidate.layout.transfers = task_.transfers.with_offload(offload);
  bounds_.take_any_of({}, orders_of(candidate));
  if (set_bounds(candidate, 1)) candidates_.push(candidate);
}

// Offloading takes time, so the next choice of it is tried only where the last one does not fit,
// unless what it saves is wanted, too.
void CandidateQueue::push_choices(Candidate candidate) {
  candidate.has_any_exchange = false;
  const int last = task_.tries_all_offloads ? task_.transfers.largest_offload() : 0;
  for (const LayerExchange& exchange : mesh_choices_[size_t(candidate.mesh)].exchanges) {
    candidate.layout.exchange = exchange;
    for (int offload = 0; offload <= last; ++offload) push(candidate, offload);
    ++candidate.index;
  }
}

}  // namespace trireme
