#include "watch/blame.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <vector>

namespace trireme {
namespace {

constexpr size_t kNobody = SIZE_MAX;

size_t index_of(std::span<const WatchedRank> ranks, const RankSample& from, int rank) {
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].sample.rank == rank && ranks[i].sample.epoch == from.epoch) return i;
  }
  return kNobody;
}

// True if the peer has made the call in which the rank waits, and waits in another one by now.
bool is_left_behind(const RankSample& own, const RankSample& peer) {
  if (own.wait_sequence == 0 || own.wait_group >= kShownGroups || !peer.waits()) return false;
  if (peer.issued[size_t(own.wait_group)] < own.wait_sequence) return false;
  return peer.wait_group != own.wait_group || peer.wait_sequence > own.wait_sequence;
}

// True if the rank itself must act, and not one of the others.
bool must_act(std::span<const WatchedRank> ranks, size_t index) {
  const WatchedRank& one = ranks[index];
  if (one.is_stopped || !one.sample.waits()) return true;
  const size_t peer = index_of(ranks, one.sample, one.sample.wait_peer);
  return peer != kNobody && is_left_behind(one.sample, ranks[peer].sample);
}

// True if the rank is between two epochs or at the beginning of one, where it needs all others.
bool gathers(const WatchedRank& one) {
  const RankPhase phase = one.sample.phase;
  return phase == RankPhase::Start || phase == RankPhase::Compile || phase == RankPhase::Recover;
}

// Follows the waits to the rank that must act; kNobody if it is on another host or unknown.
size_t end_of_waits(std::span<const WatchedRank> ranks, size_t index) {
  for (size_t hop = 0; hop < ranks.size(); ++hop) {
    index = index_of(ranks, ranks[index].sample, ranks[index].sample.wait_peer);
    if (index == kNobody || must_act(ranks, index)) return index;
  }
  return kNobody;  // the waits form a cycle, which the ranks report themselves (comm/waiter.h)
}

std::string why(const WatchedRank& one) {
  if (one.is_stopped) return "is stopped (SIGSTOP) " + place_text(one.sample);
  if (one.sample.waits())
    return "does not leave a call that is complete, " + place_text(one.sample);
  return "computes or hangs " + place_text(one.sample);
}

}  // namespace

std::string place_text(const RankSample& sample) {
  if (sample.phase != RankPhase::Step) {
    return fmt::format("in phase {}, after step {}, call {}", name_of(sample.phase), sample.step,
                       sample.calls);
  }
  const std::string code = sample.action_text();
  return fmt::format("in step {}, action {}{}{}, call {}", sample.step, sample.action,
                     code.empty() ? "" : " ", code, sample.calls);
}

std::optional<Blame> find_blamed(std::span<const WatchedRank> ranks) {
  std::vector<int> waiting(ranks.size(), 0);
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (must_act(ranks, i)) continue;
    const size_t end = end_of_waits(ranks, i);
    if (end != kNobody) ++waiting[end];
  }
  const auto num_gathering = int(std::count_if(
      ranks.begin(), ranks.end(), [](const auto& one) { return gathers(one) && !one.is_stopped; }));
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].is_stopped) waiting[i] += num_gathering;
  }
  size_t blamed = kNobody;
  // The more ranks wait for it and the farther it is behind, the smaller is its key.
  const auto key = [&](size_t i) {
    const RankSample& sample = ranks[i].sample;
    return std::tuple(-waiting[i], sample.step, sample.calls);
  };
  for (size_t i = 0; i < ranks.size(); ++i) {
    const WatchedRank& one = ranks[i];
    if (!must_act(ranks, i)) continue;
    const bool is_awaited = waiting[i] > 0 && one.silent_ns > one.budget_ns;
    const bool is_lost = !one.is_stopped && one.silent_ns > one.most_ns;
    if (!is_awaited && !is_lost) continue;
    if (blamed == kNobody || key(i) < key(blamed)) blamed = i;
  }
  if (blamed == kNobody) return std::nullopt;
  return Blame{blamed, ranks[blamed].sample.rank, waiting[blamed], why(ranks[blamed])};
}

}  // namespace trireme
