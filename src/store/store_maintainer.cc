// How an open store tells the metadata that it maintains them, and how far it is.

#include "store/store.h"

namespace trireme {
namespace {

constexpr double kHearS = 5.0;  // how long the metadata may take to hear of a renewal
constexpr double kEndS = 2.0;   // the same of the end

}  // namespace

void Store::hold_lease(uint64_t token) {
  const auto renew = [this, token](const UpkeepProgress& progress) {
    MetadataCommand renew{.kind = CommandKind::Renew};
    renew.tokens = {token};
    renew.progress = progress;
    // If it fails, the next one may succeed, or a newer maintainer has begun.
    const Status ignored = change(std::move(renew), kHearS);
    static_cast<void>(ignored);
  };
  const auto end = [this, token] {
    MetadataCommand abort{.kind = CommandKind::Abort};
    abort.tokens = {token};
    const Status ignored = change(std::move(abort), kEndS);
    static_cast<void>(ignored);
  };
  lease_ = std::make_unique<MaintainerLease>(renew, end);
}

void Store::publish(const UpkeepProgress& progress) {
  if (lease_ == nullptr && !is_shared()) {
    MetadataCommand begin{.kind = CommandKind::Begin};
    begin.paths.emplace_back(kMaintainerPath);
    const Result<std::vector<uint64_t>> tokens = command(std::move(begin));
    if (!tokens.ok() || tokens->empty()) return;  // what comes next finds the same error
    hold_lease(tokens->front());
  }
  if (lease_ != nullptr) lease_->set(progress);
}

bool Store::may_have_maintainer() const {
  if (is_shared() || options_.lock_path.empty() || lock_) return true;
  return !FileLock::take(options_.lock_path).ok();
}

}  // namespace trireme
