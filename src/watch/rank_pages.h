#pragma once

#include <utility>

#include "base/result.h"
#include "watch/program_page.h"
#include "watch/progress_page.h"
#include "watch/stack_page.h"

namespace trireme {

// What one rank process shows to its agent.
struct RankPages {
  ProgressPage progress;
  StackPage stacks;
  ProgramPage program;
};

// RankPages in memory of their own, which the agent makes and the process inherits and maps. The
// memory outlives the process, so the agent can read it after its end.
class SharedRankPages {
 public:
  static Result<SharedRankPages> make();
  // Maps the pages of a descriptor, which stays open.
  static Result<SharedRankPages> map(int fd);
  SharedRankPages(SharedRankPages&& other) noexcept
      : pages_(std::exchange(other.pages_, nullptr)), fd_(std::exchange(other.fd_, -1)) {}
  SharedRankPages& operator=(SharedRankPages&&) = delete;
  ~SharedRankPages();

  // Leaves the pages mapped until the process ends.
  RankPages& keep() && { return *std::exchange(pages_, nullptr); }

  RankPages& operator*() const { return *pages_; }
  RankPages* operator->() const { return pages_; }
  int fd() const { return fd_; }  // -1: mapped only

 private:
  SharedRankPages(RankPages* pages, int fd) : pages_(pages), fd_(fd) {}

  RankPages* pages_;
  int fd_;
};

}  // namespace trireme
