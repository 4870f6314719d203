#pragma once

#include <optional>
#include <queue>
#include <vector>

#include "planner/layout_bound.h"
#include "planner/layout_refusals.h"
#include "planner/search_candidate.h"
#include "planner/search_task.h"

namespace trireme {

// The layouts that a search has not tried yet, by the lower bounds of their times, and those that
// it has refused. A candidate stands for many layouts as long as nothing needs a closer bound. The
// task and the bounds must outlive the queue.
class CandidateQueue {
 public:
  CandidateQueue(const SearchTask& task, LayoutBounds& bounds);

  // Adds one candidate for all exchanges and orders of each layout of a mesh.
  void add_layouts(const Mesh& mesh);

  // Takes out the candidate with the lowest bound.
  std::optional<Candidate> pop();
  // Puts closer candidates into the queue for one that stands for several. Returns false, and does
  // nothing, if it stands for itself and the orders of its mesh alone.
  bool split(const Candidate& candidate);

  // The orders for which a candidate stands.
  const std::vector<MeshOrder>& orders_of(const Candidate& candidate) const {
    return mesh_choices_[size_t(candidate.mesh)].orders;
  }

  // A layout is counted once, however many of its ways are refused.
  void refuse(const Candidate& candidate, const Refusal& refusal, int64_t count = 1);
  void refuse_schedule(const Candidate& candidate, const Error& error, int64_t count = 1);
  // Adds the candidate with the next larger choice of memory.offload. The layout itself is refused
  // if there is none; it is not counted if `count` is 0.
  void refuse_memory(const Candidate& candidate, const NeededBytes& needed, int64_t count = 1);

  const LayoutRefusals& refusals() const { return refusals_; }
  int64_t num_layouts() const { return num_layouts_; }  // all that were added or refused

 private:
  std::optional<Refusal> refusal_of(const Mesh& mesh, const LayerExchange& exchange) const;
  std::vector<LayerExchange> allowed_exchanges(const Mesh& mesh, int64_t num_layouts);
  bool is_searched(const LayoutChoice& layout) const;
  void add_layout(const LayoutChoice& layout, int64_t index, int64_t num_exchanges);
  bool set_bounds(Candidate& candidate, int64_t num_layouts);
  void push_closer(Candidate candidate);
  double least_s_with_any_offload(LayoutChoice layout);
  void push(Candidate candidate, int offload);
  void push_choices(Candidate candidate);

  const SearchTask& task_;
  LayoutBounds& bounds_;
  LayoutRefusals refusals_;
  std::vector<Recompute> recomputes_;
  std::priority_queue<Candidate, std::vector<Candidate>, decltype(&comes_after)> candidates_;
  int64_t num_candidates_ = 0;  // all that were considered, in the order of their indices
  int64_t num_layouts_ = 0;
  std::vector<MeshChoices> mesh_choices_;
};

}  // namespace trireme
