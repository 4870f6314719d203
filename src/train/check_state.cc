#include "train/check_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/clock.h"
#include "base/hash.h"
#include "comm/gather_text.h"
#include "train/gather_named.h"

namespace trireme {
namespace {

constexpr size_t kMostLines = 4;

using Ranks = std::vector<int>;

uint64_t key_of(const StateTensor& tensor) { return hash64(tensor.name + tensor.part); }

// Which ranks hold a tensor of each key.
std::map<uint64_t, Ranks> gather_keys(Group& ranks, const std::vector<StateTensor>& tensors) {
  std::string own(tensors.size() * sizeof(uint64_t), '\0');
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t key = key_of(tensors[i]);
    std::memcpy(&own[i * sizeof key], &key, sizeof key);
  }
  const std::vector<std::string> texts = gather_text(ranks, own);
  std::map<uint64_t, Ranks> holders;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    for (size_t at = 0; at < texts[rank].size(); at += sizeof(uint64_t)) {
      uint64_t key = 0;
      std::memcpy(&key, &texts[rank][at], sizeof key);
      Ranks& of_key = holders[key];
      // One rank may have both uses of a tied table.
      if (of_key.empty() || of_key.back() != int(rank)) of_key.push_back(int(rank));
    }
  }
  return holders;
}

// Deals sets of ranks to rounds, so that no rank is in two sets of a round: each round is one
// split.
std::vector<std::vector<Ranks>> rounds_of(const std::set<Ranks>& sets) {
  std::vector<std::vector<Ranks>> rounds;
  const auto overlap = [](const Ranks& a, const Ranks& b) {
    return std::find_first_of(a.begin(), a.end(), b.begin(), b.end()) != a.end();
  };
  for (const Ranks& set : sets) {
    const auto fits = [&](const std::vector<Ranks>& round) {
      return std::none_of(round.begin(), round.end(),
                          [&](const Ranks& other) { return overlap(set, other); });
    };
    auto round = std::find_if(rounds.begin(), rounds.end(), fits);
    if (round == rounds.end()) round = rounds.insert(rounds.end(), std::vector<Ranks>{});
    round->push_back(set);
  }
  return rounds;
}

std::string list_of(const Ranks& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

// The members whose hash is not that of the majority. All of them, if no hash has more than half of
// the votes.
Ranks minority_of(const std::vector<int64_t>& hashes, std::span<const int> members) {
  std::map<int64_t, Ranks> votes;
  for (size_t i = 0; i < hashes.size(); ++i) votes[hashes[i]].push_back(members[i]);
  const auto most = std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  const Ranks& good = most->second;
  Ranks minority;
  for (const int rank : members) {
    const bool is_good = std::find(good.begin(), good.end(), rank) != good.end();
    if (!is_good || 2 * good.size() <= members.size()) minority.push_back(rank);
  }
  return minority;
}

std::string verdict(const std::string& name, const Ranks& minority, std::span<const int> members) {
  const Ranks all(members.begin(), members.end());
  if (minority == all) {
    return fmt::format("{}: {} differ, and no majority tells which is right", name, list_of(all));
  }
  return fmt::format("{}: {} of {} is wrong", name, list_of(minority), list_of(all));
}

constexpr int kMayBeWrong = 1, kIsWrong = 2;  // how much a rank is suspected

}  // namespace

StateCheck::StateCheck(Engine& engine)
    : engine_(engine),
      ranks_(engine.world().split(0, engine.world().rank(), "check of state")),
      hashes_({}) {
  find_holders(state_tensors(engine));
  hashes_ = TensorHashes(compared_);
}

void StateCheck::find_holders(std::vector<StateTensor> tensors) {
  state_bytes_ = TensorHashes(tensors).num_bytes();
  // The same order on all ranks.
  std::stable_sort(tensors.begin(), tensors.end(), [](const StateTensor& a, const StateTensor& b) {
    return key_of(a) < key_of(b);
  });
  const std::map<uint64_t, Ranks> ranks_of = gather_keys(*ranks_, tensors);
  std::set<Ranks> sets;
  for (const auto& [key, ranks] : ranks_of) {
    if (ranks.size() > 1) sets.insert(ranks);
  }
  const int own = ranks_->rank();
  for (const std::vector<Ranks>& round : rounds_of(sets)) {
    const auto is_mine = [&](const Ranks& set) {
      return std::find(set.begin(), set.end(), own) != set.end();
    };
    const auto mine = std::find_if(round.begin(), round.end(), is_mine);
    std::unique_ptr<Group> group =
        ranks_->split(int(mine - round.begin()), own, "holders of the same state");
    if (mine == round.end()) continue;
    Holders holders{.group = std::move(group), .tensors = {}, .words = {}};
    uint64_t last = 0;
    for (const StateTensor& tensor : tensors) {
      const uint64_t key = key_of(tensor);
      if (ranks_of.at(key) != *mine) continue;
      if (!holders.tensors.empty() && key == last) continue;  // the second use of a tied table
      last = key;
      holders.tensors.push_back(compared_.size());
      compared_.push_back(tensor);
    }
    holders.words.resize(mine->size());
    holders_.push_back(std::move(holders));
  }
}

