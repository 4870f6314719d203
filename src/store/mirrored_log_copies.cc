// How a mirrored log finds copies that are damaged, missing or old, and mends them.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "comm/tcp/socket.h"
#include "store/mirrored_log.h"

namespace trireme {
namespace {

constexpr double kWriterS = 0.5;  // another process writes all copies within this time

}  // namespace

// The copies promise the same term, unless one of them could not be written.
std::string MirroredLog::problem_of(const Copy& copy, uint64_t promised) const {
  if (copy.folder.empty()) return "";
  if (!copy.is_readable) return copy.why;
  if (copy.last < Place{last_term_, index_}) {
    return fmt::format("{}/metadata.log: has {} entries, and {} were written", copy.folder,
                       copy.last.second, index_);
  }
  if (copy.promised < promised) return copy.folder + "/metadata.term: is old, damaged or missing";
  return "";
}

std::vector<std::string> MirroredLog::problems_once() const {
  std::vector<Copy> copies;
  uint64_t promised = 0;
  for (const Copy& copy : copies_) {
    copies.push_back(read_again(copy.folder));
    promised = std::max(promised, copies.back().promised);
  }
  std::vector<std::string> found;
  for (const Copy& copy : copies) found.push_back(problem_of(copy, promised));
  return found;
}

std::vector<std::string> MirroredLog::problems_now(double patience_s) const {
  const Deadline patience = Deadline::after(patience_s);
  std::vector<std::string> found = problems_once();
  const auto is_wrong = [](const std::string& problem) { return !problem.empty(); };
  while (std::ranges::any_of(found, is_wrong) && patience.left_ms() > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    found = problems_once();
  }
  return found;
}

std::vector<std::string> MirroredLog::problems() {
  const std::lock_guard lock(mutex_);
  return problems_now(is_writing_ ? 0.0 : kWriterS);
}

Result<int64_t> MirroredLog::mend() {
  const std::lock_guard lock(mutex_);
  if (broken_) return *broken_;
  std::vector<std::string> found = problems_now(0.0);
  const auto is_wrong = [](const std::string& problem) { return !problem.empty(); };
  if (!is_writing_ && std::ranges::any_of(found, is_wrong)) {
    if (const Status begun = begin_writing(); !begun.ok()) {
      broken_ = begun.error();
      return *broken_;
    }
    found = problems_now(0.0);
  }
  const std::string image = std::ranges::any_of(found, is_wrong) ? snapshot_record() : "";
  for (size_t copy = 0; copy < copies_.size(); ++copy) {
    if (found[copy].empty() || copies_[copy].folder.empty()) continue;
    num_mended_ += rewrite(copies_[copy], image).ok() ? 1 : 0;
  }
  return std::exchange(num_mended_, 0);
}

}  // namespace trireme
