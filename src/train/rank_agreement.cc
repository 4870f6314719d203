#include "train/rank_agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "base/check.h"

namespace trireme {

std::string text_of(const RankWord& word) {
  return fmt::format("{} {} {} {} {} {} {} {}", word.stage, word.compute_s, word.exposed_comm_s,
                     word.bubble_s, word.peak_bytes, word.intervals.disk, word.intervals.memory,
                     word.intervals.agree_after);
}

RankWord rank_word_in(const std::string& text) {
  RankWord word;
  long long peak = 0, disk = 0, memory = 0, agree_after = 0;
  const int got =
      std::sscanf(text.c_str(), "%d %lf %lf %lf %lld %lld %lld %lld", &word.stage, &word.compute_s,
                  &word.exposed_comm_s, &word.bubble_s, &peak, &disk, &memory, &agree_after);
  TRIREME_CHECK(got == 8, "another rank has sent " + text);
  word.peak_bytes = peak;
  word.intervals = {disk, memory, agree_after};
  return word;
}

double straggler_excess_s(std::span<const RankWord> words) {
  struct Stage {
    double sum = 0.0, greatest = 0.0;
    int ranks = 0;
  };
  std::map<int, Stage> stages;
  for (const RankWord& word : words) {
    Stage& stage = stages[word.stage];
    stage.sum += word.compute_s;
    stage.greatest = std::max(stage.greatest, word.compute_s);
    ++stage.ranks;
  }
  double excess_s = 0.0;
  for (const auto& [number, stage] : stages) {
    excess_s = std::max(excess_s, stage.greatest - stage.sum / stage.ranks);
  }
  return excess_s;
}

}  // namespace trireme
