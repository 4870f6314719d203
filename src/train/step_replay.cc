#include "train/step_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/clock.h"
#include "comm/gather_text.h"

namespace trireme {
namespace {

constexpr const char* kTheLoss = "the loss";
constexpr size_t kMostShownRanks = 4;
constexpr size_t kMostNames = 3;  // of each rank

bool same_bits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

std::string first_names(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kMostNames) text += fmt::format(" and {} more", names.size() - kMostNames);
  return text;
}

}  // namespace

StepReplay::StepReplay(Engine& engine)
    : engine_(engine),
      ranks_(engine.world().split(0, engine.world().rank(), "replay of steps")),
      grads_(grad_tensors(engine)),
      hashes_(grads_) {}

void StepReplay::hash_grads() {
  engine_.settle();
  engine_.read_grads([this] { hashes_.update(engine_.ctx().stream.team()); });
}

void StepReplay::compute(uint64_t first_sample) {
  const int64_t begin_ns = monotonic_ns();
  addends_.clear();
  engine_.hash_addends(&addends_);
  const StepResult result = engine_.compute_gradient(first_sample);
  engine_.hash_addends(nullptr);
  loss_sum_ = result.loss_sum;
  grad_norm_ = result.update.grad_norm;
  hash_grads();
  grad_hashes_ = hashes_.values();
  spent_ns_ += monotonic_ns() - begin_ns;
}

Status StepReplay::compare(int64_t step, const StepResult& result,
                           const std::vector<uint64_t>& addends) {
  const int64_t begin_ns = monotonic_ns();
  hash_grads();
  std::vector<std::string> different;
  if (!same_bits(result.loss_sum, loss_sum_)) different.emplace_back(kTheLoss);
  if (!same_bits(result.update.grad_norm, grad_norm_)) {
    different.emplace_back("the norm of the gradient");
  }
  for (size_t i = 0; i < grads_.size(); ++i) {
    if (hashes_.values()[i] != grad_hashes_[i]) different.push_back(grads_[i].name);
  }
  int64_t num_different = int64_t(different.size());
  ranks_->all_reduce({&num_different, DType::I64, Shape{1}});
  ++num_runs_;
  alarm_.reset();
  spent_ns_ += monotonic_ns() - begin_ns;
  if (num_different == 0) return Done{};
  return error_of(step, different, addends != addends_);
}

// Says what `culprits` tell: the ranks that had other bits before the sums over dp. "" without such
// sums.
std::string StepReplay::cause(const NamedRanks& culprits, bool differs_only_loss) {
  if (!culprits.ranks.empty()) {
    std::string shown;
    for (const CorruptionAlarm::NamedRank& named : culprits.ranks) {
      shown += fmt::format("{}{}", shown.empty() ? "" : ", ", named.rank);
    }
    const bool is_one = culprits.ranks.size() == 1;
    return fmt::format(
        "; before the sums over ranks only {} {} had other bits, so {} memory or "
        "core was wrong",
        is_one ? "rank" : "ranks", shown, is_one ? "its" : "their");
  }
  if (differs_only_loss) return "; no gradient differs, so only the loss of a rank was wrong";
  const std::vector<std::string> all = gather_text(*ranks_, addends_.empty() ? "" : "same");
  if (std::find(all.begin(), all.end(), "same") == all.end()) return "";
  return "; before the sums over ranks all bits were the same, so a message or a sum was wrong";
}

Error StepReplay::error_of(int64_t step, const std::vector<std::string>& different,
                           bool addends_differ) {
  const NamedRanks culprits = gather_named(*ranks_, addends_differ ? 1 : 0);
  alarm_ = {.check = CorruptionCheck::Replay,
            .step = step,
            .ranks = culprits.ranks,
            .is_certain = !culprits.ranks.empty()};
  const std::vector<std::string> texts = gather_text(*ranks_, first_names(different));
  const bool differs_only_loss = std::all_of(texts.begin(), texts.end(), [](const auto& text) {
    return text.empty() || text == kTheLoss;
  });
  std::string shown;
  size_t num_shown = 0, num_ranks = 0;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].empty()) continue;
    if (++num_ranks > kMostShownRanks) continue;
    ++num_shown;
    shown += fmt::format("{}on rank {} {}", shown.empty() ? "" : "; ", rank, texts[rank]);
  }
  if (num_ranks > num_shown) shown += fmt::format("; and {} more ranks", num_ranks - num_shown);
  return {
      ErrorKind::Runtime,
      fmt::format("step {}: the state of the run is corrupt: the step was computed twice, with "
                  "different bits: {}{}; a computation, a message or a memory was wrong: resume "
                  "from the newest checkpoint, which is older than this step",
                  step, shown, cause(culprits, differs_only_loss))};
}

}  // namespace trireme
