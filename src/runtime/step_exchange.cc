#include "runtime/step_exchange.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "base/clock.h"

namespace trireme {
namespace {

// Of the word in which ranks say that they want to stop.
constexpr int kStopBits = 15;

double tree_sum(const double* leaves, int64_t count, int64_t width) {
  if (count == 1) return leaves[0];
  const int64_t half = width / 2;
  if (count <= half) return tree_sum(leaves, count, half);
  return tree_sum(leaves, half, half) + tree_sum(leaves + half, count - half, half);
}

}  // namespace

double tree_sum(std::span<const double> leaves) {
  if (leaves.empty()) return 0.0;
  return tree_sum(leaves.data(), int64_t(leaves.size()), int64_t(std::bit_ceil(leaves.size())));
}

StepExchange::StepExchange(const RankPlan& plan, const RankMemory& memory, Group& world)
    : places_(exchange_of(plan)),
      norm_sum_(plan.norm_sum),
      world_(world),
      whole_(static_cast<int64_t*>(memory.at(plan.memory.exchange)),
             size_t(places_.num_words * (plan.num_ahead > 0 ? 2 : 1))),
      open_(whole_.first(size_t(places_.num_words))),
      exchanged_(open_),
      heads_(plan.logits.heads),
      logits_(reinterpret_cast<float*>(whole_.data() + whole_.size()),
              size_t(plan.logits.count())) {
  TRIREME_CHECK(logits_.empty() || plan.num_ahead == 0,
                "no step begins before the logits are used");
  TRIREME_CHECK(world.size() < 1 << kStopBits, "ranks that stop are counted in fewer bits");
  const TensorRef words{exchanged_.data(), DType::I64, Shape{places_.num_words}};
  world_.reserve({.in = words, .out = words});
  if (!logits_.empty()) world_.reserve(maximum());
}

CollectiveArgs StepExchange::maximum() const {
  const TensorRef logits{logits_.data(), DType::F32, Shape{int64_t(logits_.size())}};
  return {.in = logits, .out = logits, .op = ReduceOp::Max};
}

void StepExchange::open() {
  const bool was_first = open_.data() == whole_.data();
  open_ = was_first ? whole_.last(open_.size()) : whole_.first(open_.size());
  std::fill(open_.begin(), open_.end(), 0);
  std::fill(logits_.begin(), logits_.end(), -std::numeric_limits<float>::infinity());
}

void StepExchange::put_loss(int64_t index, double loss_sum, int64_t valid_tokens) {
  open_[size_t(places_.losses + index)] = std::bit_cast<int64_t>(loss_sum);
  open_[size_t(places_.valid_tokens + index)] = valid_tokens;
}

void StepExchange::put_ahead_loss(int64_t index, double loss_sum) {
  open_[size_t(places_.ahead_losses + index)] = std::bit_cast<int64_t>(loss_sum);
}

void StepExchange::add_expert_load(int64_t layer, std::span<const int32_t> load) {
  int64_t* words = &open_[size_t(places_.expert_loads + layer * int64_t(load.size()))];
  for (size_t i = 0; i < load.size(); ++i) words[i] += load[i];
}

void StepExchange::add_router_losses(int64_t layer, const RouterLosses& losses) {
  int64_t* words = &open_[size_t(places_.router_losses + layer * 2)];
  words[0] += losses.aux;
  words[1] += losses.z;
}

void StepExchange::raise_logits(int64_t layer, int64_t first_head, std::span<const float> max_H) {
  float* logits = &logits_[size_t(layer * heads_ + first_head)];
  for (size_t head = 0; head < max_H.size(); ++head) {
    logits[head] = std::max(logits[head], max_H[head]);
  }
}

std::span<int64_t> StepExchange::norm_of(std::span<int64_t> words) const {
  return words.subspan(size_t(places_.norm));
}

double StepExchange::own_squared_norm() const { return squared_norm_of(norm_sum_, norm_words()); }

// The word of `stop` also carries the note, above the number of ranks that stop.
TensorRef StepExchange::tell(bool stop, int64_t note) {
  exchanged_ = open_;
  exchanged_[size_t(places_.stop)] = (note << kStopBits) + (stop ? 1 : 0);
  return {exchanged_.data(), DType::I64, Shape{places_.num_words}};
}

void StepExchange::run(bool stop, int64_t note) {
  const TensorRef words = tell(stop, note);
  const int64_t begin_ns = monotonic_ns();
  world_.all_reduce(words);
  if (!logits_.empty()) world_.run(maximum());
  waited_ns_ += monotonic_ns() - begin_ns;
}

void StepExchange::start(bool stop, int64_t note) {
  const TensorRef words = tell(stop, note);
  work_ = world_.start({.in = words, .out = words});
}

void StepExchange::finish() {
  const int64_t begin_ns = monotonic_ns();
  work_.wait();
  waited_ns_ += monotonic_ns() - begin_ns;
}

double StepExchange::loss_sum() const {
  const double* losses = reinterpret_cast<const double*>(exchanged_.data() + places_.losses);
  return tree_sum({losses, size_t(places_.valid_tokens - places_.losses)});
}

int64_t StepExchange::valid_tokens() const {
  return std::accumulate(exchanged_.begin() + places_.valid_tokens,
                         exchanged_.begin() + places_.stop, int64_t{0});
}

bool StepExchange::stop() const {
  return (exchanged_[size_t(places_.stop)] & ((int64_t{1} << kStopBits) - 1)) != 0;
}

int64_t StepExchange::note() const { return exchanged_[size_t(places_.stop)] >> kStopBits; }

std::span<const int64_t> StepExchange::expert_loads() const {
  return exchanged_.subspan(size_t(places_.expert_loads),
                            size_t(places_.router_losses - places_.expert_loads));
}

std::span<const int64_t> StepExchange::router_losses() const {
  return exchanged_.subspan(size_t(places_.router_losses),
                            size_t(places_.ahead_losses - places_.router_losses));
}

double StepExchange::ahead_loss_sum() const {
  const double* losses = reinterpret_cast<const double*>(exchanged_.data() + places_.ahead_losses);
  return tree_sum({losses, size_t(places_.norm - places_.ahead_losses)});
}

double StepExchange::squared_norm() const {
  return squared_norm_of(norm_sum_, norm_of(exchanged_));
}

}  // namespace trireme
