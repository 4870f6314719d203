#include "pairwise.h"

#include <algorithm>
#include <random>
#include <set>

namespace trireme {
namespace {

class PairsSeen {
 public:
  int count_new(const Selection& choice) {
    int count = 0;
    for_each_pair(choice, [&](std::vector<bool>::reference seen) { count += seen ? 0 : 1; });
    return count;
  }
  void note(const Selection& choice) {
    for_each_pair(choice, [](std::vector<bool>::reference seen) { seen = true; });
  }

 private:
  template <typename Visit>
  void for_each_pair(const Selection& choice, Visit visit) {
    const size_t factors = choice.size();
    seen_.resize(factors * factors * 256);
    for (size_t a = 0; a < factors; ++a) {
      for (size_t b = a + 1; b < factors; ++b) {
        visit(seen_[((a * factors + b) * 16 + size_t(choice[a])) * 16 + size_t(choice[b])]);
      }
    }
  }

  std::vector<bool> seen_;
};

Selection group_of(const Selection& choice, const std::vector<int>& factors) {
  Selection values;
  for (const int factor : factors) values.push_back(choice[size_t(factor)]);
  return values;
}

}  // namespace

std::vector<Selection> pairwise_cover(std::vector<Selection> choices,
                                      const std::function<bool(const Selection&)>& is_possible,
                                      const std::vector<int>& group) {
  std::shuffle(choices.begin(), choices.end(), std::mt19937(7));
  PairsSeen pairs;
  std::vector<Selection> cover;
  std::set<Selection> groups;
  const auto take = [&](const Selection& choice) {
    if (!is_possible(choice)) return;
    pairs.note(choice);
    groups.insert(group_of(choice, group));
    cover.push_back(choice);
  };
  const int factors = choices.empty() ? 0 : int(choices.front().size());
  const int most = factors * (factors - 1) / 2;
  // The number of new pairs of a choice only falls, so an older number is at least the present one.
  // -1 once the choice has been tried.
  std::vector<int> counts(choices.size(), most);
  // The choices with the most new pairs first.
  for (int least = most; least > 0; --least) {
    for (size_t i = 0; i < choices.size(); ++i) {
      if (counts[i] < least) continue;
      counts[i] = pairs.count_new(choices[i]);
      if (counts[i] < least) continue;
      take(choices[i]);
      counts[i] = -1;
    }
  }
  for (size_t i = 0; i < choices.size(); ++i) {
    if (counts[i] >= 0 && !groups.contains(group_of(choices[i], group))) take(choices[i]);
  }
  return cover;
}

int count_groups(const std::vector<Selection>& choices, const std::vector<int>& group) {
  std::set<Selection> groups;
  for (const Selection& choice : choices) groups.insert(group_of(choice, group));
  return int(groups.size());
}

std::vector<Selection> all_choices(const std::vector<int>& sizes,
                                   const std::function<bool(const Selection&)>& is_meant) {
  std::vector<Selection> result;
  Selection choice(sizes.size(), 0);
  for (size_t factor = 0; factor < sizes.size();) {
    if (is_meant(choice)) result.push_back(choice);
    for (factor = 0; factor < sizes.size() && ++choice[factor] == sizes[factor]; ++factor) {
      choice[factor] = 0;
    }
  }
  return result;
}

}  // namespace trireme
