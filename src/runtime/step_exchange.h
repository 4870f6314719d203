#pragma once

#include <span>

#include "comm/group.h"
#include "nn/router_losses.h"
#include "program/rank_plan.h"
#include "runtime/rank_memory.h"

namespace trireme {

// What the ranks tell each other in Step (Exchange, program/rank_plan.h). Every word is filled by
// one rank and zero on all others, or an integer, so that their sum is exact. Where attention
// reports its largest logits, a second call takes their maximum over the ranks.
class StepExchange {
 public:
  StepExchange(const RankPlan& plan, const RankMemory& memory, Group& world);

  // Before a step: this rank has said nothing. What it said of the step before stays.
  void open();
  // `index`: of the micro-batch within the step, by context-parallel rank.
  void put_loss(int64_t index, double loss_sum, int64_t valid_tokens);
  // Puts the sum of the losses of the modules that look ahead. Only a model that has some may call
  // it. `index` is that of put_loss().
  void put_ahead_loss(int64_t index, double loss_sum);
  void add_expert_load(int64_t layer, std::span<const int32_t> load);
  void add_router_losses(int64_t layer, const RouterLosses& losses);
  // Raises the logits of heads first_head .. of a layer to these.
  void raise_logits(int64_t layer, int64_t first_head, std::span<const float> max_H);
  // Of the gradient's norm, this rank's part.
  std::span<int64_t> norm_words() const { return norm_of(open_); }
  double own_squared_norm() const;

  // What stands below is of the step whose exchange has run last. `note` is at least 0 and below
  // 2^48; every sum of its ranks must be, too.
  void run(bool stop, int64_t note);
  // The same while the rank goes on.
  void start(bool stop, int64_t note);
  void finish();
  double squared_norm() const;
  double loss_sum() const;
  int64_t valid_tokens() const;
  bool stop() const;
  int64_t note() const;  // the sum over the ranks
  std::span<const int64_t> expert_loads() const;
  std::span<const int64_t> router_losses() const;
  double ahead_loss_sum() const;  // 0 where no module looks ahead
  // [layer][head]; -inf for a head of which no query was seen. Until the next step.
  std::span<const float> largest_logits() const { return logits_; }

  int64_t waited_ns() const { return waited_ns_; }

 private:
  CollectiveArgs maximum() const;
  TensorRef tell(bool stop, int64_t note);
  std::span<int64_t> norm_of(std::span<int64_t> words) const;

  Exchange places_;
  NormSum norm_sum_;
  Group& world_;
  std::span<int64_t> whole_;  // of one step, or two in turns
  std::span<int64_t> open_;   // of the step that runs
  std::span<int64_t> exchanged_;
  int64_t heads_;            // of a layer
  std::span<float> logits_;  // behind the words
  Work work_;
  int64_t waited_ns_ = 0;
};

// Sums along the canonical binary tree over the index: the same bits for every layout.
double tree_sum(std::span<const double> leaves);

}  // namespace trireme
