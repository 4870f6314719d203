#include "train/replay_elsewhere.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/clock.h"
#include "base/hash.h"
#include "comm/gather_text.h"
#include "train/gather_named.h"

namespace trireme {
namespace {

uint64_t hash_of(const std::vector<uint64_t>& hashes) {
  return hash64(std::as_bytes(std::span(hashes)));
}

// Ranks that are equal in everything but the place in the ring have the same color.
int color_of(const Engine& engine) {
  const Mesh& mesh = engine.mesh();
  const MeshCoords& at = engine.rank_plan().coords;
  return ((at.dp % mesh.ep_dp() * mesh.pp + at.pp) * mesh.cp + at.cp) * mesh.tp + at.tp;
}

// Kernels of different instruction sets add in different orders.
std::string why_not_with(Group& ranks, int ring_size, const std::string& kernels) {
  if (ring_size < 2) {
    return "no other rank can compute the same gradients: this needs parallel.dp of at least 2, "
           "and with experts at least 2 groups that hold them all";
  }
  const std::vector<std::string> all = gather_text(ranks, kernels);
  const auto other = std::find_if(all.begin(), all.end(),
                                  [&](const std::string& name) { return name != all.front(); });
  if (other == all.end()) return "";
  return fmt::format(
      "rank 0 has the kernels {}, but rank {} has {}, and these round differently; set run.isa to "
      "an instruction set that all hosts have",
      all.front(), other - all.begin(), *other);
}

}  // namespace

ReplayElsewhere::ReplayElsewhere(Engine& engine, uint64_t seed)
    : engine_(engine),
      ranks_(engine.world().split(0, engine.world().rank(), "replay elsewhere")),
      ring_(ranks_->split(color_of(engine), engine.rank_plan().coords.dp, "ring of replays")),
      products_(seed),
      why_not_(why_not_with(*ranks_, ring_->size(), std::string(engine.ctx().kernels.name))) {}

// What this rank adds to the sums if it computes the micro-batches of the rank that is `shift`
// places farther in the ring.
uint64_t ReplayElsewhere::compute_for(int shift) {
  const int stride = engine_.mesh().ep_dp();
  const int replica = (engine_.rank_plan().coords.dp + shift * stride) % engine_.mesh().dp;
  addends_.clear();
  engine_.hash_addends(&addends_);
  const StepResult result = engine_.compute_gradient_of(first_sample_, replica);
  engine_.hash_addends(nullptr);
  engine_.settle();
  loss_sum_ = result.loss_sum;
  return hash_of(addends_);
}

RingHashes ReplayElsewhere::gather(uint64_t hash) {
  RingHashes all(size_t(ring_->size()));
  auto own = int64_t(hash);
  ring_->all_gather({&own, DType::I64, Shape{1}},
                    {all.data(), DType::I64, Shape{int64_t(all.size())}});
  return all;
}

void ReplayElsewhere::compute(uint64_t first_sample) {
  const int64_t begin_ns = monotonic_ns();
  first_sample_ = first_sample;
  other_hash_ = compute_for(1);
  spent_ns_ += monotonic_ns() - begin_ns;
}

Status ReplayElsewhere::compare(int64_t step, const StepResult& result,
                                const std::vector<uint64_t>& addends) {
  const int64_t begin_ns = monotonic_ns();
  const RingHashes own = gather(hash_of(addends)), other = gather(other_hash_);
  // Losses are told by micro-batch, so their sum does not depend on who has computed them.
  const bool loss_differs =
      std::bit_cast<uint64_t>(result.loss_sum) != std::bit_cast<uint64_t>(loss_sum_);
  const std::vector<bool> suspects = suspects_of(own, other);
  const bool is_clean = std::find(suspects.begin(), suspects.end(), true) == suspects.end();
  int64_t num_different = is_clean && !loss_differs ? 0 : 1;
  ranks_->all_reduce({&num_different, DType::I64, Shape{1}});
  ++num_runs_;
  alarm_.reset();
  Status verdict = Done{};
  if (num_different == 0) {
    last_clean_step_ = step;
  } else {
    verdict = error_of(step, judge(own, other));
  }
  spent_ns_ += monotonic_ns() - begin_ns;
  return verdict;
}

// The step has changed the parameters since, on all ranks alike. A core that is always wrong is
// wrong with these, too.
ReplayElsewhere::Verdict ReplayElsewhere::judge(const RingHashes& own, const RingHashes& other) {
  const auto at = size_t(ring_->rank());
  engine_.ctx().products = &products_;
  std::vector<RingHashes> by_shift;
  for (int shift = 0; shift < 3; ++shift) by_shift.push_back(gather(compute_for(shift)));
  engine_.ctx().products = nullptr;
  if (!products_.take_alarm().empty()) return Verdict::WrongProduct;
  if (outvoted_in(by_shift)[at]) return Verdict::Outvoted;
  return suspects_of(own, other)[at] ? Verdict::Suspect : Verdict::Unsuspected;
}

// A wrong product names its rank alone; ranks that only got its result may be outvoted. A majority
// is better than what two ranks say of each other.
Error ReplayElsewhere::error_of(int64_t step, Verdict own) {
  const NamedRanks named = gather_named(*ranks_, int(own));
  const auto most = static_cast<Verdict>(named.suspicion);
  alarm_ = {.check = CorruptionCheck::ReplayElsewhere,
            .step = step,
            .ranks = named.ranks,
            .is_certain = most > Verdict::Suspect,
            .clean_step = last_clean_step_};
  const std::vector<std::string> hosts = hosts_named_by(*alarm_);
  std::string why;
  if (most == Verdict::Unsuspected) {
    why = "the losses of the same samples differ, and no gradient does";
  } else if (most == Verdict::Suspect) {
    why = fmt::format(
        "they compute different gradients from the same samples, and nothing tells who is right{}",
        ring_->size() == 2 ? ", because with parallel.dp = 2 there is no third one" : "");
  } else if (most == Verdict::Outvoted) {
    why = ring_->size() > 2 ? "two others compute the same gradients from the same samples"
                            : "the same samples had different gradients there";
  } else {
    why = "others compute other gradients from the same samples, and its products are wrong";
  }
  const std::string harm =
      last_clean_step_ ? fmt::format(
                             "it was right in step {}, so resume from a checkpoint of this "
                             "step or an earlier one, because younger ones may hold its "
                             "results",
                             *last_clean_step_)
                       : "no earlier step was compared, so any checkpoint may hold its results";
  const std::string remedy =
      hosts.size() == 1 ? fmt::format("host {}", hosts.front()) : "these hosts";
  return {
      ErrorKind::Runtime,
      fmt::format("step {}: the state of the run is corrupt: {} is wrong: {}; {}; take {} out of "
                  "the job",
                  step, named_ranks_text(*alarm_), why, harm, remedy)};
}

}  // namespace trireme
