#include "train/memory_saver.h"

#include <fmt/format.h>

#include <utility>

#include "base/guest_parts.h"
#include "base/hash.h"
#include "base/remove_folder.h"
#include "comm/gather_text.h"
#include "train/run_state.h"
#include "train/stall.h"

namespace trireme {
namespace {

std::string text_of(const TooLargeDomain& domain) {
  return fmt::format(
      "{} hosts of failure domain {} protect each other, and at most {} of them may be lost: if "
      "all of it is lost, the run resumes from disk. More domains, or more parity "
      "(checkpoint.parity), would prevent that",
      domain.num_hosts, domain.name, domain.num_parity);
}

}  // namespace

MemorySaver::MemorySaver(Engine& engine, const MemoryTier& tier,
                         CheckpointSaver::MakeRequest request,
                         std::function<void(const std::string&)> tell)
    : engine_(engine),
      ranks_(engine.world().split(0, engine.world().rank(), "memory checkpoint")),
      request_(std::move(request)),
      tell_(std::move(tell)),
      state_(checkpoint_pieces(engine), ranks_->rank()) {
  take_places(tier);
  engine_.call_before_update(this, [this] { prepare_update(); });
}

MemorySaver::~MemorySaver() {
  engine_.call_before_update(this, {});
  engine_.release_copies();
}

// An attempt of an update may be rolled back, so it must not leave its place.
void MemorySaver::hold_state(const MemoryTier& tier) {
  const auto make = [&] {
    shards_ = std::make_unique<MemoryShards>(memory_folder_, ranks_->rank(), tier.epoch);
  };
  make();
  if (state_.bytes() > 0 && !engine_.rank_plan().post_validates) {
    const auto held = shards_->hold_state(state_.bytes());
    held.ok() ? void(home_ = *held) : make();
  }
  engine_.bind_copies(state_.copies(), home_);
}

// The memory in which the copies are made belongs to the checkpoint before the newest one, so the
// newest one must be committed on all hosts before. State in the home must not be changed there
// while it is the newest checkpoint, also if the next step has none.
void MemorySaver::prepare_update() {
  finish();
  ranks_->page().reach(CrashPoint::BeforeUpdate);
  state_.forget_copies();
  const bool is_wanted = is_expected_ && !has_failed_;
  if (shards_ == nullptr || state_.bytes() == 0 || (home_.empty() && !is_wanted)) return;
  const auto shard = shards_->begin(state_.bytes());
  if (!shard.ok()) return;  // start() tells it
  if (shard->data() == home_.data() && !is_wanted) return;
  engine_.optimizer().copy_next_update(*shard, [this] {
    if (home_.empty()) return;
    const Status taken = shards_->take();
    if (!taken.ok()) throw DeviceError(taken.error().message);
  });
}

void MemorySaver::fail(const std::string& why) {
  has_failed_ = true;
  tell_(
      fmt::format("checkpoints in memory end: {}; what is lost is restored from an older one or "
                  "from disk",
                  why));
}

// Decides which hosts protect each other.
void MemorySaver::take_places(const MemoryTier& tier) {
  places_ = gather_hosts(*ranks_, tier.place);
  memory_folder_ = tier.place.folder;
  int64_t job = int64_t(tier.job);
  ranks_->broadcast({&job, DType::I64, Shape{1}}, 0);
  if (!places_.has_all) return fail("a host has no folder in its memory");
  // Ranks of a former epoch map their files no more, or are about to end.
  if (ranks_->rank() == places_.keeper()) remove_memory_shards(memory_folder_);
  ranks_->barrier();  // before any rank makes its own
  hold_state(tier);
  const int num_hosts = int(places_.hosts.size());
  const ParityCode code = parity_for(tier.parity, num_hosts);
  record_ = {.job = uint64_t(job),
             .epoch = tier.epoch,
             .own = places_.own,
             .num_data = code.num_data,
             .num_parity = code.num_parity,
             .hosts = {}};
  for (const HostPlaces::Host& host : places_.hosts) {
    record_.hosts.push_back({host.name, host.domain, host.ranks});
  }
  if (code.num_parity == 0) return;
  if (const std::optional<TooLargeDomain> large = record_.too_large_domain())
    tell_(text_of(*large));
  parity_ = std::make_unique<ParityWriter>(*ranks_, places_, state_.bytes(), engine_.move_memory(),
                                           tier.timeout_s);
}

void MemorySaver::start(const TrainPosition& position) {
  if (has_failed_) return;
  const Stall stall(stall_ns_);
  SaveRequest request = request_(position);
  record_.step = position.step;
  MemoryPart part{.keeper = places_.keeper(), .newest = newest_};
  part.shards = shards_.get();
  part.state = &state_;
  part.record = [this](const std::string& index) {
    record_.index_checksum = hash64(index);
    return print_hosts_record(record_);
  };
  if (parity_ != nullptr) {
    part.protect = [this](const std::string& folder, Progress& progress,
                          const std::atomic<bool>& is_abandoned) {
      return parity_->write(folder, record_, progress, is_abandoned);
    };
  }
  request.memory = std::move(part);
  save_ = std::make_unique<RunSave>(engine_, *ranks_, std::move(request), SaveMode::Memory);
  save_->begin();
  state_.forget_copies();  // the index has their checksums
}

void MemorySaver::finish() {
  if (save_ == nullptr) return;
  const Stall stall(stall_ns_);
  save_->finish();
  const std::unique_ptr<RunSave> save = std::move(save_);
  if (!save->result().ok()) return fail(save->result().error().message);
  newest_ = *save->result();
  shards_->note_committed(newest_);
  if (saved_ == 0 && ranks_->rank() == places_.keeper()) remove_guests(memory_folder_);
  ++saved_;
}

void MemorySaver::remove_newest() {
  finish();
  if (newest_.empty()) return;
  if (ranks_->rank() == places_.keeper()) remove_folder(newest_);
  newest_.clear();
  shards_->forget_committed();
}

}  // namespace trireme
