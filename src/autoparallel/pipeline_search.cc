#include "autoparallel/pipeline_search.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace trireme {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class Splitter {
 public:
  explicit Splitter(const PipelineProblem& problem)
      : problem_(problem),
        most_stages_(std::min({problem.most_stages, problem.num_operators, problem.num_ranks})),
        num_sizes_(int(problem.mesh_sizes.size())),
        in_flight_levels_(int(std::min<int64_t>(most_stages_, problem.num_microbatches))),
        is_lazy_(bool(problem.bounds)) {
    find_ranges();
    fill_seconds();
  }

  std::optional<PipelineSplit> run() {
    const double fewest = sum_within(kNever);
    if (fewest == kNever) return std::nullopt;
    const double more = double(problem_.num_microbatches - 1);
    PipelineSplit best;
    best.step_s = kNever;
    double bound = lowest_bound();
    double tried = bound;  // no split keeps a lower bound, or it is not faster than `best`
    for (bool is_left = true; is_left && fewest + more * bound < best.step_s;) {
      double sum = sum_within(bound);
      while (is_lazy_ && sum + more * tried < best.step_s && settle_split()) {
        sum = sum_within(bound);
      }
      // Times that are known only now are bounds, too.
      double lower = tried;
      if (bound > tried && raise(lower) && lower < bound) {
        bound = lower;
        continue;
      }
      const bool is_known = is_lazy_ && sum + more * tried >= best.step_s;
      if (sum < kNever && !is_known) {
        PipelineSplit found = split();
        if (found.step_s < best.step_s) best = std::move(found);
      }
      tried = bound;
      is_left = raise(bound);
    }
    if (best.step_s == kNever) return std::nullopt;
    return best;
  }

 private:
  // If a stage takes its ranks when so many are left, from the first number to the last one, its
  // devices are of this mix.
  struct LeftRanks {
    int first = 0, last = 0;
    int mix = 0;
  };

  // Returns the lowest bound that any split keeps.
  double lowest_bound() {
    size_t first = 0, end = bounds_.size() - 1;
    while (first < end) {
      const size_t middle = (first + end) / 2;
      if (sum_within(bounds_[middle]) < kNever) {
        end = middle;
      } else {
        first = middle + 1;
      }
    }
    return bounds_[first];
  }

  // Sets the next bound that is to be tried. Returns false if there is none.
  bool raise(double& bound) const {
    if (bound >= bounds_.back()) return false;
    const double least = std::max(bound * (1.0 + problem_.gap), std::nextafter(bound, kNever));
    bound = *std::lower_bound(bounds_.begin(), bounds_.end() - 1, least);
    return true;
  }

  size_t index(int first, int last, int size, int level, int mix) const {
    const size_t place = (size_t(level) * size_t(num_sizes_) + size_t(size)) * size_t(num_mixes_);
    return ((place + size_t(mix)) * size_t(problem_.num_operators) + size_t(first)) *
               size_t(problem_.num_operators) +
           size_t(last);
  }
  int mix_at(int left, int size) const {
    return problem_.mix_of ? problem_.mix_of(problem_.num_ranks - left, size) : 0;
  }

  void find_ranges() {
    for (int size = 0; size < num_sizes_; ++size) {
      std::vector<LeftRanks>& ranges = ranges_.emplace_back();
      for (int left = problem_.mesh_sizes[size_t(size)]; left <= problem_.num_ranks; ++left) {
        const int mix = mix_at(left, size);
        if (mix == kNoStage) continue;
        num_mixes_ = std::max(num_mixes_, mix + 1);
        const bool continues =
            !ranges.empty() && ranges.back().mix == mix && ranges.back().last == left - 1;
        if (!continues) ranges.push_back({left, left, mix});
        ranges.back().last = left;
      }
    }
  }
  // Returns the index of a state: `stages` stages are left, from operator `first` on, for `ranks`
  // ranks.
  size_t state(int stages, int first, int ranks) const {
    return (size_t(stages) * size_t(problem_.num_operators + 1) + size_t(first)) *
               size_t(problem_.num_ranks + 1) +
           size_t(ranks);
  }

  void fill_seconds() {
    const size_t count = size_t(problem_.num_operators);
    seconds_.assign(
        size_t(in_flight_levels_) * size_t(num_sizes_) * size_t(num_mixes_) * count * count,
        kNever);
    if (is_lazy_) {
      lower_ = seconds_;
      is_settled_.assign(seconds_.size(), false);
    }
    for (int level = 0; level < in_flight_levels_; ++level) {
      for (int size = 0; size < num_sizes_; ++size) {
        std::vector<bool> is_filled(size_t(num_mixes_), false);
        for (const LeftRanks& range : ranges_[size_t(size)]) {
          if (!is_filled[size_t(range.mix)]) fill_seconds(size, level, range.mix);
          is_filled[size_t(range.mix)] = true;
        }
      }
    }
    if (bounds_.empty()) bounds_.push_back(0.0);
    std::sort(bounds_.begin(), bounds_.end());
    bounds_.erase(std::unique(bounds_.begin(), bounds_.end()), bounds_.end());
  }

  void fill_seconds(int size, int level, int mix) {
    for (int first = 0; first < problem_.num_operators; ++first) {
      for (int last = first; last < problem_.num_operators; ++last) {
        const size_t i = index(first, last, size, level, mix);
        seconds_[i] = is_lazy_ ? bounded_seconds(first, last, size, level, mix)
                               : problem_.seconds(first, last, size, level + 1, mix);
        if (seconds_[i] == kNever) break;  // more operators need more
        bounds_.push_back(seconds_[i]);
      }
    }
  }
  double bounded_seconds(int first, int last, int size, int level, int mix) {
    const size_t i = index(first, last, size, level, mix);
    const SecondsBounds bounds = problem_.bounds(first, last, size, level + 1, mix);
    lower_[i] = bounds.lower;
    is_settled_[i] = bounds.upper <= bounds.lower * (1.0 + problem_.tolerance);
    return is_settled_[i] ? bounds.upper : bounds.lower;
  }

  // Asks for the seconds of those stages of the last split that only have a lower bound. Returns
  // false if there is none.
  bool settle_split() {
    if (best_sum_ == kNever) return false;
    const std::vector<PipelineStage> stages = split().stages;
    bool has_settled = false;
    int ranks = problem_.num_ranks;
    for (size_t s = 0; s < stages.size(); ++s) {
      const auto& [first, last, size, lower_s] = stages[s];
      const int level = std::min(int(stages.size() - s), in_flight_levels_) - 1;
      const int mix = mix_at(ranks, size);
      ranks -= problem_.mesh_sizes[size_t(size)];
      const size_t i = index(first, last, size, level, mix);
      if (is_settled_[i]) continue;
      has_settled = is_settled_[i] = true;
      seconds_[i] = problem_.seconds(first, last, size, level + 1, mix);
      if (seconds_[i] == kNever) continue;
      bounds_.insert(std::lower_bound(bounds_.begin(), bounds_.end(), seconds_[i]), seconds_[i]);
    }
    return has_settled;
  }

  // True if the stage, and so any longer one, takes more than the bound or does not fit.
  bool is_above(size_t i, double bound) const {
    const double least = is_lazy_ ? lower_[i] : seconds_[i];
    return least > bound || least == kNever;
  }

  // Returns the least sum of the stages' seconds if no stage takes more than the bound.
  double sum_within(double bound) {
    const int count = problem_.num_operators, ranks = problem_.num_ranks;
    best_.assign(size_t(most_stages_ + 1) * size_t(count + 1) * size_t(ranks + 1), kNever);
    best_[state(0, count, 0)] = 0.0;
    for (int stages = 1; stages <= most_stages_; ++stages) {
      const int level = std::min(stages, in_flight_levels_) - 1;
      for (int first = count - stages; first >= 0; --first) {
        for (int size = 0; size < num_sizes_; ++size) {
          const int taken = problem_.mesh_sizes[size_t(size)];
          if (taken > ranks) break;
          for (const LeftRanks& range : ranges_[size_t(size)]) {
            for (int last = first; last <= count - stages; ++last) {
              const size_t i = index(first, last, size, level, range.mix);
              if (is_above(i, bound)) break;
              const double s = seconds_[i];
              if (s > bound) continue;
              const double* after = &best_[state(stages - 1, last + 1, 0)];
              double* here = &best_[state(stages, first, 0)];
              for (int left = range.first; left <= range.last; ++left) {
                here[left] = std::min(here[left], s + after[left - taken]);
              }
            }
          }
        }
      }
    }
    bound_ = bound;
    best_sum_ = kNever;
    for (int stages = 1; stages <= most_stages_; ++stages) {
      best_sum_ = std::min(best_sum_, best_[state(stages, 0, ranks)]);
    }
    return best_sum_;
  }

  // Returns the split that the last call of sum_within found.
  PipelineSplit split() const {
    int stages = 1;
    for (int s = 1; s <= most_stages_; ++s) {
      if (best_[state(s, 0, problem_.num_ranks)] < best_[state(stages, 0, problem_.num_ranks)]) {
        stages = s;
      }
    }
    PipelineSplit found;
    int first = 0, ranks = problem_.num_ranks;
    for (; stages > 0; --stages) {
      const PipelineStage stage = first_stage(stages, first, ranks);
      found.stages.push_back(stage);
      first = stage.last + 1;
      ranks -= problem_.mesh_sizes[size_t(stage.size)];
    }
    double slowest = 0.0;
    for (const PipelineStage& stage : found.stages) {
      found.step_s += stage.seconds;
      slowest = std::max(slowest, stage.seconds);
    }
    found.step_s += double(problem_.num_microbatches - 1) * slowest;
    return found;
  }

  PipelineStage first_stage(int stages, int first, int ranks) const {
    const int level = std::min(stages, in_flight_levels_) - 1;
    const double wanted = best_[state(stages, first, ranks)];
    for (int size = 0; size < num_sizes_; ++size) {
      const int taken = problem_.mesh_sizes[size_t(size)];
      if (taken > ranks) break;
      const int mix = mix_at(ranks, size);
      if (mix == kNoStage) continue;
      for (int last = first; last <= problem_.num_operators - stages; ++last) {
        const size_t i = index(first, last, size, level, mix);
        if (is_above(i, bound_)) break;
        const double s = seconds_[i];
        if (s > bound_) continue;
        if (s + best_[state(stages - 1, last + 1, ranks - taken)] == wanted) {
          return {first, last, size, s};
        }
      }
    }
    return {};
  }

  const PipelineProblem& problem_;
  int most_stages_;
  int num_sizes_;
  int in_flight_levels_;
  int num_mixes_ = 1;
  std::vector<std::vector<LeftRanks>> ranges_;  // [size]
  bool is_lazy_;
  std::vector<double> seconds_;  // lower bounds until they are settled
  std::vector<double> lower_;
  std::vector<bool> is_settled_;
  std::vector<double> bounds_;                 // of the slowest stage: every price, rising
  std::vector<double> best_;                   // [stages][first][ranks]
  double bound_ = kNever, best_sum_ = kNever;  // of the last call of sum_within
};

}  // namespace

std::optional<PipelineSplit> split_pipeline(const PipelineProblem& problem) {
  return Splitter(problem).run();
}

}  // namespace trireme
