// The job of MemorySaver, which makes a checkpoint beside the next step, on a thread of its own.

#include <functional>

#include "base/check.h"
#include "base/guest_parts.h"
#include "device/host.h"
#include "train/memory_saver.h"

namespace trireme {
namespace {

// Other ranks wait for this one, so it must come to the next agreement also after an exception.
// They do not wait any more after a CommError.
Status without_exception(const std::function<Status()>& make) {
  try {
    return make();
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& error) {
    return damaged(error.what());
  }
}

}  // namespace

// All ranks of the host make their files at the same time. If they filled its memory, the system
// would kill one of them.
bool MemorySaver::has_room_for_file() const {
  constexpr double kMostOfAvailable = 0.8;
  const double num_ranks = double(places_.hosts[size_t(places_.own)].ranks.size());
  return num_ranks * double(state_.bytes()) <= kMostOfAvailable * double(available_memory_bytes());
}

// Without parity, the first rank of a host makes its part alone. With it, the other ranks write
// into its folder, so they need it before, and must be done before it gets its final name.
Status MemorySaver::make_part(Progress& progress) {
  Status made = without_exception([&]() -> Status {
    if (pending_->makes_file && has_room_for_file()) {
      (void)shards_->add_file();  // without it, updates wait
    }
    return is_keeper() ? writer_->begin(pending_->folder, pending_->shards) : Done{};
  });
  if (parity_ != nullptr) {
    const auto all_succeed = [&] {
      if (!parity_->all_succeed(made.ok(), progress, is_abandoned_) && made.ok()) {
        made = damaged(kOtherRankFailed);
      }
      return made.ok();
    };
    if (all_succeed()) {
      made = without_exception(
          [&] { return parity_->write(pending_->folder, record_, progress, is_abandoned_); });
      (void)all_succeed();
    }
  }
  if (made.ok() && is_keeper()) made = write_part(progress);
  if (!made.ok() && is_keeper()) abandon_checkpoint(pending_->folder);
  return made;
}

Status MemorySaver::write_part(Progress& progress) {
  const SaveRequest& request = pending_->request;
  remove_older();
  TRIREME_TRY_DONE(writer_->finish(pending_->folder, request.info, request.attached,
                                   exchange_.checksums(), record_));
  const auto publish = [&](const std::function<Status()>& rename) -> Status {
    ranks_->page().reach(CrashPoint::MemoryWritten);
    TRIREME_TRY_DONE(request.publish ? request.publish(rename) : rename());
    ranks_->page().reach(CrashPoint::MemoryCommitted);
    return Done{};
  };
  const auto named = publish_checkpoint(pending_->folder, request.info.step,
                                        {.keep = 0, .progress = &progress, .publish = publish});
  if (!named.ok()) return named.error();
  if (saved_ == 0) remove_guests(memory_folder_);
  return Done{};
}

}  // namespace trireme
