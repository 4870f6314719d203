#include "train/memory_saver.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "base/remove_folder.h"
#include "base/units.h"
#include "comm/gather_text.h"
#include "train/run_state.h"
#include "train/stall.h"

namespace trireme {
namespace {

// Units of the note, each of which counts ranks.
constexpr int64_t kNextUnit = int64_t{1} << 15;
constexpr int64_t kIsBusy = 1, kHasFailed = kNextUnit, kMustWait = kNextUnit * kNextUnit;
// After so many checkpoints in a row that were late, later ones are skipped instead.
constexpr int kMostWaits = 3;

// Removes all folders in `root` except these two; "" is none.
void remove_folders_except(const std::string& root, const std::string& newest,
                           const std::string& begun) {
  namespace fs = std::filesystem;
  std::error_code error, ignored;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    const bool is_older = it->is_directory(ignored) && it->path() != newest && it->path() != begun;
    if (is_older) remove_folder(it->path().string());
  }
}

std::string text_of_skip(int64_t step, int64_t third_file_bytes) {
  std::string text = fmt::format(
      "the checkpoint of step {} in memory takes longer than a step, because other hosts get their "
      "parts of it over the network. So the next ones are skipped until it is complete, and if a "
      "rank or host is lost, more steps are repeated; summary.json says how many at most "
      "(memory_most_redone)",
      step);
  if (third_file_bytes == 0) return text;
  return text + fmt::format(". Each rank has a third file for this; that of rank 0 takes {}",
                            format_bytes(third_file_bytes));
}

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
  if (shards_ != nullptr) plan_exchange();
  engine_.set_update_note(
      {.own = [this] { return own_note(); }, .take = [this](int64_t sum) { take_note(sum); }});
}