bool StateCheck::differs(Holders& holders) {
  uint64_t hash = 0;
  for (const size_t tensor : holders.tensors) {
    const uint64_t pair[] = {hash, hashes_.values()[tensor]};
    hash = hash64(std::as_bytes(std::span(pair)));
  }
  auto word = int64_t(hash);
  holders.group->all_gather({&word, DType::I64, Shape{1}}, {holders.words.data(), DType::I64,
                                                            Shape{int64_t(holders.words.size())}});
  return std::any_of(holders.words.begin(), holders.words.end(),
                     [&](int64_t other) { return other != holders.words.front(); });
}

int StateCheck::describe(Holders& holders, std::vector<std::string>& lines) {
  const size_t count = holders.tensors.size(), size = holders.words.size();
  std::vector<int64_t> own(count), all(count * size);
  for (size_t i = 0; i < count; ++i) own[i] = int64_t(hashes_.values()[holders.tensors[i]]);
  holders.group->all_gather({own.data(), DType::I64, Shape{int64_t(count)}},
                            {all.data(), DType::I64, Shape{int64_t(all.size())}});
  const std::span<const int> members = holders.group->members();
  int suspicion = 0;
  for (size_t i = 0; i < count; ++i) {
    std::vector<int64_t> hashes;
    for (size_t member = 0; member < size; ++member) hashes.push_back(all[member * count + i]);
    const bool agrees = std::all_of(hashes.begin(), hashes.end(),
                                    [&](int64_t hash) { return hash == hashes.front(); });
    if (agrees) continue;
    const StateTensor& tensor = compared_[holders.tensors[i]];
    const Ranks minority = minority_of(hashes, members);
    const bool is_decided = minority.size() < members.size();
    if (std::find(minority.begin(), minority.end(), ranks_->rank()) != minority.end()) {
      suspicion = std::max(suspicion, is_decided ? kIsWrong : kMayBeWrong);
    }
    // One of them tells.
    if (holders.group->rank() == 0) lines.push_back(verdict(tensor.name, minority, members));
  }
  return suspicion;
}

Error StateCheck::error_of(int64_t step, const std::vector<std::string>& lines) {
  std::string own;
  for (const std::string& line : lines) own += line + "\n";
  std::vector<std::string> all;
  for (const std::string& text : gather_text(*ranks_, own)) {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find('\n', begin);
      all.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  const size_t num_shown = std::min(all.size(), kMostLines);
  std::string shown =
      fmt::format("{}", fmt::join(all.begin(), all.begin() + int64_t(num_shown), "; "));
  if (all.size() > num_shown) shown += fmt::format("; and {} more tensors", all.size() - num_shown);
  return {ErrorKind::Runtime,
          fmt::format("step {}: the state of the run is corrupt: {}; a memory, a computation or a "
                      "message was wrong since the last check: resume from the newest checkpoint, "
                      "before which all ranks agreed",
                      step, shown)};
}

Status StateCheck::run(int64_t step) {
  const int64_t begin_ns = monotonic_ns();
  engine_.settle();
  hashes_.update(engine_.ctx().stream.team());
  int64_t num_different = 0;
  for (Holders& holders : holders_) num_different += differs(holders) ? 1 : 0;
  ranks_->all_reduce({&num_different, DType::I64, Shape{1}});
  ++num_runs_;
  spent_ns_ += monotonic_ns() - begin_ns;
  alarm_.reset();
  if (num_different == 0) return Done{};
  std::vector<std::string> lines;
  int suspicion = 0;
  for (Holders& holders : holders_) {
    const bool agrees = std::all_of(holders.words.begin(), holders.words.end(),
                                    [&](int64_t other) { return other == holders.words.front(); });
    if (!agrees) suspicion = std::max(suspicion, describe(holders, lines));
  }
  const NamedRanks named = gather_named(*ranks_, suspicion);
  alarm_ = {.check = CorruptionCheck::State,
            .step = step,
            .ranks = named.ranks,
            .is_certain = named.suspicion == kIsWrong};
  return error_of(step, lines);
}

}  // namespace trireme