MemorySaver::~MemorySaver() {
  engine_.set_update_note({});
  if (pending_) {
    is_abandoned_ = true;
    job_.wait(ranks_->progress());
    if (is_keeper()) abandon_checkpoint(pending_->folder);
  }
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

// The numbers of ranks in the note: those whose job still runs, those whose job has failed, and
// those that must not update while theirs runs.
int64_t MemorySaver::own_note() const {
  if (!pending_) return 0;
  const bool may_go_on = waits_in_a_row_ >= kMostWaits && shards_->may_be_pending();
  if (!job_.is_done()) return kIsBusy + (may_go_on ? 0 : kMustWait);
  return job_.has_failed() ? kHasFailed : 0;
}

// The memory in which the copies are made belongs to a checkpoint before the newest one, so the
// newest one must be committed on all hosts before.
void MemorySaver::take_note(int64_t sum) {
  const auto count_of = [sum](int64_t unit) { return sum / unit % kNextUnit; };
  if (pending_ && count_of(kIsBusy) == 0) {
    if (waits_in_a_row_ < kMostWaits) waits_in_a_row_ = 0;
    conclude(count_of(kHasFailed) > 0, pending_->steps_since - 1);
  } else if (pending_ && count_of(kMustWait) > 0) {
    // One that is late by chance is waited for. On one host the work is short, so it is never
    // skipped.
    if (parity_ != nullptr && ++waits_in_a_row_ >= kMostWaits) wants_file_ = true;
    wait(pending_->steps_since - 1);
  }
  ranks_->page().reach(CrashPoint::BeforeUpdate);
  state_.forget_copies();
  if (!engine_.rank_plan().post_validates) prepare_copies();
}

// State in the home must not be changed there while it is the newest checkpoint, also if the next
// step has none.
void MemorySaver::prepare_copies() {
  const bool is_wanted = is_expected_ && !has_failed_ && !pending_;
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

void MemorySaver::plan_exchange() {
  const Result<IndexPart> whole = exchange_.plan(*ranks_, state_);
  if (!whole.ok()) return fail(whole.error().message);
  if (is_keeper()) writer_.emplace(*whole);
}

void MemorySaver::expect_start(bool is_expected) {
  is_expected_ = is_expected;
  if (pending_) ++pending_->steps_since;
}

// All threads that train take part. One thread that copies beside them would delay the step longer.
Status MemorySaver::copy_state() {
  if (state_.bytes() == 0) return Done{};
  TRIREME_TRY(shard, shards_->begin(state_.bytes()));
  state_.complete(shard, engine_.ctx().stream.team());
  return shards_->take();
}

// Returns true if all ranks have made their copies. Then exchange_ has all checksums, and pending_
// names the shards of this host.
bool MemorySaver::agree_on_copies(const Status& copied) {
  const bool has_shard = copied.ok() && state_.bytes() > 0;
  const int64_t file =
      has_shard ? shards_->set_pending(pending_->path, state_.file()) : CopyExchange::kNoFile;
  const bool have_all = exchange_.run(*ranks_, copied.ok(), file, state_.copies());
  if (!is_keeper()) return have_all;
  for (const int rank : places_.hosts[size_t(places_.own)].ranks) {
    const int64_t of_rank = exchange_.file_of(rank);
    if (of_rank == CopyExchange::kNoFile) continue;
    pending_->shards.push_back(
        {MemoryShards::path_of(memory_folder_, rank, record_.epoch, int(of_rank)),
         shard_file_name(rank, 0)});
  }
  return have_all;
}

bool MemorySaver::start(const TrainPosition& position) {
  if (has_failed_) return true;
  if (pending_) {
    if (skipped_++ == 0) tell_(text_of_skip(record_.step, home_.empty() ? 0 : state_.bytes()));
    return false;
  }
  const Stall stall(stall_ns_);
  pending_.emplace(Pending{.request = request_(position), .folder = "", .path = "", .shards = {}});
  const std::string root = pending_->request.root.value();
  pending_->folder = HostPartWriter::folder_of(root, position.step);
  pending_->path = root + "/" + step_folder_name(position.step);
  pending_->makes_file = std::exchange(wants_file_, false);
  record_.step = position.step;
  const Status copied = copy_state();
  if (!agree_on_copies(copied)) {
    const auto texts = gather_text(*ranks_, copied.ok() ? "" : copied.error().message);
    pending_.reset();
    shards_->drop_pending();
    fail(*std::find_if(texts.begin(), texts.end(),
                       [](const std::string& text) { return !text.empty(); }));
    return true;
  }
  state_.forget_copies();  // exchange_ has their checksums
  ranks_->page().reach(CrashPoint::MemoryBegun);
  const auto job = [this](Progress& progress) -> Result<std::string> {
    // A short job must not take a core from training in the moment in which it begins. Parity needs
    // its share of the cores to be done beside the step.
    if (is_keeper() && parity_ == nullptr) yield_cores_to_training();
    TRIREME_TRY_DONE(make_part(progress));
    return std::string();
  };
  const bool has_work = is_keeper() || parity_ != nullptr;  // others only note that all is done
  has_work ? job_.start(job) : job_.run_here(job, ranks_->progress());
  return true;
}

// Once there are two new checkpoints, those of former epochs are removed, too.
void MemorySaver::remove_older() const {
  if (saved_ == 1) remove_folders_except(memory_folder_, newest_, pending_->folder);
  if (!older_.empty()) remove_folder(older_);
}

void MemorySaver::conclude(bool has_failed, int64_t steps_done) {
  const Result<std::string> made = job_.take();
  const int64_t step = record_.step;
  const std::string path = pending_->path;
  const int64_t completed = step + steps_done;
  pending_.reset();
  if (has_failed) {
    shards_->drop_pending();
    if (is_keeper()) remove_folder(path);  // other hosts have no part of it
    const bool is_cause = !made.ok() && made.error().message != kOtherRankFailed;
    const auto texts = gather_text(*ranks_, is_cause ? made.error().message : "");
    const auto cause = std::find_if(texts.begin(), texts.end(),
                                    [](const std::string& text) { return !text.empty(); });
    return fail(cause == texts.end() ? kOtherRankFailed : *cause);
  }
  if (newest_step_ >= 0) {
    most_apart_ = std::max(most_apart_, step - newest_step_);
    most_redone_ = std::max(most_redone_, completed - newest_step_);
  }
  older_ = std::exchange(newest_, path);
  newest_step_ = step;
  shards_->note_committed(newest_);
  ++saved_;
}

// The other ranks wait here as long as one of them makes progress.
void MemorySaver::wait(int64_t steps_done) {
  const Stall stall(stall_ns_);
  job_.wait(ranks_->progress());
  ranks_->monitored_barrier();
  int64_t num_failed = job_.has_failed() ? 1 : 0;
  ranks_->all_reduce({&num_failed, DType::I64, Shape{1}});
  conclude(num_failed > 0, steps_done);
}

void MemorySaver::finish() {
  if (pending_) wait(pending_->steps_since);
}

// Those of former epochs and of hosts without ranks are of such steps, too.
void MemorySaver::remove_all() {
  finish();
  if (is_keeper()) remove_folders_except(memory_folder_, "", "");
  newest_.clear();
  older_.clear();
  newest_step_ = -1;
  if (shards_ != nullptr) shards_->forget_checkpoints();
}

}  // namespace trireme
